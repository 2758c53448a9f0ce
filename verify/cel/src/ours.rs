//! Our evaluator.

use std::sync::Arc;

use kube_cel::{Declarations, Expression, Failure, Key, Type, Value};
use serde_json::{Map, Value as Json};

use crate::Outcome;
use crate::expected::{Known, list, map, read};

/// The limit of one expression on an API server.
const LIMIT: u64 = 1_000_000;

pub fn evaluate(source: &str, bindings: &Map<String, Json>) -> Outcome {
    let mut declared = Declarations::default();
    let mut variables: Vec<(&str, Value)> = Vec::new();
    for (name, value) in bindings {
        let value = value.get("value").and_then(read).ok_or("a message is bound")?;
        declared = declared.with(name.clone().leak(), Type::Dyn);
        variables.push((name, bound(value)));
    }
    let compiled = Expression::compile_all(&[(source.to_owned(), declared)]).pop();
    let expression = compiled.ok_or("not compiled")??;
    match expression.evaluate(&variables, LIMIT).0 {
        Ok(value) => notation(&value),
        Err(Failure::Error { message, .. }) => Err(message.to_string()),
        Err(Failure::OutOfBudget) => Err("out of budget".to_owned()),
    }
}

fn bound(known: Known) -> Value {
    match known {
        Known::Null => Value::Null,
        Known::Bool(value) => Value::Bool(value),
        Known::Int(value) => Value::Int(value),
        Known::Uint(value) => Value::Uint(value),
        Known::Double(value) => Value::Double(value),
        Known::String(value) => Value::from(value),
        Known::Bytes(value) => Value::Bytes(value.into()),
        Known::Type(name) => Value::Type(name.into()),
        Known::Duration(nanoseconds) => Value::Duration(nanoseconds),
        Known::Timestamp(at) => Value::Timestamp(at),
        Known::List(items) => Value::from(items.into_iter().map(bound).collect::<Vec<_>>()),
        Known::Map(entries) => {
            let key = |known| match known {
                Known::Bool(key) => Key::Bool(key),
                Known::Int(key) => Key::Int(key),
                Known::Uint(key) => Key::Int(i64::try_from(key).unwrap_or(i64::MAX)),
                Known::String(key) => Key::String(key.into()),
                _ => Key::String("unsupported".into()),
            };
            let entry = |(name, value)| (key(name), bound(value));
            Value::Map(Arc::new(entries.into_iter().map(entry).collect()))
        }
    }
}

fn notation(value: &Value) -> Outcome {
    let known = match value {
        Value::Null => Known::Null,
        Value::Bool(value) => Known::Bool(*value),
        Value::Int(value) => Known::Int(*value),
        Value::Uint(value) => Known::Uint(*value),
        Value::Double(value) => Known::Double(*value),
        Value::String(value) => Known::String(value.to_string()),
        Value::Bytes(value) => Known::Bytes(value.to_vec()),
        Value::Type(name) => Known::Type(name.to_string()),
        Value::Duration(nanoseconds) => Known::Duration(*nanoseconds),
        Value::Timestamp(at) => Known::Timestamp(*at),
        Value::List(items) => {
            let items: Vec<String> = items.items.iter().map(notation).collect::<Result<_, _>>()?;
            return Ok(list(items.into_iter()));
        }
        Value::Map(entries) => {
            let key = |key: &Key| match key {
                Key::Bool(key) => Known::Bool(*key),
                Key::Int(key) => Known::Int(*key),
                Key::String(key) => Known::String(key.to_string()),
            };
            let entry = |(name, value): (&Key, &Value)| Ok((key(name).notation(), notation(value)?));
            let entries: Vec<_> = entries.iter().map(entry).collect::<Result<_, String>>()?;
            return Ok(map(entries.into_iter()));
        }
        other => return Ok(format!("{other:?}")),
    };
    Ok(known.notation())
}
