//! Which changes are printed: by field, by author, by name.

use regex::Regex;

use crate::changes::{Change, What};
use crate::cli::WatchArgs;
use crate::failure::Failure;
use crate::path::FieldPattern;

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
    /// A path or the regular expression cannot be read.
    pub fn new(args: &WatchArgs) -> Result<Self, Failure> {
        Self::of(&args.only, &args.by, args.name_regex.as_deref())
    }

    /// Only these fields, authors and names; empty for all.
    ///
    /// # Errors
    ///
    /// A path or the regular expression cannot be read.
    pub fn of(only: &[String], by: &[String], name: Option<&str>) -> Result<Self, Failure> {
        let name = name.map(Regex::new).transpose();
        Ok(Self {
            only: only
                .iter()
                .map(|path| FieldPattern::parse(path))
                .collect::<Result<_, _>>()
                .map_err(Failure::error)?,
            by: by.to_vec(),
            name: name
                .map_err(|error| Failure::error(format!("--name is not a regular expression: {error}")))?,
        })
    }

    /// Whether a change is printed. Fields that were not asked for are removed from its diff.
    pub fn admit(&self, change: &mut Change) -> bool {
        let Some(key) = &change.key else { return true };
        if self.name.as_ref().is_some_and(|name| !name.is_match(key.name())) {
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
    use crate::board::fixtures::{added, deleted, initial, updated};
    use crate::who::{Author, Written};

    fn by(manager: &str, mut change: Change) -> Change {
        change.by = Some(vec![Written {
            author: Author {
                manager: manager.into(),
                operation: "Update".into(),
                subresource: None,
                time: None,
            },
            paths: Vec::new(),
        }]);
        change
    }

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
