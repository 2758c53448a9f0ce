//! Lists and watches of objects that stay encoded.

use super::{Lazy, Validate};
use crate::codec::FromWire;
use crate::source::{KnownResource, ListWatch, ResourceType};

impl<K: kube::Resource<DynamicType: Default> + 'static> KnownResource for Lazy<K> {
    fn resource_type() -> ResourceType {
        ResourceType::of::<K>()
    }
}

impl<K> ListWatch<Lazy<K>>
where
    Lazy<K>: FromWire,
{
    /// When objects are validated by decoding them. Default: [`Validate::OnArrival`].
    #[must_use]
    pub fn validate(self, validate: Validate) -> Self {
        self.hold(|options| options.validate = validate)
    }

    /// Keeps the most recently used decoded objects, up to about this many bytes. Default: 0, none are kept.
    ///
    /// The memory of a decoded object is estimated at ten times its encoded size, which is what a pod takes.
    #[must_use]
    pub fn decoded_cache(self, bytes: usize) -> Self {
        self.hold(|options| options.decoded_cache = bytes)
    }

    /// Compresses objects against similar ones; see [compression](crate::lazy#compression). Default: false.
    #[must_use]
    pub fn compressed(self, compressed: bool) -> Self {
        self.hold(|options| options.compressed = compressed)
    }
}
