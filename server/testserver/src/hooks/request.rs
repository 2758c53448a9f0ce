//! What a webhook receives and returns.

use std::fmt;

use kube::core::{GroupVersionKind, GroupVersionResource};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The operation that a webhook decides on. A patch is an update, or a create if server-side apply creates the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A new object, or a subresource that is created, such as `pods/binding`.
    Create,
    /// A change of an object.
    Update,
    /// The deletion of an object, also as part of a collection.
    Delete,
    /// A connection to a container: exec, attach, port-forward, proxy.
    Connect,
}

impl Operation {
    /// All operations.
    pub const ALL: &'static [Operation] = &[
        Operation::Create,
        Operation::Update,
        Operation::Delete,
        Operation::Connect,
    ];

    /// The name in rules and reviews, such as `CREATE`.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// A request that a [webhook](crate::Webhook) decides on.
#[doc(alias = "AdmissionReview")]
#[derive(Clone)]
#[non_exhaustive]
pub struct AdmissionRequest {
    /// Identifies this call.
    pub uid: String,
    /// The operation.
    pub operation: Operation,
    /// The kind of the object. For some subresources it is not the kind of the resource: `autoscaling/v1` `Scale`.
    pub kind: GroupVersionKind,
    /// The resource, in a version that the rules of the webhook name.
    pub resource: GroupVersionResource,
    /// The subresource; empty for the object itself.
    pub subresource: String,
    /// The kind in the version of the request.
    pub request_kind: GroupVersionKind,
    /// The resource in the version of the request.
    pub request_resource: GroupVersionResource,
    /// The name of the object; empty if it is still to be generated, and for each object of a deleted collection.
    pub name: String,
    /// The namespace of the object; a namespace is its own.
    pub namespace: Option<String>,
    /// The name of the user.
    pub user: String,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// The new object; `None` for a deletion.
    pub object: Option<Value>,
    /// The existing object, of an update or a deletion.
    pub old_object: Option<Value>,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// The options of the request, such as `CreateOptions`; null for a connection.
    pub options: Value,
}

impl AdmissionRequest {
    /// The new object as its type.
    ///
    /// # Errors
    ///
    /// There is no object, or it is not of this type.
    pub fn object_as<K: DeserializeOwned>(&self) -> Result<K, serde_json::Error> {
        serde_json::from_value(self.object.clone().unwrap_or_default())
    }

    /// The request as the `AdmissionReview` that a webhook receives over HTTP.
    pub fn to_review(&self) -> Value {
        let kind = |kind: &GroupVersionKind| json!({ "group": kind.group, "version": kind.version, "kind": kind.kind });
        let resource = |resource: &GroupVersionResource| json!({ "group": resource.group, "version": resource.version, "resource": resource.resource });
        let mut request = json!({
            "uid": self.uid,
            "kind": kind(&self.kind),
            "resource": resource(&self.resource),
            "requestKind": kind(&self.request_kind),
            "requestResource": resource(&self.request_resource),
            "operation": self.operation.as_str(),
            "userInfo": { "username": self.user, "groups": self.groups },
            "object": self.object,
            "oldObject": self.old_object,
            "dryRun": self.dry_run,
            "options": self.options,
        });
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let optional = [
            ("subResource", self.subresource.as_str()),
            ("requestSubResource", self.subresource.as_str()),
            ("name", self.name.as_str()),
            ("namespace", namespace),
        ];
        for (field, text) in optional {
            if !text.is_empty() {
                request[field] = text.into();
            }
        }
        json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request })
    }
}

/// Never prints objects: some of them are secrets.
impl fmt::Debug for AdmissionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionRequest")
            .field("operation", &self.operation)
            .field("resource", &self.resource)
            .field("subresource", &self.subresource)
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("user", &self.user)
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}

/// The decision of a [webhook](crate::Webhook).
#[doc(alias = "AdmissionResponse")]
#[derive(Clone)]
#[must_use = "a decision has no effect unless the webhook returns it"]
pub struct Admission {
    pub(crate) verdict: Verdict,
    pub(crate) warnings: Vec<String>,
}

#[derive(Clone)]
pub(crate) enum Verdict {
    Allow,
    /// The fields of the `Status` of the refusal.
    Deny(Map<String, Value>),
    /// A JSON patch.
    Patch(Vec<u8>),
    Replace(Value),
}

impl Admission {
    pub(crate) fn of(verdict: Verdict) -> Admission {
        Admission {
            verdict,
            warnings: Vec::new(),
        }
    }

    /// Allows the request.
    pub fn allow() -> Admission {
        Admission::of(Verdict::Allow)
    }

    /// Refuses the request, with status 403 and reason `Forbidden` unless others are set.
    pub fn deny(message: impl Into<String>) -> Admission {
        let mut status = Map::new();
        status.insert("message".to_owned(), message.into().into());
        status.insert("code".to_owned(), 403.into());
        status.insert("reason".to_owned(), "Forbidden".into());
        Admission::of(Verdict::Deny(status))
    }

    /// Allows the request and changes its object by a JSON patch (RFC 6902), such as
    /// `json!([{ "op": "add", "path": "/metadata/labels", "value": { "team": "shop" } }])`. For mutating webhooks.
    pub fn patch(patch: &Value) -> Admission {
        Admission::of(Verdict::Patch(patch.to_string().into_bytes()))
    }

    /// Allows the request with another object, in the version that the webhook received. For mutating webhooks.
    pub fn replace(object: Value) -> Admission {
        Admission::of(Verdict::Replace(object))
    }

    /// The HTTP status of a refusal. Codes below 400 become 400, as on a real server.
    pub fn code(self, code: u16) -> Admission {
        self.with("code", code.into())
    }

    /// The machine-readable reason of a refusal, such as `Invalid`.
    pub fn reason(self, reason: impl Into<String>) -> Admission {
        self.with("reason", reason.into().into())
    }

    fn with(mut self, field: &str, value: Value) -> Admission {
        if let Verdict::Deny(status) = &mut self.verdict {
            status.insert(field.to_owned(), value);
        }
        self
    }

    /// Adds a warning, which the client receives in a `Warning` header.
    pub fn warning(mut self, text: impl Into<String>) -> Admission {
        self.warnings.push(text.into());
        self
    }
}

/// Never prints patches and objects.
impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match &self.verdict {
            Verdict::Allow => "allow",
            Verdict::Deny(_) => "deny",
            Verdict::Patch(_) => "patch",
            Verdict::Replace(_) => "replace",
        };
        f.debug_struct("Admission")
            .field("verdict", &verdict)
            .field("warnings", &self.warnings)
            .finish()
    }
}
