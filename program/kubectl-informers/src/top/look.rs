//! Colours of the screen: the terminal's sixteen, so that the user's theme applies.

use ratatui::style::{Color, Modifier, Style};

use crate::changes::What;

/// The colours. Without colours, only weight distinguishes elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    colours: bool,
}

impl Look {
    pub fn new(colours: bool) -> Self {
        Self { colours }
    }

    fn colour(self, colour: Color) -> Style {
        match self.colours {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    pub fn dim(self) -> Style {
        match self.colours {
            true => Style::new().fg(Color::DarkGray),
            false => Style::new().add_modifier(Modifier::DIM),
        }
    }

    pub fn head(self) -> Style {
        self.dim()
    }

    pub fn title(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub fn accent(self) -> Style {
        self.colour(Color::Cyan)
    }

    pub fn good(self) -> Style {
        self.colour(Color::Green)
    }

    pub fn busy(self) -> Style {
        self.colour(Color::Yellow)
    }

    pub fn bad(self) -> Style {
        self.colour(Color::Red)
    }

    pub fn key(self) -> Style {
        self.colour(Color::Cyan)
    }

    /// What happened.
    pub fn what(self, what: What) -> Style {
        match what {
            What::Added { .. } => self.good(),
            What::Updated { .. } => self.busy(),
            What::Deleted { .. } => self.bad(),
            What::Synced { .. } => self.dim(),
        }
    }
}
