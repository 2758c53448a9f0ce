//! CPU time and memory of this process, as reported by the kernel.

use std::fs;

/// CPU seconds used by this process so far, user and system.
pub fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("/proc/self/stat");
    let after_name = stat.rsplit_once(')').expect("a process name").1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: f64 = [11, 12]
        .iter()
        .map(|i| fields[*i].parse::<f64>().expect("ticks"))
        .sum();
    ticks / 100.0
}

fn status_megabytes(field: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    let line = status
        .lines()
        .find(|line| line.starts_with(field))
        .expect("a memory field");
    let kilobytes: f64 = line
        .split_whitespace()
        .nth(1)
        .expect("a number")
        .parse()
        .expect("a number");
    kilobytes / 1024.0
}

/// Resident memory now.
pub fn resident() -> f64 {
    status_megabytes("VmRSS:")
}

/// The peak resident memory since the start or the last reset.
pub fn peak() -> f64 {
    status_megabytes("VmHWM:")
}

/// Resets the peak.
pub fn reset_peak() {
    // Not permitted in some sandboxes. The peak is then that of the whole run.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Prints one figure for the parent process.
pub fn figure(value: f64, what: &str) {
    println!("{value} {what}");
}

/// Runs something and returns the nanoseconds of CPU per operation.
pub fn per_operation(operations: usize, run: impl FnOnce()) -> f64 {
    let before = cpu_seconds();
    run();
    (cpu_seconds() - before) * 1e9 / operations as f64
}
