//! What happens to pods on their nodes.

use std::time::Duration;

use kube_api_protocol::selector::{LabelSelector, SelectorError};
use serde_json::Value;

use crate::fields::text;

/// How the pods that a rule matches run; see [`TestServer::pod_rule`](crate::TestServer::pod_rule).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_testserver::builders::{Build, node, pod};
/// use kube_testserver::{Controllers, PodRule, TestServer};
///
/// let server = TestServer::builder().controllers(Controllers::all()).build();
/// server.create(node("n1"));
/// server.pod_rule(PodRule::matching("app=slow")?.ready_after(Duration::from_secs(90)));
/// server.pod_rule(PodRule::matching("app=broken")?.crash_loop());
///
/// server.create(pod("shop", "a").label("app", "broken"));
/// server.wait_for("a restart", |server| {
///     let pod = server.get::<Pod>("shop", "a").unwrap();
///     let containers = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
///     containers.iter().any(|container| container.restart_count > 0)
/// }).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "pass it to `TestServer::pod_rule`"]
pub struct PodRule {
    selector: LabelSelector,
    namespace: Option<String>,
    name: Option<String>,
    node: Option<String>,
    pub(crate) start_after: Duration,
    /// `None`: the pod never becomes ready.
    pub(crate) ready_after: Option<Duration>,
    pub(crate) exit: Exit,
    pub(crate) end_after: Duration,
}

/// When and how the containers of a pod end by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// By the restart policy: never, or with success after a second if the pod is not to be restarted.
    Usual,
    Never,
    After {
        delay: Duration,
        code: i32,
    },
}

impl PodRule {
    /// A rule for all pods. Without further settings they are ready at once; those that are not to be restarted, such as the pods
    /// of jobs, succeed after a second.
    pub fn all() -> PodRule {
        PodRule {
            selector: LabelSelector::default(),
            namespace: None,
            name: None,
            node: None,
            start_after: Duration::ZERO,
            ready_after: Some(Duration::ZERO),
            exit: Exit::Usual,
            end_after: Duration::ZERO,
        }
    }

    /// A rule for the pods that a label selector matches: `app=web,tier!=front`.
    ///
    /// # Errors
    ///
    /// The selector cannot be parsed.
    pub fn matching(selector: &str) -> Result<PodRule, SelectorError> {
        Ok(PodRule {
            selector: LabelSelector::parse(selector)?,
            ..PodRule::all()
        })
    }

    /// Only pods of this namespace.
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> PodRule {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only pods of this name, such as `web-0`.
    pub fn named(mut self, name: impl Into<String>) -> PodRule {
        self.name = Some(name.into());
        self
    }

    /// Only pods on this node.
    pub fn on_node(mut self, node: impl Into<String>) -> PodRule {
        self.node = Some(node.into());
        self
    }

    /// Containers are created for this time before they run.
    pub fn start_after(mut self, delay: Duration) -> PodRule {
        self.start_after = delay;
        self
    }

    /// Containers become ready this time after their start, and after each restart.
    pub fn ready_after(mut self, delay: Duration) -> PodRule {
        self.ready_after = Some(delay);
        self
    }

    /// Containers run but never become ready.
    pub fn never_ready(mut self) -> PodRule {
        self.ready_after = None;
        self
    }

    /// Containers run until the pod is deleted, whatever its restart policy.
    pub fn run_forever(mut self) -> PodRule {
        self.exit = Exit::Never;
        self
    }

    /// Containers exit with success after this time. The restart policy decides whether they run again.
    pub fn succeed_after(self, delay: Duration) -> PodRule {
        self.exit_after(delay, 0)
    }

    /// Containers exit with code 1 after this time. The restart policy decides whether they run again.
    pub fn fail_after(self, delay: Duration) -> PodRule {
        self.exit_after(delay, 1)
    }

    /// Containers exit with a code after this time. The restart policy decides whether they run again: at once the first time,
    /// then after 10, 20, 40 seconds and so on up to five minutes.
    pub fn exit_after(mut self, delay: Duration, code: i32) -> PodRule {
        self.exit = Exit::After { delay, code };
        self
    }

    /// Containers fail as soon as they start, and never become ready.
    pub fn crash_loop(self) -> PodRule {
        self.never_ready().fail_after(Duration::ZERO)
    }

    /// Deleted pods end after this time, or after their grace period if that is shorter. At once by default.
    pub fn end_after(mut self, delay: Duration) -> PodRule {
        self.end_after = delay;
        self
    }

    pub(crate) fn matches(&self, pod: &Value) -> bool {
        let is = |wanted: &Option<String>, pointer: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == text(pod, pointer))
        };
        let labels = pod.pointer("/metadata/labels");
        is(&self.namespace, "/metadata/namespace")
            && is(&self.name, "/metadata/name")
            && is(&self.node, "/spec/nodeName")
            && self.selector.matches(|key| labels?.get(key)?.as_str())
    }
}

/// The rule for a pod: the latest that matches it.
pub(crate) fn rule_for(rules: &[PodRule], pod: &Value) -> PodRule {
    let matching = rules.iter().rev().find(|rule| rule.matches(pod));
    matching.cloned().unwrap_or_else(PodRule::all)
}
