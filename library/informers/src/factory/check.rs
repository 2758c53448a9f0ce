//! Checks that the namespaces of a factory exist.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use super::SharedInformerFactory;
use crate::informer::errors::ScopeError;

impl SharedInformerFactory {
    /// Whether the namespaces of this handle's scope exist.
    ///
    /// A server treats a missing namespace as an empty one, so informers do not detect a wrong name; it may also be created
    /// later. A namespace that this user may not read, or whose request fails, counts as existing.
    ///
    /// # Errors
    ///
    /// Some namespaces do not exist.
    pub async fn check_namespaces(&self) -> Result<(), ScopeError> {
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
            false => Err(ScopeError::NotFound(namespaces)),
        }
    }
}
