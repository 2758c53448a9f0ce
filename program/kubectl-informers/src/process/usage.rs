//! Resource usage of this process: CPU time and memory.

use std::fs;
use std::time::Duration;

/// A reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU time of all threads, user and system; `None` if unknown.
    pub cpu: Option<Duration>,
    /// Memory in use, in bytes.
    pub resident: Option<u64>,
    /// Peak memory.
    pub peak: Option<u64>,
}

/// Linux reports CPU time to programs in hundredths of a second.
const TICKS_A_SECOND: u64 = 100;

impl Usage {
    /// The current values. Only available on Linux.
    pub fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self {
            cpu: fs::read_to_string("/proc/self/stat")
                .ok()
                .and_then(|stat| cpu(&stat)),
            resident: kilobytes(&status, "VmRSS:"),
            peak: kilobytes(&status, "VmHWM:"),
        }
    }
}

/// Fields 14 and 15. Field 2, the program name, may contain anything and ends at the last bracket.
fn cpu(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis(
        user.saturating_add(system).saturating_mul(1000 / TICKS_A_SECOND),
    ))
}

fn kilobytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    number.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "42 (a ) b) S 1 1 1 0 -1 4194560 10 0 0 0 150 50 0 0 20 0 8 0 100 0 0";
        assert_eq!(cpu(stat), Some(Duration::from_secs(2)));
        assert_eq!(cpu(""), None);
        assert_eq!(cpu("1 (x) S 1"), None);
    }

    #[test]
    fn memory_is_read_in_kilobytes() {
        assert_eq!(
            kilobytes("VmHWM:\t 20 kB\nVmRSS:\t   10 kB\n", "VmRSS:"),
            Some(10_240)
        );
        assert_eq!(kilobytes("VmRSS: x", "VmRSS:"), None);
    }
}
