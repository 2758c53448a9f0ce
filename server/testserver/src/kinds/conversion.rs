//! How the objects of a custom resource are converted between its versions.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

/// The conversion webhook of a definition.
#[derive(Debug)]
pub(crate) struct Conversion {
    /// Distinguishes the conversions of a definition before and after it is changed.
    pub(crate) id: u64,
    pub(crate) definition: String,
    /// The `clientConfig`.
    pub(crate) client: Value,
    /// The versions of reviews that the webhook accepts.
    pub(crate) review_versions: Value,
}

impl Conversion {
    /// The conversion of a definition; `None` if versions differ in their name only.
    pub(crate) fn of(definition: &Value) -> Option<Conversion> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let conversion = definition.pointer("/spec/conversion")?;
        if conversion["strategy"] != "Webhook" {
            return None;
        }
        let webhook = &conversion["webhook"];
        let name = definition.pointer("/metadata/name").and_then(Value::as_str);
        Some(Conversion {
            id: LAST.fetch_add(1, Ordering::Relaxed),
            definition: name.unwrap_or_default().to_owned(),
            client: webhook["clientConfig"].clone(),
            review_versions: webhook["conversionReviewVersions"].clone(),
        })
    }
}
