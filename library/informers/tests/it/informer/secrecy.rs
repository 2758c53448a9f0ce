//! Logs, errors and `Debug` never show the content of objects, nor credentials.

use kube_informers::reflector::StreamEnd;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube_informers::{Event, Informer};
use kube_testserver::builders::{Build, secret};
use kube_testserver::{Fault, Poison, RequestMatcher, TestServer};
use parking_lot::Mutex;
use tracing::instrument::WithSubscriber;

use crate::support::*;

const CANARY: &str = "canary-7f3a9";

fn full_of_secrets(name: &str) -> Secret {
    let mut object = secret("ns", name).annotation("note", CANARY);
    object.data = Some([("password".to_owned(), ByteString(CANARY.into()))].into());
    object.string_data = Some([("token".to_owned(), CANARY.to_owned())].into());
    object
}

/// Exercises everything that logs, with a canary in every place a secret can be.
async fn through_everything(texts: Arc<Mutex<Vec<String>>>) {
    let server = TestServer::builder().token(CANARY).build();
    let seen = texts.clone();
    let show = move |text: String| seen.lock().push(text);
    for name in ["a", "bad", "nameless"] {
        server.create(full_of_secrets(name));
    }
    server.poison(
        "secrets",
        "ns/bad",
        Poison::edit(|object| object["data"] = CANARY.into()),
    );
    server.poison("secrets", "ns/nameless", Poison::MissingName);
    let ends = texts.clone();
    for watch_list in [true, false] {
        let ends = ends.clone();
        let informer = Informer::<Secret>::all(server.client())
            .configure(|config| config.watch_list = watch_list)
            .index("by-note", |object: &Secret| {
                assert!(object.metadata.name.as_deref() != Some("unindexable"), "no index");
                object
                    .metadata
                    .annotations
                    .as_ref()
                    .and_then(|all| all.get("note").cloned())
            })
            .unwrap()
            .try_transform(|object| {
                assert!(
                    object.metadata.name.as_deref() != Some("untransformable"),
                    "no transform"
                );
                Ok(Some(object))
            })
            .configure(|config| {
                let hook = move |end: &StreamEnd<'_>| ends.lock().push(format!("{end} {end:?}"));
                config.on_stream_end = Some(Arc::new(hook));
            });
        let informer = synced(informer).await;
        let events = texts.clone();
        informer
            .add_event_handler(move |event: Event<Secret>| {
                events.lock().push(format!("{event} {event:?}"));
                assert!(event.key().name() != "panics", "on purpose");
            })
            .unwrap();
        for name in ["b", "panics", "unindexable", "untransformable"] {
            server.put(full_of_secrets(name));
        }
        server.modify::<Secret>("ns", "bad", |object| object.type_ = None);
        pass(secs(1)).await;
        // Unexpected responses of a server or proxy.
        let page = format!("<html>{CANARY}</html>");
        for fault in [
            Fault::status(500).html(page.clone()),
            Fault::default().html(page),
            Fault::default().body("application/json", format!("{{\"password\":\"{CANARY}\"}}")),
            Fault::default().body(
                "application/json",
                format!("{{\"items\":[{{\"data\":{{\"x\":\"{CANARY}"),
            ),
            Fault::truncate(400),
            Fault::status(410),
        ] {
            server.fault(RequestMatcher::resource("secrets").times(2), fault);
            force_relist(&server);
            pass(minutes(2)).await;
            show(format!("{} {:?}", informer.state(), informer.state()));
        }
        show(format!("{:?} {:?}", informer.stats(), informer.quarantine()));
        show(format!("{:?}", informer.store().list().len()));
        show(format!("{:?}", informer.synced_within(secs(0)).await));
        informer.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn logs_errors_and_debug_output_never_contain_a_canary() {
    // Tasks are spawned inside and use the default subscriber of their thread, so it is set for the whole test.
    let (log, capture) = CapturedLogs::of_this_thread(tracing::Level::TRACE);
    let texts = Arc::new(Mutex::new(Vec::new()));
    through_everything(texts.clone()).with_current_subscriber().await;
    drop(capture);

    let log = log.text();
    let ours: Vec<_> = log
        .lines()
        .filter(|line| line.contains("kube_informers"))
        .collect();
    assert!(ours.len() > 100, "{} lines", ours.len());
    for expected in [
        "ns/bad",
        "received",
        "decoded",
        "queued",
        "delivering",
        "panicked",
    ] {
        assert!(log.contains(expected), "{expected} is logged");
    }
    let encoded = "Y2FuYXJ5LTdmM2E5";
    for line in log.lines() {
        assert!(!line.contains(CANARY) && !line.contains(encoded), "{line}");
    }
    for text in texts.lock().iter() {
        assert!(!text.contains(CANARY) && !text.contains(encoded), "{text}");
    }
}
