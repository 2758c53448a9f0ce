//! Records the data of the replay server: the initial events of a real server's watch, up to the bookmark.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::BodyExt;

use super::protobuf;
use super::template::{Encoded, Encoding};
use super::world::World;

const WATCH_LIST: &str = "/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=300";

fn file(directory: &Path, encoding: Encoding) -> PathBuf {
    directory.join(match encoding {
        Encoding::Json => "pods.json",
        Encoding::Protobuf => "pods.protobuf",
    })
}

/// The number of attempts. A server that is still busy with the loaded objects ends watches early.
const ATTEMPTS: usize = 15;
const PAUSE: Duration = Duration::from_secs(2);

/// Records both encodings into a directory.
///
/// # Errors
///
/// The server does not support watch-lists, or the files cannot be written.
pub async fn record(client: &kube::Client, directory: &Path) -> Result<(), Error> {
    for (encoding, accept) in [
        (Encoding::Json, "application/json"),
        (
            Encoding::Protobuf,
            "application/vnd.kubernetes.protobuf;stream=watch",
        ),
    ] {
        let mut attempt = 1;
        let stream = loop {
            match read(client, encoding, accept).await? {
                Some(stream) => break stream,
                None if attempt < ATTEMPTS => tokio::time::sleep(PAUSE).await,
                None => return Err("the server ends every watch before its bookmark".into()),
            }
            attempt += 1;
        };
        std::fs::write(file(directory, encoding), &stream)?;
    }
    Ok(())
}

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The stream up to the bookmark; `None` if it ended before.
async fn read(client: &kube::Client, encoding: Encoding, accept: &str) -> Result<Option<Vec<u8>>, Error> {
    let request = ::http::Request::get(WATCH_LIST).header("Accept", accept);
    let response = client.send(request.body(kube::client::Body::empty())?).await?;
    if !response.status().is_success() {
        return Err(format!("the server responds to a watch-list with {}", response.status()).into());
    }
    let mut body = response.into_body();
    let mut stream = Vec::new();
    let mut complete = 0;
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            stream.extend_from_slice(&data);
            if ends_with_bookmark(&stream, &mut complete, encoding) {
                return Ok(Some(stream));
            }
        }
    }
    Ok(None)
}

/// Whether the last complete event is a bookmark; `complete` is the position up to which the stream was checked.
fn ends_with_bookmark(stream: &[u8], complete: &mut usize, encoding: Encoding) -> bool {
    loop {
        let rest = stream.get(*complete..).unwrap_or_default();
        let (bookmark, length) = match encoding {
            Encoding::Json => match memchr::memchr(b'\n', rest) {
                Some(end) => (rest.starts_with(br#"{"type":"BOOKMARK""#), end + 1),
                None => return false,
            },
            Encoding::Protobuf => match protobuf::split_frame(rest) {
                Some((kind, _, length)) => (kind == "BOOKMARK", length),
                None => return false,
            },
        };
        *complete += length;
        if bookmark {
            return true;
        }
    }
}

/// Loads a recording.
///
/// # Errors
///
/// A file is missing or is not a recording.
pub fn load(directory: &Path) -> Result<World, String> {
    let read = |encoding| {
        let path = file(directory, encoding);
        let bytes =
            std::fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Encoded::recorded(&bytes, encoding).map_err(|error| format!("{}: {error}", path.display()))
    };
    World::new(read(Encoding::Json)?, Some(read(Encoding::Protobuf)?))
}
