//! Compressed responses.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

fn gzipped(client: &kube::Client) -> ListWatch<Pod> {
    pods_of(client).options(SourceOptions {
        gzip: true,
        ..Default::default()
    })
}

fn member(text: &str) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap().into()
}

fn compressed(chunks: Vec<Result<Bytes, BoxError>>) -> Response<TestBody> {
    let mut response = Response::new(chunked(chunks));
    let headers = response.headers_mut();
    headers.insert("content-encoding", "gzip".parse().unwrap());
    response
}

async fn watch_list(source: &ListWatch<Pod>) -> Vec<String> {
    let request = WatchRequest {
        initial_events: true,
        timeout: Duration::from_secs(300),
        ..WatchRequest::default()
    };
    let lines = source.watch(request, None).map(|item| match item {
        Ok(WatchItem::Progress { .. }) => "progress".to_owned(),
        Ok(WatchItem::Added(item)) => format!("added {}", object(&item)),
        Ok(_) => "other".to_owned(),
        Err(error) => format!("{}: {error}", error.class()),
    });
    lines.collect().await
}

#[tokio::test]
async fn a_compressed_list_is_read_if_it_was_requested() {
    let body = member(TWO_PODS);
    let (client, seen) = client(move || {
        let (first, rest) = (body.slice(..body.len() / 2), body.slice(body.len() / 2..));
        compressed(vec![Ok(first), Ok(Bytes::new()), Ok(rest)])
    });

    let lines = list(&gzipped(&client)).await;
    assert_eq!(seen.header("accept-encoding").as_deref(), Some("gzip"));
    let objects: Vec<_> = lines
        .iter()
        .filter(|line| !line.starts_with("progress"))
        .collect();
    assert_eq!(objects, ["shop/a", "shop/b", "end 7"]);

    let refused = list(&pods_of(&client)).await;
    assert_eq!(seen.header("accept-encoding"), None);
    assert!(
        refused[0].contains("compressed (gzip), which was not requested"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn events_of_a_compressed_watch_list_do_not_wait_for_the_next_member() {
    let (client, seen) = client(|| {
        let whole = member(&format!("{}\n{}\n", added("a"), added("b")));
        let half = member(&added("c"));
        let cut = half.slice(..half.len() - 4);
        compressed(vec![Ok(whole), Ok(cut), Err("the connection broke".into())])
    });

    let lines = watch_list(&gzipped(&client)).await;

    assert_eq!(seen.header("accept-encoding").as_deref(), Some("gzip"));
    // The last event is complete although the end of its member is missing.
    let expected = [
        "progress", "progress", "added a", "added b", "progress", "added c",
    ];
    assert_eq!(lines[..6], expected);
    assert!(lines[6].starts_with("transport: connection lost"), "{lines:?}");
}

#[tokio::test]
async fn a_corrupt_or_truncated_body_is_an_error() {
    let body = member(TWO_PODS);
    for broken in [
        body.slice(..body.len() - 8),
        Bytes::from_static(b"not gzip at all"),
    ] {
        let (client, _) = client(move || compressed(vec![Ok(broken.clone())]));
        let lines = list(&gzipped(&client)).await;
        assert_eq!(
            lines.last().unwrap(),
            "malformed: cannot list pods in shop: the compressed response is corrupt or truncated: \
             check any proxy in between, or turn `gzip` off"
        );
    }
}
