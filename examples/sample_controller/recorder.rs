//! Records Kubernetes Events, which `kubectl describe` shows.
//!
//! A call never waits. One loop writes the events in order; a repeated event increases a count.

use std::collections::HashMap;
use std::future::Future;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::warn;

/// The maximum number of pending events; more are dropped, because events are best effort.
const WAITING: usize = 1000;
/// The maximum number of remembered events. Clearing them now and then costs a few duplicates.
const REMEMBERED: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    Normal,
    Warning,
}

/// Accepts events to be written.
#[derive(Clone)]
pub struct Recorder {
    notes: mpsc::Sender<Note>,
}

#[derive(Clone, Debug)]
struct Note {
    about: ObjectReference,
    severity: Severity,
    reason: String,
    message: String,
}

/// The identity of an event: uid, severity, reason, message.
type Identity = (Option<String>, Severity, String, String);

impl Recorder {
    /// A recorder, and the loop that writes its events. The loop ends after the last event once all clones of the
    /// recorder are dropped.
    pub fn new(client: Client, component: &'static str) -> (Self, impl Future<Output = ()>) {
        let (notes, waiting) = mpsc::channel(WAITING);
        (Self { notes }, write(client, component, waiting))
    }

    /// Records an event for an object.
    pub fn event<K>(&self, object: &K, severity: Severity, reason: &str, message: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        let note = Note {
            about: object.object_ref(&()),
            severity,
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        if self.notes.try_send(note).is_err() {
            warn!(reason, "event dropped: too many wait to be written");
        }
    }
}

async fn write(client: Client, component: &'static str, mut waiting: mpsc::Receiver<Note>) {
    let mut written: HashMap<Identity, (String, i32)> = HashMap::new();
    while let Some(note) = waiting.recv().await {
        let namespace = note
            .about
            .namespace
            .clone()
            .unwrap_or_else(|| "default".to_owned());
        let api = Api::<Event>::namespaced(client.clone(), &namespace);
        let identity = (
            note.about.uid.clone(),
            note.severity,
            note.reason.clone(),
            note.message.clone(),
        );
        if written.len() >= REMEMBERED {
            written.clear();
        }
        let outcome = match written.get_mut(&identity) {
            Some((name, count)) => {
                *count += 1;
                let patch = json!({"count": *count, "lastTimestamp": Time(Timestamp::now())});
                api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
                    .await
            }
            None => {
                let created = api.create(&PostParams::default(), &event(component, note)).await;
                if let Ok(event) = &created
                    && let Some(name) = &event.metadata.name
                {
                    written.insert(identity.clone(), (name.clone(), 1));
                }
                created
            }
        };
        if let Err(error) = outcome {
            // An event that expired meanwhile cannot be counted up: the next one is created again.
            written.remove(&identity);
            warn!(%error, "event not written");
        }
    }
}

fn event(component: &str, note: Note) -> Event {
    let now = Time(Timestamp::now());
    let name = note.about.name.clone().unwrap_or_default();
    Event {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}.")),
            namespace: note.about.namespace.clone(),
            ..ObjectMeta::default()
        },
        involved_object: note.about,
        type_: Some(format!("{:?}", note.severity)),
        reason: Some(note.reason),
        message: Some(note.message),
        count: Some(1),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        source: Some(EventSource {
            component: Some(component.to_owned()),
            ..EventSource::default()
        }),
        reporting_component: Some(component.to_owned()),
        ..Event::default()
    }
}
