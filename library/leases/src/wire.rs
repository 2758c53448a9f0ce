//! Requests for Leases as plain JSON documents, so that fields of others are written back unchanged. Knows nothing about
//! elections.

use std::future::Future;
use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::error::{ConfigError, Failure, LeaseError};

/// The Leases of one namespace.
#[derive(Clone)]
pub(crate) struct Leases {
    client: Client,
    namespace: String,
}

impl Leases {
    /// `namespace` must have been checked by [`check_label`].
    pub(crate) fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace }
    }

    pub(crate) async fn get(&self, name: &str, deadline: Instant) -> Result<Value, LeaseError> {
        let request = self.request(Method::GET, Some(name), "", None);
        self.send("get", Some(name), request, deadline).await
    }

    /// Every Lease with this label, at one point in time: a list without a resource version is a consistent read.
    pub(crate) async fn list(
        &self,
        label: &str,
        value: &str,
        deadline: Instant,
    ) -> Result<Vec<Value>, LeaseError> {
        let query: String = form_urlencoded::Serializer::new(String::new())
            .append_pair("labelSelector", &format!("{label}={value}"))
            .finish();
        let request = self.request(Method::GET, None, &query, None);
        let mut list = self.send("list", None, request, deadline).await?;
        match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => Ok(items),
            Some(Value::Null) => Ok(Vec::new()),
            _ => Err(self.error("list", None, Failure::Unreadable("it is not a list".to_owned()))),
        }
    }

    pub(crate) async fn create(&self, lease: &Value, deadline: Instant) -> Result<Value, LeaseError> {
        let name = name_of(lease).map(str::to_owned);
        let request = self.request(Method::POST, None, "", Some(lease));
        self.send("create", name.as_deref(), request, deadline).await
    }

    /// Replaces the Lease, if its version is still the one in `lease`.
    pub(crate) async fn update(
        &self,
        name: &str,
        lease: &Value,
        deadline: Instant,
    ) -> Result<Value, LeaseError> {
        let request = self.request(Method::PUT, Some(name), "", Some(lease));
        self.send("update", Some(name), request, deadline).await
    }

    /// Deletes the Lease, if it is still this one in this version.
    pub(crate) async fn delete(
        &self,
        name: &str,
        uid: &str,
        version: &str,
        deadline: Instant,
    ) -> Result<(), LeaseError> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": { "uid": uid, "resourceVersion": version },
        });
        let request = self.request(Method::DELETE, Some(name), "", Some(&options));
        self.send("delete", Some(name), request, deadline).await.map(drop)
    }

    pub(crate) fn error(&self, verb: &'static str, name: Option<&str>, failure: Failure) -> LeaseError {
        LeaseError {
            verb,
            namespace: self.namespace.clone(),
            name: name.map(str::to_owned),
            failure,
        }
    }

    fn request(
        &self,
        method: Method,
        name: Option<&str>,
        query: &str,
        body: Option<&Value>,
    ) -> Result<Request<Vec<u8>>, Failure> {
        let mut uri = format!(
            "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
            self.namespace
        );
        if let Some(name) = name {
            uri.push('/');
            uri.push_str(name);
        }
        if !query.is_empty() {
            uri.push('?');
            uri.push_str(query);
        }
        let body = match body {
            Some(body) => serde_json::to_vec(body).map_err(|error| Failure::Unreadable(error.to_string()))?,
            None => Vec::new(),
        };
        Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", "application/json")
            .header("accept", "application/json")
            .body(body)
            .map_err(|error| Failure::Unreadable(error.to_string()))
    }

    fn send<'a>(
        &'a self,
        verb: &'static str,
        name: Option<&'a str>,
        request: Result<Request<Vec<u8>>, Failure>,
        deadline: Instant,
    ) -> impl Future<Output = Result<Value, LeaseError>> + 'a {
        let sent = Instant::now();
        let response = async move {
            // Not `Client::request`, which logs a body it cannot read.
            let text = self
                .client
                .request_text(request?)
                .await
                .map_err(Failure::from_kube)?;
            serde_json::from_str(&text).map_err(|_| Failure::Unreadable("it is not JSON".to_owned()))
        };
        async move {
            let result = match timeout_at(deadline, response).await {
                Ok(result) => result,
                Err(_) => Err(Failure::TimedOut(waited(sent, deadline))),
            };
            result.map_err(|failure| match failure {
                Failure::Conflict if verb == "create" => self.error(verb, name, Failure::Exists),
                failure => self.error(verb, name, failure),
            })
        }
    }
}

fn waited(sent: Instant, deadline: Instant) -> Duration {
    deadline.saturating_duration_since(sent)
}

/// The name in an object's metadata.
pub(crate) fn name_of(object: &Value) -> Option<&str> {
    metadata(object, "name")
}

/// A text field of an object's metadata; `None` if it is missing or empty.
pub(crate) fn metadata<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object
        .pointer("/metadata")?
        .get(field)?
        .as_str()
        .filter(|text| !text.is_empty())
}

/// Checks a name that is part of a path, by the rules of the server: lower-case letters, digits, `-` and `.`.
pub(crate) fn check_name(what: &'static str, value: &str) -> Result<(), ConfigError> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let well_formed = value.split('.').all(|part| {
        part.bytes().all(|byte| inner(byte) || byte == b'-')
            && part.bytes().next().is_some_and(inner)
            && part.bytes().next_back().is_some_and(inner)
    });
    if well_formed && value.len() <= 253 {
        return Ok(());
    }
    Err(ConfigError::Name {
        what,
        value: value.to_owned(),
        why: "it must be lower-case letters, digits, '-' and '.', begin and end with a letter or digit, and \
              have at most 253 characters"
            .to_owned(),
    })
}

/// Checks a name that must also fit into a label: a namespace, the name of a group.
pub(crate) fn check_label(what: &'static str, value: &str) -> Result<(), ConfigError> {
    check_name(what, value)?;
    if value.len() <= 63 && !value.contains('.') {
        return Ok(());
    }
    Err(ConfigError::Name {
        what,
        value: value.to_owned(),
        why: "it must have at most 63 characters and no '.'".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_change_the_path_are_rejected() {
        for bad in ["", "a/b", "..", "a..b", "A", "a_b", "-a", "a-", "a?b", "ä"] {
            assert!(check_name("name", bad).is_err(), "{bad:?}");
        }
        for good in ["a", "a-b", "a.b-c", "0", "cart-7d9c5b-x2x4z"] {
            assert!(check_name("name", good).is_ok(), "{good:?}");
        }
        assert!(check_label("group", "a.b").is_err());
        assert!(check_label("group", &"a".repeat(64)).is_err());
    }
}
