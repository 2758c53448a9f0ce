//! One object in place of the lists: its changes with their authors, then its YAML.

use std::sync::Arc;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Padding, Paragraph};

use super::lists;
use super::model::Model;
use crate::board::ObjectId;
use crate::objects::item::{Contents, Item};

/// Changes above the YAML.
const CHANGES: usize = 10;

/// The object that is shown.
pub(super) struct Opened {
    pub(super) id: ObjectId,
    pub(super) scroll: usize,
    /// The version that the text shows.
    shown: Option<Arc<Item>>,
    yaml: Vec<String>,
    gone: bool,
}

impl Model {
    /// Shows an object: in this state, or in its last one if it was deleted.
    pub fn open(&mut self, id: ObjectId, object: Option<Arc<Item>>) {
        let opened = Opened {
            id,
            scroll: 0,
            shown: None,
            yaml: Vec::new(),
            gone: false,
        };
        self.opened = Some(opened);
        self.refresh(object);
    }

    /// The object that is shown.
    pub fn opened(&self) -> Option<&ObjectId> {
        self.opened.as_ref().map(|opened| &opened.id)
    }

    /// The current state of the object that is shown; `None` if it does not exist.
    pub fn refresh(&mut self, object: Option<Arc<Item>>) {
        let Some(opened) = &mut self.opened else { return };
        opened.gone = object.is_none();
        let last = || {
            let history = self.board.history.of(&opened.id);
            history.and_then(|history| history.last_state.clone())
        };
        let Some(object) = object.or_else(last) else {
            return;
        };
        if !opened
            .shown
            .as_ref()
            .is_some_and(|shown| Arc::ptr_eq(shown, &object))
        {
            opened.yaml = yaml(&object);
            opened.shown = Some(object);
        }
    }
}

/// The object as YAML, line by line. It holds no values of Secrets.
fn yaml(object: &Item) -> Vec<String> {
    match serde_saphyr::to_string(&object.tree().0) {
        Ok(text) => text.lines().map(str::to_owned).collect(),
        Err(_) => vec!["this object cannot be shown as YAML".to_owned()],
    }
}

/// Draws the object.
pub(super) fn draw(model: &Model, opened: &Opened, frame: &mut Frame<'_>, area: Rect) {
    let look = model.look;
    let name = format!(" {} {} ", model.id(opened.id.kind), opened.id.key);
    let mut title = vec![Span::styled(name, look.strong())];
    if opened.gone {
        title.push(Span::styled("deleted ", look.bad()));
    }
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(look.accent())
        .title(Line::from(title))
        .padding(Padding::horizontal(1));
    let inside = block.inner(area);
    let mut lines = history(model, opened);
    lines.push(Line::default());
    if opened.yaml.is_empty() {
        lines.push(Line::styled("the object is not in the cache", look.dim()));
    }
    let height = usize::from(inside.height);
    let all = lines.len() + opened.yaml.len();
    let scroll = opened.scroll.min(all.saturating_sub(height));
    // Only the lines that are seen: an object can be long.
    let shown = lines
        .into_iter()
        .chain(opened.yaml.iter().map(|line| Line::raw(line.as_str())))
        .skip(scroll)
        .take(height);
    let shown: Vec<Line<'_>> = shown.collect();
    frame.render_widget(block, area);
    frame.render_widget(Paragraph::new(shown), inside);
}

fn history(model: &Model, opened: &Opened) -> Vec<Line<'static>> {
    let look = model.look;
    let Some(history) = model.board.history.of(&opened.id) else {
        return vec![Line::styled("no changes since the start", look.dim())];
    };
    let mut lines: Vec<Line<'static>> = history
        .entries()
        .take(CHANGES)
        .flat_map(|entry| lists::change(model, entry))
        .collect();
    let more = history.total.saturating_sub(CHANGES as u64);
    if more > 0 {
        lines.push(Line::styled(format!("… {more} earlier changes"), look.dim()));
    }
    lines
}
