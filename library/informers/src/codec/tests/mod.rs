//! The codec compared with serde_json, on valid and invalid bodies.

mod explain;
mod list;
mod noise;
mod objects;
mod protobuf;
mod shards;
mod watch;

use bytes::Bytes;
use serde_json::Value;

use super::*;
use crate::object::Object;
use crate::wire::{Fetched, ListMeta};

/// The parameters of a decoder of pods.
fn pods<K>() -> Decoding<K> {
    Decoding {
        expected: Expected {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            metadata_only: false,
        },
        known: None,
        drop_managed_fields: false,
        max_object_size: 32 << 20,
        shard: None,
    }
}

/// Splits bytes into chunks at these positions.
fn chunks(bytes: &[u8], cuts: &[usize]) -> Vec<Bytes> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2)
        .map(|pair| Bytes::copy_from_slice(&bytes[pair[0]..pair[1]]))
        .collect()
}

/// Reads a whole list body, each item as one line of text.
fn read_list<K: Object>(
    decoder: &mut dyn Decoder<ListItem<K>>,
    chunks: Vec<Bytes>,
) -> Result<(Vec<String>, ListMeta), SourceError> {
    let mut seen = Vec::new();
    for chunk in chunks {
        decoder.push(chunk);
        while let Some(item) = decoder.next()? {
            seen.push(match item {
                ListItem::Progress { .. } => "progress".to_owned(),
                ListItem::Object(object) => fetched(object),
                ListItem::Unreadable(object) => object.to_string(),
                ListItem::Outside => "outside".to_owned(),
                ListItem::End(_) => "end".to_owned(),
            });
        }
    }
    match decoder.finish()? {
        Some(ListItem::End(meta)) => Ok((seen, meta)),
        _ => panic!("a list ends with its metadata"),
    }
}

/// Reads a whole watch body, each event as one line of text.
fn read_watch<K: Object>(
    decoder: &mut dyn Decoder<WatchItem<K>>,
    chunks: Vec<Bytes>,
) -> Result<Vec<String>, SourceError> {
    let mut seen = Vec::new();
    for chunk in chunks {
        decoder.push(chunk);
        while let Some(item) = decoder.next()? {
            seen.push(match item {
                WatchItem::Progress { .. } => "progress".to_owned(),
                WatchItem::Added(object) => format!("added {}", fetched(object)),
                WatchItem::Modified(object) => format!("modified {}", fetched(object)),
                WatchItem::Deleted(object) => format!("deleted {}", fetched(object)),
                WatchItem::Unreadable { deleted, object } => {
                    format!("{}{object}", if deleted { "deleted: " } else { "" })
                }
                WatchItem::Bookmark {
                    resource_version,
                    initial_events_end,
                } => format!(
                    "bookmark {}{}",
                    resource_version.as_deref().unwrap_or("-"),
                    if initial_events_end { " end" } else { "" }
                ),
                WatchItem::Outside {
                    resource_version,
                    added,
                } => format!(
                    "outside {}{}",
                    resource_version.as_deref().unwrap_or("-"),
                    if added { " added" } else { "" }
                ),
                WatchItem::Error(error) => format!("error: {error}"),
            });
        }
    }
    Ok(seen)
}

fn fetched<K: Object>(object: Fetched<K>) -> String {
    let (object, how): (&K, &str) = match &object {
        Fetched::New(object) => (object, ""),
        Fetched::Unchanged(object) => (object, " unchanged"),
    };
    format!(
        "{}@{}{how}",
        crate::ObjectKey::of(object),
        object.object_version().unwrap_or("-")
    )
}

/// A pod as sent by a server.
fn pod(name: &str, version: &str) -> Value {
    serde_json::json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": version},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}
