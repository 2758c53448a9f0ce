//! Authentication and authorization: the token grants everything, the user without permissions gets 403 for every
//! object. Returns the error for a rejected request.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::server::state::ServerState;
use crate::transport::journal::SeenRequest;
use crate::transport::request::ResourcePath;
use crate::transport::status::ApiError;

/// The error for a rejected request; `None` if it is allowed. Authenticated services need no token.
pub(crate) fn refusal(
    state: &ServerState,
    authenticated: bool,
    headers: &HeaderMap,
    path: Option<&ResourcePath>,
    seen: &SeenRequest,
) -> Option<ApiError> {
    if authenticated {
        return None;
    }
    let given = bearer(headers);
    if let (Some(user), Some(given)) = (&state.config.user_without_permissions, given)
        && same_secret(given, user.token.expose())
    {
        // As on a real server, every user may read discovery.
        return Some(forbidden(&user.user, path?, seen));
    }
    let Some(wanted) = &state.config.token else {
        return requires_credentials(state).then(ApiError::unauthorized);
    };
    let authorized = given.is_some_and(|given| same_secret(given, wanted.expose()));
    (!authorized).then(ApiError::unauthorized)
}

/// Whether clients must authenticate although no token is set: those that speak TLS have a certificate.
fn requires_credentials(state: &ServerState) -> bool {
    #[cfg(feature = "tls")]
    return state.tls.is_some();
    #[cfg(not(feature = "tls"))]
    {
        let _ = state;
        false
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(AUTHORIZATION)?.to_str().ok()?;
    given.strip_prefix("Bearer ")
}

/// The error in the wording of the RBAC authorizer.
fn forbidden(user: &str, path: &ResourcePath, seen: &SeenRequest) -> ApiError {
    let resource = match &path.subresource {
        Some(subresource) => format!("{}/{subresource}", path.resource),
        None => path.resource.clone(),
    };
    // A namespace is its own namespace in the path.
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

/// Compares two tokens in constant time.
fn same_secret(given: &str, wanted: &str) -> bool {
    let longest = given.len().max(wanted.len());
    let differences = (0..longest)
        .filter(|&at| given.as_bytes().get(at) != wanted.as_bytes().get(at))
        .count();
    differences == 0
}
