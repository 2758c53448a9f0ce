//! One connection of the replay server: lists, watches, and the commands of the benchmark.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::http::{self, Request};
use super::template::{self, Encoding};
use super::world::{Play, Step, World};

/// The number of bytes buffered before they are sent.
const BLOCK: usize = 256 * 1024;
/// The number of changes sent in one batch if they are not paced.
const BATCH: usize = 32;

/// Serves the collection until the program ends.
///
/// # Errors
///
/// Connections can no longer be accepted.
pub async fn serve(listener: TcpListener, world: Arc<World>) -> io::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let world = world.clone();
        connections.spawn(async move {
            // Every run ends with a disconnecting client.
            let _ = connection(stream, &world).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(mut stream: TcpStream, world: &World) -> io::Result<()> {
    let (mut reader, mut writer) = stream.split();
    let mut buffer = Vec::new();
    while let Some(request) = http::read_request(&mut reader, &mut buffer).await? {
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/api/v1/pods") if request.query.contains_key("watch") => {
                watch(&request, &mut reader, &mut writer, world).await?;
                return writer.shutdown().await;
            }
            ("GET", "/api/v1/pods") => list(&request, &mut writer, world).await?,
            ("POST", "/bench/reset") => {
                world.reset();
                http::respond(&mut writer, "200 OK", "{}").await?;
            }
            ("POST", "/bench/play") => {
                let events = number(&request, "events").unwrap_or(0);
                let per_second = number(&request, "per_second");
                world.play(Play {
                    round: number(&request, "round").unwrap_or(0),
                    events,
                    per_second,
                });
                http::respond(&mut writer, "200 OK", "{}").await?;
            }
            ("POST", "/bench/expire") => {
                world.expire(
                    number(&request, "round").unwrap_or(0),
                    number(&request, "every").unwrap_or(1),
                );
                http::respond(&mut writer, "200 OK", "{}").await?;
            }
            (_, path) => {
                let body = format!(
                    r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"the replay server has no {path}","code":404}}"#
                );
                http::respond(&mut writer, "404 Not Found", &body).await?;
            }
        }
    }
    Ok(())
}

fn number<T: std::str::FromStr>(request: &Request, name: &str) -> Option<T> {
    request.query.get(name)?.parse().ok()
}

/// A page, or everything; always JSON, because client-go uses watch-lists.
async fn list(request: &Request, writer: &mut WriteHalf<'_>, world: &World) -> io::Result<()> {
    let (written, version, _) = world.snapshot();
    let (encoded, _) = world.encoded(Encoding::Json);
    let start: usize = number(request, "continue").unwrap_or(0);
    let limit = number(request, "limit")
        .filter(|limit| *limit > 0)
        .unwrap_or(usize::MAX);
    let end = start.saturating_add(limit).min(written.len());
    let mut meta = format!(r#""resourceVersion":"{version}""#);
    if end < written.len() {
        meta.push_str(&format!(
            r#","continue":"{end}","remainingItemCount":{}"#,
            written.len() - end
        ));
    }
    http::begin(writer, "application/json").await?;
    let mut block = Vec::with_capacity(BLOCK * 2);
    block.extend_from_slice(
        format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{{meta}}},"items":["#).as_bytes(),
    );
    for (index, (object, written)) in encoded
        .objects
        .iter()
        .zip(&written)
        .enumerate()
        .take(end)
        .skip(start)
    {
        if index > start {
            block.push(b',');
        }
        object.item(&mut block, *written);
        if block.len() >= BLOCK {
            http::chunk(writer, &mut block).await?;
        }
    }
    block.extend_from_slice(b"]}\n");
    http::chunk(writer, &mut block).await?;
    http::end(writer).await
}

async fn watch(
    request: &Request,
    reader: &mut ReadHalf<'_>,
    writer: &mut WriteHalf<'_>,
    world: &World,
) -> io::Result<()> {
    let wanted = match request.accept.starts_with("application/vnd.kubernetes.protobuf") {
        true => Encoding::Protobuf,
        false => Encoding::Json,
    };
    let metadata = match request.accept.contains("as=PartialObjectMetadata") && wanted == Encoding::Protobuf {
        true => world.metadata(),
        false => None,
    };
    let (encoded, encoding) = match metadata {
        Some(metadata) => (metadata, Encoding::Protobuf),
        None => world.encoded(wanted),
    };
    let content_type = match encoding {
        Encoding::Json => "application/json",
        Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
    };
    let mut changes = world.changes();
    http::begin(writer, content_type).await?;
    let mut block = Vec::with_capacity(BLOCK * 2);
    let mut era = world.era();
    if request
        .query
        .get("sendInitialEvents")
        .is_some_and(|wanted| wanted == "true")
    {
        let (written, version, now) = world.snapshot();
        era = now;
        for (object, written) in encoded.objects.iter().zip(&written) {
            object.event(&mut block, encoding, "ADDED", *written);
            if block.len() >= BLOCK {
                http::chunk(writer, &mut block).await?;
            }
        }
        let end = template::Written {
            version,
            ..template::Written::default()
        };
        encoded.bookmark.event(&mut block, encoding, "BOOKMARK", end);
        http::chunk(writer, &mut block).await?;
    }
    loop {
        let waiting = match world.next(era, BATCH) {
            Step::Send(events) => {
                for (index, written) in events {
                    if let Some(object) = encoded.objects.get(index) {
                        object.event(&mut block, encoding, "MODIFIED", written);
                    }
                }
                http::chunk(writer, &mut block).await?;
                continue;
            }
            Step::Expired => {
                template::expired(&mut block, encoding);
                http::chunk(writer, &mut block).await?;
                return http::end(writer).await;
            }
            Step::Wait(until) => Some(until),
            Step::Idle => None,
        };
        let pause = async {
            match waiting {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let mut byte = [0; 64];
        // All branches are cancel-safe: an unseen change is found by the next iteration, and the client's input only
        // matters as a sign of disconnection.
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return Ok(()) },
            () = pause => {}
            read = reader.read(&mut byte) => if read? == 0 { return Ok(()) },
        }
    }
}
