//! Values that are text in JSON and something else in protobuf.

use crate::error::Error;
use crate::wire;

/// A short string on the stack.
pub(crate) struct Short {
    bytes: [u8; 32],
    length: usize,
}

impl Short {
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

/// Bytes that are not UTF-8 as Go prints them in JSON: U+FFFD for each invalid byte.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '\u{fffd}'));
    }
    text
}

/// Go's zero time, in seconds since 1970.
const ZERO_TIME: i64 = -62_135_596_800;
/// The last second of the year 9999.
const MAX_TIME: i64 = 253_402_300_799;

/// Seconds and nanoseconds of a time message. A `Time` has no nanoseconds, a `MicroTime` whole microseconds.
fn seconds(mut rest: &[u8], micro: bool) -> Result<(i64, i64), Error> {
    let (mut seconds, mut nanos) = (0_i64, 0_i64);
    while let Some(part) = wire::next(&mut rest)? {
        match (part.field, part.wire) {
            (1, wire::VARINT) => seconds = part.number.cast_signed(),
            (2, wire::VARINT) => nanos = i64::from(part.number as i32),
            (1 | 2, _) => return Err(Error::wire_type("a 64-bit integer")),
            _ => {}
        }
    }
    if !micro {
        return Ok((seconds, 0));
    }
    nanos = nanos / 1000 * 1000;
    Ok((
        seconds.saturating_add(nanos.div_euclid(1_000_000_000)),
        nanos.rem_euclid(1_000_000_000),
    ))
}

/// Whether this is Go's zero time, which JSON has as `null`. An empty message is.
pub(crate) fn is_zero_time(bytes: &[u8], micro: bool) -> Result<bool, Error> {
    Ok(bytes.is_empty() || seconds(bytes, micro)? == (ZERO_TIME, 0))
}

pub(crate) fn is_zero_seconds(seconds: i64, nanos: i32) -> bool {
    (seconds, nanos) == (ZERO_TIME, 0)
}

/// A time in RFC 3339.
pub(crate) fn time(bytes: &[u8], micro: bool) -> Result<Short, Error> {
    let (seconds, nanos) = seconds(bytes, micro)?;
    if !(ZERO_TIME..=MAX_TIME).contains(&seconds) {
        return Err(Error::mismatch(
            "invalid value: out of range, expected a time from year 1 to 9999",
        ));
    }
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // civil_from_days of Howard Hinnant's "chrono-Compatible Low-Level Date Algorithms".
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    let mut short = Short {
        bytes: *b"0000-00-00T00:00:00.000000Z     ",
        length: 27,
    };
    let b = &mut short.bytes;
    put(&mut b[0..4], year);
    put(&mut b[5..7], month);
    put(&mut b[8..10], day);
    put(&mut b[11..13], second / 3600);
    put(&mut b[14..16], second / 60 % 60);
    put(&mut b[17..19], second % 60);
    if micro {
        put(&mut b[20..26], nanos / 1000);
    } else {
        b[19] = b'Z';
        short.length = 20;
    }
    Ok(short)
}

fn put(digits: &mut [u8], mut number: i64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Seconds since 1970 and nanoseconds of a time in RFC 3339.
pub(crate) fn parse_time(text: &str) -> Option<(i64, i32)> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = bytes
            .get(from..to)
            .filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
        Some(digits.iter().fold(0, |n, digit| n * 10 + i64::from(digit - b'0')))
    };
    let separator = |at: usize, wanted: u8| bytes.get(at).filter(|&&byte| byte.eq_ignore_ascii_case(&wanted));
    separator(4, b'-')
        .and(separator(7, b'-'))
        .and(separator(10, b'T'))?;
    separator(13, b':').and(separator(16, b':'))?;
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days_in_month).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut at = 19;
    let mut nanos = 0;
    if bytes.get(at) == Some(&b'.') {
        let digits = bytes[at + 1..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if digits == 0 {
            return None;
        }
        at += 1 + digits;
        for i in 0..9 {
            let digit = if i < digits { bytes[20 + i] - b'0' } else { 0 };
            nanos = nanos * 10 + i32::from(digit);
        }
    }
    let offset = match bytes.get(at)? {
        b'Z' | b'z' if bytes.len() == at + 1 => 0,
        sign @ (b'+' | b'-') if bytes.len() == at + 6 => {
            separator(at + 3, b':')?;
            let (hours, minutes) = (number(at + 1, at + 3)?, number(at + 4, at + 6)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 3600 + minutes * 60) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    // days_from_civil, the inverse of the above.
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let doy = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    let days = era * 146_097 + doe - 719_468;
    Some((days * 86_400 + hour * 3600 + minute * 60 + second - offset, nanos))
}

/// Nanoseconds as Go prints them: `1h30m0s`, `1.5s`, `300ms`.
pub(crate) fn duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let fraction = |whole: u64, rest: u64, digits: usize| {
        let text = format!("{whole}.{rest:0digits$}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    if nanos < 1_000_000_000 {
        let (value, unit) = match nanos {
            0..1_000 => (nanos.to_string(), "ns"),
            1_000..1_000_000 => (fraction(nanos / 1_000, nanos % 1_000, 3), "µs"),
            _ => (fraction(nanos / 1_000_000, nanos % 1_000_000, 6), "ms"),
        };
        return format!("{sign}{value}{unit}");
    }
    let seconds = nanos / 1_000_000_000;
    let last = fraction(seconds % 60, nanos % 1_000_000_000, 9);
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{sign}{last}s"),
        (0, minutes) => format!("{sign}{minutes}m{last}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{last}s"),
    }
}

/// Nanoseconds of a duration in Go's notation.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_i128;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let whole: i128 = if digits == 0 {
            0
        } else {
            rest[..digits].parse().ok()?
        };
        rest = &rest[digits..];
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            let length = after.bytes().take_while(u8::is_ascii_digit).count();
            (fraction, rest) = after.split_at(length);
        }
        if digits == 0 && fraction.is_empty() {
            return None;
        }
        let (unit, after) = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"]
            .iter()
            .zip([
                1_i128,
                1_000,
                1_000,
                1_000,
                1_000_000,
                1_000_000_000,
                60_000_000_000,
                3_600_000_000_000,
            ])
            .find_map(|(name, unit)| rest.strip_prefix(name).map(|after| (unit, after)))?;
        rest = after;
        total = total.checked_add(whole.checked_mul(unit)?)?;
        let mut scale = unit;
        for digit in fraction.bytes() {
            scale /= 10;
            total += i128::from(digit - b'0') * scale;
        }
    }
    i64::try_from(if negative { -total } else { total }).ok()
}
