//! The rules of webhooks: which operations on which resources they decide on.

use serde_json::Value;

use super::request::Operation;

/// A rule of a [`Webhook`](crate::Webhook): operations and resources.
#[doc(alias = "RuleWithOperations")]
#[derive(Clone, Debug)]
pub struct WebhookRule {
    pub(crate) rules: Vec<Rule>,
}

impl WebhookRule {
    /// Operations on resources: `pods`, `deployments.apps`, `pods/status`, `deployments.apps/scale`. `*` is every resource of
    /// the core group, `*.apps` every one of a group, `*.*` every one of all groups; `pods/*` is a resource with all its
    /// subresources, and `*.*/*` everything.
    pub fn new(operations: &[Operation], resources: &[&str]) -> WebhookRule {
        let rule = |resource: &&str| {
            let (resource, subresource) = match resource.split_once('/') {
                Some((resource, subresource)) => (resource, Some(subresource)),
                None => (*resource, None),
            };
            let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
            Rule {
                operations: operations
                    .iter()
                    .map(|operation| operation.as_str().to_owned())
                    .collect(),
                groups: vec![group.to_owned()],
                versions: vec!["*".to_owned()],
                resources: vec![match subresource {
                    Some(subresource) => format!("{plural}/{subresource}"),
                    None => plural.to_owned(),
                }],
                scope: Scope::All,
            }
        };
        WebhookRule {
            rules: resources.iter().map(rule).collect(),
        }
    }

    /// Restricts the rule to these API versions. A request in another version of the resource is converted.
    #[must_use]
    pub fn versions(mut self, versions: &[&str]) -> WebhookRule {
        for rule in &mut self.rules {
            rule.versions = versions.iter().map(|version| (*version).to_owned()).collect();
        }
        self
    }

    /// Restricts the rule to objects in namespaces.
    #[must_use]
    pub fn namespaced(self) -> WebhookRule {
        self.scope(Scope::Namespaced)
    }

    /// Restricts the rule to objects outside namespaces, namespaces themselves included.
    #[must_use]
    pub fn cluster_scoped(self) -> WebhookRule {
        self.scope(Scope::Cluster)
    }

    fn scope(mut self, scope: Scope) -> WebhookRule {
        for rule in &mut self.rules {
            rule.scope = scope;
        }
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    Namespaced,
    Cluster,
}

/// A rule as configurations have it: every combination of its lists.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) operations: Vec<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) versions: Vec<String>,
    /// Resources with their subresources: `pods`, `pods/status`, `*/*`.
    pub(crate) resources: Vec<String>,
    pub(crate) scope: Scope,
}

/// What a rule is compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) operation: Operation,
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespaced: bool,
}

impl Rule {
    /// A rule of a stored configuration.
    pub(crate) fn parse(rule: &Value) -> Rule {
        let list = |field: &str| -> Vec<String> {
            let values = rule.get(field).and_then(Value::as_array);
            let texts = values.into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        Rule {
            operations: list("operations"),
            groups: list("apiGroups"),
            versions: list("apiVersions"),
            resources: list("resources"),
            scope: match rule.get("scope").and_then(Value::as_str) {
                Some("Namespaced") => Scope::Namespaced,
                Some("Cluster") => Scope::Cluster,
                _ => Scope::All,
            },
        }
    }

    pub(crate) fn matches(&self, subject: &Subject<'_>) -> bool {
        let scope = match self.scope {
            Scope::All => true,
            Scope::Namespaced => subject.namespaced,
            Scope::Cluster => !subject.namespaced,
        };
        scope
            && any(&self.operations, subject.operation.as_str())
            && any(&self.groups, subject.group)
            && any(&self.versions, subject.version)
            && self.resources.iter().any(|resource| {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                (resource == "*" || resource == subject.resource)
                    && (subresource == "*" || subresource == subject.subresource)
            })
    }
}

fn any(items: &[String], requested: &str) -> bool {
    items.iter().any(|item| item == "*" || item == requested)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: Subject<'_> = Subject {
        operation: Operation::Update,
        group: "apps",
        version: "v1",
        resource: "deployments",
        subresource: "scale",
        namespaced: true,
    };

    fn matches(resource: &str, subject: &Subject<'_>) -> bool {
        let rule = WebhookRule::new(&[Operation::Update], &[resource]);
        rule.rules.iter().any(|rule| rule.matches(subject))
    }

    #[test]
    fn rule_names_resources_with_their_group_and_subresource() {
        for resource in [
            "deployments.apps/scale",
            "deployments.apps/*",
            "*.apps/scale",
            "*.*/*",
        ] {
            assert!(matches(resource, &SCALE), "{resource}");
        }
        for resource in [
            "deployments.apps",
            "deployments/scale",
            "*.*",
            "deployments.apps/status",
        ] {
            assert!(!matches(resource, &SCALE), "{resource}");
        }
        let deployment = Subject {
            subresource: "",
            ..SCALE
        };
        assert!(matches("deployments.apps", &deployment));
        assert!(!matches("deployments.apps/scale", &deployment));
        let create = Subject {
            operation: Operation::Create,
            ..deployment
        };
        assert!(!matches("deployments.apps", &create));
    }

    #[test]
    fn rule_can_be_restricted_to_versions_and_a_scope() {
        let rule = |change: fn(WebhookRule) -> WebhookRule, subject: &Subject<'_>| {
            let rule = change(WebhookRule::new(Operation::ALL, &["*.*/*"]));
            rule.rules.iter().any(|rule| rule.matches(subject))
        };
        let cluster = Subject {
            namespaced: false,
            ..SCALE
        };

        assert!(rule(WebhookRule::namespaced, &SCALE));
        assert!(!rule(WebhookRule::namespaced, &cluster));
        assert!(rule(WebhookRule::cluster_scoped, &cluster));
        assert!(!rule(WebhookRule::cluster_scoped, &SCALE));
        assert!(rule(|rule| rule.versions(&["v1"]), &SCALE));
        assert!(!rule(|rule| rule.versions(&["v1beta1"]), &SCALE));
    }
}
