//! Read requests: get, list and watch of one kind.
//! Accepts a resolved target and its options, returns the response. Writes nothing.

pub(crate) mod connect;
pub(crate) mod list;

use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use kube_api_protocol::field_error::quote;
use kube_api_protocol::negotiation::{Accepted, Offer};
use kube_api_protocol::request::{ListOptions, Query, parse_version};
use kube_api_protocol::status::ApiError;

use crate::encode::Encoder;
use crate::fault::Fault;
use crate::kinds::Kind;
use crate::response;
use crate::response::body::TestBody;
use crate::select::corrupt;
use crate::select::lens::Lens;
use crate::select::selection::Selection;
use crate::state::ServerState;
use crate::storage::storage_key;
use crate::watch::{Start, WatchBody, WatchSpec};

/// The target of a read request.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub(crate) kind: &'a Arc<Kind>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) query: &'a Query,
    pub(crate) accept: Option<&'a str>,
    pub(crate) replica: usize,
    pub(crate) fault: &'a Fault,
}

impl Target<'_> {
    fn encoder(&self, state: &ServerState, accepted: Accepted) -> Encoder {
        Encoder::new(state, self.kind, accepted).corrupting(self.fault.poison.clone())
    }

    fn accepted(&self, streaming: bool) -> Result<Accepted, ApiError> {
        let offer = Offer {
            streaming,
            watchable: self.name.is_none(),
            schema: self.kind.message().is_some(),
        };
        Accepted::choose(self.accept, offer)?.including(self.query)
    }

    fn selection(&self, state: &ServerState, options: &ListOptions) -> Result<Selection, ApiError> {
        let selection = Selection::new(self.kind, self.namespace, options)?;
        // A server without shard support silently ignores the parameter.
        let shard = self.query.get("shardSelector").filter(|_| state.config.sharding);
        selection.in_shard(shard.unwrap_or_default())
    }

    /// List options with the name in the path as a selector; a contradicting selector is rejected.
    fn options(&self, watch: bool) -> Result<ListOptions, ApiError> {
        let mut options = ListOptions::parse(self.query, watch)?;
        if let Some(name) = self.name {
            match options.fields.exact("metadata.name") {
                Some(selected) if selected != name => {
                    return Err(ApiError::bad_request(format!(
                        "fieldSelector metadata.name doesn't match requested name {}",
                        quote(name)
                    )));
                }
                _ => options.select_name(name)?,
            }
        }
        Ok(options)
    }
}

/// `GET` of one object.
pub(crate) async fn get(state: &ServerState, target: Target<'_>) -> Result<Response<TestBody>, ApiError> {
    let accepted = target.accepted(false)?;
    let name = target.name.unwrap_or_default();
    let asked = target.query.get("resourceVersion").unwrap_or_default();
    let revision = parse_version(asked).map_err(|error| {
        let asked = quote(asked);
        // As in a watch, the storage's error carries no reason.
        ApiError::unknown(format!("resourceVersion: Invalid value: {asked}: {error}"))
    })?;
    if revision > 0
        && let Err(current) = state.wait_for(target.replica, revision).await
    {
        return Err(ApiError::too_large_resource_version(revision, current, 1));
    }
    let encoder = target.encoder(state, accepted);
    let found = {
        let store = state.store.read();
        let key = storage_key(target.namespace, name);
        // Without a version the read is consistent; with one, what the replica has is good enough.
        let at = if asked.is_empty() {
            store.revision()
        } else {
            state.visible(target.replica, &store)
        };
        // A consistent read bypasses the cache, including changes that the cache lost.
        let replica = (!asked.is_empty()).then_some(target.replica);
        let view = store.view(replica, &ServerState::collection_of(target.kind), at);
        view.ok().flatten().and_then(|view| view.get(&key).cloned())
    };
    let object = found.ok_or_else(|| ApiError::not_found(&target.kind.group, &target.kind.plural, name))?;
    let converted = Lens::new(target.kind).convert(state, &object).await;
    let object = converted.map_err(|why| {
        let key = format!("/{}/{}/{}", target.kind.group, target.kind.plural, object.key);
        corrupt::object(&key, object.revision, &why)
    })?;
    Ok(response::object(StatusCode::OK, accepted, &encoder, &object))
}

/// `GET` of a collection.
pub(crate) async fn list(state: &ServerState, target: Target<'_>) -> Result<Response<TestBody>, ApiError> {
    let accepted = target.accepted(false)?;
    let options = target.options(false)?;
    let selection = target.selection(state, &options)?;
    let fault = &target.fault.list;
    let page = list::page(state, target.replica, &selection, &options, fault).await?;
    let body = list::write(page, target.encoder(state, accepted), fault);
    Ok(response::list(accepted, body))
}

/// `GET` with `watch=true`.
pub(crate) async fn watch(
    state: &Arc<ServerState>,
    target: Target<'_>,
) -> Result<Response<TestBody>, ApiError> {
    let accepted = target.accepted(true)?;
    let options = target.options(true)?;
    let selection = target.selection(state, &options)?;
    let collection = ServerState::collection_of(target.kind);
    let revision = parse_version(&options.resource_version).map_err(|error| {
        // The storage's error carries no reason: a plain 500.
        let asked = quote(&options.resource_version);
        ApiError::unknown(format!("resourceVersion: Invalid value: {asked}: {error}"))
    })?;

    let mut fault = target.fault.watch.clone();
    // A server without support for the parameter sends initial events only if no version is given.
    let initial = options.initial_events && !(fault.ignore_initial_events && revision > 0);
    fault.ignore_initial_events &= options.initial_events;
    // Registered before the first read of the store, so that no change is missed in between.
    let open = state.hub.open(&collection, target.namespace, target.replica);
    let start = if initial {
        initial_events(state, target.replica, &selection, &options, revision).await?
    } else {
        plain_start(state, target.replica, &collection, &options, revision)
    };
    let timeout = match options.timeout {
        Some(timeout) => timeout,
        None => Duration::from_secs(state.rng.lock().u64(1800..3600)),
    };
    let spec = WatchSpec {
        state: state.clone(),
        open,
        replica: target.replica,
        collection,
        selection,
        encoder: target.encoder(state, accepted),
        bookmarks: options.bookmarks,
        timeout,
        fault,
    };
    let body = TestBody::watch(WatchBody::new(spec, start));
    Ok(response::watch(accepted, body))
}

/// The initial objects of a watch: as new as the requested version, or as of the latest write.
async fn initial_events(
    state: &ServerState,
    replica: usize,
    selection: &Selection,
    options: &ListOptions,
    revision: u64,
) -> Result<Start, ApiError> {
    let wanted = match options.resource_version.as_str() {
        "" => state.store.read().revision(),
        _ => revision,
    };
    if let Err(current) = state.wait_for(replica, wanted).await {
        return Ok(Start::Error(ApiError::too_large_resource_version(
            wanted, current, 1,
        )));
    }
    let prefix = selection.key_prefix();
    loop {
        let unconverted = {
            let store = state.store.read();
            let revision = state.visible(replica, &store);
            let view = match store.view(Some(replica), &selection.collection(), revision) {
                Err(too_old) => return Ok(Start::Error(ApiError::too_old(revision, too_old.oldest))),
                Ok(view) => view,
            };
            let objects = view.iter().flat_map(|view| view.range(&prefix, ""));
            match selection.select(objects) {
                Ok(objects) => return Ok(Start::Initial { objects, revision }),
                Err(unconverted) => unconverted,
            }
        };
        selection.lens().prepare(state, unconverted).await?;
    }
}

fn plain_start(
    state: &ServerState,
    replica: usize,
    collection: &str,
    options: &ListOptions,
    revision: u64,
) -> Start {
    let store = state.store.read();
    if matches!(options.resource_version.as_str(), "" | "0") {
        return Start::After(state.visible(replica, &store));
    }
    let oldest = store.floor(collection).max(state.replicas.since(replica));
    if revision < oldest {
        return Start::Error(ApiError::too_old(revision, oldest));
    }
    Start::After(revision)
}
