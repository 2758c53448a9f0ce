//! The lists below the informers, as lines: recent changes and the busiest objects and fields.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::look::Look;
use super::model::{Model, Noted, Pane};
use crate::board::{LogEntry, ObjectId};
use crate::changes::What;
use crate::objects::fields::FieldChange;
use crate::objects::who;
use crate::view::text::changed_part;

/// Fields of one change; more are counted.
const FIELDS: usize = 6;
/// Longer values are truncated, so that both fit on a line.
const VALUE: usize = 48;

/// A line of a list, and the object it is about.
pub(super) type Row = (Line<'static>, Option<ObjectId>);

/// The object that Enter opens: that of the first line which can be seen.
pub(super) fn marked(model: &Model) -> Option<ObjectId> {
    let (_, rows) = pane(model, model.pane, u16::MAX, 1);
    let first = model.scroll.min(rows.len().saturating_sub(1));
    rows.into_iter().nth(first)?.1
}

/// The title and the lines of a list, as many as can be seen.
pub(super) fn pane(model: &Model, pane: Pane, width: u16, height: usize) -> (Line<'static>, Vec<Row>) {
    let name = |pane: Pane| match pane {
        Pane::Changes => "changes",
        Pane::Objects => "busiest objects",
        Pane::Fields => "busiest fields",
        Pane::Trouble => "trouble",
    };
    let mut title = vec![Span::styled(format!(" {} ", name(pane)), model.look.strong())];
    let lines = match pane {
        Pane::Changes => {
            if let Some(held) = model.held_back() {
                title.push(Span::styled(format!("paused, {held} new "), model.look.busy()));
            }
            changes(
                model,
                usize::from(width.saturating_sub(4)),
                height.saturating_add(model.scroll),
            )
        }
        Pane::Objects => objects(model, width),
        Pane::Fields => fields(model, width),
        Pane::Trouble => trouble(model),
    };
    match pane {
        Pane::Objects | Pane::Fields => title.push(Span::styled("changes a minute ", model.look.dim())),
        Pane::Trouble => title.push(Span::styled(
            "fields rewritten again and again ",
            model.look.dim(),
        )),
        Pane::Changes => {}
    }
    (Line::from(title), lines)
}

/// Changes and notes, the newest first; no more lines than can be seen.
fn changes(model: &Model, width: usize, most: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut notes = model.notes.iter().filter(|_| model.filter.is_empty()).peekable();
    for entry in model.changes() {
        while let Some(note) = notes.next_if(|note| note.after >= entry.number) {
            rows.extend(
                noted(note, model.look, width)
                    .into_iter()
                    .map(|line| (line, None)),
            );
        }
        let key = entry.change.key.clone();
        let id = key.map(|key| ObjectId {
            kind: entry.kind,
            key,
        });
        rows.extend(change(model, entry).into_iter().map(|line| (line, id.clone())));
        if rows.len() >= most {
            return rows;
        }
    }
    for note in notes {
        rows.extend(
            noted(note, model.look, width)
                .into_iter()
                .map(|line| (line, None)),
        );
    }
    if rows.is_empty() {
        let text = match (model.filter.is_empty(), model.board.is_synced()) {
            (false, _) => "nothing that changed has these words",
            (true, true) => "nothing has changed yet",
            (true, false) => "the initial list is being read; changes follow",
        };
        rows.push((Line::styled(text, model.look.dim()), None));
    }
    rows
}

/// A note in full: it may hold a command that is to be copied.
fn noted(note: &Noted, look: Look, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let style = if note.trouble { look.bad() } else { look.good() };
    let stamp = time(note.when);
    let room = width.saturating_sub(stamp.chars().count() + 1).max(20);
    let mut begin = Span::styled(stamp.clone(), look.dim());
    for line in note.text.lines() {
        let characters: Vec<char> = line.chars().collect();
        for part in characters.chunks(room) {
            let text: String = part.iter().collect();
            lines.push(Line::from(vec![
                begin.clone(),
                Span::styled(format!(" {text}"), style),
            ]));
            begin = Span::raw(" ".repeat(stamp.chars().count()));
        }
    }
    lines
}

/// A change with its diff.
pub(super) fn change(model: &Model, entry: &LogEntry) -> Vec<Line<'static>> {
    let look = model.look;
    let change = &entry.change;
    let word = match change.event {
        What::Added { .. } => "added  ",
        What::Updated { .. } => "changed",
        What::Deleted { .. } => "deleted",
        What::Synced { .. } => "synced ",
    };
    let mut head = vec![
        Span::styled(time(change.when), look.dim()),
        Span::styled(format!(" {word} "), look.what(change.event)),
        Span::styled(format!("{} ", model.id(entry.kind)), look.dim()),
    ];
    match change.event {
        What::Synced { objects } => head.push(Span::raw(format!("{objects} objects"))),
        _ => {
            if let Some(namespace) = change.key.as_ref().and_then(|key| key.namespace()) {
                head.push(Span::raw(format!("{}/", namespace)));
            }
            let name = change.key.as_ref().map_or("", |key| key.name());
            head.push(Span::styled(name.to_owned(), look.strong()));
        }
    }
    match change.event.cause() {
        Some("missed") => head.push(Span::styled(" while the connection was down", look.dim())),
        Some("leftScope") => head.push(Span::styled(" no longer selected", look.dim())),
        _ => {}
    }
    if let Some(written) = change.by.as_deref().filter(|written| !written.is_empty()) {
        head.push(Span::styled(format!("  by {}", who::names(written)), look.dim()));
    }
    let mut lines = vec![Line::from(head)];
    if !model.diffs {
        return lines;
    }
    if let Some(words) = &entry.words {
        lines.push(Line::styled(format!("         {}", words), look.dim()));
    }
    lines.extend(change.diff.iter().take(FIELDS).map(|one| field(one, look)));
    if change.diff.len() > FIELDS {
        let rest = change.diff.len() - FIELDS;
        lines.push(Line::styled(format!("         … {rest} more"), look.dim()));
    }
    lines
}

fn field(field: &FieldChange, look: Look) -> Line<'static> {
    let mut spans = vec![
        Span::raw("         "),
        Span::styled(format!("{}  ", field.field), look.accent()),
    ];
    let (old, new) = changed_part(field);
    let (old, new) = (cut(old.as_str()), cut(new.as_str()));
    match (&field.old, &field.new) {
        (Some(_), Some(_)) => {
            spans.push(Span::styled(old, look.bad()));
            spans.push(Span::styled(" → ", look.dim()));
            spans.push(Span::styled(new, look.good()));
        }
        (Some(_), None) => spans.push(Span::styled(format!("- {old}"), look.bad())),
        (None, _) => spans.push(Span::styled(format!("+ {new}"), look.good())),
    }
    Line::from(spans)
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(VALUE) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A row of what changes most: rate, kind, name, and the object.
type Ranked<'a> = (f64, &'a str, String, Option<ObjectId>);

fn objects(model: &Model, width: u16) -> Vec<Row> {
    let found: Vec<Ranked<'_>> = model
        .objects()
        .into_iter()
        .map(|one| {
            let name = one.what.key.as_str().to_owned();
            (one.per_minute, model.id(one.what.kind), name, Some(one.what))
        })
        .filter(|(_, kind, name, _)| model.matches(&[kind, name]))
        .collect();
    ranked(model, found, width)
}

fn fields(model: &Model, width: u16) -> Vec<Row> {
    let found: Vec<Ranked<'_>> = model
        .fields()
        .into_iter()
        .map(|one| (one.per_minute, model.id(one.what.kind), one.what.path, None))
        .filter(|(_, kind, name, _)| model.matches(&[kind, name]))
        .collect();
    ranked(model, found, width)
}

/// Loops and fights, the newest first.
fn trouble(model: &Model) -> Vec<Row> {
    let look = model.look;
    let mut rows: Vec<Row> = Vec::new();
    for found in model.board.findings.newest_first() {
        let (kind, finding) = (model.id(found.kind), &found.finding);
        let managers = match finding.managers.is_empty() {
            true => "an unknown manager".to_owned(),
            false => finding.managers.join(" and "),
        };
        let mut texts = vec![kind, finding.key.as_str(), finding.path.as_str(), found.word()];
        texts.extend(finding.managers.iter().map(String::as_str));
        if !model.matches(&texts) {
            continue;
        }
        let id = ObjectId {
            kind: found.kind,
            key: finding.key.clone(),
        };
        let head = Line::from(vec![
            Span::styled(time(found.when), look.dim()),
            Span::styled(format!(" {:<5} ", found.word()), look.bad()),
            Span::styled(format!("{kind} "), look.dim()),
            Span::styled(finding.key.as_str().to_owned(), look.strong()),
        ]);
        let field = Line::from(vec![
            Span::raw("         "),
            Span::styled(format!("{}  ", finding.path), look.accent()),
            Span::raw(format!("by {managers}")),
            Span::styled(format!("  {} changes", finding.changes), look.dim()),
        ]);
        rows.extend([(head, Some(id.clone())), (field, Some(id))]);
    }
    if rows.is_empty() {
        let text = match model.filter.is_empty() {
            true => "no object is rewritten in a loop",
            false => "nothing here has these words",
        };
        rows.push((Line::styled(text, look.dim()), None));
    }
    rows
}

/// Rate, a short bar, and the name.
fn ranked(model: &Model, found: Vec<Ranked<'_>>, width: u16) -> Vec<Row> {
    let look = model.look;
    if found.is_empty() {
        let text = match model.filter.is_empty() {
            true => "nothing has changed lately",
            false => "nothing here has these words",
        };
        return vec![(Line::styled(text, look.dim()), None)];
    }
    let bar = if width >= 60 { 10 } else { 5 };
    let most = found.iter().map(|(rate, ..)| *rate).fold(0.001, f64::max);
    // Frame, rate, bar, and the spaces between them.
    let room = usize::from(width).saturating_sub(4 + 7 + bar + 1);
    found
        .into_iter()
        .map(|(rate, kind, name, object)| {
            let full = ((rate / most * bar as f64).ceil() as usize).clamp(1, bar);
            let style: Style = look.accent();
            let line = Line::from(vec![
                Span::raw(format!("{rate:>6.1} ")),
                Span::styled("■".repeat(full), style),
                Span::raw(" ".repeat(bar.saturating_sub(full) + 1)),
                Span::styled(format!("{kind} "), look.dim()),
                Span::raw(abridged(&name, room.saturating_sub(kind.chars().count() + 1))),
            ]);
            (line, object)
        })
        .collect()
}

/// A long text without its middle: both ends of names and paths distinguish them from others.
fn abridged(text: &str, room: usize) -> String {
    let length = text.chars().count();
    if length <= room || room < 2 {
        return text.chars().take(room).collect();
    }
    let front = (room - 1) / 2;
    let back = room - 1 - front;
    let (start, end): (String, String) = (
        text.chars().take(front).collect(),
        text.chars().skip(length - back).collect(),
    );
    format!("{start}…{end}")
}

fn time(when: Timestamp) -> String {
    when.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}
