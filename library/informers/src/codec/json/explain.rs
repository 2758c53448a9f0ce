//! Explains why bytes could not be decoded as a type, without quoting them.
//!
//! serde's messages quote the offending value, which may be a Secret. A failed decode is therefore repeated over a
//! tree, with an error type that holds the class of the error, its path and the expected type, and cannot hold a
//! value.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IntoDeserializer,
    MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value;
use serde_json::error::Category;

/// Explains the error of decoding `bytes` as `T`: the path, the class of the error and the expected type, and
/// never a value.
pub(crate) fn explain<T: DeserializeOwned>(bytes: &[u8], error: &serde_json::Error) -> String {
    let near = if error.line() == 1 {
        format!(" near byte {}", error.column())
    } else {
        String::new()
    };
    match error.classify() {
        Category::Io => "cannot be decoded".to_owned(),
        Category::Eof => format!("invalid JSON{near}: unexpected end"),
        Category::Syntax => format!("invalid JSON{near}: {}", syntax(error)),
        Category::Data => match probe::<T>(bytes) {
            Some(error) => error.to_string(),
            None => format!("{}{near}", class(error)),
        },
    }
}

/// The message of a syntax error, which quotes no input. The position at its end is reported separately.
fn syntax(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text.get(..end).unwrap_or_default().to_owned(),
        None => text,
    }
}

/// The class of an error that the second pass does not reproduce: a duplicate member, or a type that depends on its
/// deserializer.
fn class(error: &serde_json::Error) -> &'static str {
    const CLASSES: [&str; 7] = [
        "invalid type",
        "invalid value",
        "invalid length",
        "unknown variant",
        "unknown field",
        "missing field",
        "duplicate field",
    ];
    let text = error.to_string();
    CLASSES
        .into_iter()
        .find(|class| text.starts_with(class))
        .unwrap_or(REJECTED)
}

const REJECTED: &str = "rejected by the type";

fn probe<T: DeserializeOwned>(bytes: &[u8]) -> Option<DecodeError> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let error = T::deserialize(Probe(&value)).err()?;
    error.certain.then_some(error)
}

/// An error that cannot hold a value.
#[derive(Debug)]
struct DecodeError {
    /// From the innermost element outwards.
    path: Vec<String>,
    what: String,
    /// False for an error that occurs in the second pass only.
    certain: bool,
}

/// Longer paths and keys are shortened: keys are untrusted input too.
const MAX_PATH: usize = 256;
const MAX_KEY: usize = 64;

impl DecodeError {
    fn new(what: String) -> Self {
        Self {
            path: Vec::new(),
            what,
            certain: true,
        }
    }

    fn at_key(mut self, key: &str) -> Self {
        let short: String = key.chars().take(MAX_KEY).flat_map(char::escape_debug).collect();
        self.path.push(
            if key.chars().any(|c| c == '.' || c == '[' || c.is_whitespace()) {
                format!("[\"{short}\"]")
            } else {
                format!(".{short}")
            },
        );
        self
    }

    fn at_index(mut self, index: usize) -> Self {
        self.path.push(format!("[{index}]"));
        self
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: String = self.path.iter().rev().map(String::as_str).collect();
        let path = path.strip_prefix('.').unwrap_or(&path);
        if !path.is_empty() {
            let shown: String = path.chars().take(MAX_PATH).collect();
            write!(f, "{shown}: ")?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for DecodeError {}

/// The type of a value.
fn type_name(unexpected: &Unexpected<'_>) -> &'static str {
    match unexpected {
        Unexpected::Bool(_) => "a boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "an integer",
        Unexpected::Float(_) => "a floating point number",
        Unexpected::Char(_) | Unexpected::Str(_) => "a string",
        Unexpected::Bytes(_) => "bytes",
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::Seq => "an array",
        Unexpected::Map => "an object",
        _ => "something else",
    }
}

impl Error for DecodeError {
    /// Drops the text: it may quote the value.
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::new(REJECTED.to_owned())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self {
            // Only types that depend on the encoding (raw JSON) reject this, and the first pass did not.
            certain: !matches!(found, Unexpected::NewtypeStruct),
            ..Self::new(format!(
                "invalid type: {}, expected {expected}",
                type_name(&found)
            ))
        }
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!(
            "invalid value: {}, expected {expected}",
            type_name(&found)
        ))
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self::new(format!("invalid length, expected {expected}"))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("unknown variant, expected {}", one_of(expected)))
    }

    fn unknown_field(_: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("unknown field, expected {}", one_of(expected)))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("missing field `{field}`"))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new(format!("duplicate field `{field}`"))
    }
}

fn one_of(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        names => format!("one of `{}`", names.join("`, `")),
    }
}

/// Deserializes a tree like serde_json, with `DecodeError` as the error type.
#[derive(Clone, Copy)]
struct Probe<'a>(&'a Value);

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(value), ..) => visitor.visit_u64(value),
                (_, Some(value), _) => visitor.visit_i64(value),
                (.., value) => visitor.visit_f64(value.unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_str(text),
            Value::Array(values) => visitor.visit_seq(Elements(values.iter().enumerate())),
            Value::Object(members) => visitor.visit_map(Entries {
                members: members.iter(),
                next: None,
            }),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.0 {
            Value::String(text) => visitor.visit_bytes(text.as_bytes()),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match self.0 {
            Value::String(variant) => visitor.visit_enum(Variant {
                name: variant,
                value: None,
            }),
            Value::Object(members) if members.len() == 1 => match members.iter().next() {
                Some((name, value)) => visitor.visit_enum(Variant {
                    name,
                    value: Some(value),
                }),
                None => Err(DecodeError::invalid_type(Unexpected::Map, &"an enum")),
            },
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

struct Elements<'a>(std::iter::Enumerate<std::slice::Iter<'a, Value>>);

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        match self.0.next() {
            None => Ok(None),
            Some((index, value)) => seed
                .deserialize(Probe(value))
                .map(Some)
                .map_err(|error| error.at_index(index)),
        }
    }
}

struct Entries<'a> {
    members: serde_json::map::Iter<'a>,
    next: Option<(&'a str, &'a Value)>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = DecodeError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, DecodeError> {
        match self.members.next() {
            None => Ok(None),
            Some((key, value)) => {
                self.next = Some((key, value));
                seed.deserialize(Key(key)).map(Some)
            }
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, DecodeError> {
        let (key, value) = self.next.take().unwrap_or(("", &Value::Null));
        seed.deserialize(Probe(value)).map_err(|error| error.at_key(key))
    }
}

/// A key: a string, unless a number or a boolean is requested.
struct Key<'a>(&'a str);

macro_rules! parsed_keys {
    ($($method:ident => $visit:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
            match self.0.parse() {
                Ok(value) => visitor.$visit(value),
                Err(_) => visitor.visit_str(self.0),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Key<'_> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_str(self.0)
    }

    parsed_keys! {
        deserialize_bool => visit_bool,
        deserialize_i8 => visit_i8, deserialize_i16 => visit_i16,
        deserialize_i32 => visit_i32, deserialize_i64 => visit_i64,
        deserialize_u8 => visit_u8, deserialize_u16 => visit_u16,
        deserialize_u32 => visit_u32, deserialize_u64 => visit_u64,
        deserialize_f32 => visit_f32, deserialize_f64 => visit_f64
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_enum(Variant {
            name: self.0,
            value: None,
        })
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
        ignored_any
    }
}

/// A variant, alone or with what it holds.
struct Variant<'a> {
    name: &'a str,
    value: Option<&'a Value>,
}

impl<'a, 'de> EnumAccess<'de> for Variant<'a> {
    type Error = DecodeError;
    type Variant = Content<'a>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Content<'a>), DecodeError> {
        let name: StrDeserializer<'_, DecodeError> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, Content(self.value)))
    }
}

struct Content<'a>(Option<&'a Value>);

impl Content<'_> {
    fn missing(&self, expected: &dyn Expected) -> DecodeError {
        DecodeError::invalid_type(Unexpected::UnitVariant, expected)
    }
}

impl<'de> VariantAccess<'de> for Content<'_> {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<(), DecodeError> {
        match self.0 {
            None | Some(Value::Null) => Ok(()),
            Some(_) => Err(DecodeError::invalid_type(
                Unexpected::NewtypeVariant,
                &"unit variant",
            )),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, DecodeError> {
        match self.0 {
            Some(value) => seed.deserialize(Probe(value)),
            None => Err(self.missing(&"newtype variant")),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, DecodeError> {
        match self.0 {
            Some(value @ Value::Array(_)) => Probe(value).deserialize_any(visitor),
            _ => Err(self.missing(&"tuple variant")),
        }
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match self.0 {
            Some(Value::Object(members)) => visitor.visit_map(Entries {
                members: members.iter(),
                next: None,
            }),
            _ => Err(self.missing(&"struct variant")),
        }
    }
}
