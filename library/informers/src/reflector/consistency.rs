//! The consistency check: compares a watch-list with a list at the same version.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::timeout;

use super::transform::{Transform, Transformed, transformed};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::shard::Shard;
use crate::source::{ListRequest, ListerWatcher, VersionMatch};
use crate::wire::{ListItem, SourceError};

/// The check is for tests. It gives up rather than delay the watch for long.
const DEADLINE: Duration = Duration::from_secs(60);

/// The UID and version of each object.
pub(super) type Contents = BTreeMap<ObjectKey, (Option<String>, Option<String>)>;

pub(super) fn contents<K: Object>(objects: &[Arc<K>]) -> Contents {
    objects.iter().map(|object| identity(&**object)).collect()
}

fn identity<K: Object>(object: &K) -> (ObjectKey, (Option<String>, Option<String>)) {
    let uid = object.object_uid().map(str::to_owned);
    (
        ObjectKey::of(object),
        (uid, object.object_version().map(str::to_owned)),
    )
}

/// The keys that are in one of the collections only, or have different versions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) missing: Vec<ObjectKey>,
    pub(super) surplus: Vec<ObjectKey>,
    pub(super) differing: Vec<ObjectKey>,
}

impl Difference {
    pub(super) fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.surplus.is_empty() && self.differing.is_empty()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = |keys: &[ObjectKey]| {
            keys.iter()
                .take(3)
                .map(ObjectKey::as_str)
                .collect::<Vec<_>>()
                .join(", ")
        };
        for (what, keys) in [
            ("missing", &self.missing),
            ("surplus", &self.surplus),
            ("of another version", &self.differing),
        ] {
            if !keys.is_empty() {
                write!(f, "{} {what} ({}) ", keys.len(), first(keys))?;
            }
        }
        Ok(())
    }
}

/// Lists at exactly `version` and compares the result.
pub(super) async fn check<K: Object>(
    source: &dyn ListerWatcher<K>,
    version: &str,
    shard: Option<Shard>,
    transform: Option<&Transform<K>>,
    delivered: &Contents,
) -> Result<Difference, SourceError> {
    let listed = timeout(DEADLINE, list_exactly(source, version, shard, transform))
        .await
        .unwrap_or(Err(SourceError::Deadline {
            what: "list for the consistency check",
            after: DEADLINE,
        }))?;
    Ok(compare(delivered, &listed))
}

fn compare(delivered: &Contents, listed: &Contents) -> Difference {
    let mut difference = Difference::default();
    for (key, state) in listed {
        match delivered.get(key) {
            None => difference.missing.push(key.clone()),
            Some(other) if other != state => difference.differing.push(key.clone()),
            Some(_) => {}
        }
    }
    difference.surplus = delivered
        .keys()
        .filter(|key| !listed.contains_key(*key))
        .cloned()
        .collect();
    difference
}

async fn list_exactly<K: Object>(
    source: &dyn ListerWatcher<K>,
    version: &str,
    shard: Option<Shard>,
    transform: Option<&Transform<K>>,
) -> Result<Contents, SourceError> {
    let mut contents = Contents::new();
    let mut request = ListRequest {
        resource_version: Some(version.to_owned()),
        version_match: Some(VersionMatch::Exact),
        shard,
        ..ListRequest::default()
    };
    loop {
        let mut page = source.list(request.clone(), None);
        let meta = loop {
            match page.next().await {
                Some(Ok(ListItem::Object(fetched))) => {
                    if let Transformed::Object(object) = transformed(transform, fetched) {
                        contents.extend([identity(&*object)]);
                    }
                }
                Some(Ok(ListItem::End(meta))) => break meta,
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => {
                    return Err(SourceError::Malformed(
                        "the list ended before it was complete".to_owned(),
                    ));
                }
            }
        };
        match meta.continue_token.filter(|token| !token.is_empty()) {
            None => return Ok(contents),
            Some(token) => {
                request = ListRequest {
                    continue_token: Some(token),
                    shard: request.shard,
                    ..ListRequest::default()
                }
            }
        }
    }
}
