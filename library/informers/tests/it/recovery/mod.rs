//! Recovery from outages: how soon the cache is current again, and how many requests that takes.

mod group;
mod herd;
mod loops;
mod outages;

use std::time::Duration;

/// The ceiling: this many requests per reflector in any minute.
const CEILING: usize = 30;

/// Asserts that no minute exceeds the ceiling, given the times of all requests in order.
fn assert_ceiling(times: &[Duration]) {
    for (from, first) in times.iter().enumerate() {
        let minute = times[from..]
            .iter()
            .take_while(|at| **at - *first < Duration::from_secs(60));
        let count = minute.count();
        assert!(
            count <= CEILING,
            "{count} requests within a minute, from {first:?} on"
        );
    }
}
