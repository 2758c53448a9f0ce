//! What the program says about itself, on standard error: where it is connected, what went wrong, what it did about it.

use std::io::{self, Write};

use crate::cli::Showing;
use crate::style::{Colours, DIM, UPDATED};

/// Writes notes, or does not.
#[derive(Clone, Copy, Debug)]
pub struct Notes {
    quiet: bool,
    colours: Colours,
}

impl Notes {
    /// As the options say.
    pub fn new(showing: &Showing) -> Self {
        Self {
            quiet: showing.quiet,
            colours: Colours::on(&io::stderr(), showing.color),
        }
    }

    /// No notes at all, for those who show them otherwise.
    pub fn silent() -> Self {
        Self {
            quiet: true,
            colours: Colours::new(false),
        }
    }

    /// Something to know.
    pub fn say(&self, text: &str) {
        self.write(&self.colours.paint(DIM, text));
    }

    /// Something to notice.
    pub fn warn(&self, text: &str) {
        self.write(&self.colours.paint(UPDATED, text));
    }

    fn write(&self, text: &str) {
        if !self.quiet {
            // Who closes standard error does not want to know.
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }
}
