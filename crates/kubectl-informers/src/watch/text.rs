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
    /// Whether the kind must be named.
    pub several_kinds: bool,
}

/// Longer values are cut: a diff is to be read.
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

/// What an Event says: its name says nothing.
fn story(change: &Change) -> Option<String> {
    change.story().map(|story| shortened(&clean(&story)))
}

fn remark(change: &Change) -> Option<&'static str> {
    match change.event {
        What::Added { initial: true } => Some("(was there)"),
        What::Updated { resync: true } => Some("(told again)"),
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

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!(
            "{}… ({} characters)",
            text.get(..end).unwrap_or_default(),
            text.chars().count()
        ),
        None => text.to_owned(),
    }
}

/// Without control characters: what is in an object must not steer the terminal.
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' => '⏎',
            '\t' => ' ',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
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
    fn what_is_in_an_object_does_not_steer_the_terminal() {
        assert_eq!(
            value_text(&json!("a\u{1b}[31mb\nc\td\u{9b}")),
            "a\u{fffd}[31mb⏎c d\u{fffd}"
        );
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1500), "1.5 kB");
        assert_eq!(bytes(20_300_000), "20.3 MB");
        assert_eq!(bytes(u64::MAX), "18446744.1 TB");
    }
}
