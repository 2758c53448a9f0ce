//! The part of JSONPath that custom resource definitions use: `.spec.a['b.c'][0][*].d[?(@.type=="Ready")].e`.
//!
//! Unions, slices, recursive descent and functions are not supported and are rejected by the parser.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath {
    steps: Vec<Step>,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    /// Negative numbers count from the end.
    Index(i64),
    All,
    Filter(Filter),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Filter {
    path: Vec<String>,
    operator: Comparison,
    literal: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Exists,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A path that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPathError {
    path: String,
    problem: String,
}

impl fmt::Display for JsonPathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unsupported JSONPath {:?}: {}", self.path, self.problem)
    }
}

impl std::error::Error for JsonPathError {}

impl JsonPath {
    /// A path of plain field names.
    pub fn fields<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let steps: Vec<Step> = names
            .into_iter()
            .map(|name| Step::Field(name.to_owned()))
            .collect();
        let mut text = String::new();
        for step in &steps {
            if let Step::Field(name) = step {
                text.push('.');
                text.push_str(name);
            }
        }
        Self { steps, text }
    }

    /// All matches, in document order.
    pub fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        let mut places = vec![root];
        for step in &self.steps {
            places = places.into_iter().flat_map(|place| step.apply(place)).collect();
        }
        places
    }

    /// The first match.
    pub fn first<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.find(root).into_iter().next()
    }

    /// Sets the value at a path of plain fields, creating the objects in between. Returns `false` and changes nothing
    /// if the path has other steps or crosses a value that is not an object.
    pub fn set(&self, root: &mut Value, value: Value) -> bool {
        let names: Option<Vec<&str>> = self
            .steps
            .iter()
            .map(|step| match step {
                Step::Field(name) => Some(name.as_str()),
                _ => None,
            })
            .collect();
        let Some((last, parents)) = names.as_deref().and_then(|names| names.split_last()) else {
            return false;
        };
        let mut probe = Some(&*root);
        for name in parents {
            match probe {
                Some(Value::Object(fields)) => probe = fields.get(*name),
                None | Some(Value::Null) => probe = None,
                Some(_) => return false,
            }
        }
        if !matches!(probe, None | Some(Value::Object(_) | Value::Null)) {
            return false;
        }
        let mut place = root;
        for name in parents {
            place = object_mut(place).entry(*name).or_insert(Value::Null);
        }
        object_mut(place).insert((*last).to_owned(), value);
        true
    }
}

/// The fields of an object; any other value is replaced by an empty object first.
fn object_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("the value was made an object above"),
    }
}

impl Step {
    fn apply<'a>(&self, place: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => place.get(name).into_iter().collect(),
            Self::Index(index) => {
                let Value::Array(items) = place else {
                    return Vec::new();
                };
                let from_end = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
                let position = if *index < 0 {
                    items.len().checked_sub(from_end)
                } else {
                    Some(from_end)
                };
                position
                    .and_then(|position| items.get(position))
                    .into_iter()
                    .collect()
            }
            Self::All => children(place),
            Self::Filter(filter) => children(place)
                .into_iter()
                .filter(|child| filter.accepts(child))
                .collect(),
        }
    }
}

fn children(place: &Value) -> Vec<&Value> {
    match place {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

impl Filter {
    fn accepts(&self, item: &Value) -> bool {
        let mut place = Some(item);
        for name in &self.path {
            place = place.and_then(|place| place.get(name));
        }
        let Some(value) = place else { return false };
        let ordering = match (value, &self.literal) {
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            _ => None,
        };
        match self.operator {
            Comparison::Exists => true,
            Comparison::Equal => ordering.is_some_and(|ordering| ordering.is_eq()),
            Comparison::NotEqual => ordering.is_none_or(|ordering| ordering.is_ne()),
            Comparison::Less => ordering.is_some_and(|ordering| ordering.is_lt()),
            Comparison::LessOrEqual => ordering.is_some_and(|ordering| ordering.is_le()),
            Comparison::Greater => ordering.is_some_and(|ordering| ordering.is_gt()),
            Comparison::GreaterOrEqual => ordering.is_some_and(|ordering| ordering.is_ge()),
        }
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for JsonPath {
    type Err = JsonPathError;

    fn from_str(path: &str) -> Result<Self, Self::Err> {
        let error = |problem: &str| JsonPathError {
            path: path.to_owned(),
            problem: problem.to_owned(),
        };
        let mut text = path.trim();
        if let Some(inner) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            text = inner;
        }
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if rest.starts_with("..") {
                return Err(error("recursive descent is not supported"));
            } else if let Some(after) = rest.strip_prefix('.') {
                let (name, after) = plain_name(after);
                match name.as_str() {
                    // A lone dot is the whole object; a dot before a bracket is redundant.
                    "" if after.is_empty() || after.starts_with('[') => {}
                    "" => return Err(error("a field name is missing after a dot")),
                    "*" => steps.push(Step::All),
                    _ => steps.push(Step::Field(name)),
                }
                rest = after;
            } else if let Some(after) = rest.strip_prefix('[') {
                let (inside, after) = bracket(after).ok_or_else(|| error("a bracket is not closed"))?;
                steps.push(bracket_step(inside.trim()).map_err(error)?);
                rest = after;
            } else {
                return Err(error("a step must start with a dot or a bracket"));
            }
        }
        Ok(Self {
            steps,
            text: path.to_owned(),
        })
    }
}

/// A name up to the next dot or bracket; a backslash escapes the next character.
fn plain_name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '.' | '[' => return (name, text.get(index..).unwrap_or_default()),
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => name.push(character),
        }
    }
    (name, "")
}

/// Splits at the closing bracket, ignoring brackets in quotes.
fn bracket(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    let mut depth = 0_usize;
    for (index, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '[') => depth += 1,
            (None, ']') if depth > 0 => depth -= 1,
            (None, ']') => return Some((text.get(..index)?, text.get(index + 1..)?)),
            _ => {}
        }
    }
    None
}

fn bracket_step(inside: &str) -> Result<Step, &'static str> {
    if inside == "*" {
        return Ok(Step::All);
    }
    if let Some(Value::String(name)) = quoted(inside) {
        return Ok(Step::Field(name));
    }
    if let Some(condition) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return filter(condition.trim()).map(Step::Filter);
    }
    inside
        .parse()
        .map(Step::Index)
        .map_err(|_| "inside brackets only a number, *, a quoted name or ?(@.field==value) is supported")
}

fn filter(condition: &str) -> Result<Filter, &'static str> {
    const OPERATORS: [(&str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let rest = condition.strip_prefix('@').ok_or("a filter must start with @")?;
    let at = OPERATORS
        .iter()
        .filter_map(|(sign, operator)| Some((rest.find(sign)?, *sign, *operator)));
    let Some((position, sign, operator)) =
        at.min_by_key(|(position, sign, _)| (*position, usize::MAX - sign.len()))
    else {
        return Ok(Filter {
            path: field_names(rest)?,
            operator: Comparison::Exists,
            literal: Value::Null,
        });
    };
    let left = rest.get(..position).unwrap_or_default();
    let right = rest.get(position + sign.len()..).unwrap_or_default().trim();
    let literal = quoted(right)
        .or_else(|| serde_json::from_str(right).ok())
        .ok_or("a filter must compare with a quoted text, a number, true or false")?;
    Ok(Filter {
        path: field_names(left)?,
        operator,
        literal,
    })
}

fn field_names(text: &str) -> Result<Vec<String>, &'static str> {
    let mut names = Vec::new();
    let mut rest = text.trim();
    while let Some(after) = rest.strip_prefix('.') {
        let (name, after) = plain_name(after);
        if name.is_empty() {
            return Err("a field name is missing after a dot");
        }
        names.push(name);
        rest = after;
    }
    if rest.is_empty() {
        Ok(names)
    } else {
        Err("only plain fields are supported inside a filter")
    }
}

fn quoted(text: &str) -> Option<Value> {
    ['\'', '"'].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains(quote)).then(|| Value::String(inner.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn find(path: &str, value: &Value) -> Value {
        Value::Array(
            path.parse::<JsonPath>()
                .unwrap()
                .find(value)
                .into_iter()
                .cloned()
                .collect(),
        )
    }

    #[test]
    fn paths_used_by_definitions_are_evaluated() {
        let object = json!({
            "metadata": { "annotations": { "example.com/a.b": "x" } },
            "spec": { "size": 3, "ports": [{ "name": "http", "port": 80 }, { "name": "dns", "port": 53 }] },
            "status": { "conditions": [
                { "type": "Synced", "status": "False" },
                { "type": "Ready", "status": "True" },
            ] },
        });

        assert_eq!(find(".spec.size", &object), json!([3]));
        assert_eq!(find("{.spec.size}", &object), json!([3]));
        assert_eq!(find(".spec.ports[0].name", &object), json!(["http"]));
        assert_eq!(find(".spec.ports[-1].name", &object), json!(["dns"]));
        assert_eq!(find(".spec.ports[*].port", &object), json!([80, 53]));
        assert_eq!(find(".spec.ports[?(@.port > 60)].name", &object), json!(["http"]));
        assert_eq!(
            find(r#".status.conditions[?(@.type=="Ready")].status"#, &object),
            json!(["True"])
        );
        assert_eq!(
            find(".status.conditions[?(@.type!='Ready')].status", &object),
            json!(["False"])
        );
        assert_eq!(
            find(r".metadata.annotations.example\.com/a\.b", &object),
            json!(["x"])
        );
        assert_eq!(
            find(".metadata.annotations['example.com/a.b']", &object),
            json!(["x"])
        );
        assert_eq!(find(".spec.nothing.here", &object), json!([]));
        assert_eq!(find(".spec.ports[7]", &object), json!([]));
        assert_eq!(find(".", &object), json!([object]));
    }

    #[test]
    fn unsupported_paths_are_rejected_with_a_reason() {
        for path in [
            "..a",
            ".a[",
            ".a[0:2]",
            ".a..b",
            "spec",
            ".a[?(b==1)]",
            ".a[?(@.b==c)]",
        ] {
            let error = path.parse::<JsonPath>().unwrap_err().to_string();
            assert!(error.contains(path) && error.contains(": "), "{error}");
        }
    }

    #[test]
    fn set_creates_intermediate_objects_and_rejects_other_values() {
        let path: JsonPath = ".spec.deep.replicas".parse().unwrap();
        let mut object = json!({ "kind": "X" });
        assert!(path.set(&mut object, json!(4)));
        assert_eq!(
            object,
            json!({ "kind": "X", "spec": { "deep": { "replicas": 4 } } })
        );

        let mut odd = json!({ "spec": "text" });
        assert!(!path.set(&mut odd, json!(4)));
        assert_eq!(odd, json!({ "spec": "text" }));
        assert!(!".spec[0]".parse::<JsonPath>().unwrap().set(&mut odd, json!(1)));
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_parsed_or_rejected_without_a_panic(text in "[.a-c\\[\\]?(@)=<>!'\"0-9*\\\\ {}$-]{0,24}") {
            if let Ok(path) = text.parse::<JsonPath>() {
                path.find(&json!({ "a": [{ "b": 1 }, { "c": "x" }], "b": null }));
            }
        }
    }
}
