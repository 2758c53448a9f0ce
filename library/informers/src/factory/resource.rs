//! Informers by the name of a resource: built-in kinds from the table, others by discovery.

use std::time::Duration;

use kube::core::{ApiResource, DynamicObject};
use kube::discovery::{ApiCapabilities, ApiGroup, Discovery, Scope as KindScope, verbs};
use kube::error::DiscoveryError;
use tokio::time::timeout;

use super::SharedInformerFactory;
use super::accessors::{ABSENT, builtin};
use super::follow::Following;
use super::key::{InformerIdentity, InformerKey};
use super::resource_name::ResourceName;
use crate::codec::FromWire;
use crate::informer::Informer;
use crate::source::{ListWatch, ResourceType};

/// Timeout of discovery requests.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest number of similar names in an error.
const MAX_SUGGESTIONS: usize = 5;

/// There is no informer for a resource.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// The server does not serve it.
    #[error("the server does not serve {resource}; {}", alternatives(.close, .group_served))]
    Unknown {
        /// The requested resource.
        resource: ResourceName,
        /// Similar resources that are served.
        close: Vec<String>,
        /// Whether the server serves the group.
        group_served: bool,
    },
    /// It cannot be listed and watched.
    #[error("{resource} cannot be watched: {reason}")]
    NotWatchable {
        /// The requested resource.
        resource: ResourceName,
        /// Reason.
        reason: String,
    },
    /// Discovery failed.
    #[error("cannot discover whether the server serves {resource}")]
    Discovery {
        /// The requested resource.
        resource: ResourceName,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// Discovery timed out.
    #[error("cannot discover whether the server serves {resource}: no response within {after:?}")]
    NoAnswer {
        /// The requested resource.
        resource: ResourceName,
        /// The timeout.
        after: Duration,
    },
}

fn alternatives(close: &[String], group_served: &bool) -> String {
    match (close, group_served) {
        ([], true) => "its group has no such resource: use the plural name in lower case".to_owned(),
        ([], false) => "it does not serve the group either: is the definition installed?".to_owned(),
        (close, _) => format!("did you mean {}?", close.join(", ")),
    }
}

impl SharedInformerFactory {
    /// The informer of a resource by its name, as dynamic objects; [`Informer::lister`] is the generic lister.
    ///
    /// A built-in kind with its version needs no request. Everything else is looked up by discovery, so the resource must
    /// exist; to wait for a resource that does not exist yet, use [`dynamic`](Self::dynamic).
    ///
    /// Without a version, the informer uses the server's preferred version, and switches when that is no longer served.
    /// Cached objects stay in the form of the old version until they change.
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
    /// The server does not serve it (similar names are listed), it cannot be watched, or discovery failed.
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

    /// Resolves a name, by the table or by discovery.
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
                reason: format!("the server does not support {} for it", missing.join(" or ")),
            });
        }
        Ok(served(api, &capabilities))
    }

    /// An informer that switches to another version when its own is no longer served.
    fn following<K: FromWire>(&self, resource: ResourceType) -> Informer<K> {
        let scope = self.scope_of(&resource);
        let key = InformerKey::of::<K>(InformerIdentity::any_version(&resource, &scope));
        self.get_or_build(key, || {
            let list_watch = ListWatch::projected(self.client(), resource, scope);
            let list_watch = list_watch.options(self.inner.options.source());
            self.configure(Following::builder(self.client(), list_watch))
                .fix_scope()
        })
    }
}

fn served(api: ApiResource, capabilities: &ApiCapabilities) -> ResourceType {
    ResourceType::from(api).namespaced(capabilities.scope == KindScope::Namespaced)
}

/// The served resource of this group and plural name, in any version.
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

/// Served resources with names similar to `name`.
async fn alike(client: &kube::Client, name: &ResourceName) -> Vec<String> {
    let discovery = match Discovery::new(client.clone()).run_aggregated().await {
        Ok(discovery) => discovery,
        // Servers before 1.30 do not support aggregated discovery.
        Err(_) => match Discovery::new(client.clone()).run().await {
            Ok(discovery) => discovery,
            // The name is unknown anyway; this only improves the message.
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
