//! Write requests: parses method, path and body, performs the write, builds the response.
//! Accepts a resolved kind and the raw body. The rules of writing are in the parent module.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use kube_api_protocol::field_error::FieldError;
use kube_api_protocol::negotiation::Form;
use kube_api_protocol::negotiation::{Accepted, Offer};
use kube_api_protocol::request::{ListOptions, Verb};
use kube_api_protocol::status::ApiError;
use serde_json::{Value, json};

use crate::auth::escalation;
use crate::encode::Encoder;
use crate::hooks::Operation;
use crate::journal::SeenRequest;
use crate::kinds::Kind;
use crate::patch::{self, Manager, PatchError, PatchType};
use crate::response;
use crate::response::body::TestBody;
use crate::select::lens::Lens;
use crate::select::selection::Selection;
use crate::state::ServerState;
use crate::storage::Stored;
use crate::user::User;
use crate::webhooks::{Attributes, Incoming, Webhooks};
use crate::write::{self, DeleteOptions, Deleted, Made, Origin, Part, Place, Propagation, Warnings};

/// Resources whose deletion returns the object; all others return a `Status`.
const SHOWN_WHEN_DELETED: &[&str] = &[
    "pods",
    "podtemplates",
    "persistentvolumes",
    "persistentvolumeclaims",
    "resourcequotas",
    "serviceaccounts",
    "services",
    "storageclasses",
    "csidrivers",
    "csinodes",
    "csistoragecapacities",
    "volumeattachments",
];

/// A write request.
#[derive(Debug)]
pub(crate) struct Writing<'a> {
    pub(crate) state: &'a ServerState,
    pub(crate) kind: &'a Arc<Kind>,
    pub(crate) user: &'a User,
    pub(crate) seen: &'a SeenRequest,
    pub(crate) body: &'a Bytes,
}

/// Performs a write and builds its response.
pub(crate) async fn answer(writing: &Writing<'_>) -> Result<Response<TestBody>, ApiError> {
    let dry_run = writing.checked_dry_run()?;
    let webhooks = Webhooks::new(
        writing.state,
        Incoming {
            kind: writing.kind,
            subresource: writing.seen.subresource.as_deref().unwrap_or_default(),
            seen: writing.seen,
            user: writing.user,
            dry_run,
        },
    );
    let warnings = Warnings::default();
    let performed = perform(writing, dry_run, webhooks.as_ref(), &warnings).await;
    let mut warnings = warnings.into_texts();
    warnings.extend(webhooks.iter().flat_map(Webhooks::warnings));
    if warnings.is_empty() {
        return performed;
    }
    let response = performed.unwrap_or_else(|error| response::error(&error));
    Ok(response::warned(response, &warnings))
}

async fn perform(
    writing: &Writing<'_>,
    dry_run: bool,
    webhooks: Option<&Webhooks<'_>>,
    warnings: &Warnings,
) -> Result<Response<TestBody>, ApiError> {
    let Writing {
        state, kind, seen, ..
    } = writing;
    let stored_as = state.registry.read().stored(kind);
    let manager = patch::manager_name(seen.param("fieldManager"), seen.user_agent.as_deref());
    let now = state.clock.timestamp();
    let subresource = seen.subresource.as_deref().unwrap_or_default();
    let place = Place {
        kind,
        stored_as: &stored_as,
        namespace: seen.namespace.as_deref(),
        name: seen.name.as_deref().unwrap_or_default(),
        origin: Origin::Client,
        conformant: state.config.conformant,
        dry_run,
        manager: Some(Manager {
            name: &manager,
            subresource,
            now: &now,
        }),
        webhooks,
        grantor: Some(writing.user).filter(|_| state.config.rbac && escalation::grants_permissions(kind)),
        warnings: Some(warnings),
    };
    match (seen.verb, subresource) {
        (Verb::Create, "") if place.name.is_empty() => writing.create(&place).await,
        (Verb::Create, "binding") => {
            let binding = writing.admitted(&place, writing.json()?).await?;
            write::bind(state, &place, &binding).await?;
            Ok(success(StatusCode::CREATED))
        }
        (Verb::Create, "eviction") => {
            let eviction = writing.admitted(&place, writing.json()?).await?;
            let options = delete_options(&eviction["deleteOptions"], seen)?;
            state.write(|store| write::delete(state, store, &place, &options))?;
            Ok(success(StatusCode::CREATED))
        }
        (Verb::Create, "token") => {
            let account = place.current(&state.store.read())?;
            let request = writing.admitted(&place, writing.json()?).await?;
            let request = write::issue_token(state, &account, request)?;
            Ok(response::json(StatusCode::CREATED, request.to_string()))
        }
        (Verb::Update, "scale") => {
            let scale = writing.json()?;
            let scale = write::write_scale(state, &place, |_| Ok(scale.clone())).await?;
            Ok(response::json(StatusCode::OK, scale.to_string()))
        }
        (Verb::Patch, "scale") => {
            let scale = match writing.patch_type()? {
                PatchType::Apply => {
                    let force = seen.query.flag("force");
                    let (scale, duplicates) = writing.applied()?;
                    writing.check_scale_fits(&scale)?;
                    writing.check_duplicates(&place, &duplicates)?;
                    write::apply_scale(state, &place, &scale, force).await?
                }
                patch_type => {
                    writing.check_patch()?;
                    let make = |present: &Value| writing.patched(patch_type, present);
                    write::write_scale(state, &place, make).await?
                }
            };
            Ok(response::json(StatusCode::OK, scale.to_string()))
        }
        (Verb::Update, _) => {
            let object = writing.object()?;
            place.warn_of_body(writing.unknown_fields(&object)?);
            let make = |_: &Value| Ok(Made::Changed(object.clone()));
            let updated = write::update(state, &place, part(subresource), make).await?;
            writing.show(StatusCode::OK, &updated).await
        }
        (Verb::Patch, _) => writing.patch(&place, part(subresource)).await,
        (Verb::Delete, "") => writing.delete(&place).await,
        (Verb::DeleteCollection, "") => writing.delete_collection(&place).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn part(subresource: &str) -> Part {
    match subresource {
        "status" | "approval" => Part::Status,
        "ephemeralcontainers" => Part::EphemeralContainers,
        _ => Part::Object,
    }
}

impl Writing<'_> {
    async fn create(&self, place: &Place<'_>) -> Result<Response<TestBody>, ApiError> {
        let object = self.object()?;
        if self.kind.kind == "Binding" {
            let name = object
                .pointer("/metadata/name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            let pods = self.state.registry.read().resource("", "v1", "pods");
            let Some(pods) = pods else {
                return Err(ApiError::no_such_resource());
            };
            let place = Place {
                kind: &pods,
                stored_as: &pods,
                name: &name,
                ..place.clone()
            };
            let object = self.admitted(&place, object).await?;
            write::bind(self.state, &place, &object).await?;
            return Ok(success(StatusCode::CREATED));
        }
        if !self.kind.is_stored() {
            let review = write::review(self.state, self.kind, self.user, object);
            return Ok(response::json(StatusCode::CREATED, review.to_string()));
        }
        place.warn_of_body(self.unknown_fields(&object)?);
        let created = write::create_admitted(self.state, place, object).await?;
        self.show(StatusCode::CREATED, &created).await
    }

    async fn patch(&self, place: &Place<'_>, part: Part) -> Result<Response<TestBody>, ApiError> {
        let patch_type = self.patch_type()?;
        if patch_type != PatchType::Apply {
            self.check_patch()?;
            let make = |present: &Value| {
                let patched = self.patched(patch_type, present)?;
                self.check_patched(patch_type, present, &patched)?;
                place.warn_of_body(self.unknown_fields_of_patch(patch_type, &patched)?);
                Ok(Made::Patched(patched))
            };
            let patched = write::update(self.state, place, part, make).await?;
            return self.show(StatusCode::OK, &patched).await;
        }
        let (applied, duplicates) = self.applied()?;
        patch::check_applied(self.kind, &applied).map_err(PatchError::into_status)?;
        self.check_fit(&applied)?;
        let (status, object) = self.apply(place, part, &applied, &duplicates).await?;
        self.show(status, &object).await
    }

    /// A patch must be JSON, whatever the state of the object that it is for.
    #[doc(alias = "validateAndTranscodePatch")]
    fn check_patch(&self) -> Result<(), ApiError> {
        let parsed = patch::parse(self.body);
        parsed.map(drop).map_err(PatchError::into_status)
    }

    /// Keys that an applied configuration has twice: warnings, or an error if the client requests strict validation.
    fn check_duplicates(&self, place: &Place<'_>, duplicates: &[String]) -> Result<(), ApiError> {
        match self.seen.param("fieldValidation") {
            Some("Ignore") => {}
            Some("Strict") if !duplicates.is_empty() => {
                return Err(ApiError::bad_request(format!(
                    "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
                    duplicates.join("\n  ")
                )));
            }
            _ => place.warn_of_body(duplicates.to_vec()),
        }
        Ok(())
    }

    /// Server-side apply: updates the object, or creates it. Tries again if another client creates or deletes the
    /// object in between.
    async fn apply(
        &self,
        place: &Place<'_>,
        part: Part,
        applied: &Value,
        duplicates: &[String],
    ) -> Result<(StatusCode, Arc<Stored>), ApiError> {
        let Some(manager) = &place.manager else {
            return Err(ApiError::bad_request("an apply needs a field manager"));
        };
        let force = self.seen.query.flag("force");
        let apply = |live: Option<&Value>| {
            let made = patch::apply(self.kind, live, applied, manager, force);
            let made = made.map_err(PatchError::into_status)?;
            self.check_duplicates(place, duplicates)?;
            Ok(made)
        };
        loop {
            let current = place.current(&self.state.store.read());
            let existed = current.is_ok();
            let result = match current {
                Ok(_) => {
                    let make = |present: &Value| Ok(Made::Applied(apply(Some(present))?));
                    let updated = write::update(self.state, place, part, make).await;
                    updated.map(|updated| (StatusCode::OK, updated))
                }
                Err(missing) if part != Part::Object => return Err(missing),
                Err(_) => {
                    let object = apply(None)?;
                    let created = self.create_applied(place, object).await;
                    created.map(|created| (StatusCode::CREATED, created))
                }
            };
            let exists_now = place.current(&self.state.store.read()).is_ok();
            match result {
                Err(error) if !existed && error.reason() == "AlreadyExists" && exists_now => {}
                Err(error) if existed && error.code() == 404 && !exists_now => {}
                result => return result,
            }
        }
    }

    async fn create_applied(&self, place: &Place<'_>, mut object: Value) -> Result<Arc<Stored>, ApiError> {
        if let Some(name) = object.pointer("/metadata/name").and_then(Value::as_str)
            && name != place.name
        {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                place.name
            )));
        }
        write::set_name(&mut object, place.name);
        let place = Place {
            manager: None,
            ..place.clone()
        };
        write::create_admitted(self.state, &place, object).await
    }

    /// The body of a subresource that is not stored, after webhooks have decided on it.
    async fn admitted(&self, place: &Place<'_>, body: Value) -> Result<Value, ApiError> {
        let Some(webhooks) = place.webhooks else {
            return Ok(body);
        };
        let attributes = Attributes {
            operation: Operation::Create,
            name: place.name,
            old: None,
            options: webhooks.options("CreateOptions"),
        };
        Ok(webhooks.admit(&attributes, Some(body)).await?.unwrap_or_default())
    }

    fn patch_type(&self) -> Result<PatchType, ApiError> {
        let content_type = self.seen.content_type.as_deref().unwrap_or_default();
        let patch_type = PatchType::of(content_type, self.kind).map_err(|error| match error.code() {
            // Built-in kinds have routes by content type: the error does not list the supported ones.
            415 if !self.kind.custom => ApiError::no_such_media_type(),
            _ => error.into_status(),
        })?;
        let errors = patch_type.check_options(
            self.seen.param("fieldManager"),
            self.seen.query.optional_flag("force"),
        );
        if errors.is_empty() {
            Ok(patch_type)
        } else {
            Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", &errors))
        }
    }

    fn patched(&self, patch_type: PatchType, present: &Value) -> Result<Value, ApiError> {
        let result = match patch_type {
            PatchType::Json => patch::json_patch(present, self.body),
            PatchType::Merge => patch::merge_patch(present, self.body),
            PatchType::Strategic => patch::strategic_merge_patch(self.kind, present, self.body),
            PatchType::Apply => return Err(ApiError::bad_request("this subresource cannot be applied to")),
        };
        result.map_err(PatchError::into_status)
    }

    async fn delete(&self, place: &Place<'_>) -> Result<Response<TestBody>, ApiError> {
        let options = delete_options(&self.optional_json()?, self.seen)?;
        let deleted = write::delete_admitted(self.state, place, &options, false).await?;
        match deleted {
            Deleted::Marked(object) => self.show(StatusCode::OK, &object).await,
            Deleted::Gone(object) if SHOWN_WHEN_DELETED.contains(&self.kind.plural.as_str()) => {
                self.show(StatusCode::OK, &object).await
            }
            Deleted::Gone(object) => {
                let mut details = json!({
                    "name": object.meta.name, "kind": self.kind.plural, "uid": object.meta.uid,
                });
                if !self.kind.group.is_empty() {
                    details["group"] = self.kind.group.as_str().into();
                }
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
                });
                Ok(response::json(StatusCode::OK, status.to_string()))
            }
        }
    }

    async fn delete_collection(&self, place: &Place<'_>) -> Result<Response<TestBody>, ApiError> {
        let list = ListOptions::parse(&self.seen.query, false)?;
        let selection = Selection::new(self.kind, place.namespace, &list)?;
        let options = delete_options(&self.optional_json()?, self.seen)?;
        let deleted = write::delete_collection(self.state, place, &options, &selection).await?;
        let lens = selection.lens();
        lens.prepare(self.state, deleted.clone()).await?;
        let deleted = deleted.iter().filter_map(|object| lens.see(object));
        let revision = self.state.store.read().revision();
        let accepted = Accepted {
            form: Form::Object,
            ..self.accepted()?
        };
        let encoder = Encoder::new(self.state, self.kind, accepted);
        let page = crate::read::list::Page {
            items: deleted.map(Cow::into_owned).collect(),
            revision,
            continue_token: None,
            remaining: None,
            shard: None,
        };
        let body = crate::read::list::write(page, encoder, &crate::fault::ListFault::default());
        Ok(response::list(accepted, body))
    }

    fn accepted(&self) -> Result<Accepted, ApiError> {
        let schema = self.kind.message().is_some();
        Accepted::choose(self.seen.accept.as_deref(), Offer::object(schema))?.including(&self.seen.query)
    }

    async fn show(&self, status: StatusCode, object: &Arc<Stored>) -> Result<Response<TestBody>, ApiError> {
        let accepted = self.accepted()?;
        let object = &Lens::new(self.kind).convert(self.state, object).await?;
        let encoder = Encoder::new(self.state, self.kind, accepted);
        Ok(response::object(status, accepted, &encoder, object))
    }

    /// Whether this is a dry run: by the query, or by the options in the body of a deletion. Validates the other common
    /// write options, too.
    fn checked_dry_run(&self) -> Result<bool, ApiError> {
        let kind = match self.seen.verb {
            Verb::Create => "CreateOptions",
            Verb::Patch => "PatchOptions",
            Verb::Update => "UpdateOptions",
            _ => "DeleteOptions",
        };
        let invalid = |error| Err(ApiError::invalid("meta.k8s.io", kind, "", &[error]));
        let validation = self.seen.param("fieldValidation").unwrap_or_default();
        if kind != "DeleteOptions" && !matches!(validation, "" | "Ignore" | "Strict" | "Warn") {
            let supported = &["", "Ignore", "Strict", "Warn"];
            let error = FieldError::not_supported("fieldValidation", validation, supported);
            return invalid(error);
        }
        let mut asked: Vec<String> = self.seen.param("dryRun").into_iter().map(str::to_owned).collect();
        if matches!(self.seen.verb, Verb::Delete | Verb::DeleteCollection)
            && let Some(Value::Array(given)) = self.optional_json()?.get("dryRun")
        {
            asked = given
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
        }
        asked.retain(|asked| !asked.is_empty());
        if asked.iter().any(|asked| asked != "All") {
            return invalid(FieldError::not_supported("dryRun", asked, &["All"]));
        }
        Ok(!asked.is_empty())
    }
}

fn success(status: StatusCode) -> Response<TestBody> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": status.as_u16(),
    });
    response::json(status, body.to_string())
}

/// Delete options from the body and the query; the body wins.
fn delete_options(body: &Value, seen: &SeenRequest) -> Result<DeleteOptions, ApiError> {
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let grace = match body.get("gracePeriodSeconds").filter(|value| !value.is_null()) {
        Some(value) => value.as_u64(),
        None => seen
            .param("gracePeriodSeconds")
            .and_then(|value| value.parse().ok()),
    };
    let policy = text("/propagationPolicy").or_else(|| seen.param("propagationPolicy").map(str::to_owned));
    let orphan = match body.get("orphanDependents").and_then(Value::as_bool) {
        Some(orphan) => Some(orphan),
        None => seen.query.optional_flag("orphanDependents"),
    };
    if let (Some(policy), Some(_)) = (&policy, orphan) {
        let both = "orphanDependents and deletionPropagation cannot be both set";
        let error = FieldError::invalid("propagationPolicy", policy.as_str(), both);
        return Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &[error]));
    }
    let propagation = match (policy.as_deref(), orphan) {
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (None | Some(""), None) | (Some(""), _) => None,
        (Some(other), _) => {
            let supported = &["Foreground", "Background", "Orphan", "nil"];
            let error = FieldError::not_supported("propagationPolicy", other, supported);
            return Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &[error]));
        }
    };
    Ok(DeleteOptions {
        uid: text("/preconditions/uid"),
        resource_version: text("/preconditions/resourceVersion"),
        grace_period_seconds: grace,
        propagation,
    })
}
