//! Named formats, such as `format.dns1123Label()`.

use kube_api_protocol::names;

use super::Result;
use crate::expression::value::Value;
use crate::kinds::structural::fits_format;

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
        ("validate", [Value::Format(name), Value::String(text)]) => {
            let errors: Vec<Value> = errors(name, text).into_iter().map(Value::from).collect();
            Value::optional((!errors.is_empty()).then(|| Value::from(errors)))
        }
        (function, []) => Value::Format(named(function.strip_prefix("format.")?)?),
        _ => return None,
    }))
}

/// Why a text does not have the format.
fn errors(format: &str, text: &str) -> Vec<String> {
    let message = match format {
        "dns1123Label" => return names::dns_1123_label(text),
        "dns1123Subdomain" => return names::dns_1123_subdomain(text),
        "dns1035Label" => return names::dns_1035_label(text),
        "qualifiedName" => return names::label_key(text),
        "labelValue" => return names::label_value(text),
        "uri" => "invalid URI for request",
        "uuid" => "does not match the UUID format",
        "byte" => "invalid base64",
        "date" => "invalid date",
        _ => "invalid datetime",
    };
    if fits_format(format, text) {
        Vec::new()
    } else {
        vec![message.to_owned()]
    }
}
