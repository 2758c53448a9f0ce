//! Colours: which, and whether at all.

use std::io::IsTerminal;

use anstyle::{AnsiColor, Style};

use crate::cli::When;
use crate::text::safe::SafeText;

/// Added.
pub const ADDED: Style = AnsiColor::Green.on_default();
/// Updated.
pub const UPDATED: Style = AnsiColor::Yellow.on_default();
/// Deleted.
pub const DELETED: Style = AnsiColor::Red.on_default();
/// Names of fields.
pub const FIELD: Style = AnsiColor::Cyan.on_default();
/// Less important text.
pub const DIM: Style = Style::new().dimmed();
/// Table headers.
pub const HEAD: Style = Style::new().bold();

/// A style, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colours(bool);

impl Colours {
    /// Whether to use colours on this stream. `--color` takes precedence over `NO_COLOR`, and both over the terminal.
    pub fn on(stream: &impl IsTerminal, when: When) -> Self {
        Self(match when {
            When::Always => true,
            When::Never => false,
            When::Auto => {
                let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
                stream.is_terminal() && !refused && !dumb
            }
        })
    }

    /// With or without colours.
    pub const fn new(colours: bool) -> Self {
        Self(colours)
    }

    /// The text in this style.
    pub fn paint(self, style: Style, text: impl Into<SafeText>) -> SafeText {
        match self.0 {
            true => text.into().styled(style),
            false => text.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colours_the_text_stays_as_it_is() {
        assert_eq!(Colours::new(false).paint(ADDED, "x").as_str(), "x");
        assert_eq!(
            Colours::new(true).paint(ADDED, "x").as_str(),
            "\u{1b}[32mx\u{1b}[0m"
        );
    }

    #[test]
    fn the_option_overrides_the_terminal() {
        let file = std::fs::File::open("/dev/null");
        if let Ok(file) = file {
            assert_eq!(Colours::on(&file, When::Always), Colours::new(true));
            assert_eq!(Colours::on(&file, When::Auto), Colours::new(false));
        }
    }
}
