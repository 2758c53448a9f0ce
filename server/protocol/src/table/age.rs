//! Human-readable durations: `5m`, `3h12m`, `41d`.

use jiff::Timestamp;

/// The time since an RFC 3339 timestamp; `<unknown>` if it is empty, `<invalid>` if it cannot be parsed.
#[doc(alias = "translateTimestampSince")]
pub(super) fn since(timestamp: &str, now: Timestamp) -> String {
    if timestamp.is_empty() {
        return "<unknown>".to_owned();
    }
    timestamp
        .parse::<Timestamp>()
        .map_or_else(|_| "<invalid>".to_owned(), |then| human(seconds(then, now)))
}

/// The time between two timestamps, `None` unless both are valid.
pub(super) fn between(from: &str, to: &str) -> Option<String> {
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    Some(human(seconds(from, to)))
}

fn seconds(from: Timestamp, to: Timestamp) -> i64 {
    to.as_second().saturating_sub(from.as_second())
}

/// Seconds in at most two units; shorter durations are more precise.
#[doc(alias = "HumanDuration")]
pub(super) fn human(seconds: i64) -> String {
    // Tolerate clock skew of a second.
    let seconds = match seconds {
        i64::MIN..=-2 => return "<invalid>".to_owned(),
        -1 => 0,
        seconds => seconds,
    };
    let (minutes, hours, days, years) = (
        seconds / 60,
        seconds / 3600,
        seconds / 86_400,
        seconds / (86_400 * 365),
    );
    let pair = |large: i64, large_unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{large}{large_unit}")
        } else {
            format!("{large}{large_unit}{small}{small_unit}")
        }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 192 => pair(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () if years < 8 => pair(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_as_by_kubectl() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_520, "3h12m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (315_360_000, "10y"),
        ] {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn missing_and_invalid_times_are_marked() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(since("", now), "<unknown>");
        assert_eq!(since("yesterday", now), "<invalid>");
        assert_eq!(since("1969-12-31T23:59:00Z", now), "60s");
        assert_eq!(
            between("2026-01-01T00:00:00Z", "2026-01-01T00:00:42.5Z"),
            Some("42s".to_owned())
        );
        assert_eq!(between("", "2026-01-01T00:00:00Z"), None);
    }
}
