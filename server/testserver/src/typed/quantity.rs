//! The syntax and the sign of quantities, and their comparison.

use std::cmp::Ordering;

use serde_json::Value;

/// Why a text is not a quantity, in the words of an API server.
pub(super) fn error(text: &str) -> Option<&'static str> {
    const FORMAT: &str =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    const SUFFIX: &str = "unable to parse quantity's suffix";
    const NUMBER: &str = "unable to parse numeric part of quantity";
    let (number, suffix) = split(text);
    if number.trim_start_matches(['+', '-']).is_empty() {
        return Some(FORMAT);
    }
    let letters = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let digits = letters.trim_start_matches(['+', '-']);
    if letters.len() - digits.len() > 1 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(FORMAT);
    }
    let fraction = number.matches('.').count();
    if fraction > 1 || !number.bytes().any(|byte| byte.is_ascii_digit()) {
        return Some(NUMBER);
    }
    exponent(suffix).is_none().then_some(SUFFIX)
}

fn split(text: &str) -> (&str, &str) {
    let end = text
        .bytes()
        .enumerate()
        .position(|(at, byte)| {
            !(byte.is_ascii_digit() || byte == b'.' || (at == 0 && matches!(byte, b'+' | b'-')))
        })
        .unwrap_or(text.len());
    text.split_at(end)
}

/// The factor of a suffix.
fn exponent(suffix: &str) -> Option<f64> {
    let binary = |power: i32| Some(1024_f64.powi(power));
    let decimal = |power: i32| Some(10_f64.powi(power));
    match suffix {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let power = suffix.strip_prefix(['e', 'E'])?;
            decimal(power.parse().ok().filter(|power| (-400..400).contains(power))?)
        }
    }
}

/// The amount of a quantity, exact enough to compare those that people write.
fn amount(value: &Value) -> Option<f64> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let (number, suffix) = split(&text);
    Some(number.parse::<f64>().ok()? * exponent(suffix)?)
}

/// Compares two quantities.
pub(super) fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    amount(a)?.partial_cmp(&amount(b)?)
}

/// Whether a quantity is below zero.
pub(super) fn is_negative(value: &Value) -> bool {
    amount(value).is_some_and(|amount| amount < 0.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_that_are_no_quantities_are_rejected() {
        for good in ["1", "0.5", "100m", "1Gi", "1e3", "-5", ".5", "12E", "1E6"] {
            assert_eq!(error(good), None, "{good}");
        }
        for bad in ["", "x", "1 Gi", "10MB", "1.2.3", "1ee3", "5Q", "m"] {
            assert!(error(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn quantities_compare_by_amount() {
        assert_eq!(compare(&json!("1Gi"), &json!("1G")), Some(Ordering::Greater));
        assert_eq!(compare(&json!("1000m"), &json!(1)), Some(Ordering::Equal));
        assert!(is_negative(&json!("-1")) && !is_negative(&json!("0")));
    }
}
