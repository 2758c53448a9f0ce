//! `ResourceName`: a resource name, with or without a version.

use std::fmt;

use kube::core::GroupVersionResource;

/// A resource by group, plural name and, if it matters, version.
///
/// Converted from a [`GroupVersionResource`] or a string: `pods`, `deployments.apps`, `deployments.v1.apps` (as kubectl
/// writes it), `apps/v1/deployments` or `v1/pods`. Without a version it means the server's preferred one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "GroupVersionResource")]
#[doc(alias = "GroupResource")]
pub struct ResourceName {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version; `None` for the server's preferred one, even if that changes.
    pub version: Option<String>,
    /// The plural name of the kind, in lower case.
    pub plural: String,
}

impl From<&str> for ResourceName {
    fn from(text: &str) -> Self {
        let parts: Vec<&str> = text.split('/').collect();
        let (group, version, plural) = match parts.as_slice() {
            [group, version, plural] => (*group, Some(*version), *plural),
            [version, plural] => ("", Some(*version), *plural),
            _ => match text.split_once('.') {
                None => ("", None, text),
                Some((plural, rest)) => match rest.split_once('.') {
                    Some((version, group)) if is_version(version) => (group, Some(version), plural),
                    None if is_version(rest) => ("", Some(rest), plural),
                    _ => (rest, None, plural),
                },
            },
        };
        Self {
            group: group.to_owned(),
            version: version.map(str::to_owned),
            plural: plural.to_owned(),
        }
    }
}

/// `v1`, `v2beta3`.
fn is_version(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('v') else {
        return false;
    };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    let stage = rest.strip_prefix("alpha").or_else(|| rest.strip_prefix("beta"));
    text.len() - rest.len() > 1 && (rest.is_empty() || stage.is_some_and(is_numbered))
}

impl From<&String> for ResourceName {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<String> for ResourceName {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<GroupVersionResource> for ResourceName {
    fn from(resource: GroupVersionResource) -> Self {
        Self {
            group: resource.group,
            version: Some(resource.version),
            plural: resource.resource,
        }
    }
}

impl From<&GroupVersionResource> for ResourceName {
    fn from(resource: &GroupVersionResource) -> Self {
        resource.clone().into()
    }
}

/// As kubectl writes it: `deployments.v1.apps`.
impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        let version = self.version.as_deref().unwrap_or_default();
        for part in [version, &self.group] {
            if !part.is_empty() {
                write!(f, ".{part}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_notations_are_parsed() {
        let name = |group: &str, version: Option<&str>, plural: &str| ResourceName {
            group: group.to_owned(),
            version: version.map(str::to_owned),
            plural: plural.to_owned(),
        };
        for (text, expected) in [
            ("pods", name("", None, "pods")),
            ("pods.v1", name("", Some("v1"), "pods")),
            ("v1/pods", name("", Some("v1"), "pods")),
            ("deployments.apps", name("apps", None, "deployments")),
            ("deployments.v1.apps", name("apps", Some("v1"), "deployments")),
            ("apps/v1/deployments", name("apps", Some("v1"), "deployments")),
            ("shops.example.com", name("example.com", None, "shops")),
            (
                "shops.v2beta1.example.com",
                name("example.com", Some("v2beta1"), "shops"),
            ),
            ("shops.vip.example.com", name("vip.example.com", None, "shops")),
            ("", name("", None, "")),
        ] {
            assert_eq!(ResourceName::from(text), expected, "{text:?}");
        }
        let gvr = GroupVersionResource::gvr("apps", "v1", "deployments");
        assert_eq!(ResourceName::from(&gvr).to_string(), "deployments.v1.apps");
        assert_eq!(ResourceName::from("pods").to_string(), "pods");
    }
}
