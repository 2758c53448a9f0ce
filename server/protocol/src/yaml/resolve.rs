//! Which texts a YAML parser reads as something else, unless they are quoted.

use jiff::civil::Date;

/// Whether a text without quotes would be read as null, a truth value, a number or a time.
#[doc(alias = "resolve")]
pub(super) fn is_other_type(text: &str) -> bool {
    is_word(text) || is_number(text) || is_sexagesimal(text) || is_time(text)
}

/// Words are known in lower case, in upper case and capitalized.
fn is_word(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "", "~", "null", "true", "false", "y", "yes", "on", "n", "no", "off",
        // Differs from a real server, which does not quote the key that merges maps, and reads it as that.
        "<<",
    ];
    const NUMBERS: &[&str] = &[
        ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF",
    ];
    let lower = text.to_ascii_lowercase();
    let mut capitalized = lower.clone();
    if let Some(first) = capitalized.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let cased = text == lower || text == capitalized || text == text.to_ascii_uppercase();
    cased && WORDS.contains(&lower.as_str()) || NUMBERS.contains(&text)
}

fn is_number(text: &str) -> bool {
    match text.bytes().next() {
        // Go allows underscores between digits here, and anywhere in the other numbers.
        Some(b'.') => {
            let bytes = text.as_bytes();
            let separates = |window: &[u8]| match window {
                [before, b'_', after] => before.is_ascii_digit() && after.is_ascii_digit(),
                _ => true,
            };
            !text.ends_with('_') && bytes.windows(3).all(separates) && is_float(&text.replace('_', ""))
        }
        Some(b'+' | b'-' | b'0'..=b'9') => {
            let plain = text.replace('_', "");
            is_integer(&plain) || is_float(&plain)
        }
        _ => false,
    }
}

/// An integer with a prefix. Those without one are floats, too.
fn is_integer(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']);
    let lower = unsigned.unwrap_or(text).to_ascii_lowercase();
    [("0x", 16), ("0o", 8), ("0b", 2)]
        .into_iter()
        .any(|(prefix, base)| {
            let Some(digits) = lower.strip_prefix(prefix) else {
                return false;
            };
            if !digits.chars().all(|c| c.is_digit(base)) {
                // The binary ones may have their sign behind the prefix.
                return base == 2 && text.starts_with("0b") && i64::from_str_radix(digits, base).is_ok();
            }
            match u64::from_str_radix(digits, base) {
                Ok(number) if text.starts_with('-') => number <= i64::MIN.unsigned_abs(),
                Ok(number) => unsigned.is_none() || i64::try_from(number).is_ok(),
                Err(_) => false,
            }
        })
}

/// A decimal number that is not too large.
fn is_float(text: &str) -> bool {
    let shape = text
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    shape && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// A number to the base of sixty, which older parsers read.
#[doc(alias = "isBase60Float")]
fn is_sexagesimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'_'));
    let Some((first, rest)) = whole.split_once(':') else {
        return false;
    };
    let is_place = |place: &str| match place.as_bytes() {
        [one] => one.is_ascii_digit(),
        [ten, one] => matches!(ten, b'0'..=b'5') && one.is_ascii_digit(),
        _ => false,
    };
    first.starts_with(|c: char| c.is_ascii_digit())
        && digits(first)
        && rest.split(':').all(is_place)
        && digits(fraction)
}

/// A date, with or without a time.
#[doc(alias = "parseTimestamp")]
fn is_time(text: &str) -> bool {
    let end = text.find(['T', 't', ' ']).unwrap_or(text.len());
    let (date, time) = text.split_at(end);
    let mut parts = date.split('-');
    let (Some(year), Some(month), Some(day), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let exists = (|| {
        let year = (year.len() == 4).then(|| number(year))??;
        Date::new(year, small(month)?, small(day)?).ok()
    })();
    exists.is_some()
        && match time.chars().next() {
            None => true,
            Some(' ') => is_clock(time.get(1..).unwrap_or_default()),
            Some(_) => is_zoned_clock(time.get(1..).unwrap_or_default()),
        }
}

fn number<N: std::str::FromStr>(digits: &str) -> Option<N> {
    let only = digits.bytes().all(|byte| byte.is_ascii_digit());
    only.then(|| digits.parse().ok())?
}

/// A number of one or two digits.
fn small(digits: &str) -> Option<i8> {
    matches!(digits.len(), 1 | 2).then(|| number(digits))?
}

fn is_zoned_clock(time: &str) -> bool {
    if let Some(clock) = time.strip_suffix('Z') {
        return is_clock(clock);
    }
    let Some((clock, zone)) = time.rfind(['+', '-']).and_then(|at| time.split_at_checked(at)) else {
        return false;
    };
    let zone = zone.get(1..).and_then(|zone| zone.split_once(':'));
    let is_zone = zone.is_some_and(|(hours, minutes)| {
        hours.len() == 2
            && minutes.len() == 2
            && small(hours).is_some_and(|hours| hours <= 24)
            && small(minutes).is_some_and(|minutes| minutes <= 60)
    });
    is_zone && is_clock(clock)
}

fn is_clock(time: &str) -> bool {
    let (clock, fraction) = match time.split_once(['.', ',']) {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (time, None),
    };
    let parts: Vec<Option<i8>> = clock.split(':').map(small).collect();
    let [Some(hour), Some(minute), Some(second)] = *parts.as_slice() else {
        return false;
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    hour < 24 && minute < 60 && second < 60 && fraction.is_none_or(digits)
}
