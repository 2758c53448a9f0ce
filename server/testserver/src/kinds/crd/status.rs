//! The status of a definition: which names are accepted, and whether it is established. The controllers of a real server compute it
//! in two steps, each a write of its own.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Names, items, storage_version, text, texts};

/// The names of resources and kinds that the definitions of a group use.
#[derive(Clone, Debug, Default)]
pub(crate) struct TakenNames {
    /// Plural, singular and short names.
    pub(crate) resources: BTreeSet<String>,
    /// Kinds and list kinds.
    pub(crate) kinds: BTreeSet<String>,
}

impl TakenNames {
    /// Adds the names that were accepted for a definition, from the text of [`accepted_names`].
    pub(crate) fn add(&mut self, accepted: &str) {
        let names = Names::from_json(&serde_json::from_str(accepted).unwrap_or_default());
        let resources = [names.plural, names.singular]
            .into_iter()
            .chain(names.short_names);
        self.resources.extend(resources.filter(|name| !name.is_empty()));
        let kinds = [names.kind, names.list_kind];
        self.kinds
            .extend(kinds.into_iter().filter(|name| !name.is_empty()));
    }
}

/// The names that were accepted for a definition, as text.
pub(crate) fn accepted_names(definition: &Value) -> String {
    Names::accepted(definition).to_json().to_string()
}

/// The status of a definition before any controller has seen it: no accepted names, no conditions.
#[doc(alias = "PrepareForCreate")]
pub(crate) fn initial_crd_status(definition: &Value) -> Value {
    json!({
        "acceptedNames": Names::default().to_json(),
        "conditions": null,
        "storedVersions": Vec::from_iter(storage_version(definition)),
    })
}

/// Adds the storage version to the versions that objects may be stored in.
pub(crate) fn add_stored_version(definition: &mut Value) {
    let stored = texts(&definition["status"], "storedVersions");
    if let Some(version) = storage_version(definition).filter(|version| !stored.contains(version)) {
        let stored: Vec<String> = stored.into_iter().chain([version]).collect();
        definition["status"]["storedVersions"] = json!(stored);
    }
}

/// The next status of a definition: first its names are accepted or not, then it is established. `None` if nothing remains to be
/// done. `now` is the transition time; an unchanged condition keeps its own.
#[doc(alias = "NamingConditionController")]
#[doc(alias = "EstablishingController")]
pub(crate) fn next_crd_status(definition: &Value, taken: &TakenNames, now: &str) -> Option<Value> {
    let status = definition.get("status").filter(|status| status.is_object());
    let mut next = status.map_or_else(|| initial_crd_status(definition), Value::clone);
    let (wanted, accepted) = (Names::of(definition), Names::accepted(definition));
    if wanted == accepted {
        let accepted = has_condition(&next, "NamesAccepted", "True");
        if !accepted || has_condition(&next, "Established", "True") {
            return None;
        }
        let message = "the initial names have been accepted";
        let established = ("Established", "True", "InitialNamesAccepted", message);
        set_condition(&mut next, established, now);
        return Some(next);
    }
    let (names, conflict) = accept(&wanted, &accepted, taken);
    let accepted = match &conflict {
        None => ("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
        Some((reason, message)) => ("NamesAccepted", "False", *reason, message.as_str()),
    };
    if !has_condition(&next, "Established", "True") {
        let established = match &conflict {
            None => ("Installing", "the initial names have been accepted"),
            Some(_) => ("NotAccepted", "not all names are accepted"),
        };
        set_condition(&mut next, accepted, now);
        set_condition(
            &mut next,
            ("Established", "False", established.0, established.1),
            now,
        );
    } else {
        set_condition(&mut next, accepted, now);
    }
    next["acceptedNames"] = names.to_json();
    (definition.get("status") != Some(&next)).then_some(next)
}

/// The names of `wanted` that are free, with the others as they were, and the reason and message of the last conflict.
fn accept(wanted: &Names, accepted: &Names, taken: &TakenNames) -> (Names, Option<(&'static str, String)>) {
    let mut names = accepted.clone();
    let mut conflict = None;
    let mut settle = |reason, wanted: &String, name: &mut String, taken: &BTreeSet<String>| {
        if wanted != name && taken.contains(wanted) {
            conflict = Some((reason, format!("{wanted:?} is already in use")));
        } else {
            name.clone_from(wanted);
        }
    };
    settle(
        "PluralConflict",
        &wanted.plural,
        &mut names.plural,
        &taken.resources,
    );
    settle(
        "SingularConflict",
        &wanted.singular,
        &mut names.singular,
        &taken.resources,
    );
    let mut short = Vec::new();
    for name in wanted
        .short_names
        .iter()
        .filter(|name| !accepted.short_names.contains(name))
    {
        let mut free = String::new();
        settle("ShortNamesConflict", name, &mut free, &taken.resources);
        if free.is_empty() {
            short.push(format!("{name:?} is already in use"));
        }
    }
    settle("KindConflict", &wanted.kind, &mut names.kind, &taken.kinds);
    settle(
        "ListKindConflict",
        &wanted.list_kind,
        &mut names.list_kind,
        &taken.kinds,
    );
    if short.is_empty() {
        names.short_names.clone_from(&wanted.short_names);
    } else if short.len() > 1
        && let Some(("ShortNamesConflict", message)) = &mut conflict
    {
        *message = format!("[{}]", short.join(", "));
    }
    names.categories.clone_from(&wanted.categories);
    (names, conflict)
}

/// Whether the kind of a definition is served.
pub(crate) fn is_established(definition: &Value) -> bool {
    has_condition(&definition["status"], "Established", "True")
}

fn has_condition(status: &Value, kind: &str, value: &str) -> bool {
    items(status, "conditions")
        .iter()
        .any(|condition| text(condition, "type") == kind && text(condition, "status") == value)
}

/// Sets type, status, reason and message of a condition.
#[doc(alias = "SetCRDCondition")]
fn set_condition(status: &mut Value, (kind, value, reason, message): (&str, &str, &str, &str), now: &str) {
    let mut conditions = items(status, "conditions").to_vec();
    let old = conditions
        .iter()
        .position(|condition| text(condition, "type") == kind);
    let same = old
        .and_then(|at| conditions.get(at))
        .filter(|old| text(old, "status") == value && !text(old, "lastTransitionTime").is_empty());
    let since = same.map_or(now, |old| text(old, "lastTransitionTime")).to_owned();
    let condition = json!({ "type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": since });
    match old.and_then(|at| conditions.get_mut(at)) {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
    status["conditions"] = conditions.into();
}

#[cfg(test)]
mod tests {
    use super::super::set_crd_defaults;
    use super::super::tests::widgets;
    use super::*;

    fn taken(names: &[&str]) -> TakenNames {
        let names: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
        TakenNames {
            resources: names.clone(),
            kinds: names,
        }
    }

    #[test]
    fn names_are_accepted_before_a_definition_is_established() {
        let mut definition = widgets();
        set_crd_defaults(&mut definition);
        definition["status"] = initial_crd_status(&definition);
        assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
        assert_eq!(definition["status"]["conditions"], json!(null));

        let mut step = |now: &str| {
            let next = next_crd_status(&definition, &taken(&[]), now)?;
            definition["status"] = next.clone();
            Some(next)
        };
        let named = step("2026-01-01T00:00:00Z").unwrap();
        assert_eq!(named["acceptedNames"]["plural"], "widgets");
        assert_eq!(named["conditions"][0]["reason"], "NoConflicts");
        assert_eq!(named["conditions"][1]["reason"], "Installing");
        let established = step("2026-01-02T00:00:00Z").unwrap();
        assert_eq!(established["conditions"][0], named["conditions"][0]);
        assert_eq!(established["conditions"][1]["status"], "True");
        assert_eq!(
            established["conditions"][1]["lastTransitionTime"],
            "2026-01-02T00:00:00Z"
        );
        assert_eq!(step("2026-01-03T00:00:00Z"), None);
    }

    #[test]
    fn names_in_use_are_not_accepted_and_an_established_definition_stays_established() {
        let mut definition = widgets();
        set_crd_defaults(&mut definition);
        definition["status"] = initial_crd_status(&definition);
        let now = "2026-01-01T00:00:00Z";

        let refused = next_crd_status(&definition, &taken(&["wd", "Widget"]), now).unwrap();
        assert_eq!(
            refused["acceptedNames"],
            json!({ "plural": "widgets", "singular": "widget", "kind": "", "listKind": "WidgetList", "categories": ["all"] })
        );
        let condition = |status: &Value, at: usize| {
            let condition = &status["conditions"][at];
            [&condition["status"], &condition["reason"], &condition["message"]]
                .map(|value| value.as_str().unwrap().to_owned())
        };
        assert_eq!(
            condition(&refused, 0),
            ["False", "KindConflict", "\"Widget\" is already in use"]
        );
        assert_eq!(
            condition(&refused, 1),
            ["False", "NotAccepted", "not all names are accepted"]
        );
        definition["status"] = refused;
        assert_eq!(next_crd_status(&definition, &taken(&["wd", "Widget"]), now), None);

        for _ in 0..2 {
            definition["status"] = next_crd_status(&definition, &taken(&[]), now).unwrap();
        }
        definition["spec"]["names"]["shortNames"] = json!(["wd", "wi"]);
        let renamed = next_crd_status(&definition, &taken(&["wi"]), now).unwrap();
        assert_eq!(condition(&renamed, 0)[1], "ShortNamesConflict");
        assert_eq!(condition(&renamed, 1)[0], "True");
        assert_eq!(renamed["acceptedNames"]["shortNames"], json!(["wd"]));
    }

    #[test]
    fn a_condition_without_a_transition_time_gets_one() {
        let mut definition = widgets();
        set_crd_defaults(&mut definition);
        definition["status"] = initial_crd_status(&definition);
        let now = "2026-01-01T00:00:00Z";
        for time in [json!(""), json!(null)] {
            definition["status"]["conditions"] =
                json!([{ "type": "NamesAccepted", "status": "True", "lastTransitionTime": time }]);
            let next = next_crd_status(&definition, &taken(&[]), now).unwrap();
            assert_eq!(next["conditions"][0]["lastTransitionTime"], now);
        }
    }

    #[test]
    fn a_missing_status_begins_as_that_of_a_new_definition() {
        let mut definition = widgets();
        set_crd_defaults(&mut definition);
        definition["status"] = json!("none");
        let next = next_crd_status(&definition, &taken(&[]), "2026-01-01T00:00:00Z").unwrap();
        assert_eq!(next["storedVersions"], json!(["v1"]));
    }
}
