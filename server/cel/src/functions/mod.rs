//! The functions and operators of expressions, and their cost.

mod address;
mod convert;
mod format;
mod lists;
mod named_formats;
mod operators;
mod quantity;
mod strings;
mod times;
mod url;

use regex::{Regex, RegexBuilder};

pub(super) use named_formats::validated;

pub use address::Cidr;
pub use quantity::Quantity;
pub use times::{parse_duration, parse_duration_in_words, parse_timestamp};
pub use url::Url;

use super::failure::Failure;
use super::value::{Identity, Outcome, Value};

/// Limit for one compiled pattern. Larger ones are rejected as invalid: they would take seconds to compile. Patterns that
/// are computed are compiled for every evaluation, so that their limit is lower, and compiling them has a cost.
const COMPILED_LIMIT: usize = 4 << 20;
const COMPUTED_LIMIT: usize = 256 << 10;
pub(super) const COMPILE_COST: u64 = 1000;

/// Calls a function or operator. The receiver of a method is the first argument. `pattern` is the second one, compiled, if
/// it is a literal pattern.
pub(super) fn call(function: &str, arguments: &[Value], pattern: Option<&Regex>) -> Outcome {
    let result = operators::call(function, arguments)
        .or_else(|| strings::call(function, arguments, pattern))
        .or_else(|| lists::call(function, arguments))
        .or_else(|| convert::call(function, arguments))
        .or_else(|| times::call(function, arguments))
        .or_else(|| quantity::call(function, arguments))
        .or_else(|| address::call(function, arguments))
        .or_else(|| url::call(function, arguments))
        .or_else(|| named_formats::call(function, arguments));
    match result {
        Some(Ok(value)) => Ok(value),
        Some(Err(message)) => Err(Failure::of_call(function, arguments, Some(message))),
        None => Err(Failure::of_call(function, arguments, None)),
    }
}

/// The result of a function that accepts the arguments; the error is a message.
type Result = std::result::Result<Value, String>;

/// Compiles a literal pattern; the error is the reason.
pub(super) fn pattern(text: &str) -> std::result::Result<Regex, String> {
    compile(text, COMPILED_LIMIT)
}

fn compile(text: &str, limit: usize) -> std::result::Result<Regex, String> {
    let compiled = RegexBuilder::new(text).size_limit(limit).build();
    compiled.map_err(|error| {
        let text = error.to_string();
        text.lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("error: ")
            .to_owned()
    })
}

/// The cost of reading a text of this length: a tenth of it, rounded up.
fn read(length: u64) -> u64 {
    length.div_ceil(10)
}

/// The cost of a call. `limit` is what is left to spend: there is no need to count further.
pub(super) fn cost(function: &str, arguments: &[Value], limit: u64) -> u64 {
    let size = |position: usize| arguments.get(position).map_or(0, Value::size);
    let weight = |position: usize| {
        let most = limit.saturating_mul(10).saturating_add(10);
        arguments
            .get(position)
            .map_or(0, |value: &Value| value.weight(most))
    };
    match function {
        "startsWith" | "endsWith" => read(size(1)).max(1),
        // An element of a list can be a list, whose comparison is not free.
        "_==_" | "_!=_" => read(weight(0).min(weight(1))).max(1),
        "_<_" | "_<=_" | "_>_" | "_>=_" => read(size(0).min(size(1))).max(1),
        "@in" => match arguments.get(1) {
            Some(Value::List(_)) => weight(1).max(1),
            _ => read(size(0)).max(1),
        },
        "_[_]" | "_[?_]" => read(size(1)).max(1),
        // Counting characters is fast, but not free.
        "size" if matches!(arguments.first(), Some(Value::String(_))) => 1 + size(0) / 100,
        "indexOf" | "lastIndexOf" if matches!(arguments.first(), Some(Value::List(_))) => weight(0).max(1),
        "_+_" => match arguments.first() {
            Some(Value::String(_) | Value::Bytes(_)) => read(size(0) + size(1)).max(1),
            // The result is a copy. Lists with an identity are merged.
            Some(Value::List(list)) if list.identity == Identity::Position => 1 + read(size(0) + size(1)),
            Some(Value::List(_)) => weight(0).saturating_add(size(0).saturating_mul(weight(1))),
            _ => 1,
        },
        "matches" | "find" | "findAll" => read(size(0) + 1).saturating_mul(size(1).div_ceil(4)).max(1),
        "contains" => read(size(0)).saturating_mul(read(size(1))).max(1),
        "isSorted" | "sum" | "min" | "max" | "reverse" | "slice" => size(0).max(1),
        "sort" => size(0)
            .saturating_mul(u64::from(64 - size(0).leading_zeros()))
            .max(1),
        "distinct" => weight(0).saturating_mul(size(0)).max(1),
        "sets.contains" | "sets.equivalent" | "sets.intersects" => weight(0)
            .saturating_mul(size(1))
            .saturating_add(size(0).saturating_mul(weight(1)))
            .max(1),
        "flatten" => weight(0).max(1),
        "lists.range" => match arguments.first() {
            Some(Value::Int(count)) => u64::try_from(*count).unwrap_or(1).max(1),
            _ => 1,
        },
        "replace" => read(strings::replaced_size(arguments).saturating_add(size(0))).max(1),
        "split" => read(size(0) * 2).max(1),
        "join" => read(lists::joined_size(arguments).saturating_mul(2)).max(1),
        "format" => read(size(0).saturating_add(strings::formatted_size(arguments, limit))).max(1),
        "validate" => read(size(1) + 1).saturating_mul(15),
        "lowerAscii" | "upperAscii" | "substring" | "trim" | "charAt" | "indexOf" | "lastIndexOf"
        | "strings.quote" | "url" | "isURL" | "ip" | "isIP" | "ip.isCanonical" | "cidr" | "isCIDR"
        | "quantity" | "isQuantity" | "string" | "bytes" | "int" | "uint" | "double" | "duration"
        | "timestamp" => read(size(0)).max(1),
        "containsIP" | "containsCIDR" => 4 + read(size(1)),
        _ => 1,
    }
}
