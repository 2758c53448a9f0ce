//! Functions of texts. Positions count characters.

use regex::Regex;

use super::format::format;
use super::{COMPUTED_LIMIT, Result, compile};
use crate::value::Value;

pub(super) fn call(function: &str, arguments: &[Value], compiled: Option<&Regex>) -> Option<Result> {
    let (Value::String(text), rest) = arguments.split_first()? else {
        return None;
    };
    Some(match (function, rest) {
        ("startsWith", [Value::String(part)]) => Ok(Value::Bool(text.starts_with(&**part))),
        ("endsWith", [Value::String(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        ("contains", [Value::String(part)]) => Ok(Value::Bool(text.contains(&**part))),
        ("matches" | "find" | "findAll", [Value::String(pattern), limit @ ..]) => {
            search(function, text, pattern, compiled, limit)?
        }
        ("charAt", [Value::Int(at)]) => char_at(text, *at),
        ("indexOf", [Value::String(part)]) => index_of(text, part, 0),
        ("indexOf", [Value::String(part), Value::Int(from)]) => index_of(text, part, *from),
        ("lastIndexOf", [Value::String(part)]) => last_index_of(text, part, None),
        ("lastIndexOf", [Value::String(part), Value::Int(from)]) => last_index_of(text, part, Some(*from)),
        ("lowerAscii", []) => Ok(text.to_ascii_lowercase().into()),
        ("upperAscii", []) => Ok(text.to_ascii_uppercase().into()),
        ("trim", []) => Ok(text.trim().into()),
        ("replace", [Value::String(old), Value::String(new)]) => Ok(text.replace(&**old, new).into()),
        ("replace", [Value::String(old), Value::String(new), Value::Int(count)]) => {
            Ok(match usize::try_from(*count) {
                Ok(count) => text.replacen(&**old, new, count).into(),
                Err(_) => text.replace(&**old, new).into(),
            })
        }
        ("split", [Value::String(separator)]) => Ok(split(text, separator, -1)),
        ("split", [Value::String(separator), Value::Int(count)]) => Ok(split(text, separator, *count)),
        ("substring", [Value::Int(start)]) => {
            let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
            substring(text, *start, length.max(*start))
        }
        ("substring", [Value::Int(start), Value::Int(end)]) => substring(text, *start, *end),
        ("format", [Value::List(values)]) => format(text, &values.items).map(Value::from),
        ("strings.quote", []) => Ok(quote(text).into()),
        _ => return None,
    })
}

fn search(
    function: &str,
    text: &str,
    source: &str,
    compiled: Option<&Regex>,
    limit: &[Value],
) -> Option<Result> {
    let built;
    let regex = match compiled {
        Some(regex) => regex,
        None => match compile(source, COMPUTED_LIMIT) {
            Ok(regex) => {
                built = regex;
                &built
            }
            Err(reason) if function == "matches" => return Some(Err(reason)),
            Err(reason) => return Some(Err(format!("Illegal regex: {reason}"))),
        },
    };
    let most = match limit {
        [] => usize::MAX,
        [Value::Int(count)] => usize::try_from(*count).unwrap_or(usize::MAX),
        _ => return None,
    };
    Some(Ok(match function {
        "matches" => Value::Bool(regex.is_match(text)),
        "find" => regex.find(text).map_or("", |found| found.as_str()).into(),
        _ => {
            let found = regex
                .find_iter(text)
                .take(most)
                .map(|found| found.as_str().into());
            Value::from(found.collect::<Vec<Value>>())
        }
    }))
}

fn out_of_range(at: i64) -> String {
    format!("index out of range: {at}")
}

fn char_at(text: &str, at: i64) -> Result {
    let length = text.chars().count();
    match usize::try_from(at) {
        Ok(at) if at <= length => Ok(text.chars().skip(at).take(1).collect::<String>().into()),
        _ => Err(out_of_range(at)),
    }
}

/// The position in characters of a position in bytes.
fn characters(text: &str, bytes: usize) -> i64 {
    i64::try_from(text[..bytes].chars().count()).unwrap_or(i64::MAX)
}

/// The position in bytes of a character; the end if there are fewer.
fn bytes(text: &str, character: usize) -> usize {
    text.char_indices()
        .nth(character)
        .map_or(text.len(), |(at, _)| at)
}

fn index_of(text: &str, part: &str, from: i64) -> Result {
    let start = usize::try_from(from).map_err(|_| out_of_range(from))?;
    let start = bytes(text, start);
    Ok(Value::Int(match text[start..].find(part) {
        Some(at) => characters(text, start + at),
        None => -1,
    }))
}

fn last_index_of(text: &str, part: &str, from: Option<i64>) -> Result {
    let end = match from {
        None => text.len(),
        Some(from) => {
            let from = usize::try_from(from).map_err(|_| out_of_range(from))?;
            if from >= text.chars().count() && !part.is_empty() {
                return Ok(Value::Int(-1));
            }
            // A match that starts at that character counts.
            (bytes(text, from) + part.len()).min(text.len())
        }
    };
    let end = (end..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len());
    Ok(Value::Int(
        text[..end].rfind(part).map_or(-1, |at| characters(text, at)),
    ))
}

fn substring(text: &str, start: i64, end: i64) -> Result {
    if start > end {
        return Err(format!("invalid substring range. start: {start}, end: {end}"));
    }
    let length = text.chars().count();
    let check = |at: i64| match usize::try_from(at) {
        Ok(position) if position <= length => Ok(position),
        _ => Err(out_of_range(at)),
    };
    let (start, end) = (check(start)?, check(end)?);
    Ok(text[bytes(text, start)..bytes(text, end)].into())
}

/// The parts between separators, at most `count` if it is not negative. An empty separator splits into characters.
fn split(text: &str, separator: &str, count: i64) -> Value {
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    let parts: Vec<Value> = if most == 0 {
        Vec::new()
    } else if separator.is_empty() {
        let total = text.chars().count();
        let single = total.min(most.saturating_sub(usize::from(total > most)));
        let rest = &text[bytes(text, single)..];
        let letters = text
            .chars()
            .take(single)
            .map(|letter| Value::from(letter.to_string()));
        letters
            .chain((!rest.is_empty()).then(|| Value::from(rest)))
            .collect()
    } else {
        text.splitn(most, separator).map(Value::from).collect()
    };
    Value::from(parts)
}

fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// The size of the result of `replace`, before it is built.
pub(super) fn replaced_size(arguments: &[Value]) -> u64 {
    let [Value::String(text), Value::String(old), Value::String(new), ..] = arguments else {
        return 0;
    };
    let most = match arguments.get(3) {
        Some(Value::Int(count)) => usize::try_from(*count).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let count = text.matches(&**old).take(most).count();
    (text.len() as u64).saturating_add((count as u64).saturating_mul(new.len() as u64))
}

/// About the size of the result of `format`, before it is built.
pub(super) fn formatted_size(arguments: &[Value], limit: u64) -> u64 {
    let values = arguments.get(1);
    values.map_or(0, |values| {
        values.weight(limit.saturating_mul(10)).saturating_mul(2)
    })
}
