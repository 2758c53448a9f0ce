//! [`SafeText`]: text that cannot control the terminal.
//!
//! Names, values and messages come from clusters, servers and kubeconfigs, and may contain escape sequences. Standard
//! output, standard error and failures accept `SafeText` only. Foreign text becomes a `SafeText` through the
//! constructors of this file, which replace the dangerous characters, so forgetting to do so does not compile.

use std::fmt;

use anstyle::Style;
use serde::Serialize;

/// Longer values are cut: a diff is to be read.
pub const LONGEST_VALUE: usize = 100;

/// Text that may be printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SafeText(String);

impl SafeText {
    /// One line of foreign text: line ends become `⏎`, tabs become spaces, unsafe characters `�`.
    pub fn line(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().chars().map(replacement).collect())
    }

    /// Foreign text of several lines.
    pub fn lines(text: impl AsRef<str>) -> Self {
        let lines: Vec<String> = text
            .as_ref()
            .split('\n')
            .map(|line| line.chars().map(replacement).collect())
            .collect();
        Self(lines.join("\n"))
    }

    /// A value as JSON on one line. Unsafe characters become escapes, so that the value stays the same.
    pub fn json(value: &impl Serialize) -> Self {
        // Maps with text keys and plain values cannot fail to serialize.
        let json = serde_json::to_string(value).unwrap_or_default();
        let mut text = String::with_capacity(json.len());
        for c in json.chars() {
            match is_unsafe(c) || is_line_end(c) {
                // Outside of strings JSON consists of safe characters, and in strings any character may be escaped.
                true => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        text.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                false => text.push(c),
            }
        }
        Self(text)
    }

    /// The text in a style.
    pub fn styled(self, style: Style) -> Self {
        Self(format!("{style}{}{style:#}", self.0))
    }

    /// The first characters, and the number of all of them, if the text is long.
    pub fn shortened(self) -> Self {
        match self.0.char_indices().nth(LONGEST_VALUE) {
            Some((end, _)) => Self(format!(
                "{}… ({} characters)",
                self.0.get(..end).unwrap_or_default(),
                self.0.chars().count()
            )),
            None => self,
        }
    }

    /// Padded with spaces to this number of characters.
    pub fn padded(mut self, width: usize) -> Self {
        let missing = width.saturating_sub(self.width());
        self.0.extend(std::iter::repeat_n(' ', missing));
        self
    }

    /// The number of characters.
    pub fn width(&self) -> usize {
        self.0.chars().count()
    }

    /// Appends.
    pub fn push(&mut self, text: impl Into<SafeText>) {
        self.0.push_str(&text.into().0);
    }

    /// Without spaces at the end.
    pub fn trim_end(&self) -> Self {
        Self(self.0.trim_end().to_owned())
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Text of the program itself. Only literals: foreign text does not live that long.
impl From<&'static str> for SafeText {
    fn from(text: &'static str) -> Self {
        Self(text.to_owned())
    }
}

impl From<&SafeText> for SafeText {
    fn from(text: &SafeText) -> Self {
        text.clone()
    }
}

impl fmt::Display for SafeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

fn replacement(c: char) -> char {
    match c {
        c if is_line_end(c) => '⏎',
        '\t' => ' ',
        c if is_unsafe(c) => '\u{fffd}',
        c => c,
    }
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\u{2028}' | '\u{2029}')
}

/// Whether a character could control the terminal (C0 with ESC and BEL, DEL, C1) or change how the text around it is
/// displayed (bidirectional overrides and isolates, zero-width and other invisible characters).
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
pub const HOSTILE: &str = "a\u{1b}[2J\u{1b}]52;c;aGk=\u{7}\u{0}\u{8}\r\u{7f}\u{85}\u{9b}31m\u{9d}\u{90}\u{ad}\u{61c}\u{180e}\u{200b}\u{200d}\u{200e}\u{200f}\u{202a}\u{202e}\u{2060}\u{2066}\u{2069}\u{feff}\u{fff9}\u{e0041}\u{2028}\u{2029}b";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn has_unsafe(text: &str) -> bool {
        text.chars()
            .any(|c| is_unsafe(c) || matches!(c, '\u{2028}' | '\u{2029}'))
    }

    #[test]
    fn no_constructor_lets_an_unsafe_character_through() {
        assert!(has_unsafe(HOSTILE));
        for text in [
            SafeText::line(HOSTILE),
            SafeText::lines(HOSTILE.replace('b', "c")),
            SafeText::json(&json!({ HOSTILE: [HOSTILE] })),
            SafeText::line(HOSTILE).shortened().padded(3),
        ] {
            assert!(!has_unsafe(text.as_str()), "{text:?}");
        }
    }

    #[test]
    fn json_keeps_the_value() {
        let value = json!({ HOSTILE: [HOSTILE, "äöü 日本 → ✓", 7] });
        let text = SafeText::json(&value);
        assert_eq!(serde_json::from_str::<Value>(text.as_str()).unwrap(), value);
    }

    #[test]
    fn lines_keep_their_ends_and_one_line_shows_them() {
        assert_eq!(SafeText::lines("a\nb").as_str(), "a\nb");
        assert_eq!(SafeText::line("a\nb\tc").as_str(), "a⏎b c");
        assert_eq!(SafeText::line("äöü 日本 → ✓").as_str(), "äöü 日本 → ✓");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        let text = SafeText::line("ä".repeat(500)).shortened();
        assert_eq!(text.as_str(), format!("{}… (500 characters)", "ä".repeat(100)));
        assert_eq!(SafeText::line("short").shortened().as_str(), "short");
    }
}
