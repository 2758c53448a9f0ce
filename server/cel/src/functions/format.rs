//! `format`: texts with placeholders.

use std::fmt::Write;

use super::convert::text;
use crate::value::{Key, Value};

/// The digits after the point, unless the placeholder says otherwise.
const PRECISION: usize = 6;
const MOST_PRECISION: usize = 1000;

/// Replaces the placeholders of a text by values.
pub(super) fn format(template: &str, values: &[Value]) -> Result<String, String> {
    let mut result = String::new();
    let mut values = values.iter().enumerate();
    let mut letters = template.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            result.push(letter);
            continue;
        }
        if letters.next_if_eq(&'%').is_some() {
            result.push('%');
            continue;
        }
        let mut precision = None;
        if letters.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            let parsed: usize = digits.parse().map_err(
                |_| "could not parse formatting clause: unable to find end of precision specifier",
            )?;
            if parsed > MOST_PRECISION {
                return Err(format!(
                    "precision {parsed} exceeds the maximum of {MOST_PRECISION}"
                ));
            }
            precision = Some(parsed);
        }
        let clause = letters
            .next()
            .ok_or("could not parse formatting clause: unexpected end of string")?;
        let (position, value) = values
            .next()
            .ok_or_else(|| format!("index {} out of range", values_len(template)))?;
        let shown = clause_text(clause, precision, value);
        result.push_str(
            &shown.map_err(|reason| format!("error during formatting: {reason} (argument {position})"))?,
        );
    }
    Ok(result)
}

/// The number of placeholders, for the error that one has no value.
fn values_len(template: &str) -> usize {
    template.replace("%%", "").matches('%').count().saturating_sub(1)
}

fn clause_text(clause: char, precision: Option<usize>, value: &Value) -> Result<String, String> {
    let wrong = |clause: &str, allowed: &str| {
        Err(format!(
            "{clause} clause can only be used on {allowed}, was given {}",
            value.type_name()
        ))
    };
    match (clause, value) {
        ('s', value) => shown(value),
        ('d', Value::Int(_) | Value::Uint(_)) => shown(value),
        ('d', _) => wrong("decimal", "integers"),
        ('f', Value::Double(number)) => Ok(grouped(&format!("{number:.*}", precision.unwrap_or(PRECISION)))),
        ('f', _) => wrong("fixed-point", "doubles"),
        ('e', Value::Double(number)) =>
        // A precision has no effect here, as on a real server.
        {
            Ok(scientific(&format!("{number:.PRECISION$e}")))
        }
        ('e', _) => wrong("scientific", "doubles"),
        ('b', Value::Int(number)) => Ok(signed(*number, |size| format!("{size:b}"))),
        ('b', Value::Uint(number)) => Ok(format!("{number:b}")),
        ('b', Value::Bool(value)) => Ok(u8::from(*value).to_string()),
        ('b', _) => wrong("only integers and bools can be formatted as binary,", "integers"),
        ('x', Value::Int(number)) => Ok(signed(*number, |size| format!("{size:x}"))),
        ('X', Value::Int(number)) => Ok(signed(*number, |size| format!("{size:X}"))),
        ('x', Value::Uint(number)) => Ok(format!("{number:x}")),
        ('X', Value::Uint(number)) => Ok(format!("{number:X}")),
        ('x', Value::String(text)) => Ok(hexadecimal(text.as_bytes())),
        ('X', Value::String(text)) => Ok(hexadecimal(text.as_bytes()).to_uppercase()),
        ('x', Value::Bytes(bytes)) => Ok(hexadecimal(bytes)),
        ('X', Value::Bytes(bytes)) => Ok(hexadecimal(bytes).to_uppercase()),
        ('x' | 'X', _) => wrong("hex", "integers, byte buffers, and strings"),
        ('o', Value::Int(number)) => Ok(signed(*number, |size| format!("{size:o}"))),
        ('o', Value::Uint(number)) => Ok(format!("{number:o}")),
        ('o', _) => wrong("octal", "integers"),
        (other, _) => Err(format!(
            "could not parse formatting clause: unrecognized formatting clause \"{other}\""
        )),
    }
}

/// A number with commas between thousands.
fn grouped(text: &str) -> String {
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |text| ("-", text));
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::from(sign);
    for (position, digit) in whole.chars().enumerate() {
        if position > 0 && (whole.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

/// A number with an exponent as people write it: `1.5×10⁰³`.
fn scientific(text: &str) -> String {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, exponent) = exponent
        .strip_prefix('-')
        .map_or(("", exponent), |rest| ("⁻", rest));
    let raised = format!("{exponent:0>2}")
        .chars()
        .map(|digit| match digit {
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            digit => char::from_u32('⁰' as u32 + digit.to_digit(10).unwrap_or(0)).unwrap_or(digit),
        })
        .collect::<String>();
    format!("{digits}×10{sign}{raised}")
}

fn signed(number: i64, show: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", show(number.unsigned_abs()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Any value as text; lists and maps are written as literals.
fn shown(value: &Value) -> Result<String, String> {
    match value {
        Value::Null => Ok("null".to_owned()),
        Value::List(list) => {
            let items: Result<Vec<String>, String> = list.items.iter().map(literal).collect();
            Ok(format!("[{}]", items?.join(", ")))
        }
        Value::Map(map) => {
            let entry = |(key, value): (&Key, &Value)| Ok(format!("{}:{}", literal(&key.value())?, literal(value)?));
            let entries: Result<Vec<String>, String> = map.iter().map(entry).collect();
            Ok(format!("{{{}}}", entries?.join(", ")))
        }
        value => text(value).ok_or_else(|| {
            format!(
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, \
                 and timestamps, was given {}",
                value.type_name()
            )
        }),
    }
}

fn literal(value: &Value) -> Result<String, String> {
    let text = shown(value)?;
    Ok(match value {
        Value::String(_) => format!("{text:?}"),
        Value::Bytes(_) => format!("b{text:?}"),
        Value::Timestamp(_) => format!("timestamp({text:?})"),
        Value::Duration(_) => format!("duration({text:?})"),
        Value::Double(number) if number.is_finite() => format!("{number:.PRECISION$}"),
        _ => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced() {
        let values = [
            Value::from("a"),
            Value::Int(-255),
            Value::Double(1.5),
            Value::from(vec![Value::Int(1), "x".into()]),
        ];
        assert_eq!(
            format("%s is %d%%, %.2f, %s", &values).unwrap(),
            "a is -255%, 1.50, [1, \"x\"]"
        );
        assert_eq!(
            format(
                "%x %X %o %b",
                &[Value::Int(255), Value::Int(255), Value::Int(8), Value::Int(5)]
            )
            .unwrap(),
            "ff FF 10 101"
        );
        assert_eq!(format("%e", &[Value::Double(1234.5)]).unwrap(), "1.234500×10⁰³");
        assert_eq!(
            format("%.1f", &[Value::Double(-1_234_567.0)]).unwrap(),
            "-1,234,567.0"
        );
    }

    #[test]
    fn placeholders_without_a_fitting_value_are_errors() {
        assert!(
            format("%d", &[Value::from("a")])
                .unwrap_err()
                .contains("decimal clause")
        );
        assert!(format("%s", &[]).unwrap_err().contains("out of range"));
        assert!(format("%q", &[Value::Null]).unwrap_err().contains("unrecognized"));
        assert!(format("%.", &[Value::Null]).is_err());
        assert!(format("%.99999f", &[Value::Double(1.0)]).is_err());
    }
}
