//! Match conditions: CEL expressions over the request that a webhook would decide on.

use serde_json::Value;

use super::hook::Hook;

/// Whether all match conditions of a webhook hold for a review. `Err` if one of them cannot be evaluated and the webhook does
/// not ignore failures; if it does, it is not called.
pub(super) fn hold(hook: &Hook, review: &Value) -> Result<bool, String> {
    let mut failed = None;
    for condition in &hook.conditions {
        match evaluate(&condition.expression, review) {
            Ok(true) => {}
            // A condition that does not hold counts before one that fails.
            Ok(false) => return Ok(false),
            Err(why) => failed = failed.or(Some(format!("match condition {:?}: {why}", condition.name))),
        }
    }
    match failed {
        None => Ok(true),
        Some(_) if hook.fails_open => Ok(false),
        Some(why) => Err(why),
    }
}

/// Evaluates one expression over `object`, `oldObject` and `request` of a review.
fn evaluate(_expression: &str, _review: &Value) -> Result<bool, String> {
    Err("this server does not evaluate CEL expressions; remove matchConditions from the webhook".to_owned())
}
