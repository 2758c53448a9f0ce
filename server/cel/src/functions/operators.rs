//! Arithmetic, comparison, indexes and optional values.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::SignedDuration;

use super::Result;
use crate::value::{Key, Value};

const OVERFLOW: &str = "integer overflow";
const UNSIGNED_OVERFLOW: &str = "unsigned integer overflow";

pub(super) fn call(function: &str, arguments: &[Value]) -> Option<Result> {
    match (function, arguments) {
        ("_==_", [a, b]) => Some(Ok(Value::Bool(a == b))),
        ("_!=_", [a, b]) => Some(Ok(Value::Bool(a != b))),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) => compare(function, a, b),
        ("!_", [Value::Bool(value)]) => Some(Ok(Value::Bool(!value))),
        ("-_", [Value::Int(value)]) => {
            Some(value.checked_neg().map(Value::Int).ok_or_else(|| OVERFLOW.into()))
        }
        ("-_", [Value::Double(value)]) => Some(Ok(Value::Double(-value))),
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [a, b]) => arithmetic(function, a, b),
        ("_[_]", [container, index]) => element(container, index),
        ("_[?_]", [container, index]) => optional_element(container, index),
        ("@in", [value, Value::List(list)]) => Some(Ok(Value::Bool(list.items.contains(value)))),
        ("@in", [value, Value::Map(map)]) => Some(Ok(Value::Bool(
            Key::of(value).is_some_and(|key| map.contains_key(&key)),
        ))),
        _ => optional(function, arguments),
    }
}

fn compare(function: &str, a: &Value, b: &Value) -> Option<Result> {
    let order = match (a, b) {
        (Value::Double(a), _) | (_, Value::Double(a)) if a.is_nan() => {
            return Some(Err("NaN values cannot be ordered".to_owned()));
        }
        _ => a.compare(b)?,
    };
    let holds = match function {
        "_<_" => order == Ordering::Less,
        "_<=_" => order != Ordering::Greater,
        "_>_" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    };
    Some(Ok(Value::Bool(holds)))
}

pub(super) fn arithmetic(function: &str, a: &Value, b: &Value) -> Option<Result> {
    let result = match (a, b) {
        (Value::Int(a), Value::Int(b)) => integers(function, *a, *b),
        (Value::Uint(a), Value::Uint(b)) => unsigned(function, *a, *b),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(match function {
            "_+_" => a + b,
            "_-_" => a - b,
            "_*_" => a * b,
            "_/_" => a / b,
            _ => return None,
        })),
        (Value::String(a), Value::String(b)) if function == "_+_" => Ok(format!("{a}{b}").into()),
        (Value::Bytes(a), Value::Bytes(b)) if function == "_+_" => {
            Ok(Value::Bytes([&**a, &**b].concat().into()))
        }
        (Value::List(a), Value::List(b)) if function == "_+_" => Ok(Value::List(Arc::new(a.concat(b)))),
        _ => return times(function, a, b),
    };
    Some(result)
}

fn integers(function: &str, a: i64, b: i64) -> Result {
    let result = match function {
        "_+_" => a.checked_add(b),
        "_-_" => a.checked_sub(b),
        "_*_" => a.checked_mul(b),
        "_/_" if b == 0 => return Err("division by zero".to_owned()),
        "_/_" => a.checked_div(b),
        _ if b == 0 => return Err("modulus by zero".to_owned()),
        _ => a.checked_rem(b),
    };
    result.map(Value::Int).ok_or_else(|| OVERFLOW.to_owned())
}

fn unsigned(function: &str, a: u64, b: u64) -> Result {
    let result = match function {
        "_+_" => a.checked_add(b),
        "_-_" => a.checked_sub(b),
        "_*_" => a.checked_mul(b),
        "_/_" if b == 0 => return Err("division by zero".to_owned()),
        "_/_" => a.checked_div(b),
        _ if b == 0 => return Err("modulus by zero".to_owned()),
        _ => a.checked_rem(b),
    };
    result
        .map(Value::Uint)
        .ok_or_else(|| UNSIGNED_OVERFLOW.to_owned())
}

fn times(function: &str, a: &Value, b: &Value) -> Option<Result> {
    let duration = |sum: Option<i64>| {
        sum.map(Value::Duration)
            .ok_or_else(|| "duration overflow".to_owned())
    };
    let timestamp = |sum: std::result::Result<jiff::Timestamp, jiff::Error>| {
        sum.map(Value::Timestamp)
            .map_err(|_| "timestamp overflow".to_owned())
    };
    Some(match (function, a, b) {
        ("_+_", Value::Duration(a), Value::Duration(b)) => duration(a.checked_add(*b)),
        ("_-_", Value::Duration(a), Value::Duration(b)) => duration(a.checked_sub(*b)),
        ("_+_", Value::Timestamp(at), Value::Duration(by))
        | ("_+_", Value::Duration(by), Value::Timestamp(at)) => {
            timestamp(at.checked_add(SignedDuration::from_nanos(*by)))
        }
        ("_-_", Value::Timestamp(at), Value::Duration(by)) => {
            timestamp(at.checked_sub(SignedDuration::from_nanos(*by)))
        }
        ("_-_", Value::Timestamp(a), Value::Timestamp(b)) => {
            duration(i64::try_from(a.as_nanosecond() - b.as_nanosecond()).ok())
        }
        _ => return None,
    })
}

/// The position that an index of a list is.
fn position(index: &Value) -> Option<i64> {
    match Key::of(index)? {
        Key::Int(position) => Some(position),
        _ => None,
    }
}

fn element(container: &Value, index: &Value) -> Option<Result> {
    match container {
        Value::List(list) => {
            let at = position(index)?;
            let found = usize::try_from(at).ok().and_then(|at| list.items.get(at));
            Some(found.cloned().ok_or_else(|| format!("index out of bounds: {at}")))
        }
        Value::Map(map) => {
            let key = Key::of(index)?;
            let missing = || match &key {
                Key::Bool(key) => format!("no such key: {key}"),
                Key::Int(key) => format!("no such key: {key}"),
                Key::String(key) => format!("no such key: {key}"),
            };
            Some(map.get(&key).cloned().ok_or_else(missing))
        }
        Value::Optional(_) => optional_element(container, index),
        _ => None,
    }
}

fn optional_element(container: &Value, index: &Value) -> Option<Result> {
    let found = match container {
        Value::Optional(None) => None,
        Value::Optional(Some(container)) => return optional_element(container, index),
        Value::List(list) => {
            let at = usize::try_from(position(index)?).ok();
            at.and_then(|at| list.items.get(at)).cloned()
        }
        Value::Map(map) => map.get(&Key::of(index)?).cloned(),
        _ => return None,
    };
    Some(Ok(Value::optional(found)))
}

fn optional(function: &str, arguments: &[Value]) -> Option<Result> {
    Some(match (function, arguments) {
        ("optional.of", [value]) => Ok(Value::optional(Some(value.clone()))),
        ("optional.ofNonZeroValue", [value]) => Ok(Value::optional(
            Some(value.clone()).filter(|value| !value.is_zero()),
        )),
        ("optional.none", []) => Ok(Value::Optional(None)),
        ("hasValue", [Value::Optional(value)]) => Ok(Value::Bool(value.is_some())),
        ("value", [Value::Optional(value)]) => match value {
            Some(value) => Ok((**value).clone()),
            None => Err("optional.none() dereference".to_owned()),
        },
        ("or", [Value::Optional(value), other]) => Ok(match value {
            Some(_) => Value::Optional(value.clone()),
            None => other.clone(),
        }),
        ("orValue", [Value::Optional(value), other]) => Ok(match value {
            Some(value) => (**value).clone(),
            None => other.clone(),
        }),
        _ => return None,
    })
}
