//! Users, and the secrets by which they are known.

use std::fmt;

/// The client of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

const ACCOUNT: &str = "system:serviceaccount:";

impl User {
    /// A user with the groups that every user has, and those of a service account.
    pub(crate) fn new(name: impl Into<String>, groups: &[&str]) -> User {
        let name = name.into();
        let mut all: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        if let Some((namespace, _)) = account(&name) {
            all.push("system:serviceaccounts".to_owned());
            all.push(format!("system:serviceaccounts:{namespace}"));
        }
        let everyone = if name == "system:anonymous" {
            "system:unauthenticated"
        } else {
            "system:authenticated"
        };
        all.push(everyone.to_owned());
        all.dedup();
        User { name, groups: all }
    }

    /// The user with all permissions.
    pub(crate) fn admin() -> User {
        User::new("kube-testserver:admin", &["system:masters"])
    }
}

/// The namespace and name of the service account that a user is.
pub(crate) fn account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix(ACCOUNT)?.split_once(':')
}

/// An authenticated user whose requests for objects are all forbidden.
#[derive(Clone, Debug)]
pub(crate) struct UserWithoutPermissions {
    pub(crate) token: Secret,
    pub(crate) user: String,
}

/// A token: compared, sent and written into kubeconfigs, but never printed.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(secret: impl Into<String>) -> Secret {
        Secret(secret.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}
