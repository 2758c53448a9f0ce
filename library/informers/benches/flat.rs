//! Whether memory stays flat: updates of a cache of pods, packed and typed, as the pipeline applies them.
//!
//! `cargo bench -p kube-informers --bench flat -- [PODS] [UPDATES] [TYPED UPDATES]`; 50,000 pods, 2,000,000 updates of packed
//! and 200,000 of typed objects by default. Each case runs in a process of its own and prints its resident memory after
//! the list, after the updates and at the peak of a relist in which some objects have changed, and the ratios.

#[path = "line/data.rs"]
#[allow(dead_code)]
mod data;
#[path = "line/measure.rs"]
#[allow(dead_code)]
mod measure;

use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::api::core::v1::Pod;
use kube_informers::codec::{Codec, Decoding, Expected};
use kube_informers::delta::{Delta, Replacement};
use kube_informers::lazy::Lazy;
use kube_informers::lazy::Validate;
use kube_informers::sim::{DeltaWriter, Origin};
use kube_informers::source::{Fetched, FromWire, Known, ListItem, WatchItem};
use kube_protobuf::envelope::{ListMeta, to_body, to_list_body, to_watch_frame};
use kube_protobuf::schema::{self, Message};
use kube_protobuf::{MEDIA_TYPE, TypeMeta, ser};

const POD: TypeMeta<'static> = TypeMeta {
    api_version: "v1",
    kind: "Pod",
};
const LIST: TypeMeta<'static> = TypeMeta {
    api_version: "v1",
    kind: "PodList",
};

fn main() {
    // `cargo bench` adds a flag of its own.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let number = |at: usize, default: usize| {
        arguments
            .get(at)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    match arguments.first().map(String::as_str) {
        Some("packed") => run::<Lazy<Pod>>(number(1, 0), number(2, 0)),
        Some("typed") => run::<Pod>(number(1, 0), number(2, 0)),
        _ => {
            let (pods, updates) = (number(0, 50_000), number(1, 2_000_000));
            for (case, updates) in [("packed", updates), ("typed", number(2, updates / 10))] {
                let program = std::env::current_exe().expect("this program");
                let status = Command::new(program)
                    .args([case, &pods.to_string(), &updates.to_string()])
                    .status();
                assert!(status.is_ok_and(|status| status.success()), "{case} failed");
            }
        }
    }
}

fn message() -> &'static Message {
    schema::lookup("v1", "Pod").expect("the schema of pods")
}

fn encoded(number: usize, version: usize) -> Vec<u8> {
    ser::to_message(message(), &data::pod(number, version)).expect("a pod")
}

fn decoding<K>(known: Known<K>) -> Decoding<K> {
    Decoding {
        expected: Expected {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            metadata_only: false,
        },
        known,
        drop_managed_fields: true,
        max_object_size: 1 << 20,
        shard: None,
    }
}

fn run<K: FromWire>(pods: usize, updates: usize) {
    let codec = Codec::<K>::new().validate(Validate::OnAccess);
    let mut writer = DeltaWriter::<K>::new();
    list(&codec, &mut writer, pods, |_| 0);
    let start = measure::resident();
    let mut events = Vec::new();
    let content_type = format!("{MEDIA_TYPE};stream=watch");
    let mut decoder = codec
        .watch_decoder(Some(&content_type), decoding(None))
        .expect("a decoder");
    for update in 0..updates {
        let frame = to_watch_frame(
            "MODIFIED",
            &to_body(POD, &encoded(update % pods, 1 + update / pods)),
        );
        decoder.push(Bytes::from(frame));
        while let Ok(Some(item)) = decoder.next() {
            if let WatchItem::Modified(Fetched::New(object)) = item {
                let prepared = writer.prepare(Origin::default(), vec![Delta::Updated(Arc::from(object))]);
                writer.apply(prepared, &mut events);
                events.clear();
            }
        }
    }
    let end = measure::resident();
    let name = std::any::type_name::<K>();
    let (each, growth) = (start * 1024.0 * 1024.0 / pods as f64, end / start);
    println!("{name}: {pods} pods, {updates} updates");
    println!(
        "  resident {start:.0} MB, {each:.0} bytes per pod; after the updates {end:.0} MB, {growth:.2} times as much"
    );
    let cached = |number: usize| (updates + pods - 1 - number) / pods;
    for (round, percent) in [1, 10].into_iter().enumerate() {
        // Of the others, the list has the version that is cached: they are recognised and not read again.
        let version = |number: usize| {
            let has_changed = |percent: usize| number.is_multiple_of(100 / percent);
            cached(number) + usize::from(has_changed(1)) + round * usize::from(has_changed(percent))
        };
        let before = measure::resident();
        measure::reset_peak();
        list(&codec, &mut writer, pods, version);
        let peak = measure::peak();
        let ratio = peak / before;
        println!("  peak of a relist, {percent} % changed: {peak:.0} MB, {ratio:.2} times the state before");
    }
}

/// Applies a list.
fn list<K: FromWire>(
    codec: &Codec<K>,
    writer: &mut DeltaWriter<K>,
    pods: usize,
    version: impl Fn(usize) -> usize,
) {
    let known: Known<K> = Some(Arc::new(writer.store()));
    let mut objects: Vec<Arc<K>> = Vec::new();
    // Small pages, because the benchmark holds each of them twice, where an informer reads chunks from the network.
    const PAGE: usize = 20;
    for page in 0..pods.div_ceil(PAGE) {
        let items: Vec<Vec<u8>> = (page * PAGE..pods.min((page + 1) * PAGE))
            .map(|number| encoded(number, version(number)))
            .collect();
        let body = to_list_body(LIST, &ListMeta::default(), items.iter().map(Vec::as_slice));
        let mut decoder = codec
            .list_decoder(Some(MEDIA_TYPE), decoding(known.clone()))
            .expect("a decoder");
        decoder.push(Bytes::from(body));
        while let Ok(Some(item)) = decoder.next() {
            match item {
                ListItem::Object(Fetched::New(object)) => objects.push(Arc::from(object)),
                ListItem::Object(Fetched::Unchanged(object)) => objects.push(object),
                _ => {}
            }
        }
    }
    assert_eq!(objects.len(), pods);
    let list = Replacement {
        objects,
        unreadable: Vec::new(),
        resource_version: Some("1".to_owned()),
        shard: None,
    };
    let prepared = writer.prepare(Origin::default(), vec![Delta::ReplacedAll(list)]);
    writer.apply(prepared, &mut Vec::new());
    assert_eq!(writer.store().len(), pods);
}
