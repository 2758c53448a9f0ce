//! One webhook: when it is called, how, and what happens if the call fails.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use kube_api_protocol::selector::{LabelSelector, SelectorError};
use serde_json::Value;

use super::backend::Backend;
use super::request::{Admission, AdmissionRequest, Operation};
use super::rule::{Rule, WebhookRule};

/// The timeout of a webhook that sets none.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// An admission webhook that runs in the test process: a function that allows, refuses or changes the writes of clients.
///
/// Add it with [`TestServerBuilder::mutating_webhook`](crate::TestServerBuilder::mutating_webhook) or
/// [`TestServerBuilder::validating_webhook`](crate::TestServerBuilder::validating_webhook). Without rules it is called for every
/// operation on every resource, but not for subresources.
///
/// Webhooks decide on requests of clients only. Objects that the test writes itself, with
/// [`TestServer::create`](crate::TestServer::create) and the like, and those of the server's own controllers are not reviewed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::{Api, api::PostParams};
/// use kube_testserver::builders::{Build, pod};
/// use kube_testserver::{Admission, Operation, TestServer, Webhook, WebhookRule};
/// use serde_json::json;
///
/// let label = Webhook::new("team.example.com", |_| {
///     Admission::patch(&json!([{ "op": "add", "path": "/metadata/labels/team", "value": "shop" }]))
/// })
/// .rule(WebhookRule::new(&[Operation::Create], &["pods"]));
/// let no_root = Webhook::new("root.example.com", |request| {
///     match request.object_as::<Pod>() {
///         Ok(pod) if pod.metadata.name.as_deref() == Some("root") => Admission::deny("root is not allowed"),
///         _ => Admission::allow(),
///     }
/// })
/// .rule(WebhookRule::new(&[Operation::Create, Operation::Update], &["pods"]));
/// let server = TestServer::builder().mutating_webhook(label).validating_webhook(no_root).build();
///
/// let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
/// let cart = pods.create(&PostParams::default(), &pod("shop", "cart").label("app", "cart")).await?;
/// assert_eq!(cart.metadata.labels.unwrap()["team"], "shop");
/// let error = pods.create(&PostParams::default(), &pod("shop", "root").label("app", "root")).await.unwrap_err();
/// assert!(error.to_string().contains(r#"admission webhook "root.example.com" denied the request: root is not allowed"#));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a webhook is called only after it is added to a server"]
pub struct Webhook {
    pub(crate) hook: Hook,
}

impl Webhook {
    /// A webhook by name, such as `limits.example.com`, and its function. The function must not block, and must not wait for
    /// other requests to the same server; see [`reviews`](Self::reviews) for one that does.
    pub fn new(
        name: impl Into<String>,
        decide: impl Fn(&AdmissionRequest) -> Admission + Send + Sync + 'static,
    ) -> Webhook {
        Webhook::with(name, Decider::Function(Arc::new(decide)))
    }

    /// A webhook that receives an `AdmissionReview` as JSON and returns one, as an HTTP handler does: for the handler of an
    /// operator, without a socket. Its response is checked as that of a remote webhook.
    ///
    /// ```
    /// use kube_testserver::{TestServer, Webhook};
    /// use serde_json::{Value, json};
    ///
    /// async fn handle(review: Value) -> Value {
    ///     json!({
    ///         "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
    ///         "response": { "uid": review["request"]["uid"], "allowed": true },
    ///     })
    /// }
    ///
    /// let server = TestServer::builder().validating_webhook(Webhook::reviews("all.example.com", handle)).build();
    /// ```
    pub fn reviews<F, D>(name: impl Into<String>, decide: F) -> Webhook
    where
        F: Fn(Value) -> D + Send + Sync + 'static,
        D: Future<Output = Value> + Send + 'static,
    {
        let decide = move |review: Value| decide(review).boxed();
        Webhook::with(name, Decider::Reviewer(Backend::Reviews(Arc::new(decide))))
    }

    fn with(name: impl Into<String>, decider: Decider) -> Webhook {
        Webhook {
            hook: Hook {
                name: name.into(),
                rules: Vec::new(),
                namespaces: Ok(LabelSelector::default()),
                objects: Ok(LabelSelector::default()),
                equivalent: true,
                dry_run: DryRun::Supported,
                fails_open: false,
                timeout: DEFAULT_TIMEOUT,
                reinvoked: false,
                conditions: Vec::new(),
                decider,
            },
        }
    }

    /// Adds a rule: the webhook is called for requests that match any of its rules.
    pub fn rule(mut self, rule: WebhookRule) -> Webhook {
        self.hook.rules.extend(rule.rules);
        self
    }

    /// Only objects in namespaces whose labels match; objects outside namespaces are not restricted by it.
    ///
    /// # Errors
    ///
    /// The selector cannot be parsed.
    pub fn namespace_selector(mut self, selector: &str) -> Result<Webhook, SelectorError> {
        self.hook.namespaces = Ok(LabelSelector::parse(selector)?);
        Ok(self)
    }

    /// Only objects whose labels match before or after the request.
    ///
    /// # Errors
    ///
    /// The selector cannot be parsed.
    pub fn object_selector(mut self, selector: &str) -> Result<Webhook, SelectorError> {
        self.hook.objects = Ok(LabelSelector::parse(selector)?);
        Ok(self)
    }

    /// The webhook has side effects, so that dry runs of requests that it would decide on are refused.
    pub fn with_side_effects(mut self) -> Webhook {
        self.hook.dry_run = DryRun::Refused;
        self
    }

    /// Requests are not refused if the call of the webhook fails: failure policy `Ignore`.
    pub fn ignore_failures(mut self) -> Webhook {
        self.hook.fails_open = true;
        self
    }

    /// A mutating webhook is called again if a later one has changed the object: reinvocation policy `IfNeeded`.
    pub fn reinvoked(mut self) -> Webhook {
        self.hook.reinvoked = true;
        self
    }

    /// The timeout of a call; 10 seconds by default.
    pub fn timeout(mut self, timeout: Duration) -> Webhook {
        self.hook.timeout = timeout;
        self
    }

    /// The webhook with its rules; without any, all operations on all resources.
    pub(crate) fn hook(&self) -> Hook {
        let mut hook = self.hook.clone();
        if hook.rules.is_empty() {
            hook.rules = WebhookRule::new(Operation::ALL, &["*.*"]).rules;
        }
        hook
    }
}

/// Whether a webhook may be called for a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DryRun {
    Supported,
    Refused,
    /// A stored configuration does not say.
    Unknown,
}

/// One webhook, of the test or of a stored configuration.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    pub(crate) name: String,
    pub(crate) rules: Vec<Rule>,
    /// The selectors, or why they cannot be parsed.
    pub(crate) namespaces: Result<LabelSelector, String>,
    pub(crate) objects: Result<LabelSelector, String>,
    /// Whether requests in other versions of a resource match, too.
    pub(crate) equivalent: bool,
    pub(crate) dry_run: DryRun,
    pub(crate) fails_open: bool,
    pub(crate) timeout: Duration,
    pub(crate) reinvoked: bool,
    /// CEL expressions.
    pub(crate) conditions: Vec<String>,
    pub(crate) decider: Decider,
}

type Decide = dyn Fn(&AdmissionRequest) -> Admission + Send + Sync;

/// What decides on a request.
#[derive(Clone)]
pub(crate) enum Decider {
    /// A function of the test that needs no review.
    Function(Arc<Decide>),
    Reviewer(Backend),
}

impl fmt::Debug for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Decider::Function(_) => f.write_str("Function"),
            Decider::Reviewer(backend) => backend.fmt(f),
        }
    }
}
