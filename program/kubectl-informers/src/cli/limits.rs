//! Limits of requests and collections, and the units of options: times, sizes, speeds.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;
use kube_informers::reflector::ReflectorConfig;

/// The limits of lists and other requests.
#[derive(Args, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "Limits")]
pub struct Limits {
    /// How long one request or list may take, for example 30s, 2m or 1h; 0 for the defaults
    #[arg(long, global = true, value_name = "TIME")]
    pub request_timeout: Option<Timeout>,

    /// Reject a kind with more objects than this [default: no limit]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_objects: Option<u64>,

    /// Reject a kind whose list is larger than this, for example 500Mi or 2G [default: no limit]
    #[arg(long, global = true, value_name = "SIZE")]
    pub max_bytes: Option<Size>,
}

impl Limits {
    /// The default, or the timeout of requests if that is shorter.
    pub fn at_most(&self, default: Duration) -> Duration {
        self.timeout().map_or(default, |timeout| timeout.min(default))
    }

    /// Configures the lists of an informer.
    pub fn apply(&self, config: &mut ReflectorConfig) {
        let deadlines = &mut config.deadlines;
        deadlines.list_headers = self.at_most(deadlines.list_headers);
        deadlines.list_idle = self.at_most(deadlines.list_idle);
        // The only one that can be longer than the default.
        deadlines.list_total = self.timeout().unwrap_or(deadlines.list_total);
        let limits = &mut config.limits;
        limits.objects = self
            .max_objects
            .map(|objects| usize::try_from(objects).unwrap_or(usize::MAX));
        if let Some(Size(bytes)) = self.max_bytes {
            limits.bytes = Some(bytes);
            limits.wasted_bytes = limits.wasted_bytes.min(bytes);
        }
    }

    fn timeout(&self) -> Option<Duration> {
        self.request_timeout.and_then(Timeout::duration)
    }
}

/// A century. Longer times would overflow the clock.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A time: `30s`, `2m`, `1h30m`, or a number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout(Duration);

impl Timeout {
    /// A number of seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// The time; `None` for 0.
    pub fn duration(self) -> Option<Duration> {
        Some(self.0).filter(|time| !time.is_zero())
    }
}

impl FromStr for Timeout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = match text.parse() {
            Ok(seconds) => Some(Duration::from_secs(seconds)),
            Err(_) => text
                .parse::<SignedDuration>()
                .ok()
                .and_then(|time| Duration::try_from(time).ok()),
        };
        time.map(|time| Self(time.min(FAR)))
            .ok_or_else(|| "write a time such as 30s, 2m or 1h".to_owned())
    }
}

/// A number of bytes, with the suffixes of Kubernetes quantities: `500Mi`, `2G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(u64);

impl Size {
    /// A number of MiB.
    pub const fn mebibytes(number: u64) -> Self {
        Self(number << 20)
    }

    /// The number of bytes.
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

const UNITS: [(&str, u64); 6] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unit = UNITS
            .iter()
            .find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
        let (number, bytes) = unit.unwrap_or((text, 1));
        number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(bytes))
            .filter(|bytes| *bytes > 0)
            .map(Self)
            .ok_or_else(|| "write a number of bytes such as 1000000, 500Mi or 2G".to_owned())
    }
}

/// A factor of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Speed(pub f64);

impl std::fmt::Display for Speed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number: f64 = text.trim_end_matches('x').parse().unwrap_or(f64::NAN);
        match number.is_finite() && (0.0..=1e9).contains(&number) {
            true => Ok(Self(number)),
            false => Err("write a factor such as 1, 0.5 or 60".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout(text: &str) -> Option<Duration> {
        text.parse().ok().map(|Timeout(time)| time)
    }

    fn size(text: &str) -> Option<u64> {
        text.parse().ok().map(|Size(bytes)| bytes)
    }

    #[test]
    fn times_have_units_or_are_seconds() {
        assert_eq!(timeout("5"), Some(Duration::from_secs(5)));
        assert_eq!(timeout("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(timeout("1h30m"), Some(Duration::from_secs(5400)));
        for far in ["18446744073709551615", "999999999h"] {
            assert_eq!(timeout(far), Some(FAR), "{far}");
        }
        for wrong in [
            "",
            "-5s",
            "5 parsecs",
            "99999999999999999999",
            "99999999999999999999h",
        ] {
            assert_eq!(timeout(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sizes_have_the_suffixes_of_quantities() {
        assert_eq!(size("1000"), Some(1000));
        assert_eq!(size("2Mi"), Some(2 << 20));
        assert_eq!(size("3G"), Some(3_000_000_000));
        for wrong in ["", "0", "-1", "1.5", "Mi", "1T", "99999999999Gi"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_timeout_shortens_every_deadline_of_a_list_and_may_extend_the_total() {
        let configured = |text: &str| {
            let limits = Limits {
                request_timeout: text.parse().ok(),
                ..Limits::default()
            };
            let mut config = ReflectorConfig::default();
            limits.apply(&mut config);
            config.deadlines
        };
        let default = ReflectorConfig::default().deadlines;

        let short = configured("2s");
        for deadline in [short.list_headers, short.list_idle, short.list_total] {
            assert_eq!(deadline, Duration::from_secs(2));
        }
        let long = configured("5h");
        assert_eq!(long.list_total, Duration::from_secs(5 * 3600));
        assert_eq!(long.list_idle, default.list_idle);
        assert_eq!(configured("0"), default);
    }

    #[test]
    fn speeds_are_factors() {
        for (text, speed) in [("1", 1.0), ("0.5", 0.5), ("60x", 60.0), ("0", 0.0)] {
            assert_eq!(text.parse(), Ok(Speed(speed)));
        }
        for wrong in ["", "-1", "fast", "inf", "nan", "1e10"] {
            assert!(wrong.parse::<Speed>().is_err(), "{wrong}");
        }
    }
}
