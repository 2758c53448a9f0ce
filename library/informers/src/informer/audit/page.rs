//! One page of a collection as the server reports it, and its comparison with a cache.

use std::collections::HashSet;

use crate::informer::drift::Drift;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::BadObject;
use crate::reflector::{Deadlines, read_page};
use crate::source::{Fetched, ListMeta, ListStream, ObjectIdentity, SourceError};
use crate::store::Held;

/// A page of a collection, without the bodies of its objects.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) items: Vec<ObjectIdentity>,
    /// Objects that could not be read.
    pub(super) unreadable: HashSet<ObjectKey>,
    /// There is an object that could not be read, not even its key.
    pub(super) unidentified: bool,
    pub(super) meta: ListMeta,
}

impl Page {
    /// Reads a page to its end.
    pub(super) async fn read(items: ListStream<ObjectIdentity>) -> Result<Self, SourceError> {
        let mut page = Self::default();
        page.meta = read_page(items, &Deadlines::default(), |object| match object {
            Ok(Fetched::New(object)) => page.items.push(*object),
            Ok(Fetched::Unchanged(object)) => page.items.push((*object).clone()),
            Err(BadObject { key: Some(key), .. }) => _ = page.unreadable.insert(key),
            Err(_) => page.unidentified = true,
        })
        .await?;
        Ok(page)
    }

    /// Whether there is a page after this one.
    pub(super) fn is_followed(&self) -> bool {
        let token = self.meta.continue_token.as_deref();
        token.is_some_and(|token| !token.is_empty())
    }

    pub(super) fn last(&self) -> Option<ObjectKey> {
        self.items.last().map(ObjectKey::of)
    }

    /// The number of objects of the whole collection, if the server reports it. An estimate.
    pub(super) fn total(&self) -> Option<u64> {
        let rest = match self.is_followed() {
            false => 0,
            true => self.meta.remaining?,
        };
        Some(self.items.len() as u64 + rest)
    }

    /// The keys that a page after `after` must contain if they exist. `None` if that is unknown: an object without a
    /// key, or a server that does not sort.
    pub(super) fn range(&self, after: Option<&ObjectKey>) -> Option<KeyRange> {
        let keys: Vec<ObjectKey> = self.items.iter().map(ObjectKey::of).collect();
        let is_sorted = keys
            .windows(2)
            .all(|pair| storage_order(&pair[0]) < storage_order(&pair[1]))
            && after.is_none_or(|after| {
                keys.first()
                    .is_none_or(|first| storage_order(after) < storage_order(first))
            });
        if self.unidentified || !is_sorted && (after.is_some() || self.is_followed()) {
            return None;
        }
        let upto = match self.is_followed() {
            false => None,
            // A page without objects covers nothing.
            true => Some(self.last()?),
        };
        Some(KeyRange {
            after: after.cloned(),
            upto,
        })
    }
}

/// The storage of the server sorts by namespace and name as one text.
fn storage_order(key: &ObjectKey) -> &str {
    key.as_str()
}

/// A range of keys, in the order of the server's storage.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeyRange {
    after: Option<ObjectKey>,
    upto: Option<ObjectKey>,
}

impl KeyRange {
    pub(super) fn contains(&self, key: &ObjectKey) -> bool {
        let key = storage_order(key);
        self.after.as_ref().is_none_or(|after| storage_order(after) < key)
            && self.upto.as_ref().is_none_or(|upto| key <= storage_order(upto))
    }
}

/// Compares an object of a page with what the cache holds under its key.
pub(super) fn compare(server: &ObjectIdentity, held: &Held) -> Option<Drift> {
    let version = |object: &ObjectIdentity| object.object_version().map(str::to_owned);
    let cached = match held {
        Held::Quarantined => return None,
        Held::Nothing => None,
        Held::Object(cached) => {
            // A projection may leave out either of them.
            let differ = |cached: Option<&str>, server: Option<&str>| {
                cached.is_some() && server.is_some() && cached != server
            };
            if !differ(cached.object_uid(), server.object_uid())
                && !differ(cached.object_version(), server.object_version())
            {
                return None;
            }
            version(cached)
        }
    };
    Some(Drift {
        key: ObjectKey::of(server),
        cached,
        server: version(server),
    })
}

/// The first differences and the number of all.
pub(super) fn summary(found: &[Drift]) -> String {
    let first: Vec<String> = found.iter().take(10).map(Drift::to_string).collect();
    let objects = if found.len() == 1 { "object" } else { "objects" };
    let more = if found.len() > first.len() { ", …" } else { "" };
    format!("{} {objects}: {}{more}", found.len(), first.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, uid: &str, version: &str) -> ObjectIdentity {
        let text = format!(
            r#"{{"metadata":{{"namespace":"ns","name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("ns", name)
    }

    fn page(names: &[&str], token: Option<&str>) -> Page {
        Page {
            items: names.iter().map(|name| object(name, "u", "1")).collect(),
            meta: ListMeta {
                continue_token: token.map(str::to_owned),
                ..ListMeta::default()
            },
            ..Page::default()
        }
    }

    #[test]
    fn objects_of_the_same_uid_and_version_agree() {
        let server = object("a", "u1", "7");

        assert_eq!(compare(&server, &Held::Object(object("a", "u1", "7"))), None);
        assert_eq!(compare(&server, &Held::Quarantined), None);
        let differs = |held| compare(&server, &held).map(|drift| drift.to_string());
        assert_eq!(
            differs(Held::Object(object("a", "u1", "5"))).as_deref(),
            Some("ns/a (cached 5, server 7)")
        );
        assert_eq!(
            differs(Held::Object(object("a", "u2", "7"))).as_deref(),
            Some("ns/a (cached 7, server 7)")
        );
        assert_eq!(
            differs(Held::Nothing).as_deref(),
            Some("ns/a (not cached, server 7)")
        );
    }

    #[test]
    fn a_page_covers_the_keys_up_to_its_last_one() {
        let first = page(&["b", "d"], Some("t")).range(None).unwrap();
        assert!(first.contains(&key("a")) && first.contains(&key("d")) && !first.contains(&key("e")));

        let last = page(&["f"], None).range(Some(&key("d"))).unwrap();
        assert!(!last.contains(&key("d")) && last.contains(&key("e")) && last.contains(&key("z")));
    }

    #[test]
    fn an_unsorted_page_says_nothing_about_absent_keys() {
        assert_eq!(page(&["d", "b"], Some("t")).range(None), None);
        assert_eq!(page(&["b"], Some("t")).range(Some(&key("c"))), None);
        assert!(page(&["d", "b"], None).range(None).is_some(), "it is complete");
        assert_eq!(page(&[], Some("t")).range(None), None);
    }

    #[test]
    fn a_summary_names_the_first_objects() {
        let drift = Drift {
            key: key("a"),
            cached: Some("5".to_owned()),
            server: None,
        };

        assert_eq!(
            summary(std::slice::from_ref(&drift)),
            "1 object: ns/a (cached 5, not on the server)"
        );
        assert!(summary(&vec![drift; 11]).starts_with("11 objects: ns/a"));
    }
}
