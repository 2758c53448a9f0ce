//! Lists: selects the version, the objects of a page, and the start of the next page.
//! Accepts validated options and returns the response body.

use std::sync::Arc;

use kube_api_protocol::field_error::quote;
use kube_api_protocol::list::{ContinueToken, ListMeta};
use kube_api_protocol::request::{ListOptions, VersionMatch, parse_version};
use kube_api_protocol::status::ApiError;

use crate::encode::Encoder;
use crate::fault::ListFault;
use crate::response::body::{ListBody, TestBody};
use crate::select::selection::Selection;
use crate::state::ServerState;
use crate::storage::{Stored, View};

/// One page of a list, not yet encoded.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) items: Vec<Arc<Stored>>,
    pub(crate) revision: u64,
    pub(crate) continue_token: Option<String>,
    pub(crate) remaining: Option<usize>,
    /// The requested shard, which is repeated in the list's metadata.
    pub(crate) shard: Option<String>,
}

/// The state of the collection that a list reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    /// Consistent: at least as new as every write before the request.
    Latest,
    /// Whatever the replica has cached.
    Any,
    NotOlderThan(u64),
    Exact(u64),
    /// The state of a continue token.
    Continued(u64),
}

/// Reads one page.
pub(crate) async fn page(
    state: &ServerState,
    replica: usize,
    selection: &Selection,
    options: &ListOptions,
    fault: &ListFault,
) -> Result<Page, ApiError> {
    let prefix = selection.key_prefix();
    let token = options
        .continue_token
        .as_deref()
        .map(ContinueToken::decode)
        .transpose()?;
    let read = which_read(options, token.as_ref())?;
    let from = match &token {
        Some(token) => format!("{prefix}{}", token.start()),
        None => String::new(),
    };
    let expired = || ApiError::continue_expired(ContinueToken::new(-1, &prefix, &from).encode());
    if fault.expire_continue && token.is_some() {
        return Err(expired());
    }

    let cache = settle(state, replica, read).await?;
    let limit = if read == Read::Any || fault.ignore_limit {
        0
    } else {
        options.limit
    };
    let collection = &*selection.collection();
    loop {
        let unconverted = {
            let store = state.store.read();
            let revision = match (read, cache) {
                (Read::Exact(revision) | Read::Continued(revision), _) => revision,
                (_, Some(replica)) => state.visible(replica, &store),
                (_, None) => store.revision(),
            };
            if fault.empty_page {
                return Ok(empty_page(selection, &prefix, &from, revision));
            }
            let view = match store.view(cache, collection, revision) {
                Ok(view) => view,
                Err(_) if token.is_some() => return Err(expired()),
                Err(_) => return Err(ApiError::list_too_old()),
            };
            match select(view, selection, &prefix, &from, limit, revision) {
                Ok(mut page) => {
                    if selection.is_everything() {
                        let began = options.continue_token.as_deref().unwrap_or_default();
                        let scope = format!("{collection} {prefix}");
                        // Counting requires a second view and is only done for the first page of a list.
                        let count = || match store.view(cache, collection, revision) {
                            Ok(Some(view)) => view.count(&prefix, &from),
                            _ => 0,
                        };
                        page.remaining = state.page_counts.remaining(
                            &scope,
                            began,
                            page.continue_token.as_deref(),
                            page.items.len(),
                            count,
                        );
                    }
                    return Ok(page);
                }
                Err(unconverted) => unconverted,
            }
        };
        selection.lens().prepare(state, unconverted).await?;
    }
}

/// A page without objects, although others follow.
fn empty_page(selection: &Selection, prefix: &str, from: &str, revision: u64) -> Page {
    let first = format!("{prefix}\0");
    let start = if from.is_empty() { &first } else { from };
    let token = ContinueToken::new(signed(revision), prefix, start).encode();
    Page {
        items: Vec::new(),
        revision,
        continue_token: Some(token),
        remaining: None,
        shard: selection.shard().map(str::to_owned),
    }
}

/// Selects the state to read, from resource version, match and limit.
fn which_read(options: &ListOptions, token: Option<&ContinueToken>) -> Result<Read, ApiError> {
    if let Some(token) = token {
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        return Ok(match u64::try_from(token.revision()) {
            Ok(revision) => Read::Continued(revision),
            Err(_) => Read::Latest,
        });
    }
    let revision = parse_version(&options.resource_version).map_err(|error| {
        let field = quote(&options.resource_version);
        ApiError::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {field}: {error}"
        ))
    })?;
    Ok(
        match (options.resource_version.as_str(), revision, options.version_match) {
            ("", ..) => Read::Latest,
            (_, 0, _) => Read::Any,
            (_, revision, Some(VersionMatch::Exact)) => Read::Exact(revision),
            (_, revision, Some(VersionMatch::NotOlderThan)) => Read::NotOlderThan(revision),
            (_, revision, None) if options.limit > 0 => Read::Exact(revision),
            (_, revision, None) => Read::NotOlderThan(revision),
        },
    )
}

/// Waits until the requested state can be read, or fails if it is too far ahead. Returns the replica whose cache is
/// read; `None` for a read that bypasses it.
async fn settle(state: &ServerState, replica: usize, read: Read) -> Result<Option<usize>, ApiError> {
    match read {
        Read::Any => Ok(Some(replica)),
        Read::Latest => {
            let head = state.store.read().revision();
            // A replica that does not catch up in time falls back to the storage, so this cannot fail.
            Ok(state.wait_for(replica, head).await.ok().map(|_| replica))
        }
        Read::NotOlderThan(revision) => match state.wait_for(replica, revision).await {
            Ok(_) => Ok(Some(replica)),
            Err(current) => Err(ApiError::too_large_resource_version(revision, current, 1)),
        },
        Read::Exact(revision) | Read::Continued(revision) => {
            // Bypasses the cache if the storage is ahead of it; a future version is waited for as usual.
            if revision > state.store.read().revision()
                && let Err(current) = state.wait_for(replica, revision).await
            {
                return Err(ApiError::too_large_resource_version(revision, current, 1));
            }
            Ok(None)
        }
    }
}

/// Selects the objects of one page and the start of the next one; or returns those that webhooks must convert first.
fn select(
    view: Option<View<'_>>,
    selection: &Selection,
    prefix: &str,
    from: &str,
    limit: usize,
    revision: u64,
) -> Result<Page, Vec<Arc<Stored>>> {
    let mut page = Page {
        items: Vec::new(),
        revision,
        continue_token: None,
        remaining: None,
        shard: selection.shard().map(str::to_owned),
    };
    let Some(view) = view else { return Ok(page) };
    let mut unconverted = Vec::new();
    let mut objects = view.range(prefix, from);
    for object in objects.by_ref() {
        let Some(seen) = selection.lens().see(object) else {
            unconverted.push(object.clone());
            continue;
        };
        if selection.matches(&seen) {
            page.items.push(seen.into_owned());
            if limit > 0 && page.items.len() == limit {
                break;
            }
        }
    }
    if !unconverted.is_empty() {
        return Err(unconverted);
    }
    // As on a real server, there is another page if any object follows, selected or not. The last page may be empty.
    if let Some(last) = page.items.last().filter(|_| page.items.len() == limit)
        && objects.next().is_some()
    {
        let next = ContinueToken::new(signed(revision), prefix, &format!("{}\0", last.key));
        page.continue_token = Some(next.encode());
    }
    Ok(page)
}

fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

/// Encodes a page: type, list metadata, items.
pub(crate) fn write(page: Page, encoder: Encoder, fault: &ListFault) -> TestBody {
    let revision = page.revision.saturating_add_signed(fault.version_shift);
    let mut meta = ListMeta {
        resource_version: revision.to_string(),
        continue_token: page.continue_token,
        remaining: page.remaining,
        shard: page.shard,
    };
    if encoder.is_protobuf() {
        let items: Vec<_> = page.items.iter().map(|object| encoder.message(object)).collect();
        let items = items.iter().map(|item| item.bytes.as_ref());
        return TestBody::bytes(meta.protobuf(encoder.resource(), encoder.form(), items));
    }
    if fault.empty_continue {
        meta.continue_token.get_or_insert_default();
    }
    if fault.null_items && page.items.is_empty() {
        let head = meta.json_start(encoder.resource(), encoder.form());
        return TestBody::bytes(head + ",\"items\":null}\n");
    }
    let head = meta.json_head(encoder.resource(), encoder.form());
    TestBody::list(ListBody::new(head, page.items, encoder))
}
