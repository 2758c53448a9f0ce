//! The text of a `resource.Quantity`, as Go prints it after reading it.
//!
//! Go keeps most texts as they are and brings the others into canonical form. What Go has written is always kept.

use std::borrow::Cow;

use crate::error::Error;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

/// The digits of a decimal amount that Go computes in 64 bits.
const MAX_INT64_DIGITS: usize = 18;
const NANO: i64 = 9;

/// The text as Go prints it.
///
/// # Errors
///
/// It is not a quantity.
pub(crate) fn canonical(bytes: &[u8]) -> Result<Cow<'_, str>, Error> {
    let invalid = || Error::mismatch("invalid value: a string, expected a quantity");
    let text = std::str::from_utf8(bytes).map_err(|_| invalid())?;
    if text == "0" || is_plain(text) {
        return Ok(Cow::Borrowed(text));
    }
    let parsed = Parsed::new(text).ok_or_else(invalid)?;
    Ok(match parsed.print() {
        Printed::AsIs => Cow::Borrowed(text),
        Printed::Canonical(text) => Cow::Owned(text),
        Printed::Invalid => return Err(invalid()),
    })
}

/// Whether this is a short decimal amount in canonical form, as most are.
fn is_plain(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    (1..=MAX_INT64_DIGITS).contains(&digits)
        && !number.starts_with('0')
        && !number.ends_with("000")
        && matches!(suffix, "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E")
}

enum Printed {
    AsIs,
    Canonical(String),
    Invalid,
}

struct Parsed<'a> {
    negative: bool,
    /// Without a digit, Go reads zero if the suffix is not too small.
    has_digits: bool,
    /// Without leading zeros.
    whole: &'a str,
    fraction: &'a str,
    format: Format,
    exponent: i64,
}

impl<'a> Parsed<'a> {
    fn new(text: &'a str) -> Option<Self> {
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        if text.is_empty() {
            return None;
        }
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, mut rest) = unsigned.split_at(digits(unsigned));
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            (fraction, rest) = after.split_at(digits(after));
        }
        let trimmed = whole.trim_start_matches('0');
        let (format, exponent) = suffix(rest)?;
        let has_digits = !whole.is_empty() || !fraction.is_empty();
        let whole = if trimmed.is_empty() { "0" } else { trimmed };
        Some(Self {
            negative,
            has_digits,
            whole,
            fraction,
            format,
            exponent,
        })
    }

    fn print(&self) -> Printed {
        let digits = self.whole.len() + self.fraction.len();
        let mut shifted = String::with_capacity(digits);
        shifted.push_str(self.whole);
        shifted.push_str(self.fraction);
        let decimals = self.fraction.len() as i64;
        let (fits, scale, factor) = match self.format {
            Format::Binary => {
                let room = 14 - self.whole.len() as i64 - (self.exponent as f32 * 3.0 / 10.0) as i64;
                (room >= 0 && decimals == 0, 0, 1_i128 << self.exponent)
            }
            _ => (digits <= MAX_INT64_DIGITS, self.exponent - decimals, 1),
        };
        let Ok(amount) = shifted.parse::<i128>() else {
            return Printed::AsIs;
        };
        if fits && scale >= -NANO && amount * factor <= i128::from(i64::MAX) {
            let kept = match self.format {
                Format::Binary => amount & 7 != 0,
                _ => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
            };
            if kept {
                return Printed::AsIs;
            }
            return self.finish(amount * factor, scale, self.format);
        }
        if !self.has_digits {
            return Printed::Invalid;
        }
        self.print_large(amount)
    }

    /// Amounts for which Go uses big numbers.
    fn print_large(&self, amount: i128) -> Printed {
        let (mut amount, mut scale, mut format) = (amount, -(self.fraction.len() as i64), self.format);
        if format == Format::Binary {
            match amount.checked_mul(1 << self.exponent) {
                Some(product) => amount = product,
                None => return Printed::AsIs,
            }
        } else {
            scale += self.exponent;
        }
        if scale < -NANO {
            // Rounded up to a whole nano.
            let Some(unit) = u32::try_from(-NANO - scale)
                .ok()
                .and_then(|n| 10_i128.checked_pow(n))
            else {
                return self.finish(i128::from(amount != 0), -NANO, format);
            };
            amount = amount / unit + i128::from(amount % unit != 0);
            scale = -NANO;
        }
        if format == Format::Binary {
            let unit = 10_i128.pow(u32::try_from(-scale).unwrap_or_default());
            if amount > i128::from(i64::MAX) * unit {
                (amount, scale) = (i128::from(i64::MAX), 0);
            } else if amount < unit {
                format = Format::Decimal;
            }
        }
        self.finish(amount, scale, format)
    }

    /// The canonical text of `amount * 10^scale`.
    fn finish(&self, mut amount: i128, mut scale: i64, mut format: Format) -> Printed {
        let sign = if self.negative { "-" } else { "" };
        if amount == 0 {
            return Printed::Canonical("0".to_owned());
        }
        if format == Format::Binary {
            let unit = 10_i128.pow(u32::try_from(-scale).unwrap_or_default());
            if amount < 1024 * unit || amount % unit != 0 {
                format = Format::Decimal;
            } else {
                let (mut whole, mut power) = (amount / unit, 0);
                while whole % 1024 == 0 && power < 6 {
                    (whole, power) = (whole / 1024, power + 1);
                }
                let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power];
                return Printed::Canonical(format!("{sign}{whole}{suffix}"));
            }
        }
        while amount % 10 == 0 {
            (amount, scale) = (amount / 10, scale + 1);
        }
        let excess = scale.rem_euclid(3);
        let Some(amount) = amount.checked_mul(10_i128.pow(excess as u32)) else {
            return Printed::AsIs;
        };
        scale -= excess;
        let suffix = match (format, scale) {
            (Format::Exponent, 0) => String::new(),
            (Format::Exponent, _) => format!("e{scale}"),
            (_, -9..=18) => {
                ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][((scale + 9) / 3) as usize].to_owned()
            }
            // Go has no suffix for it.
            _ => String::new(),
        };
        Printed::Canonical(format!("{sign}{amount}{suffix}"))
    }
}

fn suffix(text: &str) -> Option<(Format, i64)> {
    Some(match text {
        "n" => (Format::Decimal, -9),
        "u" => (Format::Decimal, -6),
        "m" => (Format::Decimal, -3),
        "" => (Format::Decimal, 0),
        "k" => (Format::Decimal, 3),
        "M" => (Format::Decimal, 6),
        "G" => (Format::Decimal, 9),
        "T" => (Format::Decimal, 12),
        "P" => (Format::Decimal, 15),
        "E" => (Format::Decimal, 18),
        "Ki" => (Format::Binary, 10),
        "Mi" => (Format::Binary, 20),
        "Gi" => (Format::Binary, 30),
        "Ti" => (Format::Binary, 40),
        "Pi" => (Format::Binary, 50),
        "Ei" => (Format::Binary, 60),
        _ => {
            let exponent = text.strip_prefix(['e', 'E'])?;
            (Format::Exponent, i64::from(exponent.parse::<i32>().ok()?))
        }
    })
}
