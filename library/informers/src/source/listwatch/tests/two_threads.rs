//! Bodies that two threads decode.

use std::panic::AssertUnwindSafe;
use std::thread;

use futures_util::FutureExt;
use serde::{Deserialize, Deserializer};
use tokio::time::Instant;

use super::*;

/// An object that takes long to decode, and knows the thread that did it.
struct Slow {
    name: String,
    thread: Option<String>,
}

impl<'de> Deserialize<'de> for Slow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Named {
            metadata: Name,
        }
        #[derive(Deserialize)]
        struct Name {
            name: String,
            #[serde(rename = "isWrong", default)]
            _is_wrong: bool,
        }
        let Named { metadata } = Named::deserialize(deserializer)?;
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(50) {
            std::hint::spin_loop();
        }
        let thread = thread::current().name().map(str::to_owned);
        assert!(
            metadata.name != "panics" || thread.as_deref() != Some("decode"),
            "on purpose"
        );
        Ok(Self {
            name: metadata.name,
            thread,
        })
    }
}

impl Object for Slow {
    fn object_name(&self) -> &str {
        &self.name
    }
    fn object_namespace(&self) -> Option<&str> {
        None
    }
    fn object_uid(&self) -> Option<&str> {
        None
    }
    fn object_version(&self) -> Option<&str> {
        None
    }
}

const OBJECTS: usize = 2_000;

fn event(name: &str, wrong: bool) -> String {
    let is_wrong = if wrong { json!("yes") } else { json!(false) };
    json!({"type": "ADDED", "object": {"metadata": {"name": name, "isWrong": is_wrong}}}).to_string()
}

/// A watch body of numbered objects. Every hundredth one cannot be decoded.
fn events(per_chunk: usize) -> Vec<Result<Bytes, BoxError>> {
    let numbers: Vec<usize> = (0..OBJECTS).collect();
    let chunks = numbers.chunks(per_chunk).map(|numbers| {
        let events = numbers
            .iter()
            .map(|number| event(&number.to_string(), number % 100 == 99));
        Ok(events.collect::<String>().into())
    });
    chunks.collect()
}

fn source(body: impl Fn() -> Vec<Result<Bytes, BoxError>> + Send + Sync + 'static) -> ListWatch<Slow> {
    let (client, _) = client(move || Response::new(chunked(body())));
    ListWatch::projected(client, ResourceType::of::<Pod>(), Scope::all()).parallel_decoding(true)
}

/// The items of a watch, and the number of objects that the second thread decoded.
async fn read(source: &ListWatch<Slow>) -> (Vec<String>, usize) {
    let (mut lines, mut by_helper) = (Vec::new(), 0);
    let mut items = source.watch(resumed(), None);
    while let Some(item) = items.next().await {
        match item {
            Ok(WatchItem::Progress { .. }) => {}
            Ok(WatchItem::Added(item)) => {
                by_helper += usize::from(item.object().thread.as_deref() == Some("decode"));
                lines.push(object(&item));
            }
            Ok(WatchItem::Unreadable { object, .. }) => {
                lines.push(format!("unreadable {}", object.key.unwrap()));
            }
            Ok(_) => lines.push("other".to_owned()),
            Err(error) => lines.push(error.to_string()),
        }
    }
    (lines, by_helper)
}

fn expected() -> Vec<String> {
    let line = |number: usize| match number % 100 {
        99 => format!("unreadable {number}"),
        _ => number.to_string(),
    };
    (0..OBJECTS).map(line).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_thread_decodes_a_part_and_the_order_stays() {
    for per_chunk in [1, 7, 500] {
        let (lines, by_helper) = read(&source(move || events(per_chunk))).await;

        assert_eq!(lines, expected(), "{per_chunk} events in a chunk");
        assert!(
            (100..OBJECTS).contains(&by_helper),
            "{by_helper} by the second thread"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_body_needs_no_second_thread() {
    let (_, by_helper) = read(&source(|| events(7).into_iter().take(36).collect())).await;

    assert_eq!(by_helper, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_setting_one_thread_decodes() {
    let (lines, by_helper) = read(&source(|| events(7)).parallel_decoding(false)).await;

    assert_eq!((lines, by_helper), (expected(), 0));
}

#[tokio::test]
async fn a_runtime_with_one_thread_gets_no_second_one() {
    let (lines, by_helper) = read(&source(|| events(7))).await;

    assert_eq!((lines, by_helper), (expected(), 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_comes_behind_everything_before_it() {
    let lost: fn() -> Result<Bytes, BoxError> = || Err("the connection broke".into());
    let no_event: fn() -> Result<Bytes, BoxError> = || Ok("{}".into());
    for (last, text) in [(lost, "connection lost"), (no_event, "without an event type")] {
        let body = move || events(7).into_iter().chain([last()]).collect();
        let (mut lines, _) = read(&source(body)).await;

        let error = lines.pop().unwrap();
        assert!(error.contains(text), "{error}");
        assert_eq!(lines, expected());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_the_second_thread_is_one_of_the_reader() {
    let body = || {
        let panics: String = (0..2 * OBJECTS).map(|_| event("panics", false)).collect();
        events(7).into_iter().chain([Ok(panics.into())]).collect()
    };
    let read = AssertUnwindSafe(async { read(&source(body)).await.0.len() });

    let panic = read.catch_unwind().await.unwrap_err();

    let text = panic.downcast_ref::<&str>().copied();
    assert_eq!(text, Some("on purpose"));
}
