//! Times and sizes as people read them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::safe::SafeText;

/// `12:03:04`, in the time zone of the system.
pub fn time(when: Timestamp) -> SafeText {
    SafeText::line(when.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string())
}

/// `512 B`, `1.5 kB`, `20.3 MB`.
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 1000.0 {
            return match unit {
                "B" => format!("{count} B"),
                unit => format!("{value:.1} {unit}"),
            };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1500), "1.5 kB");
        assert_eq!(bytes(20_300_000), "20.3 MB");
        assert_eq!(bytes(u64::MAX), "18446744.1 TB");
    }
}
