//! Changing the namespaces of a running informer. Each namespace is a [`Member`] with its own watch.
//!
//! - A removed member leaves in one step under the core's lock: its objects are evicted, and it is marked as removed. The mark
//!   is checked under the same lock before a batch is applied, so what was read before is dropped.
//! - The process loop starts an added member, so namespaces can be changed before the start, and from a thread outside
//!   the runtime.
//! - The store knows members by a number. It is used again only when the process loop of the removed member has ended;
//!   otherwise a late batch of the old member could be taken for one of the new.
//! - `has_synced` does not revert, because controllers wait for it: one forbidden namespace must not stop a running one.
//! - A set of namespaces does not become all namespaces, or the reverse: the objects of kept namespaces would change the watch
//!   they belong to, and would have to be listed again to know at which version.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Informer;
use super::errors::ScopeError;
use super::member::{Member, MemberTemplate};
use super::process::MemberChange;
use crate::object::Object;

/// Namespaces.
impl<K: Object> Informer<K> {
    /// Changes the set of namespaces that the informer covers. It must have been created for named namespaces
    /// ([`Scope::namespaces`](crate::Scope::namespaces)). The set may be empty, both then and here.
    ///
    /// When this returns, the cache holds no objects of removed namespaces, and every handler has a
    /// [`Cause::LeftScope`](crate::Cause::LeftScope) deletion for each of them in its backlog. Their watches end; no
    /// request is made.
    ///
    /// Added namespaces are fetched in the background, each with its own watch. The objects of a namespace become
    /// visible together, and handlers receive them like an initial list. [`settled`](Self::settled) waits for that. A
    /// namespace that does not exist is empty until it is created. A forbidden namespace is retried with back-off and
    /// does not affect the others.
    ///
    /// All other namespaces are not affected: there is no request and no event.
    ///
    /// May be called at any time and from any thread; the last call wins. [`has_synced`](Self::has_synced) never reverts
    /// to false, and the name of the informer does not change. While a namespace is being fetched,
    /// [`has_settled`](Self::has_settled) is false and [`freshness`](Self::freshness) is `None`;
    /// [`stats`](Self::stats) shows the state of each watch.
    ///
    /// ```no_run
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kube_informers::{Informer, Scope};
    ///
    /// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let pods = Informer::<Pod>::scoped(client, Scope::namespaces(["shop"])).start();
    /// pods.synced().await?;
    ///
    /// // Another tenant is enabled.
    /// pods.set_namespaces(["shop", "bank"])?;
    /// pods.settled().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The informer has stopped, is shared through a factory, watches all namespaces or has a custom source, or the
    /// name of a namespace is invalid. Nothing changes in these cases.
    #[doc(alias = "WithNamespace")]
    #[doc(alias = "DefaultNamespaces")]
    pub fn set_namespaces(
        &self,
        namespaces: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<(), ScopeError> {
        let informer = || self.name().to_owned();
        if self.shared.scope_is_fixed {
            return Err(ScopeError::Shared {
                informer: informer(),
                part: "namespaces",
            });
        }
        if !self.shared.has_namespaces {
            return Err(ScopeError::NoNamespaces { informer: informer() });
        }
        let Some(list_watch) = self.shared.list_watch() else {
            return Err(self.shared.stopped_error().into());
        };
        let wanted: BTreeSet<String> = namespaces.into_iter().map(Into::into).collect();
        let mut sources = BTreeMap::new();
        for namespace in wanted {
            let source = MemberTemplate::source(&list_watch, &namespace);
            let source = source.map_err(|error| ScopeError::Invalid {
                namespace: namespace.clone(),
                reason: error.to_string(),
            })?;
            sources.insert(namespace, source);
        }
        self.shared.change_members(|members| {
            let is_wanted = |member: &Arc<Member<K>>| {
                let namespace = member.namespace.as_deref();
                namespace.is_some_and(|namespace| sources.remove(namespace).is_some())
            };
            let (kept, removed) = members.iter().cloned().partition(is_wanted);
            MemberChange {
                kept,
                removed,
                added: sources.into_values().collect(),
            }
        })?;
        Ok(())
    }

    /// The namespaces that the informer covers, in alphabetical order; `None` if it was not created for named ones.
    pub fn namespaces(&self) -> Option<Vec<String>> {
        let members = self.shared.has_namespaces.then(|| self.shared.members())?;
        Some(
            members
                .iter()
                .filter_map(|member| member.namespace.clone())
                .collect(),
        )
    }
}
