//! The objects of a recording at one moment. Pure: takes records, gives what they change.
//!
//! An object is held as its JSON. Patches are applied when the object is needed: to print its change, or at the end of a
//! seek.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kube_informers::ObjectKey;
use serde::Deserialize;

use crate::objects::kinds::Kind;

/// One object at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The object as JSON.
    pub object: Box<[u8]>,
    /// What remains of masked values, as JSON; often empty.
    pub marks: Box<[u8]>,
}

/// The identity of an object: two with different UIDs are different objects.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
struct Identity {
    #[serde(default)]
    metadata: IdentityMetadata,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct IdentityMetadata {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Held {
    fn identity(&self) -> IdentityMetadata {
        serde_json::from_slice::<Identity>(&self.object)
            .unwrap_or_default()
            .metadata
    }

    /// How this state relates to an earlier one under the same key.
    pub fn since(&self, earlier: &Self) -> Since {
        let (old, new) = (earlier.identity(), self.identity());
        match (old.uid == new.uid, old.resource_version == new.resource_version) {
            (false, _) => Since::Another,
            (true, true) => Since::Same,
            (true, false) => Since::Changed,
        }
    }

    /// The state after these patches. The object is decoded and encoded once.
    fn patched<'a>(&self, patches: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Result<Self, Unusable> {
        let mut object = serde_json::from_slice(&self.object).map_err(|_| Unusable)?;
        let mut last: &[u8] = &self.marks;
        for (patch, marks) in patches {
            let patch: json_patch::Patch = serde_json::from_slice(patch).map_err(|_| Unusable)?;
            json_patch::patch(&mut object, &patch).map_err(|_| Unusable)?;
            last = marks;
        }
        Ok(Self {
            object: serde_json::to_vec(&object).map_err(|_| Unusable)?.into(),
            marks: last.into(),
        })
    }
}

/// How two states under one key relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// Another object of the same name.
    Another,
    /// The same version of the same object.
    Same,
    /// A later version of the same object.
    Changed,
}

/// A record does not fit the state: the file is damaged in a way that checksums do not show, or not written by us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unusable;

struct RecordedObject {
    held: Arc<Held>,
    /// Patches that were not applied yet.
    pending: Vec<Pending>,
}

/// A patch, and the marks after it.
struct Pending {
    patch: Box<[u8]>,
    marks: Box<[u8]>,
}

impl RecordedObject {
    fn settle(&mut self) -> Result<Arc<Held>, Unusable> {
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            let patches = pending.iter().map(|pending| (&*pending.patch, &*pending.marks));
            self.held = Arc::new(self.held.patched(patches)?);
        }
        Ok(self.held.clone())
    }
}

type Objects = HashMap<ObjectKey, RecordedObject>;

/// An object with its kind and key.
pub type Found = (Arc<Kind>, ObjectKey, Arc<Held>);

/// The objects by kind and key.
#[derive(Default)]
pub struct RecordedState {
    kinds: HashMap<Arc<Kind>, Objects>,
}

impl RecordedState {
    /// Sets an object; gives its state before.
    pub fn put(
        &mut self,
        kind: &Arc<Kind>,
        key: ObjectKey,
        held: Arc<Held>,
    ) -> Result<Option<Arc<Held>>, Unusable> {
        let pending = Vec::new();
        let objects = self.kinds.entry(kind.clone()).or_default();
        let before = objects.insert(key, RecordedObject { held, pending });
        before.map(|mut entry| entry.settle()).transpose()
    }

    /// Changes an object; gives its state before and after. An unknown object cannot be changed.
    pub fn patch(
        &mut self,
        kind: &Arc<Kind>,
        key: &ObjectKey,
        patch: &[u8],
        marks: &[u8],
    ) -> Result<(Arc<Held>, Arc<Held>), Unusable> {
        let entry = self.entry(kind, key).ok_or(Unusable)?;
        let old = entry.settle()?;
        let new = Arc::new(old.patched([(patch, marks)])?);
        entry.held = new.clone();
        Ok((old, new))
    }

    /// Changes an object when it is needed.
    pub fn patch_later(
        &mut self,
        kind: &Arc<Kind>,
        key: &ObjectKey,
        patch: &[u8],
        marks: &[u8],
    ) -> Result<(), Unusable> {
        let entry = self.entry(kind, key).ok_or(Unusable)?;
        entry.pending.push(Pending {
            patch: patch.into(),
            marks: marks.into(),
        });
        Ok(())
    }

    fn entry(&mut self, kind: &Arc<Kind>, key: &ObjectKey) -> Option<&mut RecordedObject> {
        self.kinds.get_mut(kind)?.get_mut(key)
    }

    /// Removes an object; gives its last state.
    pub fn remove(&mut self, kind: &Arc<Kind>, key: &ObjectKey) -> Result<Option<Arc<Held>>, Unusable> {
        let entry = self.kinds.get_mut(kind).and_then(|objects| objects.remove(key));
        entry.map(|mut entry| entry.settle()).transpose()
    }

    /// Removes an object whose last state is not needed.
    pub fn forget(&mut self, kind: &Arc<Kind>, key: &ObjectKey) {
        if let Some(objects) = self.kinds.get_mut(kind) {
            objects.remove(key);
        }
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.kinds.clear();
    }

    /// Removes the objects of all other kinds.
    pub fn retain_kinds(&mut self, kinds: &[Arc<Kind>]) {
        self.kinds.retain(|kind, _| kinds.contains(kind));
    }

    /// Forgets what remains of masked values: another session masks with another key, so that they cannot be compared.
    pub fn drop_marks(&mut self) {
        for entry in self.kinds.values_mut().flat_map(HashMap::values_mut) {
            for pending in &mut entry.pending {
                pending.marks = Box::default();
            }
            if !entry.held.marks.is_empty() {
                entry.held = Arc::new(Held {
                    object: entry.held.object.clone(),
                    marks: Box::default(),
                });
            }
        }
    }

    /// The keys of a kind that are not among these, sorted.
    pub fn keys_without(&self, kind: &Arc<Kind>, seen: &HashSet<ObjectKey>) -> Vec<ObjectKey> {
        let objects = self.kinds.get(kind).into_iter().flat_map(HashMap::keys);
        let mut keys: Vec<ObjectKey> = objects.filter(|key| !seen.contains(*key)).cloned().collect();
        keys.sort_unstable();
        keys
    }

    /// All objects, sorted by kind and key. Objects that cannot be restored are left out and counted.
    pub fn objects(&mut self) -> (Vec<Found>, usize) {
        let (mut all, mut unusable) = (Vec::new(), 0);
        for (kind, objects) in &mut self.kinds {
            for (key, entry) in objects {
                match entry.settle() {
                    Ok(held) => all.push((kind.clone(), key.clone(), held)),
                    Err(Unusable) => unusable += 1,
                }
            }
        }
        all.sort_unstable_by_key(|(kind, key, _)| (kind.full_name(), kind.version.clone(), key.clone()));
        (all, unusable)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn kind() -> Arc<Kind> {
        Arc::new(Kind::for_tests("", "v1", "Pod", "pods"))
    }

    fn held(value: &Value) -> Arc<Held> {
        Arc::new(Held {
            object: serde_json::to_vec(value).unwrap().into(),
            marks: Box::default(),
        })
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-c/~]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map("[a-c/~]{0,2}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn patches_restore_every_state_at_once_or_later(states in prop::collection::vec(value(), 1..6)) {
            let (kind, key) = (kind(), ObjectKey::cluster("a"));
            let (mut eager, mut lazy) = (RecordedState::default(), RecordedState::default());
            eager.put(&kind, key.clone(), held(&states[0])).unwrap();
            lazy.put(&kind, key.clone(), held(&states[0])).unwrap();
            for pair in states.windows(2) {
                let patch = serde_json::to_vec(&json_patch::diff(&pair[0], &pair[1])).unwrap();
                let (_, new) = eager.patch(&kind, &key, &patch, b"").unwrap();
                prop_assert_eq!(&serde_json::from_slice::<Value>(&new.object).unwrap(), &pair[1]);
                lazy.patch_later(&kind, &key, &patch, b"").unwrap();
            }
            prop_assert_eq!(eager.objects(), lazy.objects());
        }

        #[test]
        fn any_patch_is_survived(patch: Vec<u8>, object: Vec<u8>) {
            let held = Held { object: object.into(), marks: Box::default() };
            let _ = held.patched([(&patch[..], &b""[..])]);
            let _ = held.since(&held);
        }
    }

    #[test]
    fn states_are_compared_by_uid_and_version() {
        let state = |uid: &str, version: &str| {
            held(&json!({ "metadata": { "uid": uid, "resourceVersion": version } }))
        };
        assert_eq!(state("a", "1").since(&state("a", "1")), Since::Same);
        assert_eq!(state("a", "2").since(&state("a", "1")), Since::Changed);
        assert_eq!(state("b", "1").since(&state("a", "1")), Since::Another);
    }

    #[test]
    fn a_patch_that_does_not_fit_is_reported() {
        let (kind, key) = (kind(), ObjectKey::cluster("a"));
        let mut state = RecordedState::default();
        let patch = br#"[{"op":"remove","path":"/x"}]"#;
        assert_eq!(state.patch(&kind, &key, patch, b""), Err(Unusable));
        state.put(&kind, key.clone(), held(&json!({}))).unwrap();
        assert_eq!(state.patch(&kind, &key, patch, b""), Err(Unusable));
        state.patch_later(&kind, &key, patch, b"").unwrap();
        assert_eq!(state.objects().1, 1);
    }
}
