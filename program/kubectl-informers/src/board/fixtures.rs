//! Changes and views for tests of the dashboards.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube_informers::Cause;
use kube_informers::reflector::ReflectorState;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Board;
use crate::changes::noise::Noise;
use crate::changes::{Change, What};
use crate::objects::fields::FieldChange;
use crate::objects::item::{Item, received};
use crate::objects::kinds::Kind;
use crate::objects::path::{push_element, push_field};
use crate::objects::who::{Author, Written};
use crate::session::observe::{Health, InformerView};

/// Pods and nodes.
pub(crate) fn kinds() -> [Arc<Kind>; 2] {
    let nodes = Kind {
        namespaced: false,
        ..Kind::for_tests("", "v1", "Node", "nodes")
    };
    [
        Arc::new(Kind::for_tests("", "v1", "Pod", "pods")),
        Arc::new(nodes),
    ]
}

/// A board for pods and nodes.
pub(crate) fn board() -> Board {
    Board::new(kinds(), Instant::now())
}

fn kind(plural: &str) -> Arc<Kind> {
    let known = kinds().into_iter().find(|kind| kind.plural == plural);
    known.unwrap_or_else(|| Arc::new(Kind::for_tests("", "v1", "Thing", plural)))
}

/// An object of a kind.
pub(crate) fn item(kind: &Kind, namespace: &str, name: &str) -> Arc<Item> {
    let object = json!({
        "metadata": { "name": name, "namespace": namespace, "uid": name, "resourceVersion": "7", "labels": { "app": name } },
    });
    Arc::new(received(kind, object))
}

fn change(plural: &str, namespace: &str, name: &str, event: What, diff: Vec<FieldChange>) -> Change {
    let kind = kind(plural);
    let key = match namespace {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    };
    Change {
        when: "2026-01-02T03:04:05Z".parse::<Timestamp>().unwrap(),
        event,
        key: Some(key.parse().unwrap()),
        uid: Some(name.to_owned()),
        resource_version: Some("7".to_owned()),
        old_resource_version: None,
        diff,
        object: Some(item(&kind, namespace, name)),
        old: None,
        noise: Some(Noise::none()),
        by: None,
        coalesced: 0,
        kind,
    }
}

/// There from the start.
pub(crate) fn initial(plural: &str, namespace: &str, name: &str) -> Change {
    change(plural, namespace, name, What::Added { initial: true }, Vec::new())
}

/// New.
pub(crate) fn added(plural: &str, namespace: &str, name: &str) -> Change {
    change(
        plural,
        namespace,
        name,
        What::Added { initial: false },
        Vec::new(),
    )
}

/// Changed in these fields.
pub(crate) fn updated(plural: &str, namespace: &str, name: &str, paths: &[&str]) -> Change {
    let diff = paths
        .iter()
        .map(|path| FieldChange {
            path: (*path).to_owned(),
            field: readable(path),
            old: Some(Value::from("before")),
            new: Some(Value::from("after")),
        })
        .collect();
    change(plural, namespace, name, What::Updated { resync: false }, diff)
}

/// The change, written by this manager.
pub(crate) fn by(manager: &str, mut change: Change) -> Change {
    let paths = change.diff.iter().map(|field| field.field.clone()).collect();
    change.by = Some(vec![Written {
        author: Author {
            manager: manager.into(),
            operation: "Update".into(),
            subresource: None,
            time: None,
        },
        paths,
    }]);
    change
}

/// `/status/conditions/0/status` as `status.conditions[0].status`.
fn readable(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        match part.parse::<usize>() {
            Ok(_) => push_element(&mut path, part),
            Err(_) => push_field(&mut path, part),
        }
    }
    path
}

/// Gone.
pub(crate) fn deleted(plural: &str, namespace: &str, name: &str) -> Change {
    let cause = Cause::Observed;
    change(plural, namespace, name, What::Deleted { cause }, Vec::new())
}

/// An informer that is doing well.
pub(crate) fn view(kind: &Arc<Kind>) -> InformerView {
    InformerView {
        kind: kind.clone(),
        state: ReflectorState::Watching {
            since: Instant::now(),
        },
        synced: true,
        objects: 60,
        quarantined: 0,
        bytes: 123_456,
        events: 0,
        lists: 1,
        relists: 0,
        watches: 1,
        members: 1,
        errors: 0,
        last_error: None,
        backlog: 0,
        resource_version: Some("4711".to_owned()),
        version_age: Some(Duration::from_secs(3)),
        progress: None,
        health: Health::Live,
    }
}
