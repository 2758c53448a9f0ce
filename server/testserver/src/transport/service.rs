//! The HTTP service: one request in, one response out.
//! Records the request, applies faults, authenticates, and dispatches to the handler.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Method, Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use kube_api_protocol::gzip;
use kube_api_protocol::request::{Query, ResourcePath, Verb};
use kube_api_protocol::status::ApiError;

use crate::documents;
use crate::fault::{Answer, Fault, Shaper};
use crate::journal::SeenRequest;
use crate::kinds::Kind;
use crate::read::{self, Target, connect};
use crate::response::body::TestBody;
use crate::state::ServerState;
use crate::user::User;
use crate::webhooks;
use crate::write;
use crate::write::request::{self as write_request, Writing};
use crate::{auth, response};

/// The server as a tower service, used by in-process clients.
#[derive(Clone, Debug)]
pub struct TestService {
    state: Arc<ServerState>,
    /// `None`: the replica selected by the server at the time of the request.
    replica: Option<usize>,
    /// The user of all requests; `None`: by their credentials.
    user: Option<User>,
}

impl TestService {
    pub(crate) fn new(state: Arc<ServerState>, replica: Option<usize>) -> TestService {
        TestService {
            state,
            replica,
            user: None,
        }
    }

    /// Treats every request as authenticated; used by the server's own clients.
    #[must_use]
    pub fn authenticated(mut self) -> TestService {
        self.user = Some(User::admin());
        self
    }

    /// Treats every request as one of this user.
    pub(crate) fn acting_as(mut self, user: User) -> TestService {
        self.user = Some(user);
        self
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<TestBody>, io::Error>> + Send>>;

impl<B> tower_service::Service<Request<B>> for TestService
where
    B: Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<TestBody>;
    type Error = io::Error;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answering {
        Box::pin(handle(self.clone(), request))
    }
}

/// A parsed request.
struct Incoming {
    method: Method,
    user: User,
    path: Option<ResourcePath>,
    seen: SeenRequest,
    body: Result<Bytes, ApiError>,
}

async fn handle<B>(service: TestService, request: Request<B>) -> Result<Response<TestBody>, io::Error>
where
    B: Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let TestService {
        state,
        replica,
        user: known,
    } = service;
    let replica = replica.unwrap_or_else(|| state.replicas.chosen());
    let in_flight = state.hub.enter();
    let (mut parts, body) = request.into_parts();
    // A client may wait for its connection through an extension of the request. Here is none to wait for.
    parts.extensions.clear();
    let path = ResourcePath::parse(parts.uri.path());
    let head = parts.method == Method::HEAD;
    let seen = seen(
        &state,
        replica,
        &parts.method,
        &parts.uri,
        &parts.headers,
        path.as_ref(),
    );
    let indented = wants_indented(&seen);
    let compressed = gzip::is_accepted(&parts.headers) && path.is_some();
    let subresource = path.as_ref().and_then(|path| path.subresource.as_deref());
    let connection = subresource.is_some_and(|name| connect::CONNECT.contains(&name));
    let number = state.journal.note(seen.clone());
    state.hub.changed().notify_waiters();
    // Continues work that an earlier runtime left behind.
    state.run_controllers();
    let fault = state.faults.strike(&seen).unwrap_or_default();

    if let Some(delay) = fault.delay {
        tokio::time::sleep(delay).await;
    }
    let mut response = match &fault.answer {
        _ if state.refuses_connections() => return Err(refused()),
        Some(Answer::Refuse) => return Err(refused()),
        Some(Answer::Hang) => std::future::pending().await,
        Some(Answer::Reply {
            status,
            content_type,
            body,
        }) => {
            let mut response = Response::new(TestBody::bytes(body.clone()));
            *response.status_mut() = *status;
            if let Some(content_type) = content_type {
                response.headers_mut().insert(CONTENT_TYPE, content_type.clone());
            }
            response
        }
        None => match auth::admit(&state, known.as_ref(), &parts.headers, path.as_ref(), &seen) {
            Err(refusal) => response::negotiated(
                seen.accept.as_deref(),
                response::refused(response::error(&refusal)),
            ),
            Ok(user) => {
                let body = read_body(&state, &parts.method, body).await;
                let incoming = Incoming {
                    method: parts.method,
                    user,
                    path,
                    seen,
                    body,
                };
                let response = dispatch(&state, &incoming, &fault).await;
                response::negotiated(incoming.seen.accept.as_deref(), response)
            }
        },
    };
    if fault.watch.late_headers && response.body().is_watch() {
        response.body_mut().something_to_read().await;
    }
    if indented {
        response = response::indent(response);
    }
    if compressed {
        response = response::compress(response);
    }
    response::finish(&state, &mut response, connection);
    if head {
        *response.body_mut() = TestBody::bytes(Bytes::new());
    }
    for (name, value) in &fault.headers {
        response.headers_mut().append(name, value.clone());
    }
    state.journal.answered(number, response.status().as_u16());
    state.hub.changed().notify_waiters();
    Ok(response.map(|mut body| {
        if !fault.shape.is_nothing() {
            body = body.shaped(Shaper::new(fault.shape));
        }
        body.counted(in_flight)
    }))
}

fn seen(
    state: &ServerState,
    replica: usize,
    method: &Method,
    uri: &http::Uri,
    headers: &HeaderMap,
    path: Option<&ResourcePath>,
) -> SeenRequest {
    let header = |name| {
        headers
            .get(name)
            .and_then(|value: &http::HeaderValue| value.to_str().ok())
            .map(str::to_owned)
    };
    let query = Query::parse(uri.query().unwrap_or_default());
    SeenRequest {
        verb: path
            .and_then(|path| path.verb(method, &query))
            .unwrap_or(Verb::Other),
        method: method.to_string(),
        path: uri.path().to_owned(),
        resource: path.map(|path| path.resource.clone()).unwrap_or_default(),
        group: path.map(|path| path.group.clone()).unwrap_or_default(),
        namespace: path.and_then(|path| path.namespace.clone()),
        name: path.and_then(|path| path.name.clone()),
        subresource: path.and_then(|path| path.subresource.clone()),
        accept: header(ACCEPT),
        content_type: header(CONTENT_TYPE),
        user_agent: header(USER_AGENT),
        query,
        replica,
        at: state.clock.elapsed(),
        status: None,
    }
}

/// Whether to indent the response: by query parameter, or for clients that people use by hand.
fn wants_indented(seen: &SeenRequest) -> bool {
    let by_hand = |agent: &str| {
        ["curl", "Wget", "Mozilla/5.0"]
            .iter()
            .any(|known| agent.starts_with(known))
    };
    match seen.query.optional_flag("pretty") {
        Some(pretty) => pretty,
        None => seen.verb != Verb::Watch && seen.user_agent.as_deref().is_some_and(by_hand),
    }
}

fn refused() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionRefused,
        "connection refused by the test server, as asked for",
    )
}

async fn read_body<B>(state: &ServerState, method: &Method, body: B) -> Result<Bytes, ApiError>
where
    B: Body + Send,
    B::Data: Buf + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(Bytes::new());
    }
    let limit = state.config.body_limit;
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(ApiError::body_too_large(limit)),
        Err(error) => Err(ApiError::bad_request(format!(
            "the body of the request ended early: {error}"
        ))),
    }
}

/// Dispatches a request to its handler.
async fn dispatch(state: &Arc<ServerState>, incoming: &Incoming, fault: &Fault) -> Response<TestBody> {
    let Some(path) = &incoming.path else {
        return documents::answer(
            state,
            &incoming.method,
            &incoming.seen.path,
            &incoming.seen.query,
            incoming.seen.accept.as_deref(),
        );
    };
    let kind = state
        .registry
        .read()
        .resource(&path.group, &path.version, &path.resource);
    let Some(kind) = kind else {
        let known = state
            .registry
            .read()
            .kinds_in(&path.group, &path.version)
            .iter()
            .any(|kind| !kind.custom);
        return if known {
            response::error(&ApiError::no_such_resource())
        } else {
            response::page_not_found()
        };
    };
    let response = match act(state, incoming, path, &kind, fault).await {
        Ok(response) => response,
        Err(error) => response::error(&error),
    };
    let warning = match kind.deprecation_warning.as_deref() {
        None if state.config.conformant => match (kind.group.as_str(), kind.kind.as_str()) {
            ("", "Endpoints") => {
                Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
            }
            ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
            _ => None,
        },
        warning => warning,
    };
    match warning {
        Some(warning) => response::warned(response, &[warning.to_owned()]),
        None => response,
    }
}

async fn act(
    state: &Arc<ServerState>,
    incoming: &Incoming,
    path: &ResourcePath,
    kind: &Arc<Kind>,
    fault: &Fault,
) -> Result<Response<TestBody>, ApiError> {
    let seen = &incoming.seen;
    check_allowed(seen, path, kind)?;
    let target = Target {
        kind,
        namespace: path.namespace.as_deref(),
        name: path.name.as_deref(),
        query: &seen.query,
        accept: seen.accept.as_deref(),
        replica: seen.replica,
        fault,
    };
    if matches!(seen.verb, Verb::List | Verb::Watch)
        && let Some(unready) = state.replicas.unready(seen.replica)
    {
        return Err(unready);
    }
    if let Some(subresource) = path
        .subresource
        .as_deref()
        .filter(|name| connect::CONNECT.contains(name))
    {
        let incoming = webhooks::Incoming {
            kind,
            subresource,
            seen,
            user: &incoming.user,
            dry_run: false,
        };
        let warnings = webhooks::admit_connection(state, incoming).await?;
        let response = connect::connect(state, &target, subresource)?;
        return Ok(response::warned(response, &warnings));
    }
    match (seen.verb, path.subresource.as_deref()) {
        (Verb::Get, Some("scale")) => write::get_scale(state, target).await,
        (Verb::Get, _) => read::get(state, target).await,
        (Verb::List, _) => read::list(state, target).await,
        (Verb::Watch, _) => read::watch(state, target).await,
        _ => {
            let writing = Writing {
                state,
                kind,
                user: &incoming.user,
                seen,
                body: incoming.body.as_ref().map_err(Clone::clone)?,
            };
            write_request::answer(&writing).await
        }
    }
}

/// Whether this path supports the verb.
fn check_allowed(seen: &SeenRequest, path: &ResourcePath, kind: &Kind) -> Result<(), ApiError> {
    let verb = seen.verb.as_str();
    let allowed = match &path.subresource {
        None => kind.allows(verb),
        Some(name) => {
            let missing = || match &path.name {
                // A single handler serves all custom objects, and its error names the object.
                Some(object) if kind.custom => ApiError::not_found(&kind.group, &kind.plural, object),
                _ => ApiError::no_such_resource(),
            };
            let subresource = kind.subresource(name).ok_or_else(missing)?;
            subresource.verbs.contains(&verb)
        }
    };
    if path.namespace.is_some() && !kind.namespaced {
        return Err(ApiError::no_such_resource());
    }
    let single = matches!(
        seen.verb,
        Verb::Get | Verb::Update | Verb::Patch | Verb::Delete | Verb::Create
    );
    if single && kind.namespaced && path.namespace.is_none() {
        return Err(if path.name.is_some() {
            ApiError::no_such_resource()
        } else {
            ApiError::method_not_allowed()
        });
    }
    if allowed {
        Ok(())
    } else {
        Err(ApiError::method_not_allowed())
    }
}
