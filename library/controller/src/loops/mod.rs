//! `LoopDetector`: finds objects that are rewritten in a loop, and field managers that overwrite each other.

mod judge;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use kube::Resource;
use kube_informers::{Event, Object, ObjectKey};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;
use tracing::warn;

use judge::{Change, Form, advances, is_status, judge};

/// Objects that are observed closely at the same time.
const TRACKED: usize = 1024;
/// Changed fields that are remembered per object.
const PATHS: usize = 64;

/// Finds objects that are changed again and again: by one controller that rewrites them in a loop, or by several that
/// overwrite each other's values.
///
/// An object that changes often is not a finding by itself. A finding is a *field* that changed at least
/// [`changes`](LoopOptions::changes) times within the [window](LoopOptions::window) without making progress: a
/// **fight** if its value went back and forth between field managers, a **loop** if one manager rewrote it. Each is
/// counted, and logged once per window with key, field and managers.
///
/// Progress is not a finding:
///
/// - A number that advances: a scale-up, a counter.
/// - A new text in the status. Outside the status, a text that is rewritten again and again is a loop, whatever its values.
/// - Anything in the status while a number of the status advances: in a rollout `unavailableReplicas` goes back and
///   forth, but `updatedReplicas` grows. Managers that take turns are still a fight.
///
/// An update that changes nothing but times is not progress.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use kube_controller::{Controller, LoopDetector, Watch};
/// # use kube_informers::{Informer, ObjectKey};
/// # use std::time::Duration;
///
/// # fn example(deployments: &Informer<Deployment>) -> Controller {
/// let loops = LoopDetector::default();
/// Controller::new("rollout")
///     // Reconciles an object in a loop at most every 30 s.
///     .watches(Watch::object(deployments).detect_loops(&loops, Some(Duration::from_secs(30))))
/// # }
/// ```
///
/// Only objects that change often are compared, so the cost is small. The managers come from `metadata.managedFields`, so
/// the informer must not [drop](kube_informers::source::SourceOptions::drop_managed_fields) them. Values are compared by their
/// hash and never kept, logged or reported.
#[derive(Clone, Default)]
pub struct LoopDetector {
    shared: Arc<LoopDetectorInner>,
}

#[derive(Default)]
struct LoopDetectorInner {
    options: LoopOptions,
    hasher: RandomState,
    state: Mutex<LoopState>,
}

/// What counts as a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopOptions {
    /// The number of changes of one field within the window, at least half of them without progress. Default: 6.
    pub changes: usize,
    /// The window. Default: one minute.
    pub window: Duration,
}

impl Default for LoopOptions {
    fn default() -> Self {
        Self {
            changes: 6,
            window: Duration::from_secs(60),
        }
    }
}

/// The kind of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// One manager rewrites the field.
    Loop,
    /// Several managers overwrite each other.
    Fight,
}

/// A field that changes in a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Loop or fight.
    pub kind: FindingKind,
    /// The object.
    pub key: ObjectKey,
    /// The field: `spec.replicas`.
    pub path: String,
    /// The field managers that changed it, in alphabetical order; empty if they are unknown.
    pub managers: Vec<String>,
    /// How often it changed within the window.
    pub changes: usize,
}

impl Finding {
    fn new(kind: FindingKind, key: &ObjectKey, path: &str, changes: &[Change]) -> Self {
        let managers: BTreeSet<&String> = changes
            .iter()
            .filter_map(|change| change.manager.as_ref())
            .collect();
        Self {
            kind,
            key: key.clone(),
            path: path.to_owned(),
            managers: managers.into_iter().cloned().collect(),
            changes: changes.len(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key, path, changes, ..
        } = self;
        let managers = match self.managers.is_empty() {
            true => "an unknown manager".to_owned(),
            false => self.managers.join(" and "),
        };
        match self.kind {
            FindingKind::Loop => write!(
                f,
                "{path} of {key} is rewritten in a loop by {managers} ({changes} changes)"
            ),
            FindingKind::Fight => write!(
                f,
                "{managers} overwrite {path} of {key} in turn ({changes} changes)"
            ),
        }
    }
}

#[derive(Default)]
struct LoopState {
    objects: HashMap<ObjectKey, Track>,
    loops: u64,
    fights: u64,
}

#[derive(Default)]
struct Track {
    /// The times of the last updates.
    updates: VecDeque<Instant>,
    /// The number of updates whose fields were compared.
    compared: u64,
    /// The last of them in which a number of the status advanced.
    progressed: u64,
    paths: HashMap<String, Vec<Change>>,
    /// When each field was last reported.
    reported: HashMap<String, (Instant, Finding)>,
}

/// One changed field of an update, for [`LoopDetector::observe_writes`].
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs)] // Written as a literal by callers.
pub struct FieldWrite<'a> {
    /// The field: `spec.replicas`.
    pub path: &'a str,
    /// Its new value; null if it was removed.
    pub value: &'a Value,
    /// The field manager that wrote it, if that is known.
    pub manager: Option<&'a str>,
}

/// A changed field, with the hash of its new value.
struct Changed {
    path: String,
    value: u64,
    form: Form,
    manager: Option<String>,
}

impl LoopDetector {
    /// A detector with other limits.
    pub fn new(options: LoopOptions) -> Self {
        Self {
            shared: Arc::new(LoopDetectorInner {
                options,
                ..LoopDetectorInner::default()
            }),
        }
    }

    /// Observes an event. Returns new findings, which are also logged.
    ///
    /// [`Watch::detect_loops`](crate::Watch::detect_loops) calls it.
    pub fn observe<K: Object + Resource + Serialize>(&self, event: &Event<K>) -> Vec<Finding> {
        let now = Instant::now();
        let key = event.key();
        let (old, new) = match event {
            Event::Updated {
                old,
                new,
                resync: false,
            } => (old, new),
            Event::Deleted { .. } => {
                self.forget(&key);
                return Vec::new();
            }
            _ => return Vec::new(),
        };
        if !self.shared.state.lock().is_busy(&key, now, &self.shared.options) {
            return Vec::new();
        }
        // Serialisation is user code: not under the lock.
        let changed = self.changed_fields(&**old, &**new);
        self.add(&key, changed, now)
    }

    /// Observes an update whose changed fields are already known, for programs that do not cache whole objects. Returns
    /// new findings, which are also logged. Resource versions and managed fields, which change with every write, do not
    /// belong to the fields.
    pub fn observe_writes<'a>(
        &self,
        key: &ObjectKey,
        writes: impl IntoIterator<Item = FieldWrite<'a>>,
    ) -> Vec<Finding> {
        let now = Instant::now();
        if !self.shared.state.lock().is_busy(key, now, &self.shared.options) {
            return Vec::new();
        }
        let changed = writes.into_iter().map(|write| Changed {
            path: write.path.to_owned(),
            value: self.hash(write.value),
            form: Form::of(write.value),
            manager: write.manager.map(str::to_owned),
        });
        self.add(key, changed.collect(), now)
    }

    /// Forgets a deleted object. For [`observe_writes`](Self::observe_writes); [`observe`](Self::observe) does it itself.
    pub fn forget(&self, key: &ObjectKey) {
        self.shared.state.lock().objects.remove(key);
    }

    fn add(&self, key: &ObjectKey, changed: Vec<Changed>, now: Instant) -> Vec<Finding> {
        let mut state = self.shared.state.lock();
        let findings = state.add(key, changed, now, &self.shared.options);
        drop(state);
        for finding in &findings {
            warn!("{finding}");
        }
        findings
    }

    fn changed_fields<K: Resource + Serialize>(&self, old: &K, new: &K) -> Vec<Changed> {
        let manager = last_manager(new);
        let (Ok(old), Ok(new)) = (serde_json::to_value(old), serde_json::to_value(new)) else {
            return Vec::new();
        };
        let mut changed = Vec::new();
        diff(&old, &new, &mut String::new(), &mut |path, value| {
            changed.push(Changed {
                path: path.to_owned(),
                value: self.hash(value),
                form: Form::of(value),
                manager: manager.clone(),
            });
        });
        changed
    }

    fn hash(&self, value: &Value) -> u64 {
        self.shared.hasher.hash_one(value.to_string())
    }

    /// Whether a field of the object changed in a loop within the last window.
    pub fn is_looping(&self, key: &ObjectKey) -> bool {
        let (state, now) = (self.shared.state.lock(), Instant::now());
        let track = state.objects.get(key);
        track.is_some_and(|track| {
            let mut reported = track.reported.values();
            reported.any(|(at, _)| now.duration_since(*at) < self.shared.options.window)
        })
    }

    /// The findings of the last window.
    pub fn findings(&self) -> Vec<Finding> {
        let (state, now) = (self.shared.state.lock(), Instant::now());
        let reported = state.objects.values().flat_map(|track| track.reported.values());
        let recent = reported.filter(|(at, _)| now.duration_since(*at) < self.shared.options.window);
        recent.map(|(_, finding)| finding.clone()).collect()
    }

    /// The number of loops and fights found so far.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.shared.state.lock();
        (state.loops, state.fights)
    }
}

/// Numbers only.
impl fmt::Debug for LoopDetector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (loops, fights) = self.counts();
        f.debug_struct("LoopDetector")
            .field("options", &self.shared.options)
            .field("loops", &loops)
            .field("fights", &fights)
            .finish_non_exhaustive()
    }
}

impl LoopState {
    /// Counts an update. Whether the object changes so often that its fields are worth comparing.
    fn is_busy(&mut self, key: &ObjectKey, now: Instant, options: &LoopOptions) -> bool {
        if self.objects.len() >= TRACKED && !self.objects.contains_key(key) {
            self.objects
                .retain(|_, track| track.is_recent(now, options.window));
            if self.objects.len() >= TRACKED {
                return false;
            }
        }
        let track = self.objects.entry(key.clone()).or_default();
        track.updates.push_back(now);
        while track
            .updates
            .front()
            .is_some_and(|at| now.duration_since(*at) > options.window)
        {
            track.updates.pop_front();
        }
        if track.updates.len() > options.changes.max(1).saturating_mul(4) {
            track.updates.pop_front();
        }
        // Two updates in a window may be the beginning of a loop.
        track.updates.len() >= 2
    }

    fn add(
        &mut self,
        key: &ObjectKey,
        changed: Vec<Changed>,
        now: Instant,
        options: &LoopOptions,
    ) -> Vec<Finding> {
        let Some(track) = self.objects.get_mut(key) else {
            return Vec::new();
        };
        track.paths.retain(|_, changes| {
            changes.retain(|change| now.duration_since(change.at) <= options.window);
            !changes.is_empty()
        });
        track.compared += 1;
        let effective = changed.iter().any(|change| change.form != Form::Time);
        let progress = changed.iter().any(|change| {
            let earlier = track.paths.get(&change.path).map_or(&[][..], Vec::as_slice);
            is_status(&change.path) && advances(earlier, change.value, change.form)
        });
        if progress {
            track.progressed = track.compared;
        }
        let mut findings = Vec::new();
        for Changed {
            path,
            value,
            form,
            manager,
        } in changed
        {
            if track.paths.len() >= PATHS && !track.paths.contains_key(&path) {
                continue;
            }
            let changes = track.paths.entry(path.clone()).or_default();
            changes.push(Change {
                at: now,
                update: track.compared,
                value,
                form,
                effective,
                manager,
            });
            let recent = track.reported.get(&path);
            if recent.is_some_and(|(at, _)| now.duration_since(*at) < options.window) {
                continue;
            }
            let Some(kind) = judge(&path, changes, track.progressed, options.changes) else {
                continue;
            };
            let finding = Finding::new(kind, key, &path, changes);
            match finding.kind {
                FindingKind::Loop => self.loops += 1,
                FindingKind::Fight => self.fights += 1,
            }
            track.reported.insert(path, (now, finding.clone()));
            findings.push(finding);
        }
        findings
    }
}

impl Track {
    fn is_recent(&self, now: Instant, window: Duration) -> bool {
        self.updates
            .back()
            .is_some_and(|at| now.duration_since(*at) <= window)
    }
}

/// The manager of the last write, as `metadata.managedFields` has it.
fn last_manager(object: &impl Resource) -> Option<String> {
    let fields = object.meta().managed_fields.as_deref()?;
    // Of several entries of the same second the last one is taken: the server appends.
    let last = fields
        .iter()
        .max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?;
    last.manager.clone()
}

/// Calls `changed` with each field that differs, and its new value.
fn diff(old: &Value, new: &Value, path: &mut String, changed: &mut impl FnMut(&str, &Value)) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                let length = path.len();
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
                // These change with every write.
                let bookkeeping = [
                    "metadata.resourceVersion",
                    "metadata.generation",
                    "metadata.managedFields",
                    "status.observedGeneration",
                ];
                if !bookkeeping.contains(&path.as_str()) {
                    let null = &Value::Null;
                    diff(
                        old.get(name).unwrap_or(null),
                        new.get(name).unwrap_or(null),
                        path,
                        changed,
                    );
                }
                path.truncate(length);
            }
        }
        (old, new) if old != new => changed(path, new),
        _ => {}
    }
}
