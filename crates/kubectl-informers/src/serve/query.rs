//! Parameters of an address. Each question knows the ones it takes; others are an error, since a misspelt filter that
//! is ignored answers another question.

use http::StatusCode;

use super::answer::{self, Refused};

pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// The parameters, if all of them are known.
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

    /// A parameter; an empty one is none.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, value)| known == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// A number, `default` if it is not given, and never above `most`.
    pub fn number(&self, name: &str, default: usize, most: usize) -> Result<usize, Refused> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => match text.parse::<usize>() {
                Ok(number) => Ok(number.min(most)),
                Err(_) => Err(bad(format!("{name} must be a whole number, not {text:?}"))),
            },
        }
    }

    /// Yes or no.
    pub fn flag(&self, name: &str) -> Result<bool, Refused> {
        match self.get(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(text) => Err(bad(format!("{name} must be true or false, not {text:?}"))),
        }
    }
}

/// The question makes no sense.
pub(super) fn bad(text: impl Into<String>) -> Refused {
    Box::new(answer::failure(StatusCode::BAD_REQUEST, text))
}
