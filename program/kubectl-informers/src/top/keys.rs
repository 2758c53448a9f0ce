//! What keys do.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::lists;
use super::model::{Frozen, Model, Pane, Sort};
use super::switch::Switch;
use crate::board::ObjectId;

/// Whether the screen stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It stays.
    Stay,
    /// It stays, and shows this object.
    Open(ObjectId),
    /// It shows something else.
    Switch(Switch),
    /// It stays, and informers that are backing off retry now.
    Retry,
    /// The user wants to leave.
    Quit,
    /// The user wants to leave by Ctrl-C.
    Interrupt,
    /// The user wants the shell back for a while, by Ctrl-Z.
    Suspend,
}

/// The maximum length of a filter.
const LONGEST_FILTER: usize = 200;
/// Lines of a jump.
const JUMP: usize = 10;

impl Model {
    /// A key was pressed.
    pub fn key(&mut self, key: KeyEvent) -> Outcome {
        // Some terminals also tell when a key is let go.
        if key.kind == KeyEventKind::Release {
            return Outcome::Stay;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && matches!(key.code, KeyCode::Char('c' | 'C')) {
            return Outcome::Interrupt;
        }
        if control && matches!(key.code, KeyCode::Char('z' | 'Z')) {
            return Outcome::Suspend;
        }
        if self.command.is_some() {
            return self.command_key(key.code, control);
        }
        self.message = None;
        if self.opened.is_some() {
            return self.opened_key(key.code);
        }
        if self.typing {
            self.type_key(key.code, control);
            return Outcome::Stay;
        }
        if self.help {
            self.help = false;
            return match key.code {
                KeyCode::Char('q') => Outcome::Quit,
                _ => Outcome::Stay,
            };
        }
        match key.code {
            KeyCode::Char('q' | 'Q') => return Outcome::Quit,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char(':') => self.command = Some(String::new()),
            KeyCode::Enter => {
                if let Some(object) = lists::marked(self) {
                    return Outcome::Open(object);
                }
            }
            KeyCode::Char('p' | ' ') => self.pause(),
            KeyCode::Char('s') => self.sort = next(&Sort::ALL, self.sort, 1),
            KeyCode::Char('S') => self.sort = next(&Sort::ALL, self.sort, Sort::ALL.len() - 1),
            KeyCode::Char('r') => return Outcome::Retry,
            KeyCode::Char('d') => self.diffs = !self.diffs,
            KeyCode::Tab => self.show(next(&PANES, self.pane, 1)),
            KeyCode::BackTab => self.show(next(&PANES, self.pane, PANES.len() - 1)),
            KeyCode::Char('1') => self.show(Pane::Changes),
            KeyCode::Char('2') => self.show(Pane::Objects),
            KeyCode::Char('3') => self.show(Pane::Fields),
            KeyCode::Char('4') => self.show(Pane::Trouble),
            KeyCode::Down | KeyCode::Char('j') => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(JUMP),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(JUMP),
            KeyCode::Home | KeyCode::Char('g') => self.scroll = 0,
            KeyCode::Esc => {
                self.filter.clear();
                self.scroll = 0;
            }
            _ => {}
        }
        Outcome::Stay
    }

    /// A key while an object is shown.
    fn opened_key(&mut self, code: KeyCode) -> Outcome {
        let Some(opened) = &mut self.opened else {
            return Outcome::Stay;
        };
        match code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace => self.opened = None,
            KeyCode::Char('q' | 'Q') => return Outcome::Quit,
            KeyCode::Char('d') => self.diffs = !self.diffs,
            KeyCode::Down | KeyCode::Char('j') => opened.scroll = opened.scroll.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => opened.scroll = opened.scroll.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => opened.scroll = opened.scroll.saturating_add(JUMP),
            KeyCode::PageUp => opened.scroll = opened.scroll.saturating_sub(JUMP),
            KeyCode::Home | KeyCode::Char('g') => opened.scroll = 0,
            _ => {}
        }
        Outcome::Stay
    }

    /// A key of a command.
    fn command_key(&mut self, code: KeyCode, control: bool) -> Outcome {
        let Some(command) = &mut self.command else {
            return Outcome::Stay;
        };
        match code {
            KeyCode::Esc => self.command = None,
            KeyCode::Enter => {
                let command = self.command.take().unwrap_or_default();
                match Switch::parse(&command) {
                    Ok(None) => {}
                    Ok(Some(switch)) => return Outcome::Switch(switch),
                    Err(text) => self.message = Some((text, true)),
                }
            }
            KeyCode::Backspace => {
                command.pop();
            }
            KeyCode::Char('u') if control => command.clear(),
            KeyCode::Char(c) if !control && command.chars().count() < LONGEST_FILTER => command.push(c),
            _ => {}
        }
        Outcome::Stay
    }

    fn type_key(&mut self, code: KeyCode, control: bool) {
        self.scroll = 0;
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char('u') if control => self.filter.clear(),
            KeyCode::Char(c) if !control && self.filter.chars().count() < LONGEST_FILTER => {
                self.filter.push(c)
            }
            _ => {}
        }
    }

    fn show(&mut self, pane: Pane) {
        self.pane = pane;
        self.scroll = 0;
    }

    fn pause(&mut self) {
        self.frozen = match self.frozen.take() {
            Some(_) => None,
            None => Some(Frozen {
                last: self.board.log.last(),
                objects: self.objects(),
                fields: self.fields(),
            }),
        };
        self.scroll = 0;
    }
}

const PANES: [Pane; 4] = [Pane::Changes, Pane::Objects, Pane::Fields, Pane::Trouble];

/// The one `by` positions later, wrapping around.
fn next<T: Copy + PartialEq>(all: &[T], current: T, step: usize) -> T {
    let at = all.iter().position(|one| *one == current).unwrap_or(0);
    all.get((at + step) % all.len().max(1))
        .copied()
        .unwrap_or(current)
}
