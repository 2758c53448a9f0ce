//! Field selectors: `spec.nodeName=worker-1,status.phase!=Running`.

use std::borrow::Cow;
use std::fmt;

use super::SelectorError;

/// One comparison of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// The field's name, such as `metadata.name`.
    pub field: String,
    /// The value it is compared with.
    pub value: String,
    /// Whether the comparison is `=` (or `==`) rather than `!=`.
    pub equal: bool,
}

/// A conjunction of comparisons; an empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

impl FieldSelector {
    /// Parses a field selector. Values may escape `\`, `,` and `=` with a backslash.
    #[doc(alias = "ParseSelector")]
    pub fn parse(selector: &str) -> Result<Self, SelectorError> {
        let mut parts = split_terms(selector);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((field, equal, value)) = split_term(part) else {
                return Err(SelectorError(format!(
                    "invalid selector: '{selector}'; can't understand '{part}'"
                )));
            };
            terms.push(FieldTerm {
                field: field.to_owned(),
                value: unescape(value)?,
                equal,
            });
        }
        Ok(Self { terms })
    }

    /// The comparisons, in order.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The value that `field` must have, if the selector requires a single one.
    #[doc(alias = "RequiresExactMatch")]
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms
            .iter()
            .find(|term| term.equal && term.field == field)
            .map(|term| term.value.as_str())
    }

    /// The same selector with field names mapped by `rename`.
    #[doc(alias = "Transform")]
    pub fn rename(
        &self,
        rename: impl Fn(&str) -> Result<String, SelectorError>,
    ) -> Result<Self, SelectorError> {
        let terms = self
            .terms
            .iter()
            .map(|term| {
                Ok(FieldTerm {
                    field: rename(&term.field)?,
                    ..term.clone()
                })
            })
            .collect::<Result<_, SelectorError>>()?;
        Ok(Self { terms })
    }

    /// Whether an object matches; `lookup` returns the value of a field, empty if it is missing.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Cow<'a, str>) -> bool {
        self.terms
            .iter()
            .all(|term| (lookup(&term.field) == term.value) == term.equal)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let operator = if term.equal { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}{}", term.field, escape(&term.value))?;
        }
        Ok(())
    }
}

/// Splits at unescaped commas; the backslashes stay.
fn split_terms(selector: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, character) in selector.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(selector.get(start..index).unwrap_or_default());
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(selector.get(start..).unwrap_or_default());
    terms
}

/// Splits at the first operator: field, whether it is equality, raw value.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (index, _) in term.char_indices() {
        let (field, rest) = term.split_at(index);
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((field, equal, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                other => {
                    let sequence: String = ['\\'].into_iter().chain(other).collect();
                    return Err(SelectorError(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    )));
                }
            },
            // A real server prints the character's number here.
            ',' | '=' => {
                return Err(SelectorError(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(character)
                )));
            }
            plain_character => plain.push(plain_character),
        }
    }
    Ok(plain)
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace(',', "\\,")
        .replace('=', "\\=")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(selector: &str, fields: &[(&str, &str)]) -> bool {
        FieldSelector::parse(selector).unwrap().matches(|wanted| {
            let found = fields.iter().find(|(name, _)| *name == wanted);
            Cow::Borrowed(found.map_or("", |(_, value)| *value))
        })
    }

    #[test]
    fn selector_is_a_conjunction_of_terms() {
        let pod = [("metadata.name", "cart"), ("status.phase", "Running")];

        assert!(matches("", &pod));
        assert!(matches("metadata.name=cart,status.phase==Running", &pod));
        assert!(!matches("metadata.name=cart,status.phase!=Running", &pod));
        assert!(matches("spec.nodeName=", &pod));
        assert!(!matches("spec.nodeName!=", &pod));
    }

    #[test]
    fn escaped_characters_are_part_of_the_value() {
        let selector = FieldSelector::parse(r"a=x\,y\=z\\").unwrap();

        assert_eq!(selector.exact("a"), Some(r"x,y=z\"));
        assert_eq!(selector.to_string(), r"a=x\,y\=z\\");
    }

    #[test]
    fn parse_errors_name_the_invalid_part() {
        let error = |selector: &str| FieldSelector::parse(selector).unwrap_err().0;

        assert_eq!(
            error("a=b,nonsense"),
            "invalid selector: 'a=b,nonsense'; can't understand 'nonsense'"
        );
        assert_eq!(
            error("a=b=c"),
            "invalid field selector: unescaped character in value: 61"
        );
        assert_eq!(
            error(r"a=\q"),
            r"invalid field selector: invalid escape sequence: \q"
        );
        assert_eq!(
            error(r"a=\"),
            r"invalid field selector: invalid escape sequence: \"
        );
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_parsed_or_rejected_without_a_panic(text in "\\PC*") {
            if let Ok(selector) = FieldSelector::parse(&text) {
                let again = FieldSelector::parse(&selector.to_string()).unwrap();
                prop_assert_eq!(again.terms().len(), selector.terms().len());
            }
        }

        #[test]
        fn escaping_round_trips(value in "\\PC*") {
            let text = format!("a={}", escape(&value));
            let selector = FieldSelector::parse(&text).unwrap();
            prop_assert_eq!(selector.exact("a"), Some(value.as_str()));
        }
    }
}
