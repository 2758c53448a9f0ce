//! Paths to fields as people read and write them: `status.conditions[Ready].status`.
//!
//! | Part | Written |
//! |---|---|
//! | a field | `spec.replicas` |
//! | an element of a list, by its identity or else by its index | `spec.containers[web]`, `ports[53/UDP]`, `args[0]` |
//! | a name with dots, brackets, quotes, spaces or slashes | `metadata.annotations["example.com/owner"]` |
//! | any element, in patterns | `status.conditions[*]` |

use std::fmt;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A field of an object, or a list element by identity or index.
    Name(String),
    /// Any element of a list, any field of an object.
    Any,
}

/// A path that was read: a pattern to compare fields with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPattern {
    steps: Vec<Step>,
}

/// A path cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsePathError {
    path: String,
    problem: &'static str,
}

impl fmt::Display for ParsePathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a path: {}; write status.conditions[Ready].status, or metadata.annotations[\"example.com/key\"]",
            self.path, self.problem
        )
    }
}

impl std::error::Error for ParsePathError {}

/// Appends a field.
pub fn push_field(path: &mut String, name: &str) {
    match is_plain(name) {
        true => {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(name);
        }
        false => push_quoted(path, name),
    }
}

/// Appends an element of a list, by its identity or its index.
pub fn push_element(path: &mut String, identity: &str) {
    let plain = !identity.is_empty() && !identity.contains(['[', ']', '"']) && identity != "*";
    match plain {
        true => {
            path.push('[');
            path.push_str(identity);
            path.push(']');
        }
        false => push_quoted(path, identity),
    }
}

fn push_quoted(path: &mut String, name: &str) {
    path.push('[');
    // Text always has a JSON form.
    path.push_str(&serde_json::to_string(name).unwrap_or_default());
    path.push(']');
}

fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name != "*"
        && !name
            .chars()
            .any(|c| c.is_whitespace() || c.is_control() || matches!(c, '.' | '[' | ']' | '"' | '/'))
}

/// The path with `[*]` for every list element: which of them it was does not matter for who is churning.
pub fn without_elements(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for (text, kind) in parts(path) {
        match kind {
            PartKind::Element => out.push_str("[*]"),
            PartKind::Field | PartKind::Quoted => out.push_str(text),
        }
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PartKind {
    /// With its leading dot.
    Field,
    /// `[…]`
    Element,
    /// `["…"]`
    Quoted,
}

/// The parts of a path as they are written, with dots and brackets.
fn parts(path: &str) -> Vec<(&str, PartKind)> {
    let mut parts = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (length, kind) = if rest.starts_with("[\"") {
            (quoted_length(rest).unwrap_or(rest.len()), PartKind::Quoted)
        } else if rest.starts_with('[') {
            (
                rest.find(']').map_or(rest.len(), |end| end + 1),
                PartKind::Element,
            )
        } else {
            let from = usize::from(rest.starts_with('.'));
            let end = rest.get(from..).and_then(|tail| tail.find(['.', '[']));
            (end.map_or(rest.len(), |end| (end + from).max(1)), PartKind::Field)
        };
        let (part, tail) = rest.split_at(length);
        parts.push((part, kind));
        rest = tail;
    }
    parts
}

/// The length of `["…"]` at the start of a text.
fn quoted_length(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(2) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return text.get(at + 1..)?.starts_with(']').then_some(at + 2),
            _ => {}
        }
    }
    None
}

impl FieldPattern {
    /// Reads a path.
    ///
    /// # Errors
    ///
    /// The text is no path.
    pub fn parse(path: &str) -> Result<Self, ParsePathError> {
        let problem = |problem| ParsePathError {
            path: path.to_owned(),
            problem,
        };
        let text = path.strip_prefix('.').unwrap_or(path);
        if text.is_empty() {
            return Err(problem("it is empty"));
        }
        let mut steps = Vec::new();
        for (part, kind) in parts(text) {
            let inside = || part.get(1..part.len().saturating_sub(1)).unwrap_or_default();
            let name = match kind {
                PartKind::Field => part.strip_prefix('.').unwrap_or(part).to_owned(),
                PartKind::Element if !part.ends_with(']') => return Err(problem("a bracket is not closed")),
                PartKind::Element => inside().to_owned(),
                PartKind::Quoted => serde_json::from_str(inside())
                    .map_err(|_| problem("a quoted name is not closed, or is not a JSON string"))?,
            };
            if name.is_empty() && kind != PartKind::Quoted {
                return Err(problem("a name is missing"));
            }
            steps.push(match (name.as_str(), kind) {
                ("*", PartKind::Field | PartKind::Element) => Step::Any,
                _ => Step::Name(name),
            });
        }
        Ok(Self { steps })
    }

    /// Whether the field is the one meant, or inside of it.
    pub fn contains_path(&self, field: &Self) -> bool {
        field.steps.len() >= self.steps.len() && self.agrees(field)
    }

    /// Whether the field is the one meant, inside of it, or around it: a removed object contains all its fields.
    pub fn touches(&self, field: &str) -> bool {
        Self::parse(field).is_ok_and(|field| self.agrees(&field))
    }

    fn agrees(&self, field: &Self) -> bool {
        self.steps
            .iter()
            .zip(&field.steps)
            .all(|(pattern, step)| *pattern == Step::Any || pattern == step)
    }
}

impl std::str::FromStr for FieldPattern {
    type Err = ParsePathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// One part of a JSON pointer.
pub fn escape(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1")
}

/// The name that a part of a JSON pointer stands for.
pub fn unescape(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(parts: &[(&str, bool)]) -> String {
        let mut path = String::new();
        for (part, element) in parts {
            match element {
                true => push_element(&mut path, part),
                false => push_field(&mut path, part),
            }
        }
        path
    }

    #[test]
    fn fields_elements_and_quoted_names_are_written_as_documented() {
        assert_eq!(
            path(&[
                ("status", false),
                ("conditions", false),
                ("Ready", true),
                ("status", false)
            ]),
            "status.conditions[Ready].status"
        );
        assert_eq!(
            path(&[
                ("metadata", false),
                ("annotations", false),
                ("example.com/a", false)
            ]),
            "metadata.annotations[\"example.com/a\"]"
        );
        assert_eq!(path(&[("ports", false), ("53/UDP", true)]), "ports[53/UDP]");
        assert_eq!(path(&[("a", false), ("b]\"", true)]), "a[\"b]\\\"\"]");
        assert_eq!(path(&[("", false)]), "[\"\"]");
    }

    #[test]
    fn what_is_written_can_be_read() {
        for names in [
            &[("a", false), ("b.c", false), ("d", true)][..],
            &[("a", false), ("x[y]\"z\\", true), ("e", false)],
            &[("a b", false), ("*", false), ("*", true)],
            &[("ä/ö", false), ("10.0.0.1", true)],
        ] {
            let pattern = FieldPattern::parse(&path(names)).unwrap();
            let expected: Vec<Step> = names
                .iter()
                .map(|(name, _)| Step::Name((*name).to_owned()))
                .collect();
            assert_eq!(pattern.steps, expected, "{}", path(names));
        }
    }

    #[test]
    fn a_pattern_contains_what_is_below_it_and_touches_what_is_above() {
        let pattern = FieldPattern::parse("status.conditions[Ready]").unwrap();
        let contains =
            |pattern: &FieldPattern, path: &str| pattern.contains_path(&FieldPattern::parse(path).unwrap());
        assert!(contains(&pattern, "status.conditions[Ready].status"));
        assert!(contains(&pattern, "status.conditions[Ready]"));
        assert!(!contains(&pattern, "status.conditions[Available].status"));
        assert!(!contains(&pattern, "status"));
        assert!(pattern.touches("status"));
        assert!(!pattern.touches("spec"));
        let any = FieldPattern::parse(".status.conditions[*].lastHeartbeatTime").unwrap();
        assert!(contains(&any, "status.conditions[Ready].lastHeartbeatTime"));
        assert!(!contains(&any, "status.conditions[Ready].status"));
    }

    #[test]
    fn what_is_no_path_is_an_error_that_shows_one() {
        for text in ["", ".", "a..b", "a[", "a[b", "a[]", "a[\"b]", "a[\"b\\q\"]"] {
            let error = FieldPattern::parse(text).unwrap_err().to_string();
            assert!(
                error.contains("status.conditions[Ready].status"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn elements_are_left_out_of_counts_and_names_stay() {
        assert_eq!(
            without_elements("status.conditions[Ready].status"),
            "status.conditions[*].status"
        );
        assert_eq!(
            without_elements("metadata.annotations[\"a.b/c\"]"),
            "metadata.annotations[\"a.b/c\"]"
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_rejected_without_a_panic(text in ".{0,40}") {
            let _ = FieldPattern::parse(&text);
            let _ = without_elements(&text);
        }

        #[test]
        fn any_names_survive_writing_and_reading(names in proptest::collection::vec((".{0,6}", proptest::bool::ANY), 1..5)) {
            let parts: Vec<(&str, bool)> = names.iter().map(|(name, element)| (name.as_str(), *element)).collect();
            let steps: Vec<Step> = names.iter().map(|(name, _)| Step::Name(name.clone())).collect();
            proptest::prop_assert_eq!(FieldPattern::parse(&path(&parts)).unwrap().steps, steps);
        }
    }
}
