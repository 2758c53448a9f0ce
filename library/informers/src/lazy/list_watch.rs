//! Lists and watches of objects that stay encoded.

use super::Lazy;
use crate::source::{KnownResource, ResourceType};

impl<K: kube::Resource<DynamicType: Default> + 'static> KnownResource for Lazy<K> {
    fn resource_type() -> ResourceType {
        ResourceType::of::<K>()
    }
}
