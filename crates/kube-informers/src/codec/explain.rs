//! Says why bytes are not of a type, without saying what is in them.
//!
//! serde's own messages quote the offending value, which may be a Secret. So a failed decode is done once
//! more over a tree, with an error type that keeps the class of the trouble, the path to it and what the type
//! expected, and cannot hold a value.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IntoDeserializer,
    MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value;
use serde_json::error::Category;

/// Why `bytes` are no `T`, given what the decoder said: a path, the class of the trouble and what was
/// expected. Never a value.
pub(crate) fn explain<T: DeserializeOwned>(bytes: &[u8], error: &serde_json::Error) -> String {
    let near = if error.line() == 1 {
        format!(" near byte {}", error.column())
    } else {
        String::new()
    };
    match error.classify() {
        Category::Io => "cannot be read".to_owned(),
        Category::Eof => format!("invalid JSON{near}: it ends too early"),
        Category::Syntax => format!("invalid JSON{near}: {}", syntax(error)),
        Category::Data => match probe::<T>(bytes) {
            Some(trouble) => trouble.to_string(),
            None => format!("{}{near}", class(error)),
        },
    }
}

/// The texts of syntax errors are fixed and hold no input; the position behind them is said apart.
fn syntax(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text.get(..end).unwrap_or_default().to_owned(),
        None => text,
    }
}

/// The class of an error the second run did not find again: a member that stands there twice, or a type
/// that depends on the source it is read from.
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

fn probe<T: DeserializeOwned>(bytes: &[u8]) -> Option<Trouble> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let trouble = T::deserialize(Probe(&value)).err()?;
    trouble.certain.then_some(trouble)
}

/// An error that cannot hold a value.
#[derive(Debug)]
struct Trouble {
    /// From the inside out.
    path: Vec<String>,
    what: String,
    /// False for what only this second run complains about.
    certain: bool,
}

/// A longer path, or key in it, is shortened: keys come from outside too.
const LONGEST_PATH: usize = 256;
const LONGEST_KEY: usize = 64;

impl Trouble {
    fn new(what: String) -> Self {
        Self {
            path: Vec::new(),
            what,
            certain: true,
        }
    }

    fn at_key(mut self, key: &str) -> Self {
        let short: String = key
            .chars()
            .take(LONGEST_KEY)
            .flat_map(char::escape_debug)
            .collect();
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

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: String = self.path.iter().rev().map(String::as_str).collect();
        let path = path.strip_prefix('.').unwrap_or(&path);
        if !path.is_empty() {
            let shown: String = path.chars().take(LONGEST_PATH).collect();
            write!(f, "{shown}: ")?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for Trouble {}

/// What a value is, without the value.
fn sort(unexpected: &Unexpected<'_>) -> &'static str {
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

impl Error for Trouble {
    /// The text may be anything, and so may quote the value: none of it is kept.
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::new(REJECTED.to_owned())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self {
            // Only types that look behind the encoding (raw JSON) refuse this; the first run did not ask.
            certain: !matches!(found, Unexpected::NewtypeStruct),
            ..Self::new(format!("invalid type: {}, expected {expected}", sort(&found)))
        }
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("invalid value: {}, expected {expected}", sort(&found)))
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

/// Reads a tree as serde_json does, with `Trouble` for an error.
#[derive(Clone, Copy)]
struct Probe<'a>(&'a Value);

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Trouble;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Trouble> {
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

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Trouble> {
        match self.0 {
            Value::String(text) => visitor.visit_bytes(text.as_bytes()),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Trouble> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Trouble> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Trouble> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Trouble> {
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
                None => Err(Trouble::invalid_type(Unexpected::Map, &"an enum")),
            },
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Trouble> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

struct Elements<'a>(std::iter::Enumerate<std::slice::Iter<'a, Value>>);

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = Trouble;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Trouble> {
        match self.0.next() {
            None => Ok(None),
            Some((index, value)) => seed
                .deserialize(Probe(value))
                .map(Some)
                .map_err(|trouble| trouble.at_index(index)),
        }
    }
}

struct Entries<'a> {
    members: serde_json::map::Iter<'a>,
    next: Option<(&'a str, &'a Value)>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Trouble;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Trouble> {
        match self.members.next() {
            None => Ok(None),
            Some((key, value)) => {
                self.next = Some((key, value));
                seed.deserialize(Key(key)).map(Some)
            }
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Trouble> {
        let (key, value) = self.next.take().unwrap_or(("", &Value::Null));
        seed.deserialize(Probe(value))
            .map_err(|trouble| trouble.at_key(key))
    }
}

/// A key: a string, unless a number or a boolean is asked for.
struct Key<'a>(&'a str);

macro_rules! parsed_keys {
    ($($method:ident => $visit:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Trouble> {
            match self.0.parse() {
                Ok(value) => visitor.$visit(value),
                Err(_) => visitor.visit_str(self.0),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Key<'_> {
    type Error = Trouble;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Trouble> {
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

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Trouble> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Trouble> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Trouble> {
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
    type Error = Trouble;
    type Variant = Content<'a>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Content<'a>), Trouble> {
        let name: StrDeserializer<'_, Trouble> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, Content(self.value)))
    }
}

struct Content<'a>(Option<&'a Value>);

impl Content<'_> {
    fn missing(&self, expected: &dyn Expected) -> Trouble {
        Trouble::invalid_type(Unexpected::UnitVariant, expected)
    }
}

impl<'de> VariantAccess<'de> for Content<'_> {
    type Error = Trouble;

    fn unit_variant(self) -> Result<(), Trouble> {
        match self.0 {
            None | Some(Value::Null) => Ok(()),
            Some(_) => Err(Trouble::invalid_type(Unexpected::NewtypeVariant, &"unit variant")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Trouble> {
        match self.0 {
            Some(value) => seed.deserialize(Probe(value)),
            None => Err(self.missing(&"newtype variant")),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Trouble> {
        match self.0 {
            Some(value @ Value::Array(_)) => Probe(value).deserialize_any(visitor),
            _ => Err(self.missing(&"tuple variant")),
        }
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Trouble> {
        match self.0 {
            Some(Value::Object(members)) => visitor.visit_map(Entries {
                members: members.iter(),
                next: None,
            }),
            _ => Err(self.missing(&"struct variant")),
        }
    }
}
