//! Authentication and authorization. Without RBAC the token grants everything, and the user without permissions gets 403 for
//! every object. With RBAC every request has a user, and roles decide. Returns the error for a rejected request.

pub(crate) mod escalation;
pub(crate) mod rbac;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use kube_api_protocol::request::ResourcePath;
use kube_api_protocol::status::ApiError;
use serde_json::Value;

use crate::journal::SeenRequest;
use crate::state::ServerState;
use crate::storage::storage_key;
use crate::user::{User, account};
use rbac::{Action, Decision};

/// What clients without credentials may read, as on a real server.
const PUBLIC: &[&str] = &["/healthz", "/livez", "/readyz", "/version"];

/// The user of a request that is allowed, or the error for a rejected one. `known` is the user of a service that needs no
/// credentials.
pub(crate) fn admit(
    state: &ServerState,
    known: Option<&User>,
    headers: &HeaderMap,
    path: Option<&ResourcePath>,
    seen: &SeenRequest,
) -> Result<User, ApiError> {
    let user = match known {
        Some(user) => user.clone(),
        None => authenticate(state, headers, path, seen)?,
    };
    if !state.config.rbac {
        return Ok(user);
    }
    let user = impersonate(state, user, headers, path, seen)?;
    authorize(state, &user, path, seen)?;
    Ok(user)
}

fn authenticate(
    state: &ServerState,
    headers: &HeaderMap,
    path: Option<&ResourcePath>,
    seen: &SeenRequest,
) -> Result<User, ApiError> {
    let given = bearer(headers);
    if let (Some(user), Some(given)) = (&state.config.user_without_permissions, given)
        && same_secret(given, user.token.expose())
    {
        // As on a real server, every user may read discovery.
        return match path {
            Some(path) if !state.config.rbac => Err(forbidden(&user.user, seen.verb.as_str(), path)),
            _ => Ok(User::new(user.user.as_str(), &[])),
        };
    }
    if let Some(user) = given.and_then(|given| user_of_token(state, given)) {
        return Ok(user);
    }
    if given.is_none() && PUBLIC.contains(&seen.path.as_str()) {
        return Ok(User::new("system:anonymous", &[]));
    }
    match (&state.config.token, given) {
        (Some(_), _) => Err(ApiError::unauthorized()),
        (None, _) if requires_credentials(state) => Err(ApiError::unauthorized()),
        (None, Some(_)) if state.config.rbac => Err(ApiError::unauthorized()),
        (None, _) if state.config.rbac => Ok(User::new("system:anonymous", &[])),
        (None, _) => Ok(User::admin()),
    }
}

/// The user that a token belongs to.
pub(crate) fn user_of_token(state: &ServerState, token: &str) -> Option<User> {
    if let Some(wanted) = &state.config.token
        && same_secret(token, wanted.expose())
    {
        return Some(User::admin());
    }
    let mut users = state.config.users.iter();
    if let Some((_, user)) = users.find(|(secret, _)| same_secret(token, secret.expose())) {
        return Some(user.clone());
    }
    if state.config.rbac {
        return account_of_token(state, token);
    }
    None
}

fn account_of_token(state: &ServerState, token: &str) -> Option<User> {
    issued(state, token).map(|issued| issued.user)
}

/// What is known of a token that this server issued.
pub(crate) struct Issued {
    /// The service account.
    pub(crate) user: User,
    /// For whom the token is.
    pub(crate) audiences: Vec<String>,
}

/// The claims of a token that this server issued: it is not signed, so only its claims are checked.
pub(crate) fn issued(state: &ServerState, token: &str) -> Option<Issued> {
    let claims = token.split('.').nth(1)?;
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let expiry = claims.get("exp")?.as_i64()?;
    let subject = claims.get("sub")?.as_str()?;
    let (namespace, name) = account(subject)?;
    let exists = state
        .store
        .read()
        .collection("serviceaccounts")
        .is_some_and(|accounts| accounts.get(&storage_key(Some(namespace), name)).is_some());
    let audiences = claims.get("aud").and_then(Value::as_array);
    (exists && expiry > state.clock.now().as_second()).then(|| Issued {
        user: User::new(subject, &[]),
        audiences: audiences
            .into_iter()
            .flatten()
            .filter_map(|audience| audience.as_str().map(str::to_owned))
            .collect(),
    })
}

/// The user that a client acts as, if it may.
fn impersonate(
    state: &ServerState,
    user: User,
    headers: &HeaderMap,
    path: Option<&ResourcePath>,
    seen: &SeenRequest,
) -> Result<User, ApiError> {
    let values = |name: &str| -> Vec<String> {
        let all = headers.get_all(name).iter();
        all.filter_map(|value| value.to_str().ok())
            .map(str::to_owned)
            .collect()
    };
    let groups = values("impersonate-group");
    let Some(name) = values("impersonate-user").into_iter().next() else {
        if groups.is_empty() {
            return Ok(user);
        }
        return Err(ApiError::bad_request(
            "requested impersonation of groups without a user: send Impersonate-User as well",
        ));
    };
    let check = |resource: &str, namespace: Option<&str>, name: &str| {
        let action = Action::Resource {
            verb: "impersonate",
            group: "",
            resource,
            namespace,
            name,
        };
        match rbac::decide(&state.store.read(), &user, &action) {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied(reason) => {
                let error = ApiError::forbidden(&user.name, "impersonate", "", resource, namespace);
                Err(error.about(resource, "", resource, name).because(&reason))
            }
        }
    };
    let (mode, allowed) = match account(&name) {
        Some((namespace, account)) => (
            "serviceaccount",
            check("serviceaccounts", Some(namespace), account),
        ),
        None => ("user-info", check("users", None, &name)),
    };
    if let Err(refusal) = allowed {
        // A real server looks for permissions of constrained impersonation first, which name the action, and reports those.
        let verb = format!("impersonate-on:{mode}:{}", seen.verb.as_str());
        return Err(match path {
            Some(path) => forbidden(&user.name, &verb, path),
            None => refusal,
        });
    }
    for group in &groups {
        check("groups", None, group)?;
    }
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    Ok(User::new(name, &groups))
}

fn authorize(
    state: &ServerState,
    user: &User,
    path: Option<&ResourcePath>,
    seen: &SeenRequest,
) -> Result<(), ApiError> {
    let Some(path) = path else {
        let verb = seen.method.to_lowercase();
        let (verb, path) = (verb.as_str(), seen.path.as_str());
        return match rbac::decide(&state.store.read(), user, &Action::Path { verb, path }) {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied(reason) => {
                Err(ApiError::forbidden_path(&user.name, verb, path).because(&reason))
            }
        };
    };
    let resource = full_resource(path);
    let action = Action::Resource {
        verb: seen.verb.as_str(),
        group: &path.group,
        resource: &resource,
        namespace: namespace_of(path),
        name: path.name.as_deref().unwrap_or_default(),
    };
    match rbac::decide(&state.store.read(), user, &action) {
        Decision::Allowed(_) => Ok(()),
        Decision::Denied(reason) => Err(forbidden(&user.name, seen.verb.as_str(), path).because(&reason)),
    }
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

/// The resource with its subresource: `pods/log`.
fn full_resource(path: &ResourcePath) -> String {
    match &path.subresource {
        Some(subresource) => format!("{}/{subresource}", path.resource),
        None => path.resource.clone(),
    }
}

/// The namespace that a request is about. A namespace is its own.
fn namespace_of(path: &ResourcePath) -> Option<&str> {
    match (path.resource.as_str(), &path.name) {
        ("namespaces", Some(name)) if path.group.is_empty() => Some(name.as_str()),
        _ => path.namespace.as_deref(),
    }
}

/// The error in the wording of the RBAC authorizer.
fn forbidden(user: &str, verb: &str, path: &ResourcePath) -> ApiError {
    let resource = full_resource(path);
    let error = ApiError::forbidden(user, verb, &path.group, &resource, namespace_of(path));
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
