//! A handler that checks each event it receives.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::{Event, Object};
use parking_lot::Mutex;

use super::model::Collection;

/// The state that follows from the events of one handler, and the violations found.
#[derive(Clone)]
pub struct Observer(Arc<Mutex<Delivered>>);

#[derive(Default)]
struct Delivered {
    name: &'static str,
    objects: BTreeMap<String, Arc<Pod>>,
    /// The highest delivered version of each object, including deleted ones.
    highest: BTreeMap<String, u64>,
    /// Every delivered state: key, version, UID.
    states: Vec<(String, String, String)>,
    initial: usize,
    events: usize,
    log: Vec<String>,
    wrong: Vec<String>,
}

impl Observer {
    pub fn new(name: &'static str) -> Self {
        Self(Arc::new(Mutex::new(Delivered {
            name,
            ..Delivered::default()
        })))
    }

    pub fn tell(&self, event: &Event<Pod>) {
        self.0.lock().tell(event);
    }

    /// The state that follows from all events.
    pub fn fold(&self) -> Collection {
        let delivered = self.0.lock();
        delivered
            .objects
            .iter()
            .map(|(key, pod)| (key.clone(), ident(pod)))
            .collect()
    }

    pub fn states(&self) -> Vec<(String, String, String)> {
        self.0.lock().states.clone()
    }

    pub fn initial(&self) -> usize {
        self.0.lock().initial
    }

    pub fn events(&self) -> usize {
        self.0.lock().events
    }

    pub fn log(&self) -> Vec<String> {
        self.0.lock().log.clone()
    }

    /// The first violation.
    pub fn wrong(&self) -> Option<String> {
        self.0.lock().wrong.first().cloned()
    }
}

fn ident(pod: &Pod) -> (String, String) {
    (
        Object::object_version(pod).unwrap_or_default().to_owned(),
        Object::object_uid(pod).unwrap_or_default().to_owned(),
    )
}

impl Delivered {
    fn tell(&mut self, event: &Event<Pod>) {
        self.events += 1;
        self.log.push(event.to_string());
        let key = event.key().as_str().to_owned();
        let held = self.objects.get(&key).cloned();
        match event {
            Event::Added { object, initial } => {
                if held.is_some() {
                    self.complain("H2: added twice", event);
                }
                let uid = Object::object_uid(&**object).unwrap_or_default();
                if self
                    .highest
                    .get(uid)
                    .is_some_and(|delivered| *delivered > version(object))
                {
                    self.complain("C2: an object was added in an older state", event);
                }
                self.initial += usize::from(*initial);
                self.keep(key, object);
            }
            Event::Updated { old, new, resync } => {
                match held {
                    None => self.complain("H2: updated before it was added", event),
                    Some(held) if !Arc::ptr_eq(&held, old) => {
                        self.complain("H3: the old state is not the last delivered one", event);
                    }
                    Some(_) => {}
                }
                if Object::object_uid(&**old) != Object::object_uid(&**new) {
                    self.complain("H4: an update across UIDs", event);
                }
                if !resync && version(old) >= version(new) {
                    self.complain("C2: an update to an older or the same version", event);
                }
                self.keep(key, new);
            }
            Event::Deleted { object, .. } => {
                match held {
                    None => self.complain("H2: deleted before it was added", event),
                    Some(held) if Object::object_uid(&*held) != Object::object_uid(&**object) => {
                        self.complain("H4: the deleted object is not the last delivered one", event);
                    }
                    Some(_) => {}
                }
                self.objects.remove(&key);
            }
        }
    }

    fn keep(&mut self, key: String, object: &Arc<Pod>) {
        let (version, uid) = ident(object);
        self.highest.insert(uid.clone(), self::version(object));
        self.states.push((key.clone(), version, uid));
        self.objects.insert(key, object.clone());
    }

    fn complain(&mut self, what: &str, event: &Event<Pod>) {
        let text = format!("{}: {what}: {event}", self.name);
        self.wrong.push(text);
    }
}

fn version(pod: &Pod) -> u64 {
    Object::object_version(pod)
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}
