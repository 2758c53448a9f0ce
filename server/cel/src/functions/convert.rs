//! Conversions between types, and sizes.

use super::Result;
use super::times::{duration_text, parse_duration, parse_timestamp};
use crate::value::Value;

pub(super) fn call(function: &str, arguments: &[Value]) -> Option<Result> {
    let [value] = arguments else { return None };
    let same = match function {
        "dyn" => true,
        "duration" => matches!(value, Value::Duration(_)),
        "timestamp" => matches!(value, Value::Timestamp(_)),
        "type" => false,
        name => name == value.type_name(),
    };
    if same {
        return Some(Ok(value.clone()));
    }
    match function {
        "type" => Some(Ok(Value::Type(value.type_name().into()))),
        "size" => size(value),
        "bool" => to_bool(value),
        "int" => to_int(value),
        "uint" => to_uint(value),
        "double" => to_double(value),
        "string" => to_text(value),
        "bytes" => match value {
            Value::String(text) => Some(Ok(Value::Bytes(text.as_bytes().into()))),
            _ => None,
        },
        "duration" => to_duration(value),
        "timestamp" => to_timestamp(value),
        _ => None,
    }
}

fn size(value: &Value) -> Option<Result> {
    let size = match value {
        Value::String(text) => text.chars().count(),
        Value::Bytes(_) | Value::List(_) | Value::Map(_) => {
            usize::try_from(value.size()).unwrap_or(usize::MAX)
        }
        _ => return None,
    };
    Some(Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX))))
}

fn to_bool(value: &Value) -> Option<Result> {
    let Value::String(text) = value else { return None };
    Some(match &**text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
        _ => Err("type conversion error from 'string' to 'bool'".to_owned()),
    })
}

fn to_int(value: &Value) -> Option<Result> {
    let overflow = || "integer overflow".to_owned();
    Some(match value {
        Value::Uint(value) => i64::try_from(*value).map(Value::Int).map_err(|_| overflow()),
        Value::Double(value) if value.is_finite() && value.abs() < 9.223_372_036_854_775e18 => {
            Ok(Value::Int(*value as i64))
        }
        Value::Double(_) => Err(overflow()),
        Value::Duration(nanoseconds) => Ok(Value::Int(*nanoseconds)),
        Value::Timestamp(at) => Ok(Value::Int(at.as_second())),
        Value::String(text) => {
            let parsed = text.parse::<i64>().ok();
            parsed
                .map(Value::Int)
                .ok_or_else(|| "type conversion error from 'string' to 'int'".to_owned())
        }
        _ => return None,
    })
}

fn to_uint(value: &Value) -> Option<Result> {
    let overflow = || "unsigned integer overflow".to_owned();
    Some(match value {
        Value::Int(value) => u64::try_from(*value).map(Value::Uint).map_err(|_| overflow()),
        Value::Double(value) if *value >= 0.0 && *value < 1.844_674_407_370_955e19 => {
            Ok(Value::Uint(*value as u64))
        }
        Value::Double(_) => Err(overflow()),
        Value::String(text) => {
            let parsed = text.parse::<u64>().ok();
            parsed
                .map(Value::Uint)
                .ok_or_else(|| "type conversion error from 'string' to 'uint'".to_owned())
        }
        _ => return None,
    })
}

fn to_double(value: &Value) -> Option<Result> {
    Some(match value {
        Value::Int(value) => Ok(Value::Double(*value as f64)),
        Value::Uint(value) => Ok(Value::Double(*value as f64)),
        Value::String(text) => {
            let parsed = text.parse::<f64>().ok();
            parsed
                .map(Value::Double)
                .ok_or_else(|| "type conversion error from 'string' to 'double'".to_owned())
        }
        _ => return None,
    })
}

fn to_text(value: &Value) -> Option<Result> {
    if let Value::Bytes(bytes) = value {
        let text = std::str::from_utf8(bytes).map(Value::from);
        return Some(text.map_err(|_| "invalid UTF-8 in bytes, cannot convert to string".to_owned()));
    }
    text(value).map(|text| Ok(text.into()))
}

/// A scalar as text; `None` for values of other types.
pub(super) fn text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) if value.is_infinite() => if *value > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        Value::Double(value) => {
            // As Go prints numbers: large and small ones with an exponent of two digits.
            let size = value.abs();
            if size != 0.0 && !(1e-4..1e21).contains(&size) {
                let text = format!("{value:e}");
                let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let (sign, exponent) = match exponent.strip_prefix('-') {
                    Some(exponent) => ('-', exponent),
                    None => ('+', exponent),
                };
                format!("{digits}e{sign}{exponent:0>2}")
            } else {
                value.to_string()
            }
        }
        Value::String(text) => text.to_string(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Duration(nanoseconds) => duration_text(*nanoseconds),
        Value::Timestamp(at) => at.to_string(),
        Value::Type(name) => name.to_string(),
        Value::Ip(ip) => ip.to_string(),
        Value::Cidr(cidr) => cidr.to_string(),
        _ => return None,
    })
}

fn to_duration(value: &Value) -> Option<Result> {
    Some(match value {
        Value::Int(nanoseconds) => Ok(Value::Duration(*nanoseconds)),
        Value::String(text) => {
            let parsed = parse_duration(text).map(Value::Duration);
            parsed
                .ok_or_else(|| "type conversion error from 'string' to 'google.protobuf.Duration'".to_owned())
        }
        _ => return None,
    })
}

fn to_timestamp(value: &Value) -> Option<Result> {
    Some(match value {
        Value::Int(seconds) => {
            let at = jiff::Timestamp::from_second(*seconds).map(Value::Timestamp);
            at.map_err(|_| "timestamp overflow".to_owned())
        }
        Value::String(text) => {
            let parsed = parse_timestamp(text).map(Value::Timestamp);
            parsed.ok_or_else(|| {
                "type conversion error from 'string' to 'google.protobuf.Timestamp'".to_owned()
            })
        }
        _ => return None,
    })
}
