//! The webhooks of one request: which of them apply, in which order they are called, and what becomes of the object.

use std::fmt;
use std::sync::Arc;

use futures_util::future::join_all;
use kube::core::{GroupVersionKind, GroupVersionResource};
use kube_api_protocol::selector::LabelSelector;
use kube_api_protocol::status::ApiError;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::{call, configuration, conversion};
use crate::hooks::hook::Hook;
use crate::hooks::request::{AdmissionRequest, Operation, Verdict};
use crate::hooks::rule::Subject;
use crate::hooks::{Phase, conditions};
use crate::journal::SeenRequest;
use crate::kinds::Kind;
use crate::patch;
use crate::state::ServerState;
use crate::typed;
use crate::user::User;

/// Kinds whose writes no webhook decides on, because a broken one could not be repaired.
const EXEMPT: &[&str] = &[
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

/// The refusal of a webhook, from the fields of the `Status` that it returned.
#[doc(alias = "ToStatusErr")]
fn denied_by(webhook: &str, status: &Map<String, Value>) -> ApiError {
    let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default();
    let object = |field: &str| status.get(field).and_then(Value::as_object).cloned();
    let code = status.get("code").and_then(Value::as_u64);
    let code = code.and_then(|code| u16::try_from(code).ok()).unwrap_or(400);
    let denied = format!("admission webhook \"{webhook}\" denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", why) | (why, _) => format!("{denied}: {why}"),
    };
    ApiError::new(code.clamp(400, 599), text("reason"), message)
        .details(object("details").unwrap_or_default())
        .metadata(object("metadata").unwrap_or_default())
}

/// A write request, as far as webhooks are concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) kind: &'a Arc<Kind>,
    pub(crate) subresource: &'a str,
    pub(crate) seen: &'a SeenRequest,
    pub(crate) user: &'a User,
    pub(crate) dry_run: bool,
}

/// The webhooks of a request.
pub(crate) struct Webhooks<'a> {
    state: &'a ServerState,
    incoming: Incoming<'a>,
    mutating: Vec<Hook>,
    validating: Vec<Hook>,
    warnings: Mutex<Vec<String>>,
}

/// One object that webhooks decide on.
#[derive(Clone)]
pub(crate) struct Attributes<'r> {
    pub(crate) operation: Operation,
    /// The name in the request, or that of the new object.
    pub(crate) name: &'r str,
    pub(crate) old: Option<&'r Value>,
    pub(crate) options: Value,
}

impl fmt::Debug for Webhooks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks")
            .field("mutating", &self.mutating)
            .field("validating", &self.validating)
            .finish_non_exhaustive()
    }
}

impl<'a> Webhooks<'a> {
    /// The webhooks that exist when the request arrives; `None` if there are none for this kind.
    pub(crate) fn new(state: &'a ServerState, incoming: Incoming<'a>) -> Option<Webhooks<'a>> {
        let kind = incoming.kind;
        if !kind.is_stored() && kind.kind != "Binding" {
            // Reviews: a webhook could not authorize its own requests.
            return None;
        }
        if kind.group == "admissionregistration.k8s.io" && EXEMPT.contains(&kind.kind.as_str()) {
            return None;
        }
        let own = |phase: Phase| {
            let hooks = state.config.webhooks.iter().filter(move |(of, _)| *of == phase);
            hooks.map(|(_, webhook)| webhook.hook())
        };
        let mut mutating: Vec<Hook> = own(Phase::Mutating).collect();
        let mut validating: Vec<Hook> = own(Phase::Validating).collect();
        {
            let store = state.store.read();
            mutating.extend(configuration::stored(&store, Phase::Mutating));
            validating.extend(configuration::stored(&store, Phase::Validating));
        }
        (!mutating.is_empty() || !validating.is_empty()).then(|| Webhooks {
            state,
            incoming,
            mutating,
            validating,
            warnings: Mutex::default(),
        })
    }

    /// The subresource of the request; empty for the object itself.
    pub(crate) fn subresource(&self) -> &str {
        self.incoming.subresource
    }

    /// The warnings of all webhooks that were called, each once.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().clone()
    }

    /// Calls the mutating webhooks one after the other, and returns the object as they leave it.
    ///
    /// If one of them changes the object, those before it that want to be called again are, once.
    pub(crate) async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<Value>,
    ) -> Result<Option<Value>, ApiError> {
        let mut object = object;
        let (mut invoked, mut again) = (Vec::new(), Vec::new());
        let mut changed_at_all = false;
        for reinvoke in [false, true] {
            if reinvoke && !changed_at_all {
                break;
            }
            for (index, hook) in self.mutating.iter().enumerate() {
                if reinvoke && !again.contains(&index) {
                    continue;
                }
                let Some(kind) = self.selects(hook, attributes, object.as_ref())? else {
                    continue;
                };
                let changed = self.call_mutating(hook, attributes, &kind, &mut object).await?;
                if changed {
                    again.append(&mut invoked);
                    changed_at_all = true;
                }
                if hook.reinvoked {
                    invoked.push(index);
                }
            }
        }
        Ok(object)
    }

    /// Calls one mutating webhook; returns whether it has changed the object.
    async fn call_mutating(
        &self,
        hook: &Hook,
        attributes: &Attributes<'_>,
        kind: &Arc<Kind>,
        object: &mut Option<Value>,
    ) -> Result<bool, ApiError> {
        let request = self.request(attributes, kind, object.as_ref()).await?;
        if !self.conditions_hold(hook, &request)? {
            return Ok(false);
        }
        let Some(verdict) = self.call(hook, Phase::Mutating, &request).await? else {
            return Ok(false);
        };
        let Some(shown) = request.object else {
            return match verdict {
                Verdict::Patch(patch) if patch != b"[]" => Err(not_patchable(&hook.name)),
                Verdict::Replace(_) => Err(not_patchable(&hook.name)),
                _ => Ok(false),
            };
        };
        let patched = match verdict {
            Verdict::Patch(patch) => {
                patch::json_patch(&shown, &patch).map_err(|error| ApiError::internal(error.message()))?
            }
            Verdict::Replace(object) => object,
            Verdict::Allow | Verdict::Deny(_) => return Ok(false),
        };
        let mut changed = patched != shown;
        let mut patched = if Arc::ptr_eq(kind, self.incoming.kind) {
            patched
        } else {
            self.in_version(self.incoming.kind, kind, patched).await?
        };
        if self.state.config.conformant
            && !self.incoming.kind.custom
            && self.own_body().is_none()
            && let Some(fields) = patched.as_object_mut()
        {
            typed::set_defaults(self.incoming.kind, fields);
        }
        changed &= object.as_ref() != Some(&patched);
        *object = Some(patched);
        Ok(changed)
    }

    /// Calls the validating webhooks, all at the same time. Of several refusals the first in their order is returned.
    pub(crate) async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), ApiError> {
        let mut requests = Vec::new();
        for hook in &self.validating {
            if let Some(kind) = self.selects(hook, attributes, object)? {
                let request = self.request(attributes, &kind, object).await?;
                if self.conditions_hold(hook, &request)? {
                    requests.push((hook, request));
                }
            }
        }
        let calls = requests
            .iter()
            .map(|(hook, request)| self.call(hook, Phase::Validating, request));
        let refusal = join_all(calls).await.into_iter().find_map(Result::err);
        refusal.map_or(Ok(()), Err)
    }

    /// Mutating, then validating webhooks on an object that is not stored, such as a binding.
    pub(crate) async fn admit(
        &self,
        attributes: &Attributes<'_>,
        object: Option<Value>,
    ) -> Result<Option<Value>, ApiError> {
        let object = self.mutate(attributes, object).await?;
        self.validate(attributes, object.as_ref()).await?;
        Ok(object)
    }

    /// Calls a webhook. `None` if the call failed and the webhook ignores failures.
    async fn call(
        &self,
        hook: &Hook,
        phase: Phase,
        request: &AdmissionRequest,
    ) -> Result<Option<Verdict>, ApiError> {
        match call::call(self.state, hook, phase, request).await {
            Ok(admission) => {
                let mut warnings = self.warnings.lock();
                for warning in admission.warnings {
                    if !warnings.contains(&warning) {
                        warnings.push(warning);
                    }
                }
                match admission.verdict {
                    Verdict::Deny(status) => Err(denied_by(&hook.name, &status)),
                    verdict => Ok(Some(verdict)),
                }
            }
            Err(call::Failure::Unsupported(error)) => Err(error),
            Err(call::Failure::Call(why)) if hook.fails_open => {
                tracing::warn!(webhook = hook.name, %why, "a webhook could not be called, and its failures are ignored");
                Ok(None)
            }
            Err(call::Failure::Call(why)) => Err(ApiError::internal(format!(
                "failed calling webhook {:?}: {why}",
                hook.name
            ))),
        }
    }

    fn conditions_hold(&self, hook: &Hook, request: &AdmissionRequest) -> Result<bool, ApiError> {
        if hook.conditions.is_empty() {
            return Ok(true);
        }
        conditions::hold(hook, &request.to_review()).map_err(|why| {
            let kind = self.incoming.kind;
            ApiError::forbidden_because(&kind.group, &kind.plural, &request.name, &why)
        })
    }

    /// The version of the resource that the webhook wants to see; `None` if it is not called.
    fn selects(
        &self,
        hook: &Hook,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Arc<Kind>>, ApiError> {
        let Some(kind) = self.version_for(hook, attributes) else {
            return Ok(None);
        };
        let broken = |why: &String| ApiError::internal(why.clone());
        let objects = hook.objects.as_ref().map_err(broken)?;
        let labels = |object: &Value| object.pointer("/metadata/labels").cloned().unwrap_or_default();
        let both = [object, attributes.old];
        let mut labelled = both.into_iter().flatten().map(labels);
        if !objects.is_empty() && !labelled.any(|labels| matches(objects, &labels)) {
            return Ok(None);
        }
        let namespaces = hook.namespaces.as_ref().map_err(broken)?;
        if !namespaces.is_empty()
            && let Some(labels) = self.namespace_labels(attributes, object)?
            && !matches(namespaces, &labels)
        {
            return Ok(None);
        }
        Ok(Some(kind))
    }

    fn version_for(&self, hook: &Hook, attributes: &Attributes<'_>) -> Option<Arc<Kind>> {
        let requested = self.incoming.kind;
        let subject = |kind: &Kind| -> bool {
            let namespaced = !self.is_namespace() && self.namespace(attributes).is_some();
            let subject = Subject {
                operation: attributes.operation,
                group: &kind.group,
                version: &kind.version,
                resource: &kind.plural,
                subresource: self.incoming.subresource,
                namespaced,
            };
            hook.rules.iter().any(|rule| rule.matches(&subject))
        };
        if subject(requested) {
            return Some(requested.clone());
        }
        if !hook.equivalent {
            return None;
        }
        let others = self.state.registry.read().sharing(&requested.stored);
        others.into_iter().find(|kind| subject(kind))
    }

    fn is_namespace(&self) -> bool {
        let kind = self.incoming.kind;
        kind.group.is_empty() && kind.plural == "namespaces"
    }

    /// The namespace of the object; a namespace is its own.
    fn namespace(&self, attributes: &Attributes<'_>) -> Option<String> {
        if self.is_namespace() {
            return Some(attributes.name.to_owned()).filter(|name| !name.is_empty());
        }
        self.incoming.seen.namespace.clone()
    }

    /// The labels that a namespace selector is compared with; `None` for objects outside namespaces.
    fn namespace_labels(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Value>, ApiError> {
        let labels = |object: &Value| object.pointer("/metadata/labels").cloned().unwrap_or_default();
        if self.is_namespace()
            && self.incoming.subresource.is_empty()
            && let Some(object) = object
        {
            return Ok(Some(labels(object)));
        }
        let Some(namespace) = self.namespace(attributes) else {
            return Ok(None);
        };
        let found = {
            let store = self.state.store.read();
            let namespaces = store.collection("namespaces");
            namespaces.and_then(|namespaces| namespaces.get(&namespace).cloned())
        };
        match found {
            Some(found) => Ok(Some(labels(&found.value()))),
            None if self.state.config.require_namespaces => {
                Err(ApiError::not_found("", "namespaces", &namespace))
            }
            // Namespaces need not exist here; every one that does has this label.
            None => Ok(Some(json!({ "kubernetes.io/metadata.name": namespace }))),
        }
    }

    /// The kind of the body, if the subresource has one of its own.
    fn own_body(&self) -> Option<GroupVersionKind> {
        let kind = self.incoming.kind;
        let (group, version, name) = kind.subresource(self.incoming.subresource)?.body?;
        Some(GroupVersionKind::gvk(group, version, name))
    }

    /// Converts an object between two versions.
    async fn in_version(&self, to: &Kind, from: &Kind, object: Value) -> Result<Value, ApiError> {
        match &to.conversion {
            Some(conversion) => conversion::convert(conversion, self.state, object, to).await,
            None => Ok(to.convert_from(from, object)),
        }
    }

    async fn request(
        &self,
        attributes: &Attributes<'_>,
        kind: &Arc<Kind>,
        object: Option<&Value>,
    ) -> Result<AdmissionRequest, ApiError> {
        let requested = self.incoming.kind;
        let gvk = |kind: &Kind| GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
        let gvr = |kind: &Kind| GroupVersionResource::gvr(&kind.group, &kind.version, &kind.plural);
        let body = self.own_body();
        let mut shown = [object.cloned(), attributes.old.cloned()];
        for object in shown.iter_mut().flatten() {
            if body.is_none() && !Arc::ptr_eq(kind, requested) {
                *object = self.in_version(kind, requested, object.take()).await?;
                continue;
            }
            let shown = body.clone().unwrap_or_else(|| gvk(kind));
            if let Some(fields) = object.as_object_mut() {
                fields.insert("apiVersion".to_owned(), shown.api_version().into());
                fields.insert("kind".to_owned(), shown.kind.into());
            }
        }
        let [object, old_object] = shown;
        Ok(AdmissionRequest {
            uid: self.state.new_audit_id(),
            operation: attributes.operation,
            kind: body.clone().unwrap_or_else(|| gvk(kind)),
            resource: gvr(kind),
            subresource: self.incoming.subresource.to_owned(),
            request_kind: body.clone().unwrap_or_else(|| gvk(requested)),
            request_resource: gvr(requested),
            name: attributes.name.to_owned(),
            namespace: self.namespace(attributes),
            user: self.incoming.user.name.clone(),
            groups: self.incoming.user.groups.clone(),
            object,
            old_object,
            dry_run: self.incoming.dry_run,
            options: attributes.options.clone(),
        })
    }

    /// The options of a create or an update, as webhooks see them.
    pub(crate) fn options(&self, kind: &str) -> Value {
        let mut options = json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1" });
        if self.incoming.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        for field in ["fieldManager", "fieldValidation"] {
            if let Some(value) = self.incoming.seen.param(field) {
                options[field] = value.into();
            }
        }
        options
    }
}

fn matches(selector: &LabelSelector, labels: &Value) -> bool {
    selector.matches(|key| labels.get(key).and_then(Value::as_str))
}

fn not_patchable(webhook: &str) -> ApiError {
    ApiError::internal(format!(
        "admission webhook {webhook:?} attempted to modify the object, which is not supported for this operation"
    ))
}
