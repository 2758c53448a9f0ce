//! Whether what a factory asks for exists, for those who want to know before they wait.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use super::SharedInformerFactory;

/// Namespaces of a scope that do not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no namespace {}: nothing is cached of it until it is created; correct the name or create it",
    .namespaces.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
)]
pub struct UnknownNamespacesError {
    /// Their names.
    pub namespaces: Vec<String>,
}

impl SharedInformerFactory {
    /// Whether the namespaces of this handle's scope exist.
    ///
    /// To a server a namespace that does not exist is an empty one, so informers do not notice a wrong name, and it may
    /// be created later. Who wants to be told of it asks here. A namespace that this user may not read, or that cannot
    /// be asked for now, counts as one that exists.
    ///
    /// # Errors
    ///
    /// Some do not exist.
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
