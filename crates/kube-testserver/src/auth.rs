//! Who may ask: whoever has the token may do everything, a stranger nothing.
//! Takes the head of a request, gives the refusal, if it is one.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::server::state::ServerState;
use crate::transport::journal::SeenRequest;
use crate::transport::request::ResourcePath;
use crate::transport::status::ApiError;

/// Why a request is refused; `None` where it is not. Those who are signed in already need no token.
pub(crate) fn refusal(
    state: &ServerState,
    signed_in: bool,
    headers: &HeaderMap,
    path: Option<&ResourcePath>,
    seen: &SeenRequest,
) -> Option<ApiError> {
    if signed_in {
        return None;
    }
    let given = bearer(headers);
    if let (Some(stranger), Some(given)) = (&state.config.stranger, given)
        && same_secret(given, stranger.token.expose())
    {
        // As on a real server, everybody may find out what there is.
        return Some(forbidden(&stranger.user, path?, seen));
    }
    let wanted = state.config.token.as_ref()?;
    let authorized = given.is_some_and(|given| same_secret(given, wanted.expose()));
    (!authorized).then(ApiError::unauthorized)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(AUTHORIZATION)?.to_str().ok()?;
    given.strip_prefix("Bearer ")
}

/// In the words of the RBAC authorizer.
fn forbidden(user: &str, path: &ResourcePath, seen: &SeenRequest) -> ApiError {
    let resource = match &path.subresource {
        Some(subresource) => format!("{}/{subresource}", path.resource),
        None => path.resource.clone(),
    };
    // A namespace stands in its own path, and so in itself.
    let namespace = match (path.resource.as_str(), &path.name) {
        ("namespaces", Some(name)) if path.group.is_empty() => Some(name.as_str()),
        _ => path.namespace.as_deref(),
    };
    let error = ApiError::forbidden(user, seen.verb.as_str(), &path.group, &resource, namespace);
    let qualified = match path.group.as_str() {
        "" => path.resource.clone(),
        group => format!("{}.{group}", path.resource),
    };
    error.about(
        &qualified,
        &path.group,
        &path.resource,
        path.name.as_deref().unwrap_or_default(),
    )
}

/// Compares without telling by its duration where two tokens differ.
fn same_secret(given: &str, wanted: &str) -> bool {
    let longest = given.len().max(wanted.len());
    let differences = (0..longest)
        .filter(|&at| given.as_bytes().get(at) != wanted.as_bytes().get(at))
        .count();
    differences == 0
}
