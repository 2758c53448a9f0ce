//! The informers as a table.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table};

use super::look::Look;
use super::model::{Model, Sort};
use crate::board::{KindBoard, Series};
use crate::observe::{InformerView, Progress};
use crate::watch::text::bytes;

const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// Draws the table: a head, and a line for each informer as far as there is room.
pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let look = model.look;
    let names = model
        .board
        .kinds
        .iter()
        .map(|kind| kind.short.chars().count())
        .max();
    let name = u16::try_from(names.unwrap_or(4))
        .unwrap_or(u16::MAX)
        .min(area.width / 5)
        .max(10);
    let states = model.board.kinds.iter().filter_map(|kind| kind.view.as_ref());
    let states = states.map(|view| state(view, look).width()).max();
    let state = u16::try_from(states.unwrap_or(8))
        .unwrap_or(u16::MAX)
        .clamp(8, 22);
    // What is left over goes to the bars.
    let others: u16 = [1, name, state, 8, 5, 5, 9, 3, 4, 4].iter().sum();
    let spark = area.width.saturating_sub(others + 10).min(60);
    let widths = [
        Constraint::Length(1),
        Constraint::Length(name),
        Constraint::Length(state),
        Constraint::Length(8),
        Constraint::Length(5),
        Constraint::Length(spark),
        Constraint::Length(5),
        Constraint::Length(9),
        Constraint::Length(3),
        Constraint::Length(4),
        Constraint::Length(4),
    ];
    let rows = usize::from(area.height.saturating_sub(1));
    let informers = model.informers();
    let hidden = informers.len().saturating_sub(rows);
    // The last line says what there is no room for.
    let shown = if hidden > 0 { rows.saturating_sub(1) } else { rows };
    let mut lines: Vec<Row<'_>> = informers
        .iter()
        .take(shown)
        .map(|kind| row(kind, look, usize::from(spark)))
        .collect();
    if hidden > 0 && rows > 0 {
        let text = format!("… {} more", informers.len() - shown);
        lines.push(Row::new([Cell::new(""), Cell::new(text)]).style(look.dim()));
    }
    let table = Table::new(lines, widths).header(head(model)).column_spacing(1);
    frame.render_widget(table, area);
}

fn head(model: &Model) -> Row<'static> {
    let title = |text: &'static str, sort: Option<Sort>, right: bool| {
        let mut style = model.look.head();
        let mut text = text.to_owned();
        if sort == Some(model.sort) {
            style = model.look.accent().add_modifier(Modifier::BOLD);
            text.push('↓');
        }
        let line = Line::styled(text, style);
        Cell::new(if right { line.right_aligned() } else { line })
    };
    Row::new([
        title("", None, false),
        title("kind", None, false),
        title("state", None, false),
        title("objects", Some(Sort::Objects), true),
        title("ev/s", Some(Sort::Events), true),
        title("", None, false),
        title("age", None, true),
        title("received", Some(Sort::Bytes), true),
        title("rel", None, true),
        title("err", Some(Sort::Errors), true),
        title("wait", None, true),
    ])
}

fn row(kind: &KindBoard, look: Look, spark: usize) -> Row<'static> {
    let name = Cell::new(Line::styled(kind.short.clone(), look.strong()));
    let Some(view) = &kind.view else {
        return Row::new([
            Cell::new(""),
            name,
            Cell::new(Line::styled("starting", look.dim())),
        ]);
    };
    let right = |text: String, style: Style| Cell::new(Line::styled(text, style).right_aligned());
    let count = |number: u64, style: Style| match number {
        0 => right("0".to_owned(), look.dim()),
        number => right(short(number), style),
    };
    let rate = kind.series.rate();
    let errors = if view.last_error.is_some() {
        look.bad()
    } else {
        Style::new()
    };
    Row::new([
        Cell::new(""),
        name,
        Cell::new(state(view, look)),
        right(short(view.objects as u64), Style::new()),
        right(
            if rate == 0.0 {
                "0".to_owned()
            } else {
                format!("{rate:.1}")
            },
            if rate == 0.0 { look.dim() } else { Style::new() },
        ),
        Cell::new(bars(&kind.series, spark, look)),
        right(view.version_age.map_or("–".to_owned(), age), look.dim()),
        right(bytes(view.bytes), Style::new()),
        count(view.relists, Style::new()),
        count(view.errors, errors),
        count(view.backlog as u64, look.busy()),
    ])
}

fn state(view: &InformerView, look: Look) -> Line<'static> {
    match (view.state_word(), view.progress) {
        ("listing", Some(progress)) => Line::styled(progress_text(&progress), look.busy()),
        ("watching", _) if !view.synced => Line::styled("syncing", look.busy()),
        ("watching", _) => Line::styled("watching", look.good()),
        ("waiting", _) => Line::styled("waiting to retry", look.bad()),
        (word, _) => Line::styled(word, look.dim()),
    }
}

/// Progress of a list: a bar if the total is known, a count otherwise.
fn progress_text(progress: &Progress) -> String {
    match progress.of {
        Some(of) if of > 0 => {
            let part = (progress.items as f64 / of as f64).clamp(0.0, 1.0);
            let full = (part * 6.0).round() as usize;
            format!(
                "{}{} {}/{}",
                "━".repeat(full),
                "╌".repeat(6usize.saturating_sub(full)),
                short(progress.items),
                short(of)
            )
        }
        _ => format!(
            "{} so far, {}/s",
            short(progress.items),
            short(progress.rate() as u64)
        ),
    }
}

/// Events a second as bars, the newest on the right.
fn bars(series: &Series, width: usize, look: Look) -> Line<'static> {
    let values: Vec<f64> = series
        .samples()
        .rev()
        .take(width)
        .map(|sample| sample.events)
        .collect();
    let most = values.iter().copied().fold(1.0, f64::max);
    let mut text = " ".repeat(width.saturating_sub(values.len()));
    for value in values.iter().rev() {
        let level = (value / most * (BARS.len() as f64 - 1.0)).round() as usize;
        text.push_str(match *value > 0.0 {
            true => BARS.get(level).copied().unwrap_or("█"),
            false => "·",
        });
    }
    Line::from(Span::styled(text, look.accent()))
}

/// At most five characters: `12345`, `123k`, `12.3M`.
pub(super) fn short(number: u64) -> String {
    match number {
        0..=99_999 => number.to_string(),
        100_000..=999_999 => format!("{}k", number / 1000),
        1_000_000..=99_999_999 => format!("{:.1}M", number as f64 / 1e6),
        _ => format!("{}M", number / 1_000_000),
    }
}

/// At most four characters: `12s`, `4m`, `3h`, `5d`.
fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
