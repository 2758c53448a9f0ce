//! Messages on standard error: the connection, failures and their consequences.

use std::io::{self, Write};

use crate::cli::Showing;
use crate::output::style::{Colours, DIM, UPDATED};
use crate::output::writer::Output;
use crate::text::safe::SafeText;

/// Writes notes, unless silenced.
#[derive(Clone, Copy, Debug)]
pub struct Notes {
    quiet: bool,
    colours: Colours,
}

impl Notes {
    /// Configured by the options.
    pub fn new(showing: &Showing) -> Self {
        Self {
            quiet: showing.quiet,
            colours: Colours::on(&io::stderr(), showing.color),
        }
    }

    /// Prints nothing.
    pub fn silent() -> Self {
        Self {
            quiet: true,
            colours: Colours::new(false),
        }
    }

    /// Prints information at once. Only before the event loop of a command runs: standard error may block.
    pub fn say(&self, text: &str) {
        self.write(&self.colours.paint(DIM, SafeText::lines(text)));
    }

    /// Prints a warning at once. Only before the event loop of a command runs: standard error may block.
    pub fn warn(&self, text: &str) {
        self.write(&self.colours.paint(UPDATED, SafeText::lines(text)));
    }

    /// Adds information to the output.
    pub fn say_to(&self, output: &mut Output, text: &str) {
        if !self.quiet {
            output.error_line(&self.colours.paint(DIM, SafeText::lines(text)));
        }
    }

    /// Adds a warning to the output.
    pub fn warn_to(&self, output: &mut Output, text: &str) {
        if !self.quiet {
            output.error_line(&self.colours.paint(UPDATED, SafeText::lines(text)));
        }
    }

    fn write(&self, text: &SafeText) {
        if !self.quiet {
            // Best effort: standard error may be closed.
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }
}
