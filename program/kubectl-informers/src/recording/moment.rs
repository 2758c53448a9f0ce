//! Times on the command line: `2026-01-31T12:00:00Z`, `2026-01-31 13:00`, `13:00`, `10m`, `start`, `end`.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::process::failure::Failure;

/// A moment of a recording with these first and last times. Times without a zone are local; a time without a date is the
/// last one that is not after the end; a duration counts back from the end.
///
/// # Errors
///
/// The text is no time.
pub fn moment(
    text: &str,
    (begins, ends): (Timestamp, Timestamp),
    zone: &TimeZone,
) -> Result<Timestamp, Failure> {
    parse(text.trim(), begins, ends, zone).ok_or_else(|| {
        Failure::error(format!(
            "{text:?} is not a time: write 2026-01-31T12:00:00Z, '2026-01-31 13:00', 13:00, 10m (before the end of the \
             recording), start or end"
        ))
    })
}

fn parse(text: &str, begins: Timestamp, ends: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    match text {
        "start" => return Some(begins),
        "end" => return Some(ends),
        _ => {}
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    let at = |local: DateTime| Some(zone.to_zoned(local).ok()?.timestamp());
    if let Ok(local) = text.parse::<DateTime>() {
        return at(local);
    }
    if let Ok(date) = text.parse::<Date>() {
        return at(date.at(0, 0, 0, 0));
    }
    if text.contains(':')
        && let Ok(time) = text.parse::<Time>()
    {
        let last = ends.to_zoned(zone.clone()).date();
        let today = at(last.to_datetime(time))?;
        return match today <= ends {
            true => Some(today),
            false => at(last.yesterday().ok()?.to_datetime(time)),
        };
    }
    let ago: SignedDuration = text.parse().ok()?;
    match ago.is_negative() {
        true => ends.checked_add(ago).ok(),
        false => ends.checked_sub(ago).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_absolute_local_or_relative_to_the_end() {
        let begins: Timestamp = "2026-01-30T20:00:00Z".parse().unwrap();
        let ends: Timestamp = "2026-01-31T12:30:00Z".parse().unwrap();
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        for (text, expected) in [
            ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
            ("2026-01-31T12:00:00.5+02:00", "2026-01-31T10:00:00.5Z"),
            ("2026-01-31 13:00", "2026-01-31T12:00:00Z"),
            ("2026-01-31T13:00:10", "2026-01-31T12:00:10Z"),
            ("2026-01-31", "2026-01-30T23:00:00Z"),
            ("13:00", "2026-01-31T12:00:00Z"),
            ("13:30:01", "2026-01-30T12:30:01Z"),
            ("10m", "2026-01-31T12:20:00Z"),
            ("1h30m", "2026-01-31T11:00:00Z"),
            ("-10m", "2026-01-31T12:20:00Z"),
            ("start", "2026-01-30T20:00:00Z"),
            ("end", "2026-01-31T12:30:00Z"),
        ] {
            let read = moment(text, (begins, ends), &zone).unwrap();
            assert_eq!(read, expected.parse().unwrap(), "{text}");
        }
        for wrong in [
            "",
            "yesterday",
            "25:00",
            "2026-13-01",
            "10",
            "10 parsecs",
            "999999999999h",
        ] {
            let error = moment(wrong, (begins, ends), &zone).unwrap_err().to_string();
            assert!(error.contains("is not a time: write"), "{wrong}: {error}");
        }
    }
}
