//! Quantities, such as `500m` or `1Gi`.

use super::Result;
use crate::value::Value;

/// An amount in billionths, the smallest unit of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

const ONE: i128 = 1_000_000_000;
const FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX: &str = "unable to parse quantity's suffix";
const NUMBER: &str = "unable to parse numeric part of quantity";

pub(super) fn call(function: &str, arguments: &[Value]) -> Option<Result> {
    match (function, arguments) {
        ("quantity", [Value::String(text)]) => Some(match Quantity::parse(text) {
            Ok(quantity) => Ok(Value::Quantity(quantity)),
            Err(reason) => Err(reason.to_owned()),
        }),
        ("isQuantity", [Value::String(text)]) => Some(Ok(Value::Bool(Quantity::parse(text).is_ok()))),
        (_, [Value::Quantity(quantity)]) => alone(function, *quantity),
        (_, [Value::Quantity(quantity), Value::Quantity(other)]) => pair(function, *quantity, *other),
        ("add" | "sub", [Value::Quantity(quantity), Value::Int(other)]) => {
            pair(function, *quantity, Quantity(i128::from(*other) * ONE))
        }
        _ => None,
    }
}

fn alone(function: &str, Quantity(amount): Quantity) -> Option<Result> {
    let whole = || {
        (amount % ONE == 0)
            .then(|| i64::try_from(amount / ONE).ok())
            .flatten()
    };
    Some(match function {
        "sign" => Ok(Value::Int(i64::try_from(amount.signum()).unwrap_or(0))),
        "isInteger" => Ok(Value::Bool(whole().is_some())),
        "asInteger" => whole()
            .map(Value::Int)
            .ok_or_else(|| "cannot convert value to integer".to_owned()),
        "asApproximateFloat" => Ok(Value::Double(amount as f64 / ONE as f64)),
        _ => return None,
    })
}

fn pair(function: &str, a: Quantity, b: Quantity) -> Option<Result> {
    let overflow = || "quantity overflow".to_owned();
    Some(match function {
        "isGreaterThan" => Ok(Value::Bool(a > b)),
        "isLessThan" => Ok(Value::Bool(a < b)),
        "compareTo" => Ok(Value::Int(a.cmp(&b) as i64)),
        "add" => {
            a.0.checked_add(b.0)
                .map(|sum| Value::Quantity(Quantity(sum)))
                .ok_or_else(overflow)
        }
        "sub" => {
            a.0.checked_sub(b.0)
                .map(|sum| Value::Quantity(Quantity(sum)))
                .ok_or_else(overflow)
        }
        _ => return None,
    })
}

impl Quantity {
    /// Reads a quantity. Digits below a billionth are rounded up, as in Kubernetes; amounts beyond 10^24 are capped.
    fn parse(text: &str) -> std::result::Result<Quantity, &'static str> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let suffix = unsigned.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        let number = &unsigned[..unsigned.len() - suffix.len()];
        if number.is_empty() {
            return Err(FORMAT);
        }
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || whole.len() + fraction.len() == 0 {
            return Err(NUMBER);
        }
        let (factor, exponent) = scale(suffix).ok_or(SUFFIX)?;
        let digits: String = [whole, fraction].concat();
        let digits = digits.trim_start_matches('0');
        // The value is digits × factor × 10^shift billionths.
        let shift = exponent + 9 - i32::try_from(fraction.len()).map_err(|_| NUMBER)?;
        let capped = || Ok::<i128, &'static str>(i128::MAX / 4);
        let size = if digits.is_empty() {
            Ok(0)
        } else if digits.len() > 30 || shift > 30 {
            capped()
        } else {
            let product = digits.parse::<i128>().map_err(|_| NUMBER)?.checked_mul(factor);
            match (product, 10_i128.checked_pow(shift.unsigned_abs().min(38))) {
                (Some(product), Some(power)) if shift >= 0 => {
                    product.checked_mul(power).map_or_else(capped, Ok)
                }
                (Some(product), Some(power)) => Ok(product / power + i128::from(product % power != 0)),
                _ => capped(),
            }
        }?;
        Ok(Quantity(if text.starts_with('-') { -size } else { size }))
    }
}

/// The factor and the power of ten of a suffix.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => {
            let power = suffix.strip_prefix(['e', 'E'])?;
            (1, power.parse().ok().filter(|power| (-400..400).contains(power))?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact() {
        let parse = |text| Quantity::parse(text).unwrap();
        assert_eq!(parse("1000m"), parse("1"));
        assert_eq!(parse("1.5Gi"), Quantity(3 * (1 << 29) * ONE));
        assert_eq!(parse("1e3"), parse("1k"));
        assert_eq!(parse("0.1n"), Quantity(1), "rounded up");
        assert!(parse("-1") < parse("0") && parse("1Gi") > parse("1G"));
        assert!(parse("1e300") > parse("1E"));
        for bad in ["", "x", "1 Gi", "10MB", "1.2.3", "1ee3", "m", "-", "."] {
            assert!(Quantity::parse(bad).is_err(), "{bad}");
        }
    }
}
