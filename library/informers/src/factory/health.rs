//! The informers of a factory as a readiness check sees them.

use std::sync::Arc;

use super::SharedInformerFactory;
use crate::informer::{InformerHealth, Observed};

/// All informers of the factory that are in use when the check is made.
impl Observed for SharedInformerFactory {
    fn observer(&self) -> Box<dyn Fn() -> Option<Vec<InformerHealth>> + Send + Sync> {
        let factory = Arc::downgrade(&self.inner);
        Box::new(move || {
            let entries = factory.upgrade()?.slots.lock().entries();
            Some(entries.iter().filter_map(|entry| entry.health()).collect())
        })
    }
}
