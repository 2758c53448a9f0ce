//! Which changes are printed: by field, by author, by name.

use regex::Regex;

use crate::changes::{Change, What};
use crate::cli::{ChangeArgs, Output as Format};
use crate::objects::path::FieldPattern;
use crate::process::failure::Failure;

/// What the options select.
#[derive(Default)]
pub struct Filter {
    only: Vec<FieldPattern>,
    by: Vec<String>,
    name: Option<Regex>,
}

impl Filter {
    /// As the options say.
    ///
    /// # Errors
    ///
    /// A path or the regular expression cannot be read, or an option does not fit the output format.
    pub fn new(args: &ChangeArgs, output: Format) -> Result<Self, Failure> {
        if args.with_object && output != Format::Json {
            return Err(Failure::error(
                "--with-object needs -o json: only JSON lines carry objects",
            ));
        }
        for path in &args.ignore {
            FieldPattern::parse(path).map_err(Failure::error)?;
        }
        let name = args.name_regex.as_deref().map(Regex::new).transpose();
        Ok(Self {
            only: args
                .only
                .iter()
                .map(|path| FieldPattern::parse(path))
                .collect::<Result<_, _>>()
                .map_err(Failure::error)?,
            by: args.by.clone(),
            name: name
                .map_err(|error| Failure::error(format!("--name is not a regular expression: {error}")))?,
        })
    }

    /// Whether the object of a change is selected by its name.
    pub fn selects(&self, change: &Change) -> bool {
        let named = |name: &Regex| change.key.as_ref().is_none_or(|key| name.is_match(key.name()));
        self.name.as_ref().is_none_or(named)
    }

    /// Whether a change is printed. Fields that were not asked for are removed from its diff.
    pub fn admit(&self, change: &mut Change) -> bool {
        if change.key.is_none() {
            return true;
        }
        if !self.selects(change) {
            return false;
        }
        // The initial objects are the table that changes are read against, whoever wrote them.
        if change.event.is_initial() {
            return true;
        }
        if !self.by.is_empty() {
            let written = change.by.as_deref().unwrap_or_default();
            if !written.iter().any(|one| self.is_by(&one.author.manager)) {
                return false;
            }
        }
        if !self.only.is_empty() && matches!(change.event, What::Updated { .. }) {
            change
                .diff
                .retain(|field| self.only.iter().any(|only| only.touches(&field.field)));
            return !change.diff.is_empty();
        }
        true
    }

    fn is_by(&self, manager: &str) -> bool {
        self.by.iter().any(|by| by == manager)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::fixtures::{added, by, deleted, initial, updated};

    fn only(path: &str) -> Filter {
        Filter {
            only: vec![FieldPattern::parse(path).unwrap()],
            ..Filter::default()
        }
    }

    #[test]
    fn only_the_fields_asked_for_are_left() {
        let change = || updated("pods", "shop", "cart", &["/spec/a", "/status/b"]);
        let mut spec = change();
        assert!(only("spec").admit(&mut spec));
        assert_eq!(spec.diff.len(), 1);
        assert!(!only("metadata").admit(&mut change()));
        assert!(
            only("spec.a.deep").admit(&mut change()),
            "the whole of spec.a changed"
        );
        assert!(only("metadata").admit(&mut added("pods", "shop", "cart")));
    }

    #[test]
    fn authors_are_compared_and_unknown_ones_are_left_out() {
        let filter = Filter {
            by: vec!["kubelet".to_owned()],
            ..Filter::default()
        };
        assert!(filter.admit(&mut by("kubelet", updated("pods", "shop", "cart", &["/a"]))));
        assert!(!filter.admit(&mut by("kubectl", updated("pods", "shop", "cart", &["/a"]))));
        assert!(!filter.admit(&mut deleted("pods", "shop", "cart")));
        assert!(filter.admit(&mut initial("pods", "shop", "cart")));
    }

    #[test]
    fn names_are_matched_by_regular_expression() {
        let filter = Filter {
            name: Some(Regex::new("^cart-[0-9]+$").unwrap()),
            ..Filter::default()
        };
        assert!(filter.admit(&mut added("pods", "shop", "cart-12")));
        assert!(!filter.admit(&mut initial("pods", "shop", "web")));
    }
}
