//! Strategic merge patch: a merge patch in which lists of known shape are merged by key.
//!
//! Supports the directives `$patch`, `$retainKeys`, `$setElementOrder/…` and `$deleteFromPrimitiveList/…`.

use serde_json::{Map, Value};

use super::shape::{ListMerge, list_merge, replaces_map};
use super::{PatchError, not_a_map, parse};
use crate::kinds::Kind;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// Applies a strategic merge patch to an object of a built-in kind.
#[doc(alias = "StrategicMergePatch")]
pub fn strategic_merge_patch(kind: &Kind, object: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    if kind.custom {
        return Err(PatchError::BadRequest(
            "strategic merge patch format is not supported".to_owned(),
        ));
    }
    // Unlike other patches, these have no prefix in the error. Null is an empty one.
    let patch = match parse(patch)? {
        Value::Object(fields) => fields,
        Value::Null => Map::new(),
        other => return Err(PatchError::BadRequest(not_a_map(&other))),
    };
    let object = object.as_object().cloned().unwrap_or_default();
    merge_map(
        &Context {
            kind,
            path: Vec::new(),
        },
        object,
        patch,
    )
    .map(Value::Object)
}

/// The current position: the names of the parent fields, without list items.
struct Context<'a> {
    kind: &'a Kind,
    path: Vec<&'a str>,
}

impl<'a> Context<'a> {
    fn child<'b>(&'b self, name: &'b str) -> Context<'b>
    where
        'a: 'b,
    {
        let mut path: Vec<&'b str> = self.path.clone();
        path.push(name);
        Context {
            kind: self.kind,
            path,
        }
    }
}

fn merge_map(
    context: &Context<'_>,
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
) -> Result<Map<String, Value>, PatchError> {
    match patch.remove(DIRECTIVE) {
        None => {}
        Some(Value::String(directive)) if directive == "replace" => return Ok(patch),
        Some(Value::String(directive)) if directive == "delete" => return Ok(Map::new()),
        Some(other) => return Err(PatchError::BadRequest(format!("unknown patch type: {other}"))),
    }
    retain_keys(&mut original, &mut patch)?;
    set_order(context, &mut original, &mut patch)?;
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix(DELETE_FROM) {
            delete_from(&mut original, list, &value)?;
            continue;
        }
        if value.is_null() {
            original.remove(&name);
            continue;
        }
        let context = context.child(&name);
        let merged = match (original.remove(&name), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                if replaces_map(context.kind, &context.path) {
                    Some(Value::Object(new))
                } else {
                    Some(Value::Object(merge_map(&context, old, new)?))
                }
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                Some(Value::Array(merge_list(&context, old, new)?))
            }
            (_, new) => clean(new),
        };
        if let Some(merged) = merged {
            original.insert(name, merged);
        }
    }
    Ok(original)
}

/// Handles `$retainKeys`: removes fields of the object that are not listed.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let malformed = || PatchError::BadRequest("invalid patch format of retainKeys".to_owned());
    let Value::Array(keys) = keys else {
        return Err(malformed());
    };
    let listed = |name: &str| keys.iter().any(|key| key == name);
    let foreign = patch
        .iter()
        .any(|(name, value)| !value.is_null() && !name.starts_with('$') && !listed(name));
    if foreign {
        return Err(malformed());
    }
    original.retain(|name, _| listed(name));
    Ok(())
}

/// Handles `$setElementOrder/…`: merges the list it applies to and sorts it.
fn set_order(
    context: &Context<'_>,
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), PatchError> {
    let names: Vec<String> = patch
        .keys()
        .filter_map(|name| name.strip_prefix(SET_ORDER))
        .map(str::to_owned)
        .collect();
    for name in names {
        let malformed = || PatchError::BadRequest("invalid patch format of setElementOrder list".to_owned());
        let Some(Value::Array(order)) = patch.remove(&format!("{SET_ORDER}{name}")) else {
            return Err(malformed());
        };
        let changes = match patch.remove(&name) {
            None => None,
            Some(Value::Array(changes)) => Some(changes),
            // Null removes the list, so there is nothing to sort.
            Some(Value::Null) => {
                original.remove(&name);
                continue;
            }
            Some(_) => return Err(malformed()),
        };
        let context = context.child(&name);
        let live = match original.remove(&name) {
            Some(Value::Array(live)) => Some(live),
            None => None,
            Some(other) => {
                original.insert(name, other);
                return Err(malformed());
            }
        };
        let merged = match (live.clone(), changes) {
            (None, None) => continue,
            (Some(live), None) => live,
            (None, Some(changes)) => changes.into_iter().filter_map(clean).collect(),
            (Some(live), Some(changes)) => merge_list(&context, live, changes)?,
        };
        let ordered = match list_merge(context.kind, &context.path) {
            ListMerge::Replace => merged,
            ListMerge::Union => arrange(merged, &order, &live.unwrap_or_default(), None),
            ListMerge::ByKey(key) => arrange(merged, &order, &live.unwrap_or_default(), Some(key)),
        };
        original.insert(name, Value::Array(ordered));
    }
    Ok(())
}

/// Handles `$deleteFromPrimitiveList/…`.
fn delete_from(original: &mut Map<String, Value>, name: &str, gone: &Value) -> Result<(), PatchError> {
    let Value::Array(gone) = gone else {
        return Err(PatchError::BadRequest(
            "invalid patch format of primitive list".to_owned(),
        ));
    };
    if let Some(Value::Array(items)) = original.get_mut(name) {
        items.retain(|item| !gone.contains(item));
    }
    Ok(())
}

fn merge_list(context: &Context<'_>, live: Vec<Value>, patch: Vec<Value>) -> Result<Vec<Value>, PatchError> {
    if patch.iter().chain(&live).any(Value::is_array) {
        return Err(PatchError::Unprocessable(
            "lists of lists are not supported".to_owned(),
        ));
    }
    match list_merge(context.kind, &context.path) {
        ListMerge::Replace => Ok(patch.into_iter().filter_map(clean).collect()),
        ListMerge::Union => {
            let mut merged: Vec<Value> = Vec::new();
            for item in live.iter().chain(&patch) {
                if !merged.contains(item) {
                    merged.push(item.clone());
                }
            }
            Ok(arrange(merged, &patch, &live, None))
        }
        ListMerge::ByKey(key) => merge_by_key(context, live, patch, key),
    }
}

fn merge_by_key(
    context: &Context<'_>,
    mut live: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<Vec<Value>, PatchError> {
    let mut changes = Vec::new();
    let mut replace = false;
    for item in patch {
        let Value::Object(fields) = item else {
            return Err(PatchError::BadRequest(format!(
                "expected an object with {key:?}, but received {item}"
            )));
        };
        match fields
            .get(DIRECTIVE)
            .map(|directive| directive.as_str().unwrap_or_default())
        {
            None => changes.push(fields),
            Some("delete") => {
                let wanted = key_of(&fields, key)?;
                live.retain(|item| item.get(key) != Some(wanted));
            }
            Some("replace") => replace = true,
            Some(other) => return Err(PatchError::BadRequest(format!("unknown patch type: {other:?}"))),
        }
    }
    if replace {
        return Ok(changes
            .into_iter()
            .filter_map(|fields| clean(Value::Object(fields)))
            .collect());
    }
    let order: Vec<Value> = changes.iter().cloned().map(Value::Object).collect();
    let mut merged = live.clone();
    for fields in changes {
        let wanted = key_of(&fields, key)?.clone();
        match merged.iter_mut().find(|item| item.get(key) == Some(&wanted)) {
            Some(item) => {
                let old = item.as_object().cloned().unwrap_or_default();
                *item = Value::Object(merge_map(context, old, fields)?);
            }
            None => merged.extend(clean(Value::Object(fields))),
        }
    }
    Ok(arrange(merged, &order, &live, Some(key)))
}

fn key_of<'a>(fields: &'a Map<String, Value>, key: &str) -> Result<&'a Value, PatchError> {
    // The message names the field and not the item, which may contain sensitive data.
    fields
        .get(key)
        .ok_or_else(|| PatchError::BadRequest(format!("map does not contain declared merge key: {key}")))
}

/// Sorts a merged list. Items in `order` follow that order; other items keep the order of the server and go before the
/// first listed item that followed them there.
fn arrange(merged: Vec<Value>, order: &[Value], live: &[Value], key: Option<&str>) -> Vec<Value> {
    let same = |a: &Value, b: &Value| match key {
        Some(key) => a.get(key).is_some() && a.get(key) == b.get(key),
        None => a == b,
    };
    let place = |list: &[Value], item: &Value| list.iter().position(|other| same(other, item));
    let (mut named, rest): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(order, item).is_some());
    named.sort_by_key(|item| place(order, item));
    let mut arranged = Vec::with_capacity(named.len() + rest.len());
    let mut named = named.into_iter().peekable();
    for item in rest {
        let own = place(live, &item);
        while let Some(next) =
            named.next_if(|next| !matches!((own, place(live, next)), (Some(a), Some(b)) if a < b))
        {
            arranged.push(next);
        }
        arranged.push(item);
    }
    arranged.extend(named);
    arranged
}

/// A value of the patch as it is stored: without nulls and directives. `None` if it is itself a directive.
fn clean(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) => {
            if fields.contains_key(DIRECTIVE) {
                return None;
            }
            let kept = fields
                .into_iter()
                .filter(|(name, value)| !value.is_null() && !name.starts_with('$'));
            Some(Value::Object(
                kept.filter_map(|(name, value)| Some((name, clean(value)?)))
                    .collect(),
            ))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(clean).collect())),
        scalar => Some(scalar),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::kinds::Registry;

    fn patched(plural: &str, object: Value, patch: Value) -> Result<Value, PatchError> {
        let group = if plural == "deployments" { "apps" } else { "" };
        let kind = Registry::builtin().resource(group, "v1", plural).unwrap();
        strategic_merge_patch(&kind, &object, patch.to_string().as_bytes())
    }

    fn names(object: &Value, pointer: &str) -> Vec<String> {
        let items = object.pointer(pointer).unwrap().as_array().unwrap();
        items
            .iter()
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn containers_and_their_lists_are_merged_by_key() {
        let object = json!({ "spec": { "template": { "spec": { "containers": [
            { "name": "web", "image": "web:1", "env": [{ "name": "A", "value": "1" }],
              "ports": [{ "containerPort": 80, "name": "http" }] },
            { "name": "log", "image": "log:1" },
        ] } } } });
        let patch = json!({ "spec": { "template": { "spec": { "containers": [
            { "name": "web", "image": "web:2", "env": [{ "name": "B", "value": "2" }, { "name": "A", "value": null }],
              "ports": [{ "containerPort": 80, "name": "web" }] },
        ] } } } });

        let result = patched("deployments", object, patch).unwrap();

        assert_eq!(
            result.pointer("/spec/template/spec/containers").unwrap(),
            &json!([
                { "name": "web", "image": "web:2", "env": [{ "name": "B", "value": "2" }, { "name": "A" }],
                  "ports": [{ "containerPort": 80, "name": "web" }] },
                { "name": "log", "image": "log:1" },
            ])
        );
    }

    #[test]
    fn directives_delete_items_and_replace_lists() {
        let object = json!({ "spec": { "containers": [{ "name": "a" }, { "name": "b" }], "nodeSelector": { "x": "1" } } });

        let deleted = json!({ "spec": { "containers": [{ "$patch": "delete", "name": "a" }] } });
        assert_eq!(
            names(
                &patched("pods", object.clone(), deleted).unwrap(),
                "/spec/containers"
            ),
            ["b"]
        );

        let replaced = json!({ "spec": { "containers": [{ "$patch": "replace" }, { "name": "c" }] } });
        assert_eq!(
            names(
                &patched("pods", object.clone(), replaced).unwrap(),
                "/spec/containers"
            ),
            ["c"]
        );

        let map = json!({ "spec": { "nodeSelector": { "$patch": "replace", "y": "2" } } });
        assert_eq!(
            patched("pods", object, map).unwrap()["spec"]["nodeSelector"],
            json!({ "y": "2" })
        );
    }

    #[test]
    fn lists_without_a_key_are_replaced_and_sets_are_merged() {
        let object = json!({
            "metadata": { "finalizers": ["a", "b"] },
            "spec": { "tolerations": [{ "key": "x" }], "nodeName": "n1" },
        });
        let patch = json!({
            "metadata": { "finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"] },
            "spec": { "tolerations": [{ "key": "y" }], "nodeName": null },
        });

        let result = patched("pods", object, patch).unwrap();

        let mut finalizers: Vec<&str> = result["metadata"]["finalizers"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        finalizers.sort_unstable();
        assert_eq!(finalizers, ["b", "c"]);
        assert_eq!(result["spec"], json!({ "tolerations": [{ "key": "y" }] }));
    }

    #[test]
    fn requested_order_is_kept_around_items_of_the_server() {
        let object =
            json!({ "spec": { "containers": [{ "name": "a" }, { "name": "injected" }, { "name": "b" }] } });
        let patch = json!({ "spec": {
            "$setElementOrder/containers": [{ "name": "new" }, { "name": "b" }, { "name": "a" }],
            "containers": [{ "name": "new", "image": "x" }],
        } });

        let result = patched("pods", object.clone(), patch).unwrap();
        assert_eq!(names(&result, "/spec/containers"), ["new", "injected", "b", "a"]);

        let only_order =
            json!({ "spec": { "$setElementOrder/containers": [{ "name": "b" }, { "name": "a" }] } });
        let result = patched("pods", object, only_order).unwrap();
        assert_eq!(names(&result, "/spec/containers"), ["injected", "b", "a"]);
    }

    #[test]
    fn retain_keys_removes_other_fields() {
        let object = json!({ "spec": { "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1 } } } });
        let patch = json!({ "spec": { "strategy": { "$retainKeys": ["type"], "type": "Recreate" } } });

        let result = patched("deployments", object.clone(), patch).unwrap();
        assert_eq!(result["spec"]["strategy"], json!({ "type": "Recreate" }));

        let foreign = json!({ "spec": { "strategy": { "$retainKeys": ["type"], "other": 1 } } });
        let error = patched("deployments", object, foreign).unwrap_err();
        assert_eq!(
            error,
            PatchError::BadRequest("invalid patch format of retainKeys".into())
        );
    }

    #[test]
    fn new_values_are_stored_without_directives_and_nulls() {
        let patch = json!({ "spec": { "affinity": { "a": null, "b": 1, "$retainKeys": ["b"] },
            "volumes": [{ "$patch": "delete", "name": "x" }, { "name": "y", "$retainKeys": ["name"] }] } });
        let result = patched("pods", json!({}), patch).unwrap();

        assert_eq!(
            result["spec"],
            json!({ "affinity": { "b": 1 }, "volumes": [{ "name": "y" }] })
        );
    }

    #[test]
    fn malformed_patches_are_rejected() {
        let object = json!({ "spec": { "containers": [{ "name": "a" }] } });
        for patch in [
            json!({ "spec": { "containers": [{ "image": "x" }] } }),
            json!({ "spec": { "containers": ["x"] } }),
            json!({ "spec": { "$patch": "explode" } }),
            json!({ "spec": { "$setElementOrder/containers": 1 } }),
            json!({ "spec": { "$retainKeys": {} } }),
            json!({ "spec": { "$deleteFromPrimitiveList/x": 1 } }),
        ] {
            assert_eq!(
                patched("pods", object.clone(), patch.clone()).unwrap_err().code(),
                400,
                "{patch}"
            );
        }
        let lists = json!({ "spec": { "containers": [[]] } });
        assert_eq!(patched("pods", object, lists).unwrap_err().code(), 422);
        let widget = Kind::new("example.com", "v1", "Widget");
        assert_eq!(
            strategic_merge_patch(&widget, &json!({}), b"{}")
                .unwrap_err()
                .code(),
            400
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let key = prop::sample::select(vec![
            "spec",
            "containers",
            "name",
            "ports",
            "env",
            "$patch",
            "$retainKeys",
            "$setElementOrder/containers",
            "$deleteFromPrimitiveList/containers",
            "metadata",
            "finalizers",
        ]);
        let leaf = prop_oneof![
            Just(Value::Null),
            Just(json!(1)),
            Just(json!("delete")),
            Just(json!("a"))
        ];
        leaf.prop_recursive(5, 40, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map(key.clone(), inner, 0..4).prop_map(|map| map
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn arbitrary_patches_are_applied_or_rejected_without_a_panic(object in any_json(), patch in any_json()) {
            let _ = patched("pods", object, patch);
        }
    }
}
