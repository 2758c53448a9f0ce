//! Functions of lists and sets.

use std::cmp::Ordering;

use super::Result;
use super::operators::arithmetic;
use crate::value::Value;

pub(super) fn call(function: &str, arguments: &[Value]) -> Option<Result> {
    if let ("lists.range", [Value::Int(count)]) = (function, arguments) {
        return Some(Ok(Value::from((0..*count).map(Value::Int).collect::<Vec<_>>())));
    }
    let (Value::List(list), rest) = arguments.split_first()? else {
        return None;
    };
    let items = list.items.as_slice();
    let position = |at: Option<usize>| Value::Int(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1));
    Some(match (function, rest) {
        ("isSorted", []) => {
            let sorted = items
                .windows(2)
                .all(|pair| pair[0].compare(&pair[1]) != Some(Ordering::Greater));
            Ok(Value::Bool(sorted))
        }
        ("sum", []) => sum(items)?,
        ("min", []) => best("min", items, Ordering::Less)?,
        ("max", []) => best("max", items, Ordering::Greater)?,
        ("indexOf", [item]) => Ok(position(items.iter().position(|known| known == item))),
        ("lastIndexOf", [item]) => Ok(position(items.iter().rposition(|known| known == item))),
        ("slice", [Value::Int(start), Value::Int(end)]) => slice(items, *start, *end),
        ("flatten", []) => Ok(flatten(items)),
        ("reverse", []) => Ok(Value::from(items.iter().rev().cloned().collect::<Vec<_>>())),
        ("distinct", []) => Ok(distinct(items)),
        ("sort", []) => {
            let mut sorted = items.to_vec();
            sorted.sort_by(|a, b| a.compare(b).unwrap_or(Ordering::Equal));
            Ok(Value::from(sorted))
        }
        ("first", []) => Ok(Value::optional(items.first().cloned())),
        ("last", []) => Ok(Value::optional(items.last().cloned())),
        ("join", []) => join(items, ""),
        ("join", [Value::String(separator)]) => join(items, separator),
        ("sets.contains", [Value::List(other)]) => Ok(Value::Bool(contains(items, &other.items))),
        ("sets.equivalent", [Value::List(other)]) => Ok(Value::Bool(
            contains(items, &other.items) && contains(&other.items, items),
        )),
        ("sets.intersects", [Value::List(other)]) => {
            Ok(Value::Bool(items.iter().any(|item| other.items.contains(item))))
        }
        _ => return None,
    })
}

fn contains(items: &[Value], others: &[Value]) -> bool {
    others.iter().all(|other| items.contains(other))
}

/// The sum of an empty list is the integer zero, because its type is unknown here.
fn sum(items: &[Value]) -> Option<Result> {
    let Some((first, rest)) = items.split_first() else {
        return Some(Ok(Value::Int(0)));
    };
    let mut sum = first.clone();
    for item in rest {
        match arithmetic("_+_", &sum, item)? {
            Ok(next) => sum = next,
            error => return Some(error),
        }
    }
    Some(Ok(sum))
}

/// The element that is before, or after, all others.
fn best(name: &str, items: &[Value], wanted: Ordering) -> Option<Result> {
    let Some((first, rest)) = items.split_first() else {
        return Some(Err(format!("{name} called on empty list")));
    };
    let mut best = first;
    for item in rest {
        if item.compare(best)? == wanted {
            best = item;
        }
    }
    Some(Ok(best.clone()))
}

fn slice(items: &[Value], start: i64, end: i64) -> Result {
    let error = |reason: String| Err(format!("cannot slice({start}, {end}), {reason}"));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return error("negative indexes not supported".to_owned());
    };
    if from > to {
        return error("start index must be less than or equal to end index".to_owned());
    }
    match items.get(from..to) {
        Some(part) => Ok(Value::from(part.to_vec())),
        None => error(format!("list is length {}", items.len())),
    }
}

fn flatten(items: &[Value]) -> Value {
    let mut flat = Vec::new();
    for item in items {
        match item {
            Value::List(list) => flat.extend(list.items.iter().cloned()),
            other => flat.push(other.clone()),
        }
    }
    Value::from(flat)
}

fn distinct(items: &[Value]) -> Value {
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        if !kept.contains(item) {
            kept.push(item.clone());
        }
    }
    Value::from(kept)
}

fn join(items: &[Value], separator: &str) -> Result {
    let mut parts = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Value::String(text) => parts.push(&**text),
            other => return Err(format!("join: invalid input: {}", other.type_name())),
        }
    }
    Ok(parts.join(separator).into())
}

/// The size of the result of `join`, before it is built.
pub(super) fn joined_size(arguments: &[Value]) -> u64 {
    let Some(Value::List(list)) = arguments.first() else {
        return 0;
    };
    let separators = arguments
        .get(1)
        .map_or(0, Value::size)
        .saturating_mul(list.items.len() as u64);
    list.items
        .iter()
        .fold(separators, |sum, item| sum.saturating_add(item.size()))
}
