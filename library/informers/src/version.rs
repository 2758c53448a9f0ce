//! Resource versions as numbers.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::errors::ParseError;

/// A resource version that can be compared: a positive decimal number of any length.
///
/// Since Kubernetes 1.35 clients may compare the versions of one resource type as integers. [`FromStr`] rejects all
/// other versions, which can be compared for equality only.
///
/// ```
/// use kube_informers::ResourceVersion;
///
/// let older: ResourceVersion = "99".parse()?;
/// let newer: ResourceVersion = "100".parse()?;
/// assert!(older < newer);
/// # Ok::<(), kube_informers::error::ParseError>(())
/// ```
#[doc(alias = "ResourceVersionComparator")]
#[doc(alias = "CompareResourceVersion")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ResourceVersion(Box<str>);

impl ResourceVersion {
    /// The version as sent by the server.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares two versions as numbers; `None` if one of them is not a number.
    pub fn compare(left: &str, right: &str) -> Option<Ordering> {
        (is_version(left) && is_version(right)).then(|| compare_digits(left, right))
    }
}

/// Whether a watch at `present` would go back with `next`: to an older version, or from a number to a version that is
/// not one (such as `0`). If `present` is not a number, no version is a step back.
pub(crate) fn is_step_back(present: &str, next: &str) -> bool {
    match ResourceVersion::compare(next, present) {
        Some(order) => order == Ordering::Less,
        None => is_version(present),
    }
}

fn is_version(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Compares numbers without leading zeros: the longer one is larger.
fn compare_digits(left: &str, right: &str) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

impl PartialOrd for ResourceVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ResourceVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_digits(&self.0, &other.0)
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResourceVersion({})", self.0)
    }
}

impl FromStr for ResourceVersion {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if is_version(text) {
            Ok(Self(text.into()))
        } else {
            Err(ParseError::new(
                "a comparable resource version",
                text,
                "it must be a positive decimal number without leading zeros",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_any_length_compare_as_numbers() {
        let long = "1234567890123456789012345678901234567890";
        assert_eq!(ResourceVersion::compare("9", "10"), Some(Ordering::Less));
        assert_eq!(
            ResourceVersion::compare(long, "18446744073709551616"),
            Some(Ordering::Greater)
        );
        assert_eq!(ResourceVersion::compare("7", "7"), Some(Ordering::Equal));
    }

    #[test]
    fn malformed_versions_are_rejected() {
        for text in ["", "0", "00012", "-1", "1.5", "abc", "1 "] {
            assert!(text.parse::<ResourceVersion>().is_err(), "{text:?}");
            assert_eq!(ResourceVersion::compare(text, "5"), None, "{text:?}");
        }
    }

    #[test]
    fn a_number_is_followed_by_larger_numbers_only() {
        for (present, next, expected) in [
            ("9", "10", false),
            ("9", "9", false),
            ("10", "9", true),
            ("9", "0", true),
            ("9", "-3", true),
            ("9", "x", true),
            ("x", "9", false),
            ("x", "y", false),
            ("0", "x", false),
        ] {
            assert_eq!(is_step_back(present, next), expected, "{present} {next}");
        }
    }
}
