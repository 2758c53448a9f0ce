//! What changed between two states of an object, field by field.
//!
//! Takes two JSON values, returns a list of changes. Lists whose elements have names are compared by name, not by
//! position, so that a container added in front is one change and not a dozen.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::changes::noise::Noise;
use crate::objects::fields::{FieldChange, KEYS};
use crate::objects::item::{Contents, Item};
use crate::objects::path::{escape, unescape};
use crate::objects::path::{push_element, push_field};
use crate::objects::summary::Summary;
use crate::objects::who::{Managers, Written};

/// What changed between two states, without noise, the most important fields first.
pub fn of_items(old: &Item, new: &Item, noise: &Noise) -> Vec<FieldChange> {
    let (old, new) = (ComparedObject::of(old), ComparedObject::of(new));
    changes(&old, &new, noise)
}

/// The same with the authors of the changes; `None` if they cannot be known.
pub fn with_authors(old: &Item, new: &Item, noise: &Noise) -> (Vec<FieldChange>, Option<Vec<Written>>) {
    let (old, new) = (ComparedObject::of(old), ComparedObject::of(new));
    let changes = changes(&old, &new, noise);
    let managers = (&old.summary.managers, &new.summary.managers);
    let authors = Managers::authors(managers.0, managers.1, &changes, (&old.tree, &new.tree));
    (changes, authors)
}

/// An object in the form in which it is compared.
struct ComparedObject {
    tree: Value,
    summary: Summary,
}

impl ComparedObject {
    fn of(item: &Item) -> Self {
        Self {
            tree: item.tree().0,
            summary: item.summary(),
        }
    }
}

/// Values that were taken out are compared, too.
fn changes(old: &ComparedObject, new: &ComparedObject, noise: &Noise) -> Vec<FieldChange> {
    let mut changes = diff(&old.tree, &new.tree);
    let shown = |value: &'_ Value, path: &str| value.pointer(path).and_then(Value::as_str).map(str::to_owned);
    for (path, mark) in &old.summary.marks {
        if let Some(now) = new.summary.marks.get(path)
            && now != mark
            && let (Some(before), Some(after)) = (shown(&old.tree, path), shown(&new.tree, path))
            && before == after
        {
            changes.push(FieldChange {
                path: path.clone(),
                field: of_pointer(path),
                old: Some(Value::from(before)),
                new: Some(Value::from(another(&after))),
            });
        }
    }
    changes.retain(|change| !noise.contains(change));
    // Stable: fields of equal importance stay in the order of the object.
    changes.sort_by_key(importance);
    changes
}

/// What users set comes first, then what controllers report, then times, which change with everything else.
fn importance(change: &FieldChange) -> u8 {
    let time = change.field.ends_with("Time") || change.field.ends_with("Timestamp");
    match () {
        () if time && change.field != "metadata.deletionTimestamp" => 3,
        () if change.path.starts_with("/status") => 2,
        () if change.path.starts_with("/metadata") => 1,
        () => 0,
    }
}

/// A JSON pointer without list elements in the notation of [`FieldChange::field`].
fn of_pointer(pointer: &str) -> String {
    let mut field = String::new();
    for part in pointer.split('/').skip(1) {
        push_field(&mut field, &unescape(part));
    }
    field
}

/// `<12 bytes>` as `<12 bytes, another value>`.
fn another(placeholder: &str) -> String {
    format!("{}, another value>", placeholder.trim_end_matches('>'))
}

/// What changed between two values.
pub fn diff(old: &Value, new: &Value) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    compare(&Place::default(), old, new, &mut changes);
    changes
}

/// A place in both notations.
#[derive(Clone, Default)]
struct Place {
    path: String,
    field: String,
}

impl Place {
    fn field(&self, name: &str) -> Self {
        let mut place = self.clone();
        place.path.push('/');
        place.path.push_str(&escape(name));
        push_field(&mut place.field, name);
        place
    }

    fn element(&self, index: usize, identity: Option<&str>) -> Self {
        let mut place = self.clone();
        let index = index.to_string();
        place.path.push('/');
        place.path.push_str(&index);
        push_element(&mut place.field, identity.unwrap_or(&index));
        place
    }

    fn change(self, old: Option<&Value>, new: Option<&Value>) -> FieldChange {
        FieldChange {
            path: self.path,
            field: match self.field.is_empty() {
                true => "the whole object".to_owned(),
                false => self.field,
            },
            old: old.cloned(),
            new: new.cloned(),
        }
    }
}

fn compare(place: &Place, old: &Value, new: &Value, changes: &mut Vec<FieldChange>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => compare_maps(place, old, new, changes),
        (Value::Array(old), Value::Array(new)) => compare_lists(place, old, new, changes),
        (old, new) if old == new => {}
        (old, new) => changes.push(place.clone().change(Some(old), Some(new))),
    }
}

fn compare_maps(
    place: &Place,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    changes: &mut Vec<FieldChange>,
) {
    for (name, before) in old {
        match new.get(name) {
            Some(after) => compare(&place.field(name), before, after, changes),
            None => changes.push(place.field(name).change(Some(before), None)),
        }
    }
    for (name, after) in new {
        if !old.contains_key(name) {
            changes.push(place.field(name).change(None, Some(after)));
        }
    }
}

fn compare_lists(place: &Place, old: &[Value], new: &[Value], changes: &mut Vec<FieldChange>) {
    if old == new {
        return;
    }
    match KEYS
        .iter()
        .find_map(|key| Some((keys(old, key)?, keys(new, key)?)))
    {
        Some((old_keys, new_keys)) => compare_by_key(place, (old, &old_keys), (new, &new_keys), changes),
        None => compare_by_position(place, old, new, changes),
    }
}

/// The keys of all elements, if each has one and no two have the same.
fn keys(list: &[Value], key: &[&str]) -> Option<Vec<String>> {
    let mut keys = Vec::with_capacity(list.len());
    for element in list {
        // The first field is required; the others may be left out where they have a default.
        element.get(key.first()?)?;
        let parts: Vec<String> = key
            .iter()
            .filter_map(|field| element.get(field))
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        keys.push(parts.join("/"));
    }
    let mut sorted: Vec<&String> = keys.iter().collect();
    sorted.sort();
    let unique = sorted.windows(2).all(|pair| pair.first() != pair.last());
    unique.then_some(keys)
}

type Keyed<'a> = (&'a [Value], &'a [String]);

fn compare_by_key(place: &Place, old: Keyed<'_>, new: Keyed<'_>, changes: &mut Vec<FieldChange>) {
    // Lists come from users and may have tens of thousands of elements: every lookup is by hash.
    let old_elements: HashMap<&str, &Value> = old.1.iter().map(String::as_str).zip(old.0).collect();
    let new_keys: HashSet<&str> = new.1.iter().map(String::as_str).collect();
    for (at, (before, key)) in old.0.iter().zip(old.1).enumerate() {
        if !new_keys.contains(key.as_str()) {
            changes.push(place.element(at, Some(key)).change(Some(before), None));
        }
    }
    for (at, (after, key)) in new.0.iter().zip(new.1).enumerate() {
        match old_elements.get(key.as_str()) {
            Some(before) if *before == after => {}
            Some(before) => compare(&place.element(at, Some(key)), before, after, changes),
            None => changes.push(place.element(at, Some(key)).change(None, Some(after))),
        }
    }
    // If only the order of the remaining elements changed, the change is the order.
    let before = || old.1.iter().filter(|key| new_keys.contains(key.as_str()));
    let after = || new.1.iter().filter(|key| old_elements.contains_key(key.as_str()));
    if before().ne(after()) {
        let before: Value = before().cloned().collect();
        let after: Value = after().cloned().collect();
        changes.push(place.clone().change(Some(&before), Some(&after)));
    }
}

/// Without keys: a common prefix and suffix are skipped, the rest is compared in pairs.
fn compare_by_position(place: &Place, old: &[Value], new: &[Value], changes: &mut Vec<FieldChange>) {
    let front = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old_rest, new_rest) = (
        old.get(front..).unwrap_or_default(),
        new.get(front..).unwrap_or_default(),
    );
    let back = old_rest
        .iter()
        .rev()
        .zip(new_rest.iter().rev())
        .take_while(|(old, new)| old == new)
        .count();
    let old_rest = old_rest.get(..old_rest.len() - back).unwrap_or_default();
    let new_rest = new_rest.get(..new_rest.len() - back).unwrap_or_default();
    for at in 0..old_rest.len().max(new_rest.len()) {
        let place = place.element(front + at, None);
        match (old_rest.get(at), new_rest.get(at)) {
            (Some(before), Some(after)) => compare(&place, before, after, changes),
            (before, after) => changes.push(place.change(before, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `path: old -> new`, one line each.
    fn lines(old: Value, new: Value) -> Vec<String> {
        let show = |value: &Option<Value>| value.as_ref().map_or("∅".to_owned(), Value::to_string);
        diff(&old, &new)
            .iter()
            .map(|change| format!("{}: {} -> {}", change.path, show(&change.old), show(&change.new)))
            .collect()
    }

    #[test]
    fn equal_values_have_no_changes() {
        let object = json!({ "a": [1, { "b": null }], "c": "x" });
        assert_eq!(lines(object.clone(), object), Vec::<String>::new());
    }

    #[test]
    fn fields_are_added_changed_and_removed() {
        assert_eq!(
            lines(
                json!({ "a": 1, "b": { "c": 2, "d": 3 } }),
                json!({ "a": 1, "b": { "c": 4 }, "e": { "f": 5 } })
            ),
            ["/b/c: 2 -> 4", "/b/d: 3 -> ∅", "/e: ∅ -> {\"f\":5}"]
        );
    }

    #[test]
    fn names_with_slashes_and_tildes_are_escaped() {
        assert_eq!(
            lines(json!({}), json!({ "a/b": 1, "c~d": 2 })),
            ["/a~1b: ∅ -> 1", "/c~0d: ∅ -> 2"]
        );
    }

    #[test]
    fn a_container_added_in_front_is_one_change() {
        let old = json!([{ "name": "web", "image": "web:1" }, { "name": "log", "image": "log:1" }]);
        let new = json!([
            { "name": "proxy", "image": "p" }, { "name": "web", "image": "web:2" }, { "name": "log", "image": "log:1" },
        ]);

        assert_eq!(
            lines(old, new),
            [
                "/0: ∅ -> {\"image\":\"p\",\"name\":\"proxy\"}",
                "/1/image: \"web:1\" -> \"web:2\""
            ]
        );
    }

    #[test]
    fn removed_elements_have_their_old_index() {
        let old = json!([{ "type": "Ready", "status": "True" }, { "type": "Old", "status": "True" }]);
        let new = json!([{ "type": "Ready", "status": "False" }]);

        assert_eq!(
            lines(old, new),
            [
                "/1: {\"status\":\"True\",\"type\":\"Old\"} -> ∅",
                "/0/status: \"True\" -> \"False\""
            ]
        );
    }

    #[test]
    fn ports_are_identified_by_number_and_protocol() {
        let old =
            json!([{ "containerPort": 53, "protocol": "TCP" }, { "containerPort": 53, "protocol": "UDP" }]);
        let new = json!([
            { "containerPort": 53, "protocol": "UDP", "hostPort": 53 }, { "containerPort": 53, "protocol": "TCP" },
        ]);

        assert_eq!(
            lines(old, new),
            [
                "/0/hostPort: ∅ -> 53",
                ": [\"53/TCP\",\"53/UDP\"] -> [\"53/UDP\",\"53/TCP\"]"
            ]
        );
    }

    #[test]
    fn a_reordered_list_is_a_change() {
        let list = |names: [&str; 2]| json!(names.map(|name| json!({ "name": name })));

        assert_eq!(
            lines(list(["a", "b"]), list(["b", "a"])),
            [": [\"a\",\"b\"] -> [\"b\",\"a\"]"]
        );
    }

    #[test]
    fn lists_without_keys_are_compared_from_both_ends() {
        assert_eq!(
            lines(json!(["a", "b", "c"]), json!(["b", "c"])),
            ["/0: \"a\" -> ∅"]
        );
        assert_eq!(
            lines(json!(["a", "c"]), json!(["a", "b", "c"])),
            ["/1: ∅ -> \"b\""]
        );
        assert_eq!(
            lines(json!(["a", "x", "c"]), json!(["a", "y", "c"])),
            ["/1: \"x\" -> \"y\""]
        );
        assert_eq!(lines(json!([]), json!(["a"])), ["/0: ∅ -> \"a\""]);
    }

    #[test]
    fn a_change_of_type_is_one_change() {
        assert_eq!(
            lines(json!({ "a": [1] }), json!({ "a": { "b": 1 } })),
            ["/a: [1] -> {\"b\":1}"]
        );
    }

    /// Quadratic comparison took seconds for this list.
    #[test]
    fn lists_of_many_named_elements_are_compared_in_linear_time() {
        let list = |offset: usize| -> Value {
            (0..200_000)
                .map(|number| json!({ "name": format!("element-{}", number + offset) }))
                .collect()
        };
        let (old, new) = (list(0), list(1));
        let began = tokio::time::Instant::now();

        assert_eq!(diff(&old, &new).len(), 2);

        assert!(
            began.elapsed() < std::time::Duration::from_secs(30),
            "{:?}",
            began.elapsed()
        );
    }

    fn fields(old: Value, new: Value) -> Vec<String> {
        diff(&old, &new).into_iter().map(|change| change.field).collect()
    }

    #[test]
    fn list_elements_are_addressed_by_identity() {
        let pod = |ready: &str, image: &str| {
            json!({
                "metadata": { "annotations": { "example.com/owner": image } },
                "spec": { "containers": [{ "name": "web", "image": image, "args": ["a", image] }] },
                "status": { "conditions": [{ "type": "Ready", "status": ready }] },
            })
        };
        assert_eq!(
            fields(pod("False", "web:1"), pod("True", "web:2")),
            [
                "metadata.annotations[\"example.com/owner\"]",
                "spec.containers[web].args[1]",
                "spec.containers[web].image",
                "status.conditions[Ready].status",
            ]
        );
        assert_eq!(fields(json!(1), json!(2)), ["the whole object"]);
    }

    #[test]
    fn important_fields_come_first_and_times_last() {
        use crate::objects::kinds::Kind;
        let kind = Kind::for_tests("example.com", "v1", "Widget", "widgets");
        let item = |number: u32| {
            let object = json!({
                "metadata": { "name": "x", "generation": number },
                "status": { "a": number, "startTime": number },
                "zeta": number,
                "spec": { "lastTransitionTime": number, "replicas": number },
            });
            crate::objects::item::received(&kind, object)
        };
        let changed: Vec<String> = of_items(&item(1), &item(2), &Noise::none())
            .into_iter()
            .map(|change| change.field)
            .collect();
        assert_eq!(
            changed,
            [
                "spec.replicas",
                "zeta",
                "metadata.generation",
                "status.a",
                "spec.lastTransitionTime",
                "status.startTime",
            ]
        );
    }

    use proptest::prelude::*;

    /// Small trees with the names by which lists are compared.
    fn trees() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            (0..3i64).prop_map(Value::from),
            "[ab/~]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let names = prop_oneof![
                Just("name"),
                Just("type"),
                Just("uid"),
                Just("containerPort"),
                Just("protocol"),
                Just("a/b"),
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(names.prop_map(str::to_owned), inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Every change is reported, and nothing else.
        #[test]
        fn there_are_changes_exactly_when_values_differ(old in trees(), new in trees()) {
            prop_assert_eq!(diff(&old, &new).is_empty(), old == new);
            prop_assert!(diff(&old, &old).is_empty());
        }

        /// A path leads to what it says: into the new value, or into the old one where something is gone.
        #[test]
        fn paths_lead_to_the_values_they_come_with(old in trees(), new in trees()) {
            for change in diff(&old, &new) {
                match (&change.old, &change.new) {
                    (Some(_), None) => prop_assert!(has_tail(&old, &change.path)),
                    // The order of a list stands for the list.
                    (Some(Value::Array(_)), Some(Value::Array(_))) => {
                        prop_assert!(new.pointer(&change.path).is_some_and(Value::is_array));
                    }
                    (_, value) => prop_assert_eq!(new.pointer(&change.path), value.as_ref()),
                }
            }
        }
    }

    /// Whether the last part of a path is a name or an index that occurs in the tree: where lists are compared by key,
    /// the way to what is gone may lead through the new list.
    fn has_tail(tree: &Value, path: &str) -> bool {
        let tail = path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .replace("~1", "/")
            .replace("~0", "~");
        match tree {
            Value::Object(fields) => fields
                .iter()
                .any(|(name, value)| *name == tail || has_tail(value, path)),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .any(|(index, value)| index.to_string() == tail || has_tail(value, path)),
            _ => false,
        }
    }
}
