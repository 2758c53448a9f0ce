//! Stands between the controller and the server: records requests, and crashes the controller or its connection on time.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use kube_testserver::{Fault, RequestMatcher, TestBody, TestServer, TestService};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;
use tower_service::Service;

use crate::plan::{PerturbationPlan, Point, WriteId};
use crate::record::{Failure, Record, Write};

/// How long a view stays behind the storage.
pub(crate) const STALE: Duration = Duration::from_secs(30);

/// The requests after which a run ends: a controller that sends more is in a loop that never waits, so that the virtual clock
/// never moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLimits {
    requests: usize,
    writes: usize,
}

impl RequestLimits {
    /// The limits of the reference run.
    pub(crate) const REFERENCE: RequestLimits = RequestLimits {
        requests: 20_000,
        writes: 5_000,
    };

    /// The limits of a perturbed run: far more than without the perturbation.
    pub(crate) fn from_reference(reference: &Record) -> RequestLimits {
        RequestLimits {
            requests: 2_000 + 10 * reference.requests,
            writes: 1_000 + 10 * reference.writes.len(),
        }
    }

    fn are_exceeded(self, record: &Record) -> bool {
        record.requests > self.requests || record.writes.len() > self.writes
    }
}

/// The state of a run that its gate and its driver share.
pub(crate) struct RunState {
    pub(crate) server: TestServer,
    pub(crate) plan: PerturbationPlan,
    /// Resources whose writes are not part of the result, such as Leases.
    ignored: Vec<String>,
    limits: RequestLimits,
    started: Instant,
    inner: Mutex<Inner>,
    interrupted: Notify,
}

struct Inner {
    record: Record,
    occurrences: HashMap<String, usize>,
    step: usize,
    interruption: Option<Interruption>,
    /// When the view catches up, and whether the changes until then are compacted.
    thaw: Option<(Instant, bool)>,
    last_activity: Instant,
}

/// Why the controller is stopped from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    Crash,
    TooManyRequests,
}

impl RunState {
    pub(crate) fn new(
        server: TestServer,
        plan: PerturbationPlan,
        ignored: Vec<String>,
        limits: RequestLimits,
    ) -> RunState {
        RunState {
            server,
            plan,
            ignored,
            limits,
            started: Instant::now(),
            inner: Mutex::new(Inner {
                record: Record::default(),
                occurrences: HashMap::new(),
                step: 0,
                interruption: None,
                thaw: None,
                last_activity: Instant::now(),
            }),
            interrupted: Notify::new(),
        }
    }

    pub(crate) fn record<T>(&self, read: impl FnOnce(&mut Record) -> T) -> T {
        read(&mut self.inner.lock().record)
    }

    /// Begins another life of the controller.
    pub(crate) fn start(&self) {
        let mut inner = self.inner.lock();
        inner.interruption = None;
        inner.last_activity = Instant::now();
        inner.record.starts += 1;
    }

    pub(crate) fn begin_step(&self, step: usize) {
        self.inner.lock().step = step;
        self.touch();
    }

    /// Notes that something happens, so that the cluster is not at rest yet.
    pub(crate) fn touch(&self) {
        self.inner.lock().last_activity = Instant::now();
    }

    /// The time since the last write of the controller, or other activity.
    pub(crate) fn at_rest_for(&self) -> Duration {
        let inner = self.inner.lock();
        match inner.thaw {
            Some(_) => Duration::ZERO,
            None => inner.last_activity.elapsed(),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether the plan concerns this step and has not taken place yet; if so, it takes place now.
    pub(crate) fn strike_if(&self, applies: bool) -> bool {
        let mut inner = self.inner.lock();
        let strikes = applies && !inner.record.struck;
        inner.record.struck |= strikes;
        strikes
    }

    /// Keeps the view of caches and watches at a version, for a while.
    pub(crate) fn freeze(&self, version: u64, compact: bool) {
        self.server.replica(0).freeze_at(version);
        self.inner.lock().thaw = Some((Instant::now() + STALE, compact));
    }

    /// Freezes the view in which a restarted controller finds the cluster.
    pub(crate) fn freeze_for_restart(&self) {
        let PerturbationPlan::StaleRestart { view, .. } = &self.plan else {
            return;
        };
        let version = self.record(|record| record.version_before(view));
        self.freeze(version.unwrap_or_else(|| self.server.resource_version()), false);
    }

    /// Lets the view catch up, if it is time.
    pub(crate) fn thaw_if_due(&self) {
        let due = {
            let mut inner = self.inner.lock();
            let due = inner.thaw.take_if(|(at, _)| *at <= Instant::now());
            if due.is_some() {
                inner.last_activity = Instant::now();
            }
            due
        };
        let Some((_, compact)) = due else { return };
        self.server.replica(0).catch_up();
        if compact {
            // Before any watch is polled: its events are lost, and its version is too old for the next one.
            self.server.compact();
            self.server.restart();
        }
    }

    pub(crate) async fn interrupted(&self) -> Interruption {
        loop {
            let notified = self.interrupted.notified();
            if let Some(why) = self.inner.lock().interruption {
                return why;
            }
            notified.await;
        }
    }

    fn interrupt(&self, why: Interruption) {
        self.inner.lock().interruption.get_or_insert(why);
        self.interrupted.notify_one();
    }

    fn is_ignored(&self, resource: &str) -> bool {
        self.ignored.iter().any(|ignored| ignored == resource)
    }
}

/// A client's service that passes every request through the gate.
#[derive(Clone)]
pub(crate) struct Gate {
    shared: Arc<RunState>,
    server: TestService,
}

impl Gate {
    pub(crate) fn new(shared: Arc<RunState>) -> Gate {
        let server = shared.server.service().authenticated();
        Gate { shared, server }
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<TestBody>, io::Error>> + Send>>;

impl Service<Request<Body>> for Gate {
    type Response = Response<TestBody>;
    type Error = io::Error;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answering {
        Box::pin(pass(self.clone(), request))
    }
}

async fn pass(mut gate: Gate, request: Request<Body>) -> Result<Response<TestBody>, io::Error> {
    let shared = gate.shared.clone();
    let too_many = {
        let mut inner = shared.inner.lock();
        inner.record.requests += 1;
        shared.limits.are_exceeded(&inner.record)
    };
    if too_many {
        shared.interrupt(Interruption::TooManyRequests);
    }
    if shared.inner.lock().interruption.is_some() {
        // The process is gone: it neither sends nor receives anything.
        return std::future::pending().await;
    }
    let resource = resource_of(request.uri().path());
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if reads || shared.is_ignored(&resource) || is_dry_run(&request) || resource.ends_with("reviews") {
        let description = describe(&request, None);
        let response = gate.server.call(request).await?;
        let status = response.status().as_u16();
        // Asking for an object that does not exist is not a failure.
        if !(shared.is_ignored(&resource) || reads && status == 404) {
            shared.note_failure(description, status);
        }
        return Ok(response);
    }
    write(gate, request).await
}

async fn write(mut gate: Gate, request: Request<Body>) -> Result<Response<TestBody>, io::Error> {
    let shared = gate.shared.clone();
    let (parts, body) = request.into_parts();
    let bytes = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let created = (parts.method == Method::POST).then(|| name_in(&bytes)).flatten();
    let path = parts.uri.path().to_owned();
    let request = Request::from_parts(parts, Body::from(bytes));
    let signature = describe(&request, created.as_deref());
    let (occurrence, before) = {
        let mut inner = shared.inner.lock();
        let seen = inner.occurrences.entry(signature.clone()).or_default();
        *seen += 1;
        (*seen - 1, shared.server.resource_version())
    };
    let is = |id: &WriteId| id.signature == signature && id.occurrence == occurrence;
    let is_at = |point: &Point| matches!(point, Point::Write(id) if is(id));
    let perturbed = shared.record(|record| record.struck);
    match &shared.plan {
        PerturbationPlan::CrashBefore(id) if shared.strike_if(is(id)) => {
            shared.interrupt(Interruption::Crash);
            return std::future::pending().await;
        }
        PerturbationPlan::Lag(at) if shared.strike_if(is_at(at)) => shared.freeze(before, false),
        PerturbationPlan::Skip(at) if shared.strike_if(is_at(at)) => shared.freeze(before, true),
        PerturbationPlan::LostResponse(id) if shared.strike_if(is(id)) => {
            shared.server.fault(RequestMatcher::path(&path), Fault::cut(0));
        }
        _ => {}
    }
    let response = gate.server.call(request).await?;
    let crashes = match &shared.plan {
        PerturbationPlan::CrashAfter(id) => shared.strike_if(is(id)),
        PerturbationPlan::StaleRestart { at, .. } => shared.strike_if(is_at(at)),
        _ => false,
    };
    let status = response.status().as_u16();
    {
        let mut inner = shared.inner.lock();
        let write = Write {
            signature: signature.clone(),
            occurrence,
            before,
            after: shared.server.resource_version(),
            status: (!crashes).then_some(status),
            step: inner.step,
            at: shared.elapsed(),
            perturbed,
        };
        if write.is_effective() {
            inner.last_activity = Instant::now();
        }
        inner.record.writes.push(write);
    }
    shared.note_failure(signature, status);
    if crashes {
        shared.freeze_for_restart();
        shared.interrupt(Interruption::Crash);
        return std::future::pending().await;
    }
    Ok(response)
}

impl RunState {
    fn note_failure(&self, request: String, status: u16) {
        // An expired version is part of the protocol of watches and pages.
        if status >= 400 && status != 410 {
            let at = self.elapsed();
            let failure = Failure { request, status, at };
            self.inner.lock().record.failures.push(failure);
        }
    }
}

/// The method and the path; for a create also the name.
fn describe(request: &Request<Body>, created: Option<&str>) -> String {
    let (method, path) = (request.method(), request.uri().path());
    match created {
        Some(name) => format!("{method} {path} ({name})"),
        None => format!("{method} {path}"),
    }
}

fn is_dry_run(request: &Request<Body>) -> bool {
    request
        .uri()
        .query()
        .is_some_and(|query| query.contains("dryRun=All"))
}

/// The resource of a path with its group: `configmaps`, `deployments.apps`. Empty if the path is not a resource.
fn resource_of(path: &str) -> String {
    let mut parts = path.trim_matches('/').split('/');
    let group = match parts.next() {
        Some("api") => "",
        Some("apis") => parts.next().unwrap_or_default(),
        _ => return String::new(),
    };
    let rest: Vec<&str> = parts.skip(1).collect();
    let plural = match rest.as_slice() {
        // `namespaces/shop` and its subresources are a Namespace itself.
        ["namespaces", _, resource, ..] if !matches!(*resource, "status" | "finalize") => resource,
        [resource, ..] => resource,
        [] => return String::new(),
    };
    if group.is_empty() {
        (*plural).to_owned()
    } else {
        format!("{plural}.{group}")
    }
}

fn name_in(body: &[u8]) -> Option<String> {
    let object: Value = serde_json::from_slice(body).ok()?;
    let metadata = object.get("metadata")?;
    let text = |key: &str| metadata.get(key).and_then(Value::as_str);
    match (text("name"), text("generateName")) {
        (Some(name), _) => Some(name.to_owned()),
        (None, Some(prefix)) => Some(format!("{prefix}*")),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_is_read_from_the_path() {
        for (path, resource) in [
            ("/api/v1/namespaces/shop/configmaps/web", "configmaps"),
            ("/api/v1/namespaces/shop", "namespaces"),
            ("/api/v1/namespaces/shop/status", "namespaces"),
            ("/api/v1/nodes/n1", "nodes"),
            (
                "/apis/apps/v1/namespaces/shop/deployments/web/scale",
                "deployments.apps",
            ),
            (
                "/apis/coordination.k8s.io/v1/namespaces/a/leases",
                "leases.coordination.k8s.io",
            ),
            ("/version", ""),
        ] {
            assert_eq!(resource_of(path), resource, "{path}");
        }
    }
}
