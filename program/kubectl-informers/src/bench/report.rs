//! The results, as text or JSON.

use std::time::Duration;

use serde_json::json;

use crate::process::usage::Usage;
use crate::record::measure::Measured;
use crate::text::units::bytes;

/// The results.
pub struct Report {
    /// The kinds.
    pub kinds: Vec<String>,
    /// The server.
    pub server: String,
    /// Objects in the cache after the sync.
    pub objects: usize,
    /// Bytes received by then.
    pub bytes: u64,
    /// The number of lists.
    pub lists: u64,
    /// The duration, including discovery.
    pub sync: Duration,
    /// Before and after.
    pub sync_usage: (Usage, Usage),
    /// The number of changes after the sync.
    pub events: u64,
    /// The time in which they were counted.
    pub counted: Duration,
    /// Before and after.
    pub event_usage: (Usage, Usage),
    /// Peak memory.
    pub peak: Option<u64>,
    /// What recording the events has cost.
    pub recording: Option<Measured>,
}

impl Report {
    fn cpu(usage: &(Usage, Usage)) -> Option<Duration> {
        usage.1.cpu?.checked_sub(usage.0.cpu?)
    }

    fn memory_per_object(&self) -> Option<u64> {
        let grown = self
            .sync_usage
            .1
            .resident?
            .saturating_sub(self.sync_usage.0.resident?);
        grown.checked_div(self.objects as u64)
    }

    fn rate(count: u64, time: Duration) -> f64 {
        match time.as_secs_f64() {
            seconds if seconds > 0.0 => count as f64 / seconds,
            _ => 0.0,
        }
    }

    /// As text.
    pub fn text(&self) -> String {
        let unknown = || "not measured on this system".to_owned();
        let seconds = |time: Option<Duration>| match time {
            Some(time) => format!("{:.2} s", time.as_secs_f64()),
            None => unknown(),
        };
        let size = |size: Option<u64>| size.map_or_else(unknown, bytes);
        let mut lines = vec![
            (
                "synced",
                format!("{} {} from {}", self.objects, self.kinds.join(", "), self.server),
            ),
            (
                "time",
                format!(
                    "{:.2} s, {:.0} objects/s",
                    self.sync.as_secs_f64(),
                    Self::rate(self.objects as u64, self.sync)
                ),
            ),
            ("received", bytes(self.bytes)),
            ("cpu", seconds(Self::cpu(&self.sync_usage))),
            ("memory per object", size(self.memory_per_object())),
            ("memory peak", size(self.peak)),
        ];
        if !self.counted.is_zero() {
            lines.push((
                "events",
                format!(
                    "{:.0}/s ({} in {:.1} s)",
                    Self::rate(self.events, self.counted),
                    self.events,
                    self.counted.as_secs_f64()
                ),
            ));
            lines.push(("cpu for events", seconds(Self::cpu(&self.event_usage))));
        }
        if let Some(recording) = &self.recording {
            let each = recording
                .bytes_of_changes
                .checked_div(recording.changes)
                .unwrap_or(0);
            let (seek, slowest) = (recording.seek.as_secs_f64(), recording.slowest_seek.as_secs_f64());
            lines.push((
                "recorded",
                format!(
                    "{} changes, {each} B each, {}",
                    recording.changes,
                    bytes(recording.bytes)
                ),
            ));
            lines.push((
                "seek",
                format!("{:.0} ms, slowest {:.0} ms", seek * 1e3, slowest * 1e3),
            ));
        }
        let lines: Vec<String> = lines
            .into_iter()
            .map(|(name, value)| format!("{name:<18} {value}"))
            .collect();
        lines.join("\n")
    }

    /// As one JSON object.
    pub fn json(&self) -> String {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        json!({
            "kinds": self.kinds,
            "server": self.server,
            "objects": self.objects,
            "bytes": self.bytes,
            "lists": self.lists,
            "syncSeconds": self.sync.as_secs_f64(),
            "objectsPerSecond": Self::rate(self.objects as u64, self.sync),
            "cpuSeconds": seconds(Self::cpu(&self.sync_usage)),
            "bytesPerObject": self.memory_per_object(),
            "peakBytes": self.peak,
            "events": self.events,
            "eventSeconds": self.counted.as_secs_f64(),
            "eventsPerSecond": Self::rate(self.events, self.counted),
            "eventCpuSeconds": seconds(Self::cpu(&self.event_usage)),
            "recording": self.recording.as_ref().map(|recording| json!({
                "changes": recording.changes,
                "bytes": recording.bytes,
                "bytesOfChanges": recording.bytes_of_changes,
                "seekSeconds": recording.seek.as_secs_f64(),
                "slowestSeekSeconds": recording.slowest_seek.as_secs_f64(),
            })),
        })
        .to_string()
    }
}
