//! The hash that identifies the storage version of a resource in discovery.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::kinds::Kind;

/// The hash of the kind's storage version.
#[doc(alias = "StorageVersionHash")]
pub(super) fn storage_version_hash(kind: &Kind) -> String {
    let version = match (kind.group.as_str(), kind.kind.as_str()) {
        // Still stored in a version that is no longer served.
        ("apiextensions.k8s.io", "CustomResourceDefinition") => "v1beta1",
        _ => &kind.stored.version,
    };
    let identity = format!("{}/{version}/{}", kind.stored.group, kind.kind);
    STANDARD.encode(&Sha256::digest(identity)[..8])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Registry;

    #[test]
    fn kinds_that_share_a_collection_share_its_hash() {
        let registry = Registry::builtin();
        let hash = |group: &str| {
            let kind = registry.resource(group, "v1", "events").unwrap();
            storage_version_hash(&kind)
        };
        assert_eq!(hash(""), hash("events.k8s.io"));
        assert_eq!(hash(""), "r2yiGXH7wu8=");
    }
}
