//! Failed requests: kubectl's messages, and what the user can do.

use std::error::Error;
use std::fmt;
use std::io;

use kube::client::AuthError;
use kube_informers::source::{LimitExceeded, SourceError};

use crate::objects::kinds::Kind;
use crate::process::failure::{Failure, chain, mask_credentials};

/// A request outside of an informer that failed.
#[derive(Debug)]
pub enum RequestError {
    /// The server rejected the request.
    Api {
        /// The HTTP code.
        code: u16,
        /// The machine-readable reason.
        reason: String,
        /// The server's message.
        message: String,
    },
    /// The connection was refused.
    Refused,
    /// Another transport error.
    Unreachable(String),
    /// The response is not that of an API server.
    Malformed(String),
    /// The answer is larger than any that an API server sends.
    TooLarge(String),
}

impl RequestError {
    /// The response to a request for this path cannot be read.
    pub fn malformed(path: &str) -> Self {
        Self::Malformed(format!("the answer to {path} is not what an API server sends"))
    }

    /// The server refused with this code and body: a Status, or whatever a proxy in between sent.
    pub fn from_body(code: u16, body: &[u8]) -> Self {
        let status: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let field = |name: &str| {
            status
                .get(name)
                .and_then(|value| value.as_str())
                .unwrap_or_default()
                .to_owned()
        };
        let message = match status.is_object() {
            true => field("message"),
            // The beginning of plain text is quoted, HTML is not.
            false => {
                let text = String::from_utf8_lossy(body.get(..body.len().min(400)).unwrap_or_default());
                let line = text.trim().lines().next().unwrap_or_default();
                if line.starts_with('<') {
                    String::new()
                } else {
                    line.to_owned()
                }
            }
        };
        Self::Api {
            code,
            reason: field("reason"),
            message,
        }
    }

    /// The request did not reach the server, or the response was lost: the innermost cause and the usual fix, as the library
    /// words them.
    pub fn unreachable(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        const CONTEXT: &str = "request failed";
        let error = SourceError::Transport {
            context: CONTEXT.to_owned(),
            refused: false,
            source: cause.into(),
        };
        let text = error.to_string();
        let text = text.strip_prefix(CONTEXT).unwrap_or(&text);
        Self::Unreachable(plain(text.trim_start_matches(": ")))
    }

    /// In kubectl's wording.
    pub fn into_failure(self, server: &str) -> Failure {
        match self {
            Self::Api { code: 401, .. } => {
                Failure::error("You must be logged in to the server (Unauthorized)")
            }
            Self::Api {
                code,
                reason,
                message,
            } => Failure::verbatim(from_server(code, &reason, &message)),
            Self::Refused => refused(server),
            Self::Unreachable(text) => Failure::verbatim(format!("Unable to connect to the server: {text}")),
            Self::Malformed(text) | Self::TooLarge(text) => Failure::error(text),
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api {
                code,
                reason,
                message,
            } => f.write_str(&from_server(*code, reason, message)),
            Self::Refused => f.write_str("the connection was refused"),
            Self::Unreachable(text) | Self::Malformed(text) | Self::TooLarge(text) => f.write_str(text),
        }
    }
}

impl From<kube::Error> for RequestError {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) => Self::Api {
                code: status.code,
                reason: status.reason.clone(),
                message: status.message.clone(),
            },
            _ if is_refused(&error) && !is_about_credentials(&error) => Self::Refused,
            _ => Self::unreachable(error),
        }
    }
}

/// Whether a request was not sent because there are no credentials: a plugin or the issuer of tokens has failed.
fn is_about_credentials(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<AuthError>() {
            return true;
        }
        next = error.source();
    }
    false
}

/// Whether the user must log in again before a request can succeed.
pub fn needs_login(error: &SourceError) -> bool {
    error.api().is_some_and(|api| api.is_unauthorized()) || is_about_credentials(error)
}

fn is_refused(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        {
            return true;
        }
        next = error.source();
    }
    false
}

fn refused(server: &str) -> Failure {
    let host = server
        .trim_start_matches("https://")
        .trim_start_matches("http://")
        .trim_end_matches('/');
    Failure::verbatim(format!(
        "The connection to the server {host} was refused - did you specify the right host or port?"
    ))
}

/// `Error from server (NotFound): …`
fn from_server(code: u16, reason: &str, message: &str) -> String {
    let reason = match reason {
        "" => code.to_string(),
        reason => reason.to_owned(),
    };
    let cause = usual_cause(code, &reason, message);
    match (message, cause) {
        ("", None) => format!("Error from server ({reason})"),
        ("", Some(cause)) => format!("Error from server ({reason}): {cause}"),
        (message, None) => format!("Error from server ({reason}): {message}"),
        (message, Some(cause)) => {
            let message = message.trim_end_matches('.');
            format!("Error from server ({reason}): {message}; {cause}")
        }
    }
}

/// What usually sends a response with this code that is not a Status of an API server: something in between. `None` for
/// a response with a reason, which says it itself.
fn usual_cause(code: u16, reason: &str, message: &str) -> Option<&'static str> {
    if !reason.is_empty() && reason != code.to_string() {
        return None;
    }
    Some(match code {
        // What a TLS port of Go's servers responds to a request without TLS.
        400 if message.contains("HTTP request to an HTTPS server") => "use https:// in the server address",
        301..=308 => {
            "the response is a redirect, usually to a login page: log in again, or check the server address"
        }
        401 => "the credentials are missing or expired: log in again",
        403 => {
            "usually a proxy, gateway or firewall in front of the API server rejects the request: check HTTPS_PROXY and \
             the server address"
        }
        404 => {
            "usually the address is not that of an API server: check the server in the kubeconfig, and its path"
        }
        407 => "the proxy requires credentials: check HTTPS_PROXY and proxy-url",
        413 => "usually a proxy limits the size of requests",
        429 => "the server has too many requests and asks to slow down",
        500 => "the API server or a proxy failed internally",
        502 => "usually a load balancer cannot reach the API server",
        503 => {
            "usually the API server is starting, overloaded, or has no healthy instance behind the load balancer"
        }
        504 => "usually a gateway waited too long for the API server",
        _ => return None,
    })
}

/// A failed list or watch in one line.
pub fn explain(error: &SourceError) -> String {
    match error {
        SourceError::Api(api) => match usual_cause(api.code, &api.reason, &api.message) {
            Some(cause) => format!("{api}; {cause}"),
            None => api.to_string(),
        },
        SourceError::Limit(limit) => exceeded(limit),
        refused if refused.is_connection_refused() => "the connection was refused".to_owned(),
        // The message has the innermost cause and the fix; the errors in between add nothing.
        SourceError::Transport { .. } => plain(&error.to_string()),
        other => plain(&chain(other)),
    }
}

/// A limit that a response exceeded, and the option that sets it. The library names its own settings.
fn exceeded(limit: &LimitExceeded) -> String {
    match limit {
        LimitExceeded::Objects { limit } => format!(
            "there are more than {limit} objects: select fewer with -n, -l or --field-selector, or raise --max-objects"
        ),
        LimitExceeded::Bytes { limit } => format!(
            "the list is larger than {limit} bytes: select fewer objects with -n, -l or --field-selector, or raise \
             --max-bytes"
        ),
        LimitExceeded::WastedBytes { limit } => format!(
            "the response has more than {limit} bytes that are not objects, cannot be read or repeat an object: the server \
             or a proxy is broken"
        ),
        LimitExceeded::Throughput { received, within, .. } => format!(
            "the server sent only {received} bytes within {} s: the server, a proxy or the network is stuck",
            within.as_secs()
        ),
        LimitExceeded::Duration { limit } => format!(
            "no complete list within {} s: is the server slow or stuck? Select fewer objects with -n, -l or \
             --field-selector, or raise --request-timeout",
            limit.as_secs_f64()
        ),
        other => other.to_string(),
    }
}

/// Without the type names and documentation links that libraries put into their errors.
fn plain(text: &str) -> String {
    let text = text.replace("ServiceError: ", "").replace("HyperError: ", "");
    mask_credentials(text.split(": https://docs.rs/").next().unwrap_or_default())
}

/// The missing permission and the commands that grant it. `None` unless the status is 403.
pub fn missing_permission(error: &SourceError, kind: &Kind, namespaces: Option<&[String]>) -> Option<String> {
    // Without a reason it is not the API server that rejects the request, and no role would help.
    let api = error
        .api()
        .filter(|api| api.is_forbidden() && !api.reason.is_empty())?;
    let what = kind.full_name();
    let place = match namespaces.filter(|_| kind.namespaced) {
        None if kind.namespaced => " in all namespaces".to_owned(),
        None => String::new(),
        Some([namespace]) => format!(" in the namespace {namespace}"),
        Some(namespaces) => format!(" in the namespaces {}", namespaces.join(", ")),
    };
    let role = format!("informers-{}", kind.plural);
    let subject = subject(&api.message);
    let mut text = from_server(403, "Forbidden", &api.message);
    text.push_str(&format!(
        "\n\nThe permission to list and watch {what}{place} is missing. Who administers the cluster can grant it:\n  \
         kubectl create clusterrole {role} --verb=list,watch --resource={what}"
    ));
    match namespaces.filter(|_| kind.namespaced) {
        None => text.push_str(&format!(
            "\n  kubectl create clusterrolebinding {role} --clusterrole={role} {subject}"
        )),
        Some(namespaces) => {
            for namespace in namespaces {
                text.push_str(&format!(
                    "\n  kubectl create rolebinding {role} --clusterrole={role} {subject} --namespace={namespace}"
                ));
            }
        }
    }
    if kind.namespaced && namespaces.is_none() {
        text.push_str("\nOr choose a namespace you may read: -n NAMESPACE");
    }
    Some(text)
}

/// The subject, taken from the server's message: `User "jane" cannot list resource …`.
fn subject(message: &str) -> String {
    let user = message
        .split_once("User \"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .map(|(user, _)| user)
        // Text with a meaning for the shell is not repeated.
        .filter(|user| {
            !user.is_empty()
                && user
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-_.:@/+=".contains(c))
        });
    match user {
        Some(user) => match user.strip_prefix("system:serviceaccount:") {
            Some(account) => format!("--serviceaccount={account}"),
            None => format!("--user={user}"),
        },
        None => "--user=USER".to_owned(),
    }
}

/// A list that failed permanently, in kubectl's wording.
pub fn into_failure(error: &SourceError, server: &str) -> Failure {
    if error.is_connection_refused() {
        return refused(server);
    }
    match error {
        SourceError::Api(api) if api.is_unauthorized() => {
            Failure::error("You must be logged in to the server (Unauthorized)")
        }
        SourceError::Api(api) => Failure::verbatim(from_server(api.code, &api.reason, &api.message)),
        SourceError::Transport { .. } | SourceError::Deadline { .. } => Failure::verbatim(format!(
            "Unable to connect to the server: {}",
            plain(&error.to_string())
        )),
        SourceError::Limit(limit) => Failure::error(exceeded(limit)),
        other => Failure::error(chain(other)),
    }
}

#[cfg(test)]
mod tests {
    use kube_informers::source::ApiError;

    use super::*;

    fn forbidden(message: &str) -> SourceError {
        SourceError::Api(ApiError::new(403, "Forbidden", message))
    }

    #[test]
    fn a_missing_permission_comes_with_the_commands_that_grant_it() {
        let kind = Kind::for_tests("apps", "v1", "Deployment", "deployments");
        let error =
            forbidden("deployments.apps is forbidden: User \"jane\" cannot list resource \"deployments\"");

        assert_eq!(
            missing_permission(&error, &kind, None).unwrap(),
            "Error from server (Forbidden): deployments.apps is forbidden: User \"jane\" cannot list resource \
             \"deployments\"\n\n\
             The permission to list and watch deployments.apps in all namespaces is missing. Who administers the \
             cluster can grant it:\n  \
             kubectl create clusterrole informers-deployments --verb=list,watch --resource=deployments.apps\n  \
             kubectl create clusterrolebinding informers-deployments --clusterrole=informers-deployments --user=jane\n\
             Or choose a namespace you may read: -n NAMESPACE"
        );
    }

    #[test]
    fn in_a_namespace_the_role_is_bound_there() {
        let kind = Kind::for_tests("", "v1", "Pod", "pods");
        let error = forbidden("User \"system:serviceaccount:shop:bot\" cannot list resource \"pods\"");

        let text = missing_permission(&error, &kind, Some(&["shop".to_owned()])).unwrap();

        assert!(text.contains(" in the namespace shop is missing"), "{text}");
        assert!(
            text.ends_with(
                "kubectl create rolebinding informers-pods --clusterrole=informers-pods --serviceaccount=shop:bot \
                 --namespace=shop"
            ),
            "{text}"
        );
    }

    #[test]
    fn only_a_403_is_a_missing_permission() {
        let kind = Kind::for_tests("", "v1", "Pod", "pods");
        for error in [
            ApiError::new(404, "NotFound", ""),
            ApiError::new(403, "", "blocked by a proxy"),
        ] {
            assert_eq!(missing_permission(&SourceError::Api(error), &kind, None), None);
        }
    }

    #[test]
    fn a_user_name_cannot_inject_into_the_suggested_command() {
        assert_eq!(subject("User \"a; rm -rf\" cannot"), "--user=USER");
        assert_eq!(
            subject("User \"jane@example.com\" cannot"),
            "--user=jane@example.com"
        );
        assert_eq!(subject("no"), "--user=USER");
    }

    #[test]
    fn errors_of_libraries_are_made_readable() {
        assert_eq!(
            plain(
                "connection lost: ServiceError: peer closed: https://docs.rs/rustls/latest/x#unexpected-eof"
            ),
            "connection lost: peer closed"
        );
    }

    #[test]
    fn a_refusal_without_a_status_is_shown_with_its_code() {
        let text = |body: &str| RequestError::from_body(502, body.as_bytes()).to_string();
        let cause = "usually a load balancer cannot reach the API server";
        assert_eq!(
            text("<html>bad gateway</html>"),
            format!("Error from server (502): {cause}")
        );
        assert_eq!(
            text("upstream is down\nmore"),
            format!("Error from server (502): upstream is down; {cause}")
        );
        assert_eq!(text(""), format!("Error from server (502): {cause}"));
        assert_eq!(
            text(r#"{"kind":"Status","reason":"Expired","message":"gone"}"#),
            "Error from server (Expired): gone"
        );
    }

    #[test]
    fn failures_have_the_wording_of_kubectl() {
        let text = |error: RequestError| error.into_failure("https://10.0.0.1:6443").to_string();
        assert_eq!(
            text(RequestError::Refused),
            "The connection to the server 10.0.0.1:6443 was refused - did you specify the right host or port?"
        );
        assert_eq!(
            text(RequestError::Api {
                code: 401,
                reason: "Unauthorized".to_owned(),
                message: "Unauthorized".to_owned()
            }),
            "error: You must be logged in to the server (Unauthorized)"
        );
        assert_eq!(
            text(RequestError::Api {
                code: 503,
                reason: String::new(),
                message: "later".to_owned()
            }),
            "Error from server (503): later; usually the API server is starting, overloaded, or has no healthy instance \
             behind the load balancer"
        );
        assert_eq!(
            text(RequestError::Unreachable("no route".to_owned())),
            "Unable to connect to the server: no route"
        );
    }
}
