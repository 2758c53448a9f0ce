//! The lists below the informers, as lines: recent changes and the busiest objects and fields.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::look::Look;
use super::model::{Model, Noted, Pane};
use crate::board::Entry;
use crate::changes::What;
use crate::diff::FieldChange;
use crate::watch::text::changed_part;
use crate::who;

/// Fields of one change; more are counted.
const FIELDS: usize = 6;
/// Longer values are truncated, so that both fit on a line.
const VALUE: usize = 48;

/// The title and the lines of a list, as many as can be seen.
pub(super) fn pane(
    model: &Model,
    pane: Pane,
    width: u16,
    height: usize,
) -> (Line<'static>, Vec<Line<'static>>) {
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
fn changes(model: &Model, width: usize, most: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut notes = model.notes.iter().filter(|_| model.filter.is_empty()).peekable();
    for entry in model.changes() {
        while let Some(note) = notes.next_if(|note| note.after >= entry.number) {
            noted(note, model.look, width, &mut lines);
        }
        change(model, entry, &mut lines);
        if lines.len() >= most {
            return lines;
        }
    }
    for note in notes {
        noted(note, model.look, width, &mut lines);
    }
    if lines.is_empty() {
        let text = match (model.filter.is_empty(), model.board.is_synced()) {
            (false, _) => "nothing that changed has these words",
            (true, true) => "nothing has changed yet",
            (true, false) => "the initial list is being read; changes follow",
        };
        lines.push(Line::styled(text, model.look.dim()));
    }
    lines
}

/// A note in full: it may hold a command that is to be copied.
fn noted(note: &Noted, look: Look, width: usize, lines: &mut Vec<Line<'static>>) {
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
}

fn change(model: &Model, entry: &Entry, lines: &mut Vec<Line<'static>>) {
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
    lines.push(Line::from(head));
    if !model.diffs {
        return;
    }
    if let Some(words) = &entry.words {
        lines.push(Line::styled(format!("         {}", words), look.dim()));
    }
    lines.extend(change.diff.iter().take(FIELDS).map(|one| field(one, look)));
    if change.diff.len() > FIELDS {
        let rest = change.diff.len() - FIELDS;
        lines.push(Line::styled(format!("         … {rest} more"), look.dim()));
    }
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

fn objects(model: &Model, width: u16) -> Vec<Line<'static>> {
    let found: Vec<(f64, &str, String)> = model
        .objects()
        .iter()
        .map(|one| {
            (
                one.per_minute,
                model.id(one.what.kind),
                one.what.key.as_str().to_owned(),
            )
        })
        .filter(|(_, kind, name)| model.matches(&[kind, name]))
        .collect();
    ranked(model, &found, width)
}

fn fields(model: &Model, width: u16) -> Vec<Line<'static>> {
    let found: Vec<(f64, &str, String)> = model
        .fields()
        .iter()
        .map(|one| (one.per_minute, model.id(one.what.kind), one.what.path.clone()))
        .filter(|(_, kind, name)| model.matches(&[kind, name]))
        .collect();
    ranked(model, &found, width)
}

/// Loops and fights, the newest first.
fn trouble(model: &Model) -> Vec<Line<'static>> {
    let look = model.look;
    let mut lines = Vec::new();
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
        lines.push(Line::from(vec![
            Span::styled(time(found.when), look.dim()),
            Span::styled(format!(" {:<5} ", found.word()), look.bad()),
            Span::styled(format!("{kind} "), look.dim()),
            Span::styled(finding.key.as_str().to_owned(), look.strong()),
        ]));
        lines.push(Line::from(vec![
            Span::raw("         "),
            Span::styled(format!("{}  ", finding.path), look.accent()),
            Span::raw(format!("by {managers}")),
            Span::styled(format!("  {} changes", finding.changes), look.dim()),
        ]));
    }
    if lines.is_empty() {
        let text = match model.filter.is_empty() {
            true => "no object is rewritten in a loop",
            false => "nothing here has these words",
        };
        lines.push(Line::styled(text, look.dim()));
    }
    lines
}

/// Rate, a short bar, and the name.
fn ranked(model: &Model, found: &[(f64, &str, String)], width: u16) -> Vec<Line<'static>> {
    let look = model.look;
    if found.is_empty() {
        let text = match model.filter.is_empty() {
            true => "nothing has changed lately",
            false => "nothing here has these words",
        };
        return vec![Line::styled(text, look.dim())];
    }
    let bar = if width >= 60 { 10 } else { 5 };
    let most = found.iter().map(|(rate, ..)| *rate).fold(0.001, f64::max);
    // Frame, rate, bar, and the spaces between them.
    let room = usize::from(width).saturating_sub(4 + 7 + bar + 1);
    found
        .iter()
        .map(|(rate, kind, name)| {
            let full = ((rate / most * bar as f64).ceil() as usize).clamp(1, bar);
            let style: Style = look.accent();
            Line::from(vec![
                Span::raw(format!("{rate:>6.1} ")),
                Span::styled("■".repeat(full), style),
                Span::raw(" ".repeat(bar.saturating_sub(full) + 1)),
                Span::styled(format!("{kind} "), look.dim()),
                Span::raw(abridged(name, room.saturating_sub(kind.chars().count() + 1))),
            ])
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
