//! The indexes of the page and the API: namespace, labels and owner for every kind, and a few per kind.

use http::StatusCode;
use kube_informers::store::NAMESPACE_INDEX;
use kube_informers::{Object, Store, indexes};
use serde_json::json;

use super::answer::{self, Answer};
use super::app::Served;
use super::query::Query;
use crate::objects::item::Item;
use crate::objects::kinds::Kind;

const OWNER: &str = "owner";
const PHASE: &str = "status.phase";
const ABOUT: &str = "involvedObject";

/// The number of values shown per index; the most frequent come first.
const VALUES: usize = 1000;

/// Adds the indexes of a kind.
pub(super) fn add(kind: &Kind, store: &Store<Item>) {
    indexes::labels(store);
    store.index_or_add(OWNER, |item: &Item| {
        let owners = item
            .object_owners()
            .map(|owner| format!("{}/{}", owner.kind, owner.name));
        owners.collect::<Vec<String>>()
    });
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => {
            for (name, field) in [(indexes::NODE_NAME, "spec.nodeName"), (PHASE, "status.phase")] {
                store.index_or_add(name, move |item: &Item| item.text(field).ok().flatten());
            }
        }
        ("" | "events.k8s.io", "Event") => {
            store.index_or_add(ABOUT, |item: &Item| {
                ["involvedObject", "regarding"].iter().find_map(|about| {
                    let part = |name: &str| item.text(format!("{about}.{name}")).ok().flatten();
                    Some(format!("{}/{}", part("kind")?, part("name")?))
                })
            });
        }
        _ => {}
    }
}

/// The names of the indexes.
pub(super) fn list(served: &Served) -> Answer {
    let mut names = served.store.index_names();
    if !served.kind.namespaced {
        names.retain(|name| name != NAMESPACE_INDEX);
    }
    names.sort();
    let indexes: Vec<_> = names
        .into_iter()
        .filter_map(|name| {
            let values = served.store.index(&name)?.values().len();
            Some(json!({ "name": name, "values": values }))
        })
        .collect();
    answer::json(&json!({ "kind": served.id, "indexes": indexes }))
}

/// The values of one index, the most frequent first.
pub(super) fn values(served: &Served, name: &str, query: Option<&str>) -> Answer {
    let limit = Query::parse(query, &["limit"]).and_then(|query| query.number("limit", VALUES, VALUES));
    let limit = match limit {
        Ok(limit) => limit,
        Err(refused) => return *refused,
    };
    let Some(index) = served.store.index(name) else {
        return answer::failure(StatusCode::NOT_FOUND, unknown(served, name));
    };
    let mut values: Vec<_> = index
        .values()
        .into_iter()
        .map(|value| (index.count(&value), value))
        .collect();
    values.sort_by(|(a, left), (b, right)| b.cmp(a).then_with(|| left.cmp(right)));
    let total = values.len();
    let shown: Vec<_> = values
        .into_iter()
        .take(limit)
        .map(|(count, value)| json!({ "value": &*value, "count": count }))
        .collect();
    answer::json(&json!({ "kind": served.id, "index": name, "total": total, "values": shown }))
}

/// An error that lists the indexes.
pub(super) fn unknown(served: &Served, name: &str) -> String {
    let mut names = served.store.index_names();
    names.sort();
    format!(
        "{} has no index {name:?}; it has: {}",
        served.id,
        names.join(", ")
    )
}
