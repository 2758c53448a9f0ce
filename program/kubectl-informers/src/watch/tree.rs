//! `--tree`: an object and everything that it owns, by owner references, with the Events about them.
//!
//! Kinds are listed and watched independently, so that an object can arrive before its owner. Until all lists are complete
//! objects are only collected; later, changes of an object whose owner is unknown are held back for a while.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use kube_informers::{Object, ObjectKey};

use crate::changes::{Change, What};
use crate::objects::columns;
use crate::objects::item::Item;
use crate::objects::kinds::Kind;
use crate::output::style::{Colours, DIM};
use crate::text::safe::SafeText;
use crate::view::server_columns::ServerColumns;

/// The kinds that are owned by others in every cluster, and Events.
pub const KINDS: &str = "replicasets,statefulsets,daemonsets,cronjobs,jobs,controllerrevisions,pods,events";

/// Changes that wait for the owner of their object.
const MOST_HELD: usize = 1000;
/// Events of the past that are shown below the tree.
const MOST_EVENTS: usize = 10;

/// The tree, and the objects that are not in it: one of them can be the owner of others.
pub struct Tree {
    /// The name of the object at the root; all objects of the root kinds if there is none.
    name: Option<String>,
    roots: BTreeSet<String>,
    nodes: HashMap<String, Node>,
    /// The UIDs of the objects in the tree.
    members: HashSet<String>,
    held: VecDeque<Change>,
    events: Vec<Change>,
    complete: bool,
}

struct Node {
    kind: Arc<Kind>,
    key: ObjectKey,
    owners: Vec<String>,
    object: Arc<Item>,
    /// Until the lists are complete.
    initial: Option<Change>,
}

impl Node {
    fn of(change: &Change) -> Option<(String, Self)> {
        let object = change.object.clone()?;
        let owners = object.object_owners().map(|owner| owner.uid.to_owned()).collect();
        let node = Self {
            kind: change.kind.clone(),
            key: change.key.clone()?,
            owners,
            object,
            initial: None,
        };
        Some((change.uid.clone()?, node))
    }
}

impl Tree {
    /// The tree of an object of one of these kinds.
    pub fn new(roots: impl IntoIterator<Item = String>, name: Option<String>) -> Self {
        Self {
            name,
            roots: roots.into_iter().collect(),
            nodes: HashMap::new(),
            members: HashSet::new(),
            held: VecDeque::new(),
            events: Vec::new(),
            complete: false,
        }
    }

    /// Takes a change; returns those that concern the tree, in order. Before the lists are complete there are none.
    pub fn take(&mut self, change: Change) -> Vec<Change> {
        if change.kind.kind == "Event" {
            return self.event(change);
        }
        let Some((uid, mut node)) = Node::of(&change) else {
            return Vec::new();
        };
        if let What::Deleted { .. } = change.event {
            self.nodes.remove(&uid);
            return match self.members.remove(&uid) {
                true => vec![change],
                false => Vec::new(),
            };
        }
        let is_unclear =
            !node.owners.is_empty() && node.owners.iter().any(|owner| !self.nodes.contains_key(owner));
        if !self.complete {
            node.initial = Some(change);
            self.nodes.insert(uid, node);
            return Vec::new();
        }
        let belongs = self.belongs(&node);
        self.nodes.insert(uid.clone(), node);
        if self.members.contains(&uid) {
            return vec![change];
        }
        if belongs {
            self.members.insert(uid);
            let mut changes = vec![change];
            changes.extend(self.release());
            return changes;
        }
        if is_unclear {
            if self.held.len() >= MOST_HELD {
                self.held.pop_front();
            }
            self.held.push_back(change);
        }
        Vec::new()
    }

    /// All lists are complete: the tree is known from now on. Returns the changes that brought its objects.
    pub fn complete(&mut self) -> Vec<Change> {
        self.complete = true;
        self.join();
        let mut changes: Vec<Change> = Vec::new();
        for (uid, node) in &mut self.nodes {
            let initial = node.initial.take();
            changes.extend(initial.filter(|_| self.members.contains(uid)));
        }
        changes.sort_by_cached_key(|change| (change.kind.label(), change.key.clone()));
        changes
    }

    /// Adds everything that belongs to the tree.
    fn join(&mut self) {
        loop {
            let joining: Vec<String> = self
                .nodes
                .iter()
                .filter(|(uid, node)| !self.members.contains(*uid) && self.belongs(node))
                .map(|(uid, _)| uid.clone())
                .collect();
            if joining.is_empty() {
                return;
            }
            self.members.extend(joining);
        }
    }

    /// Whether the lists are complete.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The tree as text, one object per line; empty if there is no object.
    pub fn text(&self, colours: Colours, server: &ServerColumns) -> SafeText {
        let mut text = SafeText::default();
        let is_root = |uid: &&String| {
            let owners = self.nodes.get(*uid).map(|node| node.owners.as_slice());
            owners.is_some_and(|owners| !owners.iter().any(|owner| self.members.contains(owner)))
        };
        let roots: Vec<&String> = self.members.iter().filter(is_root).collect();
        let mut drawn = HashSet::new();
        for uid in self.sorted(roots) {
            self.draw(uid, "", "", &mut drawn, (colours, server), &mut text);
        }
        text
    }

    /// Takes the last Events about objects of the tree, the oldest first.
    pub fn past_events(&mut self) -> Vec<Change> {
        let mut events = std::mem::take(&mut self.events);
        events.retain(|event| self.is_about(event));
        let time = |event: &Change| {
            let object = event.object.as_ref()?;
            let text = |field: &str| object.text(field).ok().flatten().filter(|text| !text.is_empty());
            let time = text("lastTimestamp").or_else(|| text("eventTime"));
            time.or_else(|| text("metadata.creationTimestamp"))
        };
        events.sort_by_cached_key(time);
        let first = events.len().saturating_sub(MOST_EVENTS);
        events.split_off(first)
    }

    /// The number of objects in the tree.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    fn event(&mut self, change: Change) -> Vec<Change> {
        match self.complete {
            false => self.events.push(change),
            true if self.is_about(&change) => return vec![change],
            true => {}
        }
        Vec::new()
    }

    fn is_about(&self, event: &Change) -> bool {
        event.about().is_some_and(|(kind, key)| {
            let members = self.members.iter().filter_map(|uid| self.nodes.get(uid));
            members
                .into_iter()
                .any(|node| node.kind.kind == kind && node.key == key)
        })
    }

    /// Whether an object is the root, or has an owner in the tree.
    fn belongs(&self, node: &Node) -> bool {
        let is_root = self.roots.contains(&node.kind.full_name())
            && self.name.as_deref().is_none_or(|name| name == node.key.name());
        is_root || node.owners.iter().any(|owner| self.members.contains(owner))
    }

    /// The changes that waited for an object which is now in the tree.
    fn release(&mut self) -> Vec<Change> {
        let mut released = Vec::new();
        loop {
            let joins = |change: &Change| {
                let node = change.uid.as_ref().and_then(|uid| self.nodes.get(uid));
                node.is_some_and(|node| self.belongs(node))
            };
            let Some(at) = self.held.iter().position(joins) else {
                return released;
            };
            if let Some(change) = self.held.remove(at) {
                self.members.extend(change.uid.clone());
                released.push(change);
            }
        }
    }

    fn sorted<'a>(&'a self, mut uids: Vec<&'a String>) -> Vec<&'a String> {
        uids.sort_by_key(|uid| {
            self.nodes
                .get(*uid)
                .map(|node| (node.kind.label(), node.key.clone()))
        });
        uids
    }

    /// Draws an object and those it owns. Owner references may form a circle.
    fn draw<'a>(
        &'a self,
        uid: &'a String,
        branch: &str,
        indent: &str,
        drawn: &mut HashSet<&'a String>,
        (colours, server): (Colours, &ServerColumns),
        text: &mut SafeText,
    ) {
        let Some(node) = self.nodes.get(uid).filter(|_| drawn.insert(uid)) else {
            return;
        };
        if !text.is_empty() {
            text.push("\n");
        }
        text.push(colours.paint(DIM, SafeText::line(format!("{indent}{branch}"))));
        text.push(SafeText::line(format!("{} {}", node.kind.label(), node.key)));
        let cells = columns::essentials(&node.kind, &node.object);
        let cells = match cells.is_empty() {
            true => server.essentials(&node.kind, &node.key, node.object.object_version()),
            false => Some(cells),
        };
        for (_, cell) in cells.unwrap_or_default() {
            if cell.is_empty() {
                continue;
            }
            text.push("  ");
            text.push(colours.paint(DIM, SafeText::line(cell).shortened()));
        }
        let owned = self.members.iter().filter(|other| {
            let owners = self.nodes.get(*other).map(|node| node.owners.as_slice());
            owners.unwrap_or_default().contains(uid)
        });
        let owned = self.sorted(owned.collect());
        let indent = match branch {
            "" => indent.to_owned(),
            "└─ " => format!("{indent}   "),
            _ => format!("{indent}│  "),
        };
        // As deep as chains of owners in practice; the stack is not for the server to fill.
        if indent.chars().count() > 300 {
            return;
        }
        for (index, other) in owned.iter().enumerate() {
            let branch = if index + 1 == owned.len() {
                "└─ "
            } else {
                "├─ "
            };
            self.draw(other, branch, &indent, drawn, (colours, server), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::changes::noise::Noise;
    use crate::objects::item::received;

    fn kind(name: &str, plural: &str) -> Arc<Kind> {
        Arc::new(Kind::for_tests("", "v1", name, plural))
    }

    fn change(kind: &Arc<Kind>, name: &str, owner: Option<&str>, initial: bool) -> Change {
        let owners: Vec<Value> = owner
            .map(|uid| json!({ "apiVersion": "v1", "kind": "X", "name": uid, "uid": uid }))
            .into_iter()
            .collect();
        let object = json!({ "metadata": {
            "name": name, "namespace": "shop", "uid": name, "resourceVersion": "7", "ownerReferences": owners,
        } });
        Change {
            when: Timestamp::UNIX_EPOCH,
            kind: kind.clone(),
            event: What::Added { initial },
            key: Some(ObjectKey::namespaced("shop", name)),
            uid: Some(name.to_owned()),
            resource_version: None,
            old_resource_version: None,
            diff: Vec::new(),
            object: Some(Arc::new(received(kind, object))),
            old: None,
            noise: Some(Noise::none()),
            by: None,
            coalesced: 0,
        }
    }

    fn names(changes: &[Change]) -> Vec<&str> {
        changes.iter().map(Change::name).collect()
    }

    #[test]
    fn objects_are_found_whatever_the_order_of_the_lists() {
        let (sets, pods) = (kind("Set", "sets"), kind("Thing", "things"));
        let mut tree = Tree::new(["sets".to_owned()], Some("web".to_owned()));
        for change in [
            change(&pods, "web-b", Some("web"), true),
            change(&pods, "web-a", Some("web"), true),
            change(&pods, "deep", Some("web-a"), true),
            change(&pods, "alien", Some("other"), true),
            change(&sets, "other", None, true),
            change(&sets, "web", None, true),
        ] {
            assert!(tree.take(change).is_empty());
        }
        tree.complete();

        assert_eq!(
            tree.text(Colours::new(false), &ServerColumns::default()).as_str(),
            "set shop/web\n├─ thing shop/web-a\n│  └─ thing shop/deep\n└─ thing shop/web-b"
        );
        assert_eq!(tree.len(), 4);
    }

    #[test]
    fn an_object_that_arrives_before_its_owner_is_held_back() {
        let (sets, pods) = (kind("Set", "sets"), kind("Thing", "things"));
        let mut tree = Tree::new(["sets".to_owned()], Some("web".to_owned()));
        tree.complete();
        assert!(
            tree.text(Colours::new(false), &ServerColumns::default())
                .is_empty()
        );

        assert!(tree.take(change(&pods, "deep", Some("web-a"), false)).is_empty());
        assert!(tree.take(change(&pods, "web-a", Some("web"), false)).is_empty());
        let shown = tree.take(change(&sets, "web", None, false));
        assert_eq!(names(&shown), ["shop/web", "shop/web-a", "shop/deep"]);
        assert!(tree.take(change(&pods, "alien", None, false)).is_empty());
    }

    #[test]
    fn what_waits_is_limited_and_a_circle_ends() {
        let pods = kind("Thing", "things");
        let mut tree = Tree::new(["things".to_owned()], Some("a".to_owned()));
        tree.take(change(&pods, "a", Some("b"), true));
        tree.take(change(&pods, "b", Some("a"), true));
        tree.complete();
        tree.text(Colours::new(false), &ServerColumns::default());
        for number in 0..2 * MOST_HELD {
            tree.take(change(&pods, &format!("n-{number}"), Some("nobody"), false));
        }
        assert_eq!(tree.held.len(), MOST_HELD);
    }

    #[test]
    fn events_are_those_about_the_tree() {
        let (sets, events) = (kind("Set", "sets"), kind("Event", "events"));
        let event = |name: &str, about: &str, initial: bool| {
            let mut change = change(&events, name, None, initial);
            let object = json!({
                "metadata": { "name": name, "namespace": "shop" }, "lastTimestamp": "2026-01-02T03:04:05Z",
                "involvedObject": { "kind": "Set", "namespace": "shop", "name": about },
            });
            change.object = Some(Arc::new(received(&events, object)));
            change
        };
        let mut tree = Tree::new(["sets".to_owned()], Some("web".to_owned()));
        tree.take(event("e1", "web", true));
        tree.take(event("e2", "other", true));
        tree.take(change(&sets, "web", None, true));
        tree.complete();

        assert_eq!(names(&tree.past_events()), ["shop/e1"]);
        assert_eq!(names(&tree.take(event("e3", "web", false))), ["shop/e3"]);
        assert!(tree.take(event("e4", "other", false)).is_empty());
    }
}
