//! Limits how often one message is logged. Pure: the time is passed in.

use std::time::Duration;

use tokio::time::Instant;

/// Admits the first ten messages of every minute and counts the others.
#[derive(Debug, Default)]
pub(crate) struct LogLimit {
    window: Option<Instant>,
    logged: u32,
    suppressed: u64,
}

impl LogLimit {
    const PER_WINDOW: u32 = 10;
    const WINDOW: Duration = Duration::from_secs(60);

    /// Whether a message may be logged; if so, the number of messages that were suppressed since the last one.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<u64> {
        let is_over = self
            .window
            .is_none_or(|since| now.saturating_duration_since(since) >= Self::WINDOW);
        if is_over {
            self.window = Some(now);
            self.logged = 0;
        }
        if self.logged >= Self::PER_WINDOW {
            self.suppressed = self.suppressed.saturating_add(1);
            return None;
        }
        self.logged += 1;
        Some(std::mem::take(&mut self.suppressed))
    }

    /// Counts messages that are not logged because they follow others of the same step.
    pub(crate) fn suppress(&mut self, messages: usize) {
        self.suppressed = self.suppressed.saturating_add(messages as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ten_messages_per_minute_are_logged_and_the_others_counted() {
        let mut limit = LogLimit::default();
        let start = Instant::now();
        let logged = (0..1000).filter(|_| limit.admit(start).is_some()).count();
        assert_eq!(logged, 10);
        assert_eq!(limit.admit(start + Duration::from_secs(59)), None);

        limit.suppress(9);
        assert_eq!(limit.admit(start + Duration::from_secs(60)), Some(1000));
        assert_eq!(limit.admit(start + Duration::from_secs(60)), Some(0));
    }
}
