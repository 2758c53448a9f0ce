//! Changes as text to read: one line, and a line for each field.

use jiff::tz::TimeZone;
use serde_json::Value;

use crate::changes::{Change, What};
use crate::diff::FieldChange;
use crate::style::{ADDED, Colours, DELETED, DIM, FIELD, UPDATED};

/// How changes are written.
#[derive(Clone, Copy, Debug)]
pub struct Texts {
    /// With or without colours.
    pub colours: Colours,
    /// Whether lines name the kind.
    pub several_kinds: bool,
}

/// Longer values are truncated.
const LONGEST_VALUE: usize = 100;

impl Texts {
    /// A change with its diff, without the end of the last line.
    pub fn change(&self, change: &Change) -> String {
        let (style, word) = match change.event {
            What::Added { .. } => (ADDED, "ADDED"),
            What::Updated { .. } => (UPDATED, "UPDATED"),
            What::Deleted { .. } => (DELETED, "DELETED"),
            What::Synced { .. } => (DIM, "SYNCED"),
        };
        let time = change
            .when
            .to_zoned(TimeZone::system())
            .strftime("%H:%M:%S")
            .to_string();
        let mut text = format!(
            "{} {}",
            self.colours.paint(DIM, &time),
            self.colours.paint(style, &format!("{word:<7}"))
        );
        let kind = match change.event {
            What::Synced { .. } => change.kind.full_name(),
            _ => change.kind.label(),
        };
        if self.several_kinds || matches!(change.event, What::Synced { .. }) {
            text.push_str(&format!(" {kind}"));
        }
        match change.event {
            What::Synced { objects } => text.push_str(&format!(" {objects} objects")),
            _ => text.push_str(&format!(" {}", clean(change.name()))),
        }
        if let Some(story) = story(change) {
            text.push_str(&format!(" {story}"));
        }
        if let Some(remark) = remark(change) {
            text.push(' ');
            text.push_str(&self.colours.paint(DIM, remark));
        }
        if change.coalesced > 0 {
            let merged = format!(
                " ({} changes in one: the output was blocked)",
                change.coalesced + 1
            );
            text.push_str(&self.colours.paint(DIM, &merged));
        }
        for field in &change.diff {
            text.push('\n');
            text.push_str(&self.field(field));
        }
        text
    }

    /// One field: `    ~ /status/phase  Pending → Running`.
    pub fn field(&self, field: &FieldChange) -> String {
        let path = self.colours.paint(FIELD, &clean(&field.path));
        match (&field.old, &field.new) {
            (None, Some(new)) => {
                let new = self.colours.paint(ADDED, &value_text(new));
                format!("    {} {path}  {new}", self.colours.paint(ADDED, "+"))
            }
            (Some(old), None) => {
                let old = self.colours.paint(DELETED, &value_text(old));
                format!("    {} {path}  {old}", self.colours.paint(DELETED, "-"))
            }
            (old, new) => {
                let show = |value: &Option<Value>| value.as_ref().map_or_else(String::new, value_text);
                format!(
                    "    {} {path}  {} → {}",
                    self.colours.paint(UPDATED, "~"),
                    self.colours.paint(DELETED, &show(old)),
                    self.colours.paint(ADDED, &show(new))
                )
            }
        }
    }
}

/// The reason and message of an Event: its name is meaningless.
fn story(change: &Change) -> Option<String> {
    change.story().map(|story| shortened(&clean(&story)))
}

fn remark(change: &Change) -> Option<&'static str> {
    match change.event {
        What::Added { initial: true } => Some("(was there)"),
        What::Updated { resync: true } => Some("(resync)"),
        What::Updated { .. } if change.diff.is_empty() => Some("(no field that is shown)"),
        What::Deleted { .. } => match change.event.cause() {
            Some("missed") => Some("(while the connection was down)"),
            Some("leftScope") => Some("(no longer selected)"),
            _ => None,
        },
        _ => None,
    }
}

/// A value in one line, short enough to read.
pub fn value_text(value: &Value) -> String {
    let text = match value {
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    shortened(&clean(&text))
}

pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!(
            "{}… ({} characters)",
            text.get(..end).unwrap_or_default(),
            text.chars().count()
        ),
        None => text.to_owned(),
    }
}

/// One line without characters that control the terminal or the layout of the text.
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\u{2028}' | '\u{2029}' => '⏎',
            '\t' => ' ',
            c if is_unsafe(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Several lines without characters that control the terminal: for messages whose line ends are ours.
pub fn clean_lines(text: &str) -> String {
    text.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

/// Whether a character could control the terminal (C0 with ESC and BEL, DEL, C1) or change how the text around it is
/// displayed (bidirectional overrides and isolates, zero-width and other invisible characters).
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
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
    use serde_json::json;

    use super::*;

    fn field(old: Option<Value>, new: Option<Value>) -> String {
        Texts {
            colours: Colours::new(false),
            several_kinds: false,
        }
        .field(&FieldChange {
            path: "/status/phase".to_owned(),
            old,
            new,
        })
    }

    #[test]
    fn fields_are_added_removed_and_changed() {
        assert_eq!(
            field(None, Some(json!("Running"))),
            "    + /status/phase  Running"
        );
        assert_eq!(field(Some(json!(3)), None), "    - /status/phase  3");
        assert_eq!(
            field(Some(json!("")), Some(json!({ "a": [1] }))),
            "    ~ /status/phase  \"\" → {\"a\":[1]}"
        );
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        let text = value_text(&json!("ä".repeat(500)));
        assert_eq!(text, format!("{}… (500 characters)", "ä".repeat(100)));
    }

    #[test]
    fn content_of_objects_does_not_control_the_terminal() {
        assert_eq!(
            value_text(&json!("a\u{1b}[31mb\nc\td\u{9b}")),
            "a\u{fffd}[31mb⏎c d\u{fffd}"
        );
        for c in [
            '\u{1b}', '\u{7}', '\u{0}', '\u{7f}', '\u{85}', '\u{9b}', '\u{9d}', '\u{202e}', '\u{2066}',
            '\u{200b}', '\u{200f}', '\u{feff}', '\u{2028}', '\u{2029}', '\r',
        ] {
            let text = clean(&format!("a{c}b"));
            assert!(!text.contains(c), "{c:?}");
            assert!(!clean_lines(&format!("a{c}b\nc")).contains(c), "{c:?}");
        }
        assert_eq!(clean("äöü 日本 → ✓"), "äöü 日本 → ✓");
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1500), "1.5 kB");
        assert_eq!(bytes(20_300_000), "20.3 MB");
        assert_eq!(bytes(u64::MAX), "18446744.1 TB");
    }
}
