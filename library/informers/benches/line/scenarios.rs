//! The scenarios.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube_informers::codec::{Codec, Decoding, Expected};
use kube_informers::delta::{Delta, Replacement};
use kube_informers::sim::{DeltaWriter, Origin};
use kube_informers::source::ListerWatcher;
use kube_informers::source::{
    Fetched, Known, ListItem, ListMeta, ListRequest, ListStream, WatchItem, WatchRequest, WatchStream,
};
use kube_informers::{Event, Informer, Object};

use crate::data;
use crate::measure::{cpu_seconds, figure, peak, per_operation, reset_peak, resident};

pub const NAMES: &[&str] = &[
    "decode whole list (serde_json)",
    "decode",
    "decode, managedFields cut",
    "dispatch to 10 handlers",
    "relist of 100k, 1 % changed",
];

pub fn run(name: &str) {
    match name {
        "decode whole list (serde_json)" => decode_whole(),
        "decode" => decode_streaming(false),
        "decode, managedFields cut" => decode_streaming(true),
        "dispatch to 10 handlers" => dispatch(),
        "relist of 100k, 1 % changed" => relist(),
        other => panic!("there is no scenario {other:?}"),
    }
}

const DECODED: usize = 10_000;
const CHUNK: usize = 16 * 1024;

fn decode_whole() {
    let body = data::list_body(DECODED, |_| false);
    let before = resident();
    let mut list = None;
    let cost = per_operation(DECODED, || {
        list = Some(serde_json::from_slice::<k8s_openapi::List<Pod>>(&body).expect("a list"));
    });
    figure(cost / 1000.0, "µs CPU per pod");
    figure(
        (resident() - before) * 1024.0 / DECODED as f64,
        "kB resident per pod",
    );
    black_box(list);
}

fn decoding(drop_managed_fields: bool, known: Known<Pod>) -> Decoding<Pod> {
    let expected = Expected {
        api_version: "v1".into(),
        kind: "Pod".into(),
        metadata_only: false,
    };
    Decoding {
        expected,
        known,
        drop_managed_fields,
        max_object_size: 32 << 20,
        shard: None,
    }
}

fn decode_all(body: &Bytes, decoding: Decoding<Pod>, mut each: impl FnMut(Fetched<Pod>)) {
    let codec = Codec::<Pod>::new();
    let mut decoder = codec
        .list_decoder(Some("application/json"), decoding)
        .expect("JSON is read");
    for start in (0..body.len()).step_by(CHUNK) {
        decoder.push(body.slice(start..body.len().min(start + CHUNK)));
        while let Some(item) = decoder.next().expect("a list") {
            if let ListItem::Object(object) = item {
                each(object);
            }
        }
    }
    decoder.finish().expect("the end of a list");
}

fn arc(fetched: Fetched<Pod>) -> Arc<Pod> {
    match fetched {
        Fetched::New(pod) => pod.into(),
        Fetched::Unchanged(pod) => pod,
    }
}

fn decode_streaming(cut: bool) {
    let body = Bytes::from(data::list_body(DECODED, |_| false));
    let before = resident();
    let mut pods: Vec<Arc<Pod>> = Vec::new();
    let cost = per_operation(DECODED, || {
        decode_all(&body, decoding(cut, None), |pod| pods.push(arc(pod)));
    });
    assert_eq!(pods.len(), DECODED);
    figure(cost / 1000.0, "µs CPU per pod");
    figure(
        (resident() - before) * 1024.0 / DECODED as f64,
        "kB resident per pod",
    );
}

/// A minimal object, so that the cost of the stages dominates.
struct Small {
    name: String,
    namespace: String,
    version: String,
}

impl Object for Small {
    fn object_name(&self) -> &str {
        &self.name
    }
    fn object_namespace(&self) -> Option<&str> {
        Some(&self.namespace)
    }
    fn object_uid(&self) -> Option<&str> {
        Some(&self.name)
    }
    fn object_version(&self) -> Option<&str> {
        Some(&self.version)
    }
}

const STORED: usize = 100_000;

/// An empty list, then a watch with this number of changes, as fast as it is read.
struct Storm {
    events: usize,
}

impl ListerWatcher<Small> for Storm {
    fn list(&self, _: ListRequest, _: Known<Small>) -> ListStream<Small> {
        let end = ListMeta {
            resource_version: Some("1".into()),
            ..ListMeta::default()
        };
        Box::pin(stream::iter([Ok(ListItem::End(end))]))
    }

    fn watch(&self, request: WatchRequest, _: Known<Small>) -> WatchStream<Small> {
        if request.initial_events || request.resource_version.as_deref() != Some("1") {
            return Box::pin(stream::pending());
        }
        let events = (0..self.events).map(|number| {
            let object = Small {
                name: format!("object-{}", number % 10_000),
                namespace: String::new(),
                version: (number + 2).to_string(),
            };
            Ok(WatchItem::Modified(object.into()))
        });
        Box::pin(stream::iter(events).chain(stream::pending()))
    }
}

fn dispatch() {
    const EVENTS: usize = 500_000;
    let deliver = |handlers: usize| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let informer = Informer::from_source(Storm { events: EVENTS })
                .configure(|config| config.watch_list = false)
                .build();
            let delivered = Arc::new(AtomicU64::new(0));
            for _ in 0..handlers {
                let delivered = delivered.clone();
                informer
                    .0
                    .add_event_handler(move |event: Event<Small>| {
                        delivered.fetch_add(event.object().version.len() as u64, Ordering::Relaxed);
                    })
                    .expect("not stopped");
            }
            let (informer, task) = informer;
            let before = cpu_seconds();
            let run = task.run();
            let wait = async {
                informer
                    .wait_for_within(&(EVENTS + 1).to_string(), Duration::from_secs(300))
                    .await
                    .expect("all events");
                while informer.stats().backlog() > 0 {
                    tokio::task::yield_now().await;
                }
                informer.shutdown().await;
            };
            let (result, ()) = tokio::join!(run, wait);
            result.expect("no task died");
            cpu_seconds() - before
        })
    };
    let alone = deliver(0);
    let ten = deliver(10);
    figure(alone * 1e9 / EVENTS as f64, "ns per event without a handler");
    figure(
        (ten - alone) * 1e9 / (10 * EVENTS) as f64,
        "ns per delivery to one of 10 handlers",
    );
}

fn relist() {
    let body = Bytes::from(data::list_body(STORED, |_| false));
    let mut writer = DeltaWriter::<Pod>::new();
    let store = writer.store();
    let body_resident = resident();
    let mut apply = |pods: Vec<Arc<Pod>>, version: &str| {
        let list = Replacement {
            shard: None,
            objects: pods,
            unreadable: Vec::new(),
            resource_version: Some(version.into()),
        };
        let mut events = Vec::new();
        let prepared = writer.prepare(Origin::default(), vec![Delta::ReplacedAll(list)]);
        writer.apply(prepared, &mut events);
        events.len()
    };

    let mut pods = Vec::new();
    let cost = per_operation(STORED, || {
        decode_all(&body, decoding(true, None), |pod| pods.push(arc(pod)));
        assert_eq!(apply(std::mem::take(&mut pods), "1"), STORED);
    });
    figure(cost / 1000.0, "µs CPU per pod of the first list");
    drop(body);
    let body = Bytes::from(data::list_body(STORED, |number| number % 100 == 0));
    let steady = resident() - body_resident;
    figure(
        steady * 1024.0 / STORED as f64,
        "kB resident per pod, managedFields cut",
    );

    reset_peak();
    let floor = resident();
    let known: Known<Pod> = Some(Arc::new(store.clone()));
    let cost = per_operation(STORED, || {
        decode_all(&body, decoding(true, known), |pod| pods.push(arc(pod)));
        assert_eq!(apply(std::mem::take(&mut pods), "2"), STORED / 100);
    });
    figure(cost / 1000.0, "µs CPU per pod of the relist");
    figure(
        (steady + peak() - floor) / steady,
        "peak of the relist / steady state",
    );
}
