//! The overloads of functions and operators, from the table `functions.txt`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::types::Type;

/// One overload of a function.
#[derive(Debug)]
pub(super) struct Overload {
    /// Whether it is called on a receiver, which is the first parameter.
    pub(super) is_method: bool,
    pub(super) parameters: Vec<Type>,
    pub(super) result: Type,
}

/// The type parameters of the table.
const PARAMETERS: &[&str] = &["A", "B"];
const COMPARISONS: &[&str] = &["_<=_", "_>_", "_>=_"];

static TABLE: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut table: HashMap<&str, Vec<Overload>> = HashMap::new();
    for line in include_str!("functions.txt").lines() {
        // The tests prove that every line can be read.
        if let Some((name, overload)) = read(line) {
            table.entry(name).or_default().push(overload);
        }
    }
    for name in COMPARISONS {
        let lines = include_str!("functions.txt").lines();
        let overloads = lines.filter_map(read).filter(|(name, _)| *name == "_<_");
        table.insert(name, overloads.map(|(_, overload)| overload).collect());
    }
    table
});

/// The overloads of a function; `None` if there is no function of this name.
pub(super) fn overloads(function: &str) -> Option<&'static [Overload]> {
    TABLE.get(function).map(Vec::as_slice)
}

/// One line of the table; `None` for comments and empty lines.
fn read(line: &'static str) -> Option<(&'static str, Overload)> {
    let (kind, rest) = line.split_once(' ')?;
    let is_method = match kind {
        "fn" => false,
        "method" => true,
        _ => return None,
    };
    let (signature, result) = rest.rsplit_once(" -> ")?;
    let (name, parameters) = signature.split_once('(')?;
    let parameters = parameters.strip_suffix(')')?;
    let overload = Overload {
        is_method,
        parameters: split(parameters).map(read_type).collect::<Option<_>>()?,
        result: read_type(result)?,
    };
    Some((name, overload))
}

fn read_type(text: &str) -> Option<Type> {
    if let Some(position) = PARAMETERS.iter().position(|name| *name == text) {
        return Some(Type::Param(u32::try_from(position).ok()?));
    }
    let Some((name, arguments)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) else {
        return Type::named(text);
    };
    let arguments: Vec<Type> = split(arguments).map(read_type).collect::<Option<_>>()?;
    match (name, arguments.as_slice()) {
        ("list", [element]) => Some(Type::list(element.clone())),
        ("map", [key, value]) => Some(Type::map(key.clone(), value.clone())),
        ("optional_type", [value]) => Some(Type::optional(value.clone())),
        ("type", [of]) => Some(Type::Meta(of.clone().into())),
        _ => None,
    }
}

/// The parts between the commas outside parentheses.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_an_overload() {
        for line in include_str!("functions.txt").lines() {
            let is_text = line.is_empty() || line.starts_with('#');
            assert!(is_text || read(line).is_some(), "{line}");
        }
        assert_eq!(overloads("_>_").unwrap().len(), overloads("_<_").unwrap().len());
        assert!(overloads("frobnicate").is_none());
    }

    #[test]
    fn nested_types_are_read() {
        let query = &overloads("getQuery").unwrap()[0];
        assert_eq!(query.result.to_string(), "map(string, list(string))");
        assert_eq!(overloads("optional.none").unwrap()[0].parameters.len(), 0);
    }
}
