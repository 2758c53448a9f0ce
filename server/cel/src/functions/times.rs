//! Dates and durations.

use jiff::Timestamp;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;

use super::Result;
use crate::value::Value;

pub(super) fn call(function: &str, arguments: &[Value]) -> Option<Result> {
    let number = match arguments {
        [Value::Timestamp(at)] => {
            let at = at.to_zoned(TimeZone::UTC);
            match function {
                "getFullYear" => i64::from(at.year()),
                "getMonth" => i64::from(at.month()) - 1,
                "getDayOfYear" => i64::from(at.day_of_year()) - 1,
                "getDate" => i64::from(at.day()),
                "getDayOfMonth" => i64::from(at.day()) - 1,
                "getDayOfWeek" => i64::from(Weekday::to_sunday_zero_offset(at.weekday())),
                "getHours" => i64::from(at.hour()),
                "getMinutes" => i64::from(at.minute()),
                "getSeconds" => i64::from(at.second()),
                "getMilliseconds" => i64::from(at.millisecond()),
                _ => return None,
            }
        }
        [Value::Duration(nanoseconds)] => match function {
            "getHours" => nanoseconds / 3_600_000_000_000,
            "getMinutes" => nanoseconds / 60_000_000_000,
            "getSeconds" => nanoseconds / 1_000_000_000,
            "getMilliseconds" => nanoseconds / 1_000_000,
            _ => return None,
        },
        _ => return None,
    };
    Some(Ok(Value::Int(number)))
}

/// A date in RFC 3339.
pub fn parse_timestamp(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// A duration as Go writes it, such as `1h30m`, in nanoseconds.
pub fn parse_duration(text: &str) -> Option<i64> {
    let unit = |name: &str| {
        Some(match name {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return None,
        })
    };
    sum_of_units(text, false, unit)
}

/// A duration as the format `duration` of a schema allows it: also in words, such as `3 days`.
pub fn parse_duration_in_words(text: &str) -> Option<i64> {
    let unit = |name: &str| {
        let name = name.to_lowercase();
        let singular = match name.strip_suffix('s') {
            Some(singular)
                if singular.len() > 1 && !matches!(name.as_str(), "ns" | "us" | "µs" | "μs" | "ms") =>
            {
                singular
            }
            _ => &name,
        };
        Some(match singular {
            "ns" | "nano" => 1.0,
            "us" | "µs" | "μs" | "micro" => 1e3,
            "ms" | "milli" => 1e6,
            "s" | "sec" | "second" => 1e9,
            "m" | "min" | "minute" => 60e9,
            "h" | "hr" | "hour" => 3600e9,
            "d" | "day" => 86400e9,
            "w" | "wk" | "week" => 604_800e9,
            _ => return None,
        })
    };
    sum_of_units(text, true, unit)
}

/// The sum of numbers with units. Spaces are allowed on request.
fn sum_of_units(text: &str, spaces: bool, unit: impl Fn(&str) -> Option<f64>) -> Option<i64> {
    let skip = |text| if spaces { str::trim_start(text) } else { text };
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum = 0.0_f64;
    while !rest.is_empty() {
        let digits = rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        let number: f64 = rest[..rest.len() - digits.len()].parse().ok()?;
        let named = skip(digits);
        let after = named.trim_start_matches(char::is_alphabetic);
        sum += number * unit(&named[..named.len() - after.len()])?;
        rest = skip(after);
    }
    let sum = sign * sum;
    (sum.abs() < 9.223_372_036_854_775e18).then_some(sum.round() as i64)
}

/// A duration as text: seconds, such as `5400s` or `0.5s`.
pub(super) fn duration_text(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let size = nanoseconds.unsigned_abs();
    let (seconds, fraction) = (size / 1_000_000_000, size % 1_000_000_000);
    let text = format!("{seconds}.{fraction:09}");
    format!("{sign}{}s", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        assert_eq!(parse_duration("1h30m"), Some(5_400_000_000_000));
        assert_eq!(parse_duration("-1.5s"), Some(-1_500_000_000));
        assert_eq!(parse_duration("1 day"), None);
        assert_eq!(parse_duration("3"), None);
        assert_eq!(parse_duration_in_words("2 days"), Some(172_800_000_000_000));
        assert_eq!(parse_duration_in_words("3 ms"), Some(3_000_000));
        assert_eq!(parse_duration_in_words("3 parsecs"), None);
        assert_eq!(duration_text(5_400_000_000_000), "5400s");
        assert_eq!(duration_text(-500_000_000), "-0.5s");
    }
}
