//! The crate `cel`, with all its extensions.

use std::sync::{Arc, LazyLock};

use cel::objects::Key;
use cel::{Context, Env, Value};
use serde_json::{Map, Value as Json};

use crate::Outcome;
use crate::expected::{Known, list, map, read};

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    for extension in [
        cel::extensions::strings,
        cel::extensions::lists,
        cel::extensions::math,
        cel::extensions::encoders,
    ] {
        env.add_extension(extension).expect("the extensions are distinct");
    }
    Arc::new(env)
});

pub fn evaluate(source: &str, bindings: &Map<String, Json>) -> Outcome {
    let program = ENV.compile(source).map_err(|errors| errors.to_string())?;
    let mut context = Context::with_env(ENV.clone());
    for (name, value) in bindings {
        let value = value.get("value").and_then(read).ok_or("a message is bound")?;
        context.add_variable_from_value(name.as_str(), bound(value));
    }
    notation(&program.execute(&context).map_err(|error| error.to_string())?)
}

fn bound(known: Known) -> Value {
    match known {
        Known::Null => Value::Null,
        Known::Bool(value) => Value::Bool(value),
        Known::Int(value) => Value::Int(value),
        Known::Uint(value) => Value::UInt(value),
        Known::Double(value) => Value::Float(value),
        Known::String(value) => Value::String(value.into()),
        Known::Bytes(value) => Value::Bytes(value.into()),
        Known::Type(name) => Value::String(name.into()),
        Known::Duration(nanoseconds) => Value::Duration(chrono::Duration::nanoseconds(nanoseconds)),
        Known::Timestamp(at) => {
            let at = chrono::DateTime::from_timestamp(at.as_second(), at.subsec_nanosecond().unsigned_abs());
            Value::Timestamp(at.unwrap_or_default().fixed_offset())
        }
        Known::List(items) => Value::List(Arc::new(items.into_iter().map(bound).collect())),
        Known::Map(entries) => {
            let key = |known| match known {
                Known::Bool(key) => Key::Bool(key),
                Known::Int(key) => Key::Int(key),
                Known::Uint(key) => Key::Uint(key),
                Known::String(key) => Key::String(key.into()),
                _ => Key::String(Arc::new("unsupported".to_owned())),
            };
            let entries = entries.into_iter().map(|(name, value)| (key(name), bound(value)));
            Value::Map(cel::objects::Map {
                map: Arc::new(entries.collect()),
            })
        }
    }
}

fn notation(value: &Value) -> Outcome {
    let known = match value {
        Value::Null => Known::Null,
        Value::Bool(value) => Known::Bool(*value),
        Value::Int(value) => Known::Int(*value),
        Value::UInt(value) => Known::Uint(*value),
        Value::Float(value) => Known::Double(*value),
        Value::String(value) => Known::String(value.to_string()),
        Value::Bytes(value) => Known::Bytes(value.to_vec()),
        Value::Duration(value) => Known::Duration(value.num_nanoseconds().unwrap_or(i64::MAX)),
        Value::Timestamp(at) => {
            let nanoseconds =
                i128::from(at.timestamp()) * 1_000_000_000 + i128::from(at.timestamp_subsec_nanos());
            return Ok(format!("timestamp {nanoseconds}"));
        }
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(notation).collect::<Result<_, _>>()?;
            return Ok(list(items.into_iter()));
        }
        Value::Map(entries) => {
            let key = |key: &Key| match key {
                Key::Bool(key) => Known::Bool(*key),
                Key::Int(key) => Known::Int(*key),
                Key::Uint(key) => Known::Uint(*key),
                Key::String(key) => Known::String(key.to_string()),
            };
            let entry = |(name, value): (&Key, &Value)| Ok((key(name).notation(), notation(value)?));
            let entries: Vec<_> = entries.map.iter().map(entry).collect::<Result<_, String>>()?;
            return Ok(map(entries.into_iter()));
        }
        other => return Ok(format!("{other:?}")),
    };
    Ok(known.notation())
}
