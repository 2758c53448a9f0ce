//! Checks that the namespaces of a factory exist.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use super::SharedInformerFactory;

/// Namespaces of a scope that do not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no namespace {}: nothing is cached for it until it is created; correct the name or create it",
    .namespaces.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
)]
pub struct UnknownNamespacesError {
    /// Their names.
    pub namespaces: Vec<String>,
}

impl SharedInformerFactory {
    /// Whether the namespaces of this handle's scope exist.
    ///
    /// A server treats a missing namespace as an empty one, so informers do not detect a wrong name; it may also be created
    /// later. A namespace that this user may not read, or whose request fails, counts as existing.
    ///
    /// # Errors
    ///
    /// Some namespaces do not exist.
    pub async fn check_namespaces(&self) -> Result<(), UnknownNamespacesError> {
        let api = Api::<Namespace>::all(self.client());
        let mut namespaces = Vec::new();
        for name in self.scope().selected_namespaces().into_iter().flatten() {
            match api.get_metadata(name).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => namespaces.push(name.clone()),
                _ => {}
            }
        }
        match namespaces.is_empty() {
            true => Ok(()),
            false => Err(UnknownNamespacesError { namespaces }),
        }
    }
}
