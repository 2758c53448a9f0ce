//! The list of planted bugs in `planted.txt`, and how one is applied to a tree.

pub mod hunt;

use std::error::Error;
use std::fmt;
use std::path::Path;

/// A change to the sources that the simulator or a test must notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bug {
    /// The name.
    pub name: String,
    /// What it does.
    pub what: String,
    /// The command that must fail, of the simulator or, if it begins with `test`, of cargo.
    pub found_by: Vec<String>,
    /// The number of entries that the tape of the failure is shortened to, if that is checked.
    pub shortens_to: Option<usize>,
    /// What changes.
    pub edits: Vec<Edit>,
}

/// A part of a file that is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The file, below the root of the tree.
    pub file: String,
    /// The lines that are replaced, without indentation.
    pub original: Vec<String>,
    /// The lines that replace them.
    pub replacement: Vec<String>,
}

/// A mistake in the list.
#[derive(Debug)]
pub struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Malformed {}

/// Reads the list of a tree.
///
/// # Errors
///
/// It cannot be read, or a bug is incomplete.
pub fn read(tree: &Path) -> Result<Vec<Bug>, Box<dyn Error>> {
    Ok(parse(&std::fs::read_to_string(
        tree.join("verify/sim/planted.txt"),
    )?)?)
}

/// Reads a list.
///
/// # Errors
///
/// A bug is incomplete.
pub fn parse(list: &str) -> Result<Vec<Bug>, Malformed> {
    let blocks = list.split("\n\n").map(str::trim_end);
    blocks.filter_map(|block| bug(block).transpose()).collect()
}

fn bug(block: &str) -> Result<Option<Bug>, Malformed> {
    let mut lines = block
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .peekable();
    let Some(name) = lines.next() else { return Ok(None) };
    let malformed = |problem: &str| Malformed(format!("{name}: {problem}"));
    let what = lines.next().ok_or_else(|| malformed("what does it do?"))?;
    let found_by = lines.next_if(|line| line.starts_with("by "));
    let shortens_to = lines.next_if(|line| line.starts_with("shortens to "));
    let shortens_to = shortens_to.map(|line| line.trim_start_matches("shortens to ").parse());
    let shortens_to = shortens_to
        .transpose()
        .map_err(|_| malformed("not a number of entries"))?;
    let mut edits: Vec<Edit> = Vec::new();
    for line in lines {
        let (mark, text) = line.split_at_checked(1).unwrap_or_default();
        let text = text.trim().to_owned();
        if !matches!(mark, " " | "-" | "+") {
            edits.push(Edit {
                file: line.to_owned(),
                original: Vec::new(),
                replacement: Vec::new(),
            });
            continue;
        }
        let edit = edits
            .last_mut()
            .ok_or_else(|| malformed("a change without a file"))?;
        if mark != "+" {
            edit.original.push(text.clone());
        }
        if mark != "-" {
            edit.replacement.push(text);
        }
    }
    if edits.is_empty()
        || edits
            .iter()
            .any(|edit| edit.original.is_empty() || edit.original == edit.replacement)
    {
        return Err(malformed("it changes nothing"));
    }
    Ok(Some(Bug {
        name: name.to_owned(),
        what: what.to_owned(),
        found_by: found_by
            .unwrap_or("by run")
            .split_whitespace()
            .skip(1)
            .map(str::to_owned)
            .collect(),
        shortens_to,
        edits,
    }))
}

impl Bug {
    /// Applies the bug to a tree.
    ///
    /// # Errors
    ///
    /// A file cannot be read or written, or does not have the lines exactly once.
    pub fn plant(&self, tree: &Path) -> Result<(), Box<dyn Error>> {
        for edit in &self.edits {
            let file = tree.join(&edit.file);
            let text =
                edit.apply(&std::fs::read_to_string(&file).map_err(|error| self.problem(edit, &error))?);
            std::fs::write(
                &file,
                text.map_err(|count| self.problem(edit, &format!("the lines occur {count} times")))?,
            )?;
        }
        Ok(())
    }

    /// What prevents that the bug is applied to a tree, if anything does.
    #[must_use]
    pub fn obstacle(&self, tree: &Path) -> Option<String> {
        self.edits.iter().find_map(|edit| {
            let text = std::fs::read_to_string(tree.join(&edit.file)).unwrap_or_default();
            let count = edit.apply(&text).err()?;
            Some(self.problem(edit, &format!("the lines occur {count} times")))
        })
    }

    fn problem(&self, edit: &Edit, problem: &dyn fmt::Display) -> String {
        format!("{}: {}: {problem}", self.name, edit.file)
    }
}

impl Edit {
    /// The text with the replacement, or how often it has the original, if that is not once.
    ///
    /// # Errors
    ///
    /// The text has the original not exactly once.
    pub fn apply(&self, text: &str) -> Result<String, usize> {
        let lines: Vec<&str> = text.lines().collect();
        let is_original = |window: &&[&str]| {
            window
                .iter()
                .zip(&self.original)
                .all(|(line, original)| line.trim() == original)
        };
        let count = lines.windows(self.original.len()).filter(is_original).count();
        if count != 1 {
            return Err(count);
        }
        let mut windows = lines.windows(self.original.len());
        let at = windows
            .position(|window| is_original(&window))
            .unwrap_or_default();
        let replacement = self.replacement.iter().map(String::as_str);
        let before = lines[..at].iter().copied();
        let after = lines[at + self.original.len()..].iter().copied();
        let mut text = before
            .chain(replacement)
            .chain(after)
            .collect::<Vec<_>>()
            .join("\n");
        text.push('\n');
        Ok(text)
    }
}
