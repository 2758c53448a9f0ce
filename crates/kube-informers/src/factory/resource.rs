//! Informers by the name of a resource: built-in kinds from the table, others by asking the server what it serves.

use std::time::Duration;

use kube::core::{ApiResource, DynamicObject};
use kube::discovery::{ApiCapabilities, ApiGroup, Discovery, Scope as KindScope, verbs};
use kube::error::DiscoveryError;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::SharedInformerFactory;
use super::accessors::{ABSENT, builtin};
use super::follow::Following;
use super::key::{InformerIdentity, InformerKey};
use super::resource_name::ResourceName;
use crate::informer::Informer;
use crate::object::Object;
use crate::source::{ListWatch, ResourceType};

/// A server that takes longer to say what it serves is not asked any further.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// How many names that look alike are offered.
const MAX_SUGGESTIONS: usize = 5;

/// There is no informer for a resource.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// The server does not serve it.
    #[error("the server does not serve {resource}; {}", alternatives(.close, .group_served))]
    Unknown {
        /// What was asked for.
        resource: ResourceName,
        /// What is served and looks like it.
        close: Vec<String>,
        /// Whether the server has the group at all.
        group_served: bool,
    },
    /// It cannot be listed and watched.
    #[error("{resource} cannot be watched: {reason}")]
    NotWatchable {
        /// What was asked for.
        resource: ResourceName,
        /// Reason.
        reason: String,
    },
    /// The server did not say what it serves.
    #[error("cannot find out whether the server serves {resource}")]
    Discovery {
        /// What was asked for.
        resource: ResourceName,
        /// What went wrong.
        source: Box<kube::Error>,
    },
    /// The server did not say in time what it serves.
    #[error("cannot find out whether the server serves {resource}: no answer within {after:?}")]
    NoAnswer {
        /// What was asked for.
        resource: ResourceName,
        /// How long was waited.
        after: Duration,
    },
}

fn alternatives(close: &[String], group_served: &bool) -> String {
    match (close, group_served) {
        ([], true) => {
            "its group has no resource of such a name: use the plural name in lower case".to_owned()
        }
        ([], false) => "it does not have the group either: is the definition installed?".to_owned(),
        (close, _) => format!("did you mean {}?", close.join(", ")),
    }
}

impl SharedInformerFactory {
    /// The informer of a resource by its name, as dynamic objects; [`Informer::lister`] is the generic lister.
    ///
    /// A built-in kind with its version needs no request. For everything else the server is asked what it serves,
    /// so the resource must be there; to wait for one that is not there yet, use [`dynamic`](Self::dynamic).
    ///
    /// Without a version the informer takes the one the server prefers, and when that is served no more, the one
    /// that is served then. Objects that do not change at such a switch stay in the form of the old version until
    /// they do.
    ///
    /// ```no_run
    /// # async fn example(factory: kube_informers::SharedInformerFactory) -> Result<(), Box<dyn std::error::Error>> {
    /// let deployments = factory.for_resource("deployments.v1.apps").await?;
    /// let shops = factory.for_resource("shops.example.com").await?;
    /// factory.start();
    /// factory.wait_for_sync().await?;
    /// let shop = shops.lister().namespace("default").try_get("corner")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The server does not serve it (names that look alike are offered), it cannot be watched, or the server cannot be
    /// asked.
    #[doc(alias = "ForResource")]
    #[doc(alias = "GenericInformer")]
    #[inline] // Not generic: a plain function would compile a whole informer into the library.
    pub async fn for_resource(
        &self,
        resource: impl Into<ResourceName>,
    ) -> Result<Informer<DynamicObject>, ResourceError> {
        let name = resource.into();
        let resource = self.find(&name).await?;
        Ok(match name.version {
            Some(_) => self.dynamic(resource),
            None => self.following(resource),
        })
    }

    /// What a name stands for, in the table or at the server.
    async fn find(&self, name: &ResourceName) -> Result<ResourceType, ResourceError> {
        let version = name.version.as_deref().unwrap_or("v1");
        let absent = ABSENT
            .iter()
            .find(|row| (row.0, row.1, row.2) == (&name.group, version, &name.plural));
        if let Some((.., reason)) = absent {
            return Err(ResourceError::NotWatchable {
                resource: name.clone(),
                reason: (*reason).to_owned(),
            });
        }
        if let Some(version) = &name.version
            && let Some(builtin) = builtin(&name.group, version, &name.plural)
        {
            return Ok(builtin.resource());
        }
        let found = timeout(DISCOVERY_TIMEOUT, discover(&self.inner.client, name)).await;
        let (api, capabilities) = found.unwrap_or_else(|_| {
            Err(ResourceError::NoAnswer {
                resource: name.clone(),
                after: DISCOVERY_TIMEOUT,
            })
        })?;
        let missing: Vec<&str> = [verbs::LIST, verbs::WATCH]
            .into_iter()
            .filter(|verb| !capabilities.supports_operation(verb))
            .collect();
        if !missing.is_empty() {
            return Err(ResourceError::NotWatchable {
                resource: name.clone(),
                reason: format!("the server does not let anybody {} it", missing.join(" or ")),
            });
        }
        Ok(served(api, &capabilities))
    }

    /// An informer that goes on with another version when its own is served no more.
    fn following<K: Object + DeserializeOwned>(&self, resource: ResourceType) -> Informer<K> {
        let scope = self.scope_of(&resource);
        let key = InformerKey::of::<K>(InformerIdentity::any_version(&resource, &scope));
        self.ask(key, || {
            let list_watch = ListWatch::projected(self.client(), resource, scope);
            let list_watch = self.inner.options.wire(list_watch);
            self.configure(Following::builder(self.client(), list_watch))
                .fix_shard()
        })
    }
}

fn served(api: ApiResource, capabilities: &ApiCapabilities) -> ResourceType {
    ResourceType::from(api).namespaced(capabilities.scope == KindScope::Namespaced)
}

/// What the server serves under this group and plural name, without a version; `None` if nothing.
pub(super) async fn rediscover(
    client: &kube::Client,
    group: &str,
    plural: &str,
) -> Option<(ApiResource, ApiCapabilities)> {
    let group = timeout(DISCOVERY_TIMEOUT, kube::discovery::group(client, group)).await;
    pick(&group.ok()?.ok()?, None, plural)
}

async fn discover(
    client: &kube::Client,
    name: &ResourceName,
) -> Result<(ApiResource, ApiCapabilities), ResourceError> {
    let group = match kube::discovery::group(client, &name.group).await {
        Ok(group) => Some(group),
        Err(kube::Error::Discovery(DiscoveryError::MissingApiGroup(_))) => None,
        Err(source) => {
            return Err(ResourceError::Discovery {
                resource: name.clone(),
                source: Box::new(source),
            });
        }
    };
    let found = group
        .as_ref()
        .and_then(|group| pick(group, name.version.as_deref(), &name.plural));
    match found {
        Some(found) => Ok(found),
        None => Err(ResourceError::Unknown {
            resource: name.clone(),
            close: alike(client, name).await,
            group_served: group.is_some(),
        }),
    }
}

/// The resource in this version, or in the one the server prefers, or in the most stable one.
fn pick(group: &ApiGroup, version: Option<&str>, plural: &str) -> Option<(ApiResource, ApiCapabilities)> {
    let preferred = group.preferred_version();
    let versions: Vec<&str> = match version {
        Some(version) => vec![version],
        None => preferred.into_iter().chain(group.versions()).collect(),
    };
    versions.into_iter().find_map(|version| {
        let resources = group.versioned_resources(version).into_iter();
        resources.into_iter().find(|(api, _)| api.plural == plural)
    })
}

/// What the server serves and somebody who wrote `name` may have meant.
async fn alike(client: &kube::Client, name: &ResourceName) -> Vec<String> {
    let discovery = match Discovery::new(client.clone()).run_aggregated().await {
        Ok(discovery) => discovery,
        // Servers before 1.30 do not have that.
        Err(_) => match Discovery::new(client.clone()).run().await {
            Ok(discovery) => discovery,
            // The name is unknown all the same; this is only about a better message.
            Err(_) => return Vec::new(),
        },
    };
    let wanted = name.plural.to_ascii_lowercase();
    let mut found: Vec<(usize, String)> = Vec::new();
    for group in discovery.groups() {
        for version in group.versions() {
            for (api, capabilities) in group.versioned_resources(version) {
                if !capabilities.supports_operation(verbs::WATCH) {
                    continue;
                }
                let is_kind = api.kind.eq_ignore_ascii_case(&name.plural);
                let distance = if is_kind {
                    0
                } else {
                    distance(&wanted, &api.plural)
                };
                // Two letters off, or one in three of a short name.
                if distance <= 2.min(wanted.len() / 3) {
                    let other_group = usize::from(api.group != name.group);
                    let api = ResourceName {
                        group: api.group,
                        version: Some(api.version),
                        plural: api.plural,
                    };
                    found.push((distance + other_group, api.to_string()));
                }
            }
        }
    }
    found.sort();
    found.truncate(MAX_SUGGESTIONS);
    found.into_iter().map(|(_, name)| name).collect()
}

/// How many letters must be put in, taken out or changed.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, letter) in left.chars().enumerate() {
        let mut diagonal = at;
        let mut before = at + 1;
        for (other, slot) in right.iter().zip(row.iter_mut().skip(1)) {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = *slot;
            before = changed.min(diagonal + 1).min(before + 1);
            *slot = before;
        }
        if let Some(first) = row.first_mut() {
            *first = at + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distances_count_letters() {
        for (left, right, expected) in [
            ("pods", "pods", 0),
            ("pod", "pods", 1),
            ("pdos", "pods", 2),
            ("", "pods", 4),
            ("pods", "", 4),
            ("deploymnets", "deployments", 2),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(left, right), expected, "{left:?} {right:?}");
        }
    }
}
