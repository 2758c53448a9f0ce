//! Named formats, such as `format.dns1123Label()`. What they accept is declared by the embedder.

use super::Result;
use crate::value::Value;

/// The names of the formats.
const NAMES: &[&str] = &[
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

pub(super) fn call(function: &str, arguments: &[Value]) -> Option<Result> {
    let named = |name: &str| NAMES.iter().copied().find(|known| *known == name);
    Some(Ok(match (function, arguments) {
        ("format.named", [Value::String(name)]) => Value::optional(named(name).map(Value::Format)),
        (function, []) => Value::Format(named(function.strip_prefix("format.")?)?),
        _ => return None,
    }))
}

/// The reasons why a text does not have a format; none if it has.
pub(crate) fn validated(reasons: Vec<String>) -> Value {
    let reasons: Vec<Value> = reasons.into_iter().map(Value::from).collect();
    Value::optional((!reasons.is_empty()).then(|| Value::from(reasons)))
}
