//! Changes as text to read: one line, and a line for each field.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::changes::{Change, What};
use crate::objects::columns;
use crate::objects::fields::FieldChange;
use crate::objects::item::Item;
use crate::objects::who::{self, Written};
use crate::output::style::{ADDED, Colours, DELETED, DIM, FIELD, UPDATED};
use crate::text::diff::{self, DiffLine, TextChange};
use crate::text::safe::SafeText;
use crate::text::units::time;
use crate::view::server_columns::ServerColumns;

/// How changes are written.
#[derive(Clone, Debug)]
pub struct Texts {
    /// With or without colours.
    pub colours: Colours,
    /// Whether lines name the kind.
    pub several_kinds: bool,
    /// The columns of kinds that have none of ours.
    pub server: ServerColumns,
}

/// Fields of one change; more are counted.
const MOST_FIELDS: usize = 100;
/// Fields of one change in brief.
const BRIEF_FIELDS: usize = 2;

impl Texts {
    /// A change with its diff, without the end of the last line.
    pub fn change(&self, change: &Change) -> SafeText {
        let (style, word) = match change.event {
            What::Added { .. } => (ADDED, "ADDED  "),
            What::Updated { .. } => (UPDATED, "UPDATED"),
            What::Deleted { .. } => (DELETED, "DELETED"),
            What::Synced { .. } => (DIM, "SYNCED "),
        };
        let mut text = self.colours.paint(DIM, time(change.when));
        text.push(" ");
        text.push(self.colours.paint(style, word));
        if let What::Synced { objects } = change.event {
            let line = format!(" {} {objects} objects", change.kind.full_name());
            text.push(SafeText::line(line));
            return text;
        }
        if self.several_kinds {
            text.push(SafeText::line(format!(" {}", change.kind.label())));
        }
        text.push(SafeText::line(format!(" {}", change.name())));
        if let Some(story) = story(change) {
            text.push(" ");
            text.push(story);
        } else if !matches!(change.event, What::Updated { .. }) {
            for (name, cell) in self.essentials(change) {
                text.push(self.colours.paint(DIM, SafeText::line(format!("  {name} "))));
                text.push(SafeText::line(cell).shortened());
            }
        }
        if let Some(remark) = remark(change) {
            text.push(" ");
            text.push(self.colours.paint(DIM, remark));
        }
        text.push(self.by(change));
        if change.coalesced > 0 {
            let merged = format!(
                " ({} changes in one: the output was blocked)",
                change.coalesced + 1
            );
            text.push(self.colours.paint(DIM, SafeText::line(merged)));
        }
        let authors = change.by.as_deref().unwrap_or_default();
        for field in change.diff.iter().take(MOST_FIELDS) {
            text.push("\n");
            text.push(self.field(field, if authors.len() > 1 { authors } else { &[] }));
        }
        if change.diff.len() > MOST_FIELDS {
            let more = format!("\n    … {} more fields", change.diff.len() - MOST_FIELDS);
            text.push(self.colours.paint(DIM, SafeText::lines(more)));
        }
        text
    }

    /// A change in one line: `12:03:04 pod shop/cart-1  Pending → Running  0/1 → 1/1  by kubelet`.
    pub fn brief(&self, change: &Change) -> SafeText {
        let mut text = self.colours.paint(DIM, time(change.when));
        text.push(SafeText::line(format!(
            " {} {}",
            change.kind.label(),
            change.name()
        )));
        match change.event {
            What::Synced { objects } => {
                let line = format!("{objects} objects, watching for changes");
                text.push(self.colours.paint(DIM, SafeText::line(line)));
                return text;
            }
            What::Added { .. } => text.push(self.colours.paint(ADDED, "  added")),
            What::Deleted { .. } => text.push(self.colours.paint(DELETED, "  deleted")),
            What::Updated { .. } => self.brief_changes(change, &mut text),
        }
        if let Some(story) = story(change) {
            text.push("  ");
            text.push(story);
        } else if !matches!(change.event, What::Updated { .. }) {
            for (_, cell) in self.essentials(change) {
                text.push("  ");
                text.push(SafeText::line(cell).shortened());
            }
        }
        if let Some(remark) = remark(change) {
            text.push("  ");
            text.push(self.colours.paint(DIM, remark));
        }
        text.push(self.by(change));
        text
    }

    /// An Event of the past, with its own time and the object it is about.
    pub fn past_event(&self, event: &Change) -> SafeText {
        let object = event.object.as_ref();
        let field = |name: &str| {
            let text = object.and_then(|object| object.text(name).ok().flatten());
            text.filter(|text| !text.is_empty())
        };
        let stamp = field("lastTimestamp")
            .or_else(|| field("eventTime"))
            .or_else(|| field("metadata.creationTimestamp"))
            .and_then(|stamp| stamp.parse::<Timestamp>().ok());
        let stamp = stamp.map_or_else(|| SafeText::from("unknown time"), time);
        let about = event
            .about()
            .map(|(kind, key)| format!(" {} {key}", kind.to_lowercase()));
        let mut text = self.colours.paint(DIM, stamp);
        text.push(SafeText::line(about.unwrap_or_default()));
        text.push("  ");
        text.push(story(event).unwrap_or_default());
        text
    }

    /// The columns that changed, or else the first fields.
    fn brief_changes(&self, change: &Change, text: &mut SafeText) {
        let cells = |item: &Option<Arc<Item>>, version: &Option<String>| {
            let cells = item
                .as_ref()
                .map(|item| columns::essentials(&change.kind, item))
                .filter(|cells| !cells.is_empty());
            let of_server = || {
                self.server
                    .essentials(&change.kind, change.key.as_ref()?, Some(version.as_deref()?))
            };
            cells.or_else(of_server).unwrap_or_default()
        };
        let old = cells(&change.old, &change.old_resource_version);
        let new = cells(&change.object, &change.resource_version);
        let columns: Vec<(&String, &String)> = old
            .iter()
            .zip(&new)
            .map(|((_, old), (_, new))| (old, new))
            .filter(|(old, new)| old != new)
            .collect();
        let shown = |cell: &str| match cell {
            "" => SafeText::from("∅"),
            cell => SafeText::line(cell).shortened(),
        };
        for (old, new) in &columns {
            text.push("  ");
            text.push(self.old_and_new(shown(old), shown(new)));
        }
        if !columns.is_empty() {
            return;
        }
        for field in change.diff.iter().take(BRIEF_FIELDS) {
            text.push("  ");
            text.push(
                self.colours
                    .paint(FIELD, SafeText::line(format!("{} ", field.field))),
            );
            let (old, new) = changed_part(field);
            text.push(self.old_and_new(old, new));
        }
        if change.diff.len() > BRIEF_FIELDS {
            let more = format!("  … {} more", change.diff.len() - BRIEF_FIELDS);
            text.push(self.colours.paint(DIM, SafeText::line(more)));
        }
    }

    /// The columns that tell the state of the object of a change.
    fn essentials(&self, change: &Change) -> Vec<(String, String)> {
        let object = change.object.as_ref();
        let cells = object
            .map(|object| columns::essentials(&change.kind, object))
            .filter(|cells| !cells.is_empty());
        let of_server = || {
            // The last state of a deleted object may have no row of its own.
            let version = change
                .resource_version
                .as_deref()
                .filter(|_| change.event.cause().is_none());
            self.server
                .essentials(&change.kind, change.key.as_ref()?, version)
        };
        let mut cells = cells.or_else(of_server).unwrap_or_default();
        cells.retain(|(_, cell)| !cell.is_empty());
        cells
    }

    fn old_and_new(&self, old: SafeText, new: SafeText) -> SafeText {
        let mut text = self.colours.paint(DELETED, old);
        text.push(" → ");
        text.push(self.colours.paint(ADDED, new));
        text
    }

    /// `  by kubelet`; nothing for resyncs and what belongs to no change.
    fn by(&self, change: &Change) -> SafeText {
        let line = match (&change.by, change.event) {
            (_, What::Added { initial: true } | What::Updated { resync: true } | What::Synced { .. }) => {
                return SafeText::default();
            }
            (Some(written), _) => format!("  by {}", who::names(written)),
            (None, What::Deleted { .. }) => "  by unknown: deletions are not recorded".to_owned(),
            (None, _) => "  by unknown".to_owned(),
        };
        self.colours.paint(DIM, SafeText::line(line))
    }

    /// One field: `    ~ status.phase  Pending → Running`.
    pub fn field(&self, field: &FieldChange, authors: &[Written]) -> SafeText {
        let (style, sign) = match (&field.old, &field.new) {
            (None, Some(_)) => (ADDED, "+"),
            (Some(_), None) => (DELETED, "-"),
            _ => (UPDATED, "~"),
        };
        let mut text = SafeText::from("    ");
        text.push(self.colours.paint(style, sign));
        text.push(" ");
        text.push(self.colours.paint(FIELD, SafeText::line(&field.field)));
        let author = authors
            .iter()
            .find(|written| written.paths.contains(&field.field));
        let mut end = SafeText::default();
        if let Some(author) = author {
            let name = format!("  ({})", author.author.manager);
            end = self.colours.paint(DIM, SafeText::line(name));
        }
        if let (Some(Value::String(old)), Some(Value::String(new))) = (&field.old, &field.new)
            && let Some(TextChange::Lines(lines)) = diff::of(old, new)
        {
            text.push(end);
            for line in &lines {
                text.push("\n        ");
                text.push(self.line(line));
            }
            return text;
        }
        match (&field.old, &field.new) {
            (Some(_), Some(_)) => {
                let (old, new) = changed_part(field);
                text.push("  ");
                text.push(self.old_and_new(old, new));
            }
            (old, new) => {
                text.push("  ");
                let value = old.as_ref().or(new.as_ref()).map(value_text);
                text.push(self.colours.paint(style, value.unwrap_or_default()));
            }
        }
        text.push(end);
        text
    }

    fn line(&self, line: &DiffLine) -> SafeText {
        let text = |sign: &str, line: &str| SafeText::line(format!("{sign} {line}")).shortened();
        match line {
            DiffLine::At(line) => self.colours.paint(DIM, SafeText::line(format!("line {line}"))),
            DiffLine::Same(line) => self.colours.paint(DIM, text(" ", line)),
            DiffLine::Old(line) => self.colours.paint(DELETED, text("-", line)),
            DiffLine::New(line) => self.colours.paint(ADDED, text("+", line)),
            DiffLine::More(lines) => self
                .colours
                .paint(DIM, SafeText::line(format!("… {lines} more lines"))),
        }
    }
}

/// The old and the new value, of long texts the part that changed.
pub fn changed_part(field: &FieldChange) -> (SafeText, SafeText) {
    if let (Some(Value::String(old)), Some(Value::String(new))) = (&field.old, &field.new)
        && let Some(TextChange::Part { old, new }) = diff::of(old, new)
    {
        return (SafeText::line(old).shortened(), SafeText::line(new).shortened());
    }
    let text = |value: &Option<Value>| value.as_ref().map_or_else(|| SafeText::from("∅"), value_text);
    (text(&field.old), text(&field.new))
}

/// The reason and message of an Event: its name is meaningless.
fn story(change: &Change) -> Option<SafeText> {
    change.story().map(|story| SafeText::line(story).shortened())
}

fn remark(change: &Change) -> Option<&'static str> {
    match change.event {
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
pub fn value_text(value: &Value) -> SafeText {
    match value {
        Value::String(text) if text.is_empty() => SafeText::from("\"\""),
        Value::String(text) => SafeText::line(text).shortened(),
        other => SafeText::line(other.to_string()).shortened(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::board::fixtures::{added, deleted, updated};
    use crate::text::safe::{HOSTILE, is_unsafe};

    fn texts() -> Texts {
        Texts {
            colours: Colours::new(false),
            several_kinds: false,
            server: ServerColumns::default(),
        }
    }

    fn field(old: Option<Value>, new: Option<Value>) -> String {
        let field = FieldChange {
            path: "/status/phase".to_owned(),
            field: "status.phase".to_owned(),
            old,
            new,
        };
        texts().field(&field, &[]).to_string()
    }

    #[test]
    fn fields_are_added_removed_and_changed() {
        assert_eq!(field(None, Some(json!("Running"))), "    + status.phase  Running");
        assert_eq!(field(Some(json!(3)), None), "    - status.phase  3");
        assert_eq!(
            field(Some(json!("")), Some(json!({ "a": [1] }))),
            "    ~ status.phase  \"\" → {\"a\":[1]}"
        );
    }

    #[test]
    fn of_a_long_text_the_changed_lines_are_shown() {
        assert_eq!(
            field(Some(json!("a\nb\nc\nd\n")), Some(json!("a\nb\nX\nd\n"))),
            "    ~ status.phase\n        line 2\n          b\n        - c\n        + X\n          d"
        );
    }

    #[test]
    fn no_part_of_a_change_controls_the_terminal() {
        let clean = |text: SafeText| {
            let bad = |c: char| is_unsafe(c) && c != '\n';
            assert!(!text.as_str().contains(bad), "{text:?}");
        };
        let mut change = updated("pods", "shop", "cart", &[HOSTILE]);
        for (old, new) in [
            (json!(HOSTILE), json!(HOSTILE.repeat(2))),
            (
                json!(format!("{HOSTILE}\nx\n")),
                json!(format!("y{HOSTILE}\nx\n")),
            ),
            (
                json!(HOSTILE.repeat(20)),
                json!(format!("{}!", HOSTILE.repeat(20))),
            ),
            (json!({ HOSTILE: HOSTILE }), json!([HOSTILE])),
        ] {
            change.diff[0].field = HOSTILE.to_owned();
            (change.diff[0].old, change.diff[0].new) = (Some(old), Some(new));
            change.by = Some(vec![Written {
                author: who::Author {
                    manager: HOSTILE.into(),
                    operation: HOSTILE.into(),
                    subresource: Some(HOSTILE.into()),
                    time: None,
                },
                paths: vec![HOSTILE.to_owned()],
            }]);
            clean(texts().change(&change));
            clean(texts().brief(&change));
        }
        for change in [added("pods", "shop", HOSTILE), deleted("pods", "shop", HOSTILE)] {
            clean(texts().change(&change));
            clean(texts().brief(&change));
        }
    }

    #[test]
    fn the_number_of_fields_is_limited_and_the_rest_is_counted() {
        let paths: Vec<String> = (0..40_000).map(|number| format!("/spec/f{number}")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let text = texts()
            .change(&updated("pods", "shop", "cart", &paths))
            .to_string();
        assert_eq!(text.lines().count(), MOST_FIELDS + 2);
        assert!(text.ends_with("… 39900 more fields"), "{text}");
    }

    #[test]
    fn a_deletion_says_that_its_author_is_not_recorded() {
        let text = texts().change(&deleted("pods", "shop", "cart")).to_string();
        assert!(text.ends_with("by unknown: deletions are not recorded"), "{text}");
    }
}
