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
use crate::session::observe::{Health, InformerView, Progress};
use crate::text::units::bytes;

const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Kind,
    State,
    Objects,
    Rate,
    Bars,
    Age,
    Received,
    Relists,
    Errors,
    Waiting,
}

impl Column {
    const ALL: [Self; 10] = [
        Self::Kind,
        Self::State,
        Self::Objects,
        Self::Rate,
        Self::Bars,
        Self::Age,
        Self::Received,
        Self::Relists,
        Self::Errors,
        Self::Waiting,
    ];

    /// Dropped where there is no room, in this order. Kind and state stay.
    const DROPPED: [Self; 8] = [
        Self::Bars,
        Self::Relists,
        Self::Waiting,
        Self::Received,
        Self::Age,
        Self::Errors,
        Self::Rate,
        Self::Objects,
    ];

    fn title(self) -> (&'static str, Option<Sort>) {
        match self {
            Self::Kind => ("kind", None),
            Self::State => ("state", None),
            Self::Objects => ("objects", Some(Sort::Objects)),
            Self::Rate => ("ev/s", Some(Sort::Events)),
            Self::Bars => ("", None),
            Self::Age => ("age", None),
            Self::Received => ("received", Some(Sort::Bytes)),
            Self::Relists => ("rel", None),
            Self::Errors => ("err", Some(Sort::Errors)),
            Self::Waiting => ("wait", None),
        }
    }

    fn is_right(self) -> bool {
        !matches!(self, Self::Kind | Self::State | Self::Bars)
    }
}

/// The columns that fit, with their widths. What is left over goes to the bars.
fn columns(model: &Model, width: u16) -> Vec<(Column, u16)> {
    let kinds = &model.board.kinds;
    let names = kinds.iter().map(|kind| kind.short.chars().count()).max();
    let states = kinds.iter().filter_map(|kind| kind.view.as_ref());
    let states = states.map(|view| state(view, model.look).width()).max();
    let size = |length: Option<usize>, least: u16, most: u16| {
        u16::try_from(length.unwrap_or(0))
            .unwrap_or(u16::MAX)
            .clamp(least, most.max(least))
    };
    let width_of = |column: Column| match column {
        Column::Kind => size(names, 10, width / 5),
        Column::State => size(states, 8, 22),
        Column::Objects => 8,
        Column::Rate | Column::Age => 5,
        // Fewer say nothing.
        Column::Bars => 6,
        Column::Received => 9,
        Column::Relists => 3,
        Column::Errors | Column::Waiting => 4,
    };
    let mut shown: Vec<(Column, u16)> = Column::ALL
        .iter()
        .map(|column| (*column, width_of(*column)))
        .collect();
    // One space in front of each.
    let total = |shown: &[(Column, u16)]| shown.iter().map(|(_, width)| width + 1).sum::<u16>();
    for dropped in Column::DROPPED {
        if total(&shown) <= width {
            break;
        }
        shown.retain(|(column, _)| *column != dropped);
    }
    let rest = width.saturating_sub(total(&shown));
    if let Some((_, bars)) = shown.iter_mut().find(|(column, _)| *column == Column::Bars) {
        *bars = (*bars + rest).min(60);
    }
    shown
}

/// Draws the table: a head, and a line for each informer as far as there is room.
pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let look = model.look;
    let columns = columns(model, area.width);
    let rows = usize::from(area.height.saturating_sub(1));
    let informers = model.informers();
    let hidden = informers.len().saturating_sub(rows);
    // The last line says what there is no room for.
    let shown = if hidden > 0 { rows.saturating_sub(1) } else { rows };
    let mut lines: Vec<Row<'_>> = informers
        .iter()
        .take(shown)
        .map(|kind| {
            let cells = columns
                .iter()
                .map(|(column, width)| cell(kind, *column, look, usize::from(*width)));
            Row::new(std::iter::once(Cell::new("")).chain(cells))
        })
        .collect();
    if hidden > 0 && rows > 0 {
        let text = format!("… {} more", informers.len() - shown);
        lines.push(Row::new([Cell::new(""), Cell::new(text)]).style(look.dim()));
    }
    // Without a first column the names would touch the edge.
    let widths = std::iter::once(0).chain(columns.iter().map(|(_, width)| *width));
    let table = Table::new(lines, widths.map(Constraint::Length))
        .header(head(model, &columns))
        .column_spacing(1);
    frame.render_widget(table, area);
}

fn head(model: &Model, columns: &[(Column, u16)]) -> Row<'static> {
    let titles = columns.iter().map(|(column, _)| {
        let (text, sort) = column.title();
        let mut style = model.look.head();
        let mut text = text.to_owned();
        if sort == Some(model.sort) {
            style = model.look.accent().add_modifier(Modifier::BOLD);
            text.push('↓');
        }
        let line = Line::styled(text, style);
        Cell::new(if column.is_right() {
            line.right_aligned()
        } else {
            line
        })
    });
    Row::new(std::iter::once(Cell::new("")).chain(titles))
}

fn cell(kind: &KindBoard, column: Column, look: Look, width: usize) -> Cell<'static> {
    let Some(view) = &kind.view else {
        return match column {
            Column::Kind => Cell::new(Line::styled(kind.short.clone(), look.strong())),
            Column::State => Cell::new(Line::styled("starting", look.dim())),
            _ => Cell::new(""),
        };
    };
    let right = |text: String, style: Style| Cell::new(Line::styled(text, style).right_aligned());
    let count = |number: u64, style: Style| match number {
        0 => right("0".to_owned(), look.dim()),
        number => right(short(number), style),
    };
    match column {
        Column::Kind => Cell::new(Line::styled(kind.short.clone(), look.strong())),
        Column::State => Cell::new(state(view, look)),
        Column::Objects => right(short(view.objects as u64), Style::new()),
        Column::Rate => match kind.series.rate() {
            0.0 => right("0".to_owned(), look.dim()),
            rate => right(format!("{rate:.1}"), Style::new()),
        },
        Column::Bars => Cell::new(bars(&kind.series, width, look)),
        Column::Age => right(view.version_age.map_or("–".to_owned(), age), look.dim()),
        Column::Received => right(bytes(view.bytes), Style::new()),
        Column::Relists => count(view.relists, Style::new()),
        Column::Errors => {
            let failing = view.last_error.is_some();
            count(view.errors, if failing { look.bad() } else { Style::new() })
        }
        Column::Waiting => count(view.backlog as u64, look.busy()),
    }
}

fn state(view: &InformerView, look: Look) -> Line<'static> {
    match (view.state_word(), view.progress) {
        ("listing", Some(progress)) => Line::styled(progress_text(&progress), look.busy()),
        // Asked for, and not accepted yet.
        ("watching", _) if matches!(view.health, Health::Disconnected { .. }) => {
            Line::styled("reconnecting", look.bad())
        }
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
