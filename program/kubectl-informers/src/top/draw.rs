//! Draws a model: the layout, the header and the footer. Works at any size.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Padding, Paragraph};

use super::model::{Model, Pane, Sort};
use super::{lists, object, table};
use crate::session::observe::Health;
use crate::text::safe::is_unsafe;
use crate::text::units::bytes;

/// From this width on, all lists are shown side by side.
const WIDE: u16 = 110;
/// From this height on, panes have frames.
const TALL: u16 = 14;

/// Draws everything. Names and values are foreign text, so what was drawn is cleaned before it reaches the terminal.
pub fn draw(model: &Model, frame: &mut Frame<'_>) {
    draw_parts(model, frame);
    for cell in &mut frame.buffer_mut().content {
        if cell.symbol().contains(is_unsafe) {
            let text: String = cell
                .symbol()
                .chars()
                .map(|c| if is_unsafe(c) { '\u{fffd}' } else { c })
                .collect();
            cell.set_symbol(&text);
        }
    }
}

fn draw_parts(model: &Model, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.height < 3 || area.width < 20 {
        frame.render_widget(Paragraph::new("too small"), area);
        return;
    }
    let trouble = trouble(model);
    let rows = u16::try_from(model.board.kinds.len()).unwrap_or(u16::MAX);
    // The informers get what they need, but leave at least half to what happens.
    let table_height = rows.saturating_add(2).min((area.height / 2).max(3));
    let [header, informers, alarm, body, footer] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(table_height),
        Constraint::Length(u16::try_from(trouble.len()).unwrap_or(0).min(3)),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_header(model, frame, header);
    table::draw(model, frame, informers);
    frame.render_widget(Paragraph::new(trouble), alarm);
    match &model.opened {
        Some(opened) => object::draw(model, opened, frame, body),
        None => draw_body(model, frame, body),
    }
    draw_footer(model, frame, footer);
    if model.help {
        draw_help(model, frame, area);
    }
}

fn draw_header(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let look = model.look;
    let (watches, received) = model.board.cost();
    let word = if watches == 1 { "watch" } else { "watches" };
    let cost = format!("{watches} {word}, {}", bytes(received));
    let state = match (&model.frozen, model.board.health()) {
        // What is shown is old whether it is paused or not, and that is worse.
        (_, Health::Disconnected { since }) => {
            let age = model.now.saturating_duration_since(since);
            Span::styled(format!(" ○ disconnected for {} ", clock(age)), look.bad())
        }
        (Some(_), _) => Span::styled(" paused ", look.busy()),
        (None, Health::Live) => Span::styled(" ● live ", look.good()),
        (None, Health::CatchingUp) if model.board.is_synced() => Span::styled(" ◌ catching up ", look.busy()),
        (None, Health::CatchingUp) => Span::styled(" ◌ syncing ", look.busy()),
    };
    let up = clock(model.now.saturating_duration_since(model.board.started));
    // The state is never cut: the title gives way, and then the name of the program.
    let name = Span::styled(" informers ", look.title());
    let room = usize::from(area.width).saturating_sub(state.width());
    let left = match room.checked_sub(name.width()) {
        Some(room) => Line::from(vec![name, Span::raw(shortened(&model.title, room)), state]),
        None => Line::from(state),
    };
    // As much of it as fits beside the name.
    let space = usize::from(area.width).saturating_sub(left.width() + 1);
    let right = [
        format!("this costs the server {cost}  {up} "),
        format!("costs the server {cost} "),
        format!("cost: {cost} "),
        cost,
    ];
    frame.render_widget(&left, area);
    if let Some(right) = right.into_iter().find(|text| text.chars().count() <= space) {
        // The style of a line goes over all of its area: that of a span only where there is text.
        frame.render_widget(Line::from(Span::styled(right, look.dim())).right_aligned(), area);
    }
}

/// As much of a text as fits, with `…` for the rest.
fn shortened(text: &str, room: usize) -> String {
    let mut text = text.to_owned();
    if Span::raw(text.as_str()).width() <= room {
        return text;
    }
    while Span::raw(text.as_str()).width() >= room && text.pop().is_some() {}
    match room {
        0 => text,
        _ => text + "…",
    }
}

/// Current failures.
fn trouble(model: &Model) -> Vec<Line<'static>> {
    failing(model)
        .map(|(id, error)| Line::styled(format!(" ! {id}: {}", error), model.look.bad()))
        .collect()
}

/// The informers that fail at the moment, with their errors.
fn failing(model: &Model) -> impl Iterator<Item = (&String, &String)> {
    model
        .board
        .kinds
        .iter()
        .filter_map(|kind| Some((&kind.id, kind.view.as_ref()?.last_error.as_ref()?)))
}

fn draw_body(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    if area.width < WIDE || area.height < TALL {
        let (title, lines) = lists::pane(model, model.pane, area.width, usize::from(area.height));
        panel(model, frame, area, title, lines, true);
        return;
    }
    let side = (area.width / 20 * 9).clamp(48, 80);
    let [left, right] = Layout::horizontal([Constraint::Length(side), Constraint::Min(0)]).areas(area);
    let [objects, fields] = Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(left);
    // Trouble takes the place of the fields, which are shown again with any other list.
    let lower = match model.pane {
        Pane::Trouble => Pane::Trouble,
        _ => Pane::Fields,
    };
    for (pane, area) in [(Pane::Objects, objects), (lower, fields), (Pane::Changes, right)] {
        let (title, lines) = lists::pane(model, pane, area.width, usize::from(area.height));
        panel(model, frame, area, title, lines, model.pane == pane);
    }
}

/// A list with its title, scrolled if it is the one that scrolls.
fn panel(
    model: &Model,
    frame: &mut Frame<'_>,
    area: Rect,
    title: Line<'static>,
    rows: Vec<lists::Row>,
    active: bool,
) {
    let border = match active {
        true => model.look.accent(),
        false => model.look.dim(),
    };
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(border)
        .title(title)
        .padding(Padding::horizontal(1));
    let inside = block.inner(area);
    // To the last line, so that every object can be opened.
    let most = rows.len().saturating_sub(1);
    let scroll = if active { model.scroll.min(most) } else { 0 };
    let can_open = active && rows.get(scroll).is_some_and(|(_, object)| object.is_some());
    let shown: Vec<Line<'static>> = rows
        .into_iter()
        .skip(scroll)
        .take(usize::from(inside.height))
        .map(|(line, _)| line)
        .collect();
    frame.render_widget(block, area);
    frame.render_widget(Paragraph::new(shown), inside);
    if can_open && inside.x > area.x && inside.height > 0 {
        let mark = Rect::new(inside.x - 1, inside.y, 1, 1);
        frame.render_widget(Span::styled("▸", model.look.accent()), mark);
    }
}

fn draw_footer(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let look = model.look;
    if model.typing {
        let line = Line::from(vec![
            Span::styled(" filter ", look.title()),
            Span::raw(model.filter.clone()),
            Span::styled("▏", look.accent()),
            Span::styled("  enter keeps it, esc clears it", look.dim()),
        ]);
        frame.render_widget(line, area);
        return;
    }
    if let Some(command) = &model.command {
        let line = Line::from(vec![
            Span::styled(" : ", look.title()),
            Span::raw(command.clone()),
            Span::styled("▏", look.accent()),
            Span::styled("  kinds, ns NAME, ns all, or ctx NAME", look.dim()),
        ]);
        frame.render_widget(line, area);
        return;
    }
    if let Some((text, is_error)) = &model.message {
        let style = if *is_error { look.bad() } else { look.busy() };
        frame.render_widget(Line::styled(format!(" {text}"), style), area);
        return;
    }
    if model.opened.is_some() {
        let keys = [("esc", "back"), ("↑↓", "scroll"), ("d", "diffs"), ("q", "quit")];
        let spans = keys.iter().flat_map(|(key, what)| {
            [
                Span::styled(format!(" {key}"), look.key()),
                Span::styled(format!(" {what} "), look.dim()),
            ]
        });
        frame.render_widget(Line::from(spans.collect::<Vec<_>>()), area);
        return;
    }
    let mut spans = vec![Span::raw(" ")];
    let pause = if model.frozen.is_some() { "resume" } else { "pause" };
    let sort = match model.sort {
        Sort::Given => "sort".to_owned(),
        sort => format!("sort ({})", sort.name()),
    };
    // A screen of 80 columns has no space for both.
    let diffs_or_retry = match failing(model).next() {
        Some(_) => ("r", "retry"),
        None => ("d", "diffs"),
    };
    let is_wide = area.width >= 100;
    let wide = [("↵", "open"), (":", "go to")].into_iter().filter(|_| is_wide);
    let keys = [
        ("/", "filter"),
        ("p", pause),
        ("s", sort.as_str()),
        ("tab", "next list"),
        ("↑↓", "scroll"),
        diffs_or_retry,
        ("?", "help"),
        ("q", "quit"),
    ];
    for (key, what) in wide.chain(keys) {
        spans.push(Span::styled(key, look.key()));
        spans.push(Span::styled(format!(" {what}  "), look.dim()));
    }
    if !model.filter.is_empty() {
        spans.insert(
            1,
            Span::styled(format!("filter of the lists: {}  ", model.filter), look.busy()),
        );
    }
    frame.render_widget(Line::from(spans), area);
}

const HELP: [(&str, &str); 17] = [
    ("/", "show only list entries with these words; !word excludes"),
    ("esc", "show everything again"),
    (
        "enter",
        "open the object at ▸: YAML, changes, and who made them; esc closes it",
    ),
    (
        ":",
        "other kinds (:pods,deploy), namespace (:ns shop), or context (:ctx prod)",
    ),
    ("p, space", "pause the lists, and go on"),
    ("s, S", "order the informers by another column"),
    ("tab, 1 2 3 4", "changes, objects, fields, trouble"),
    (
        "↑ ↓ pgup pgdn",
        "scroll the list with the bright frame; home goes back",
    ),
    ("d", "changes with or without their diffs"),
    (
        "r",
        "retry now, without waiting for the end of a pause after a failure",
    ),
    ("ctrl-z", "back to the shell; fg returns here"),
    ("q, ctrl-c", "quit"),
    ("", ""),
    ("rel, err", "repeated lists, and failed lists and watches"),
    ("age", "time since the server last confirmed the cache's version"),
    ("wait", "events this program has not taken yet"),
    ("ev/s", "events a second, over five seconds; bars are single ones"),
];

fn draw_help(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let look = model.look;
    let lines: Vec<Line<'_>> = HELP
        .iter()
        .map(|(key, what)| {
            Line::from(vec![
                Span::styled(format!("{key:<15}"), look.key()),
                Span::styled(*what, Style::new()),
            ])
        })
        .collect();
    let height = u16::try_from(HELP.len() + 2).unwrap_or(u16::MAX);
    let popup = area.centered(Constraint::Max(76), Constraint::Max(height));
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(look.accent())
        .title(Line::styled(" keys and words ", look.title()))
        .title_bottom(Line::styled(" any key closes this ", look.dim()).right_aligned())
        .padding(Padding::horizontal(1));
    frame.render_widget(Clear, popup);
    frame.render_widget(Paragraph::new(lines).block(block), popup);
}

/// `00:12:07`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}
