//! Resource usage of a process, from the kernel.

use std::fs;

use crate::Result;

/// Clock ticks per second in `/proc`: constant on every Linux platform this runs on.
const TICKS: f64 = 100.0;

/// The resource usage of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User and system time of all threads, including finished ones.
    pub cpu_seconds: f64,
    /// Resident memory now.
    pub resident_mb: f64,
    /// Peak resident memory since the start or the last [`forget_peak`].
    pub peak_mb: f64,
}

/// Reads the usage of a process.
///
/// # Errors
///
/// The process has ended, or the kernel is not Linux.
pub fn usage(pid: u32) -> Result<Usage> {
    let read = |file: &str| {
        let path = format!("/proc/{pid}/{file}");
        fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))
    };
    parse(&read("stat")?, &read("status")?).ok_or_else(|| format!("/proc/{pid} cannot be parsed").into())
}

fn parse(stat: &str, status: &str) -> Option<Usage> {
    // The program name may contain anything, so parse after its closing parenthesis.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    let megabytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
    };
    Some(Usage {
        cpu_seconds: (ticks(11)? + ticks(12)?) / TICKS,
        resident_mb: megabytes("VmRSS:")?,
        peak_mb: megabytes("VmHWM:")?,
    })
}

/// Resets the peak.
///
/// # Errors
///
/// The process belongs to another user, or a sandbox forbids it.
pub fn forget_peak(pid: u32) -> Result<()> {
    let path = format!("/proc/{pid}/clear_refs");
    fs::write(&path, "5").map_err(|error| format!("cannot write {path}: {error}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusual_program_names_are_parsed() {
        let stat = "12 (a) b (c) S 1 1 1 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 4 0 1 1 1";
        let usage = parse(stat, "Name:\tx\nVmHWM:\t  4096 kB\nVmRSS:\t  2048 kB\n").unwrap();

        assert_eq!(
            (usage.cpu_seconds, usage.resident_mb, usage.peak_mb),
            (3.0, 2.0, 4.0)
        );
        assert!(parse("12 (a", "").is_none());
    }

    #[test]
    fn this_process_has_memory() {
        let usage = usage(std::process::id()).unwrap();

        assert!(usage.resident_mb > 0.0 && usage.peak_mb >= usage.resident_mb);
    }
}
