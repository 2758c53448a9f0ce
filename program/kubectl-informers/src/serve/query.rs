//! Query parameters. Each endpoint accepts a fixed set; others are an error, because a misspelt filter that is
//! ignored would return the wrong result.

use http::StatusCode;

use super::answer::{self, Refused};

pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the parameters; unknown ones are an error.
    pub fn parse(query: Option<&str>, known: &[&str]) -> Result<Self, Refused> {
        let pairs: Vec<(String, String)> = form_urlencoded::parse(query.unwrap_or_default().as_bytes())
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        for (at, (name, _)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                return Err(bad(format!(
                    "there is no parameter {name:?} here; there are: {}",
                    known.join(", ")
                )));
            }
            if pairs.iter().take(at).any(|(earlier, _)| earlier == name) {
                return Err(bad(format!("the parameter {name:?} is given twice")));
            }
        }
        Ok(Self(pairs))
    }

    /// A parameter; an empty value counts as absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, value)| known == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// A number: `default` if absent, at most `most`.
    pub fn number(&self, name: &str, default: usize, most: usize) -> Result<usize, Refused> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => match text.parse::<usize>() {
                Ok(number) => Ok(number.min(most)),
                Err(_) => Err(bad(format!("{name} must be a whole number, not {text:?}"))),
            },
        }
    }

    /// A boolean.
    pub fn flag(&self, name: &str) -> Result<bool, Refused> {
        match self.get(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(text) => Err(bad(format!("{name} must be true or false, not {text:?}"))),
        }
    }
}

/// An invalid query.
pub(super) fn bad(text: impl Into<String>) -> Refused {
    Box::new(answer::failure(StatusCode::BAD_REQUEST, text))
}
