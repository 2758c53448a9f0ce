//! Progress of the initial lists: items so far, of how many, how fast. One line that is redrawn on a terminal, a line
//! every few seconds elsewhere.

use std::io::{self, IsTerminal};
use std::time::Duration;

use tokio::time::Instant;

use crate::cli::Showing;
use crate::output::writer::Output;
use crate::session::observe::{InformerView, Progress};
use crate::text::safe::SafeText;

/// Moves to the start of the line and clears it.
const CLEAR_LINE: &str = "\r\u{1b}[K";
/// Shorter lists show no progress.
const SHOW_AFTER: Duration = Duration::from_millis(700);
/// How often a line is printed where it cannot be redrawn.
const LINES_EVERY: Duration = Duration::from_secs(5);

/// Shows progress on standard error.
pub struct ProgressLine {
    began: Instant,
    redraws: bool,
    quiet: bool,
    drawn: bool,
    next_line: Instant,
}

impl ProgressLine {
    /// Configured by the options. Call [`show`](Self::show) a few times a second.
    pub fn new(showing: &Showing) -> Self {
        let now = Instant::now();
        Self {
            began: now,
            redraws: io::stderr().is_terminal(),
            quiet: showing.quiet,
            drawn: false,
            next_line: now,
        }
    }

    /// Adds a line about the lists that are not finished to the output.
    pub fn show(&mut self, views: &[InformerView], output: &mut Output) {
        if self.quiet || self.began.elapsed() < SHOW_AFTER {
            return;
        }
        let parts: Vec<String> = views
            .iter()
            .filter(|view| !view.synced)
            .filter_map(|view| {
                Some(format!(
                    "{}: {}",
                    view.kind.full_name(),
                    text(view.progress.as_ref()?)
                ))
            })
            .collect();
        if parts.is_empty() {
            return;
        }
        let line = SafeText::line(format!("listing {}", parts.join(", ")));
        if self.redraws {
            let mut text = SafeText::from(CLEAR_LINE);
            text.push(line);
            output.error_text(&text);
            self.drawn = true;
        } else if Instant::now() >= self.next_line {
            output.error_line(&line);
            self.next_line = Instant::now() + LINES_EVERY;
        }
    }

    /// Removes the line before anything else is printed.
    pub fn clear(&mut self, output: &mut Output) {
        if std::mem::take(&mut self.drawn) {
            output.error_text(&CLEAR_LINE.into());
        }
    }
}

/// `12500 of about 100000 (13 %), 8300/s`.
pub fn text(progress: &Progress) -> String {
    let rate = progress.rate();
    let mut text = match progress.of {
        Some(of) if of > 0 => {
            let percent = progress.items.saturating_mul(100) / of;
            format!("{} of about {of} ({percent} %)", progress.items)
        }
        _ => format!("{} so far", progress.items),
    };
    if rate >= 1.0 {
        text.push_str(&format!(", {rate:.0}/s"));
    }
    text
}

/// `[######--------------] 3000 of 10000 (30 %), 8300/s`; without a total only the numbers.
pub fn bar(items: u64, of: Option<u64>, elapsed: Duration) -> String {
    const WIDTH: u64 = 30;
    let text = text(&Progress { items, of, elapsed });
    match of {
        Some(of) if of > 0 => {
            let done = (items.min(of).saturating_mul(WIDTH) / of) as usize;
            format!(
                "[{}{}] {text}",
                "#".repeat(done),
                "-".repeat(WIDTH as usize - done)
            )
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_shows_items_total_and_rate() {
        let progress = |items, of| {
            text(&Progress {
                items,
                of,
                elapsed: Duration::from_secs(2),
            })
        };
        assert_eq!(progress(500, Some(2000)), "500 of about 2000 (25 %), 250/s");
        assert_eq!(progress(500, None), "500 so far, 250/s");
        assert_eq!(progress(0, Some(0)), "0 so far");
    }

    #[test]
    fn the_bar_shows_the_completed_fraction() {
        let second = Duration::from_secs(1);
        assert_eq!(
            bar(5, Some(10), second),
            "[###############---------------] 5 of about 10 (50 %), 5/s"
        );
        assert_eq!(bar(20, Some(10), second).matches('#').count(), 30);
        assert_eq!(bar(5, None, second), "5 so far, 5/s");
    }
}
