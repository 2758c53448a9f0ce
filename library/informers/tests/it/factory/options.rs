//! Options of a factory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::core::{ApiResource, GroupVersionKind};
use kube_informers::handler::HandlerOptions;
use kube_informers::reflector::StreamEnd;
use kube_informers::source::{Encoding, Query, SourceOptions};
use kube_informers::{Informer, Scope};
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, config_map, pod};

use super::builder;
use crate::support::{CapturedLogs, Log, names, pass, secs, settle};

#[tokio::test(start_paused = true)]
async fn resyncs_are_those_of_the_factory_of_the_type_or_of_the_handler() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    server.create(config_map("shop", "settings"));
    let factory = builder(&server)
        .resync(secs(60))
        .resync_for::<ConfigMap>(secs(20))
        .resync_for::<k8s_openapi::api::core::v1::Secret>(None)
        .build();
    let (pods, maps, own) = (Log::new(), Log::new(), Log::new());
    factory
        .informer::<Pod>()
        .add_event_handler(pods.handler())
        .unwrap();
    factory
        .informer::<Pod>()
        .add_event_handler_with(HandlerOptions::default().resync(secs(15)), own.handler())
        .unwrap();
    factory
        .informer::<ConfigMap>()
        .add_event_handler(maps.handler())
        .unwrap();
    factory.start();
    factory.wait_for_sync_within(secs(1)).await.unwrap();

    pass(secs(61)).await;

    let resyncs = |log: &Log| log.all().iter().filter(|line| line.contains("resync")).count();
    assert_eq!((resyncs(&pods), resyncs(&maps), resyncs(&own)), (1, 3, 4));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_factory_leaves_open_is_up_to_the_builder() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let factory = builder(&server).build();
    let ends = Arc::new(AtomicU32::new(0));
    let counted = ends.clone();
    let hook = move |_: &StreamEnd<'_>| _ = counted.fetch_add(1, Ordering::Relaxed);
    let pods = factory.informer_named("own", |factory| {
        factory.configure(Informer::<Pod>::all(factory.client()).configure(|config| {
            config.resync = Some(secs(20));
            config.on_stream_end = Some(Arc::new(hook));
        }))
    });
    let log = Log::new();
    pods.add_event_handler(log.handler()).unwrap();
    factory.start();
    factory.wait_for_sync_within(secs(1)).await.unwrap();

    pass(secs(30)).await;
    server.break_watches();
    pass(secs(5)).await;

    let resyncs = log.all().iter().filter(|line| line.contains("resync")).count();
    assert_eq!((resyncs, ends.load(Ordering::Relaxed)), (1, 1));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_transform_is_for_one_type_and_may_drop_objects() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    server.create(config_map("shop", "settings"));
    server.create(config_map("shop", "other"));
    let factory = builder(&server)
        .transform_for(|pod: &mut Pod| pod.spec = None)
        .try_transform_for(|map: ConfigMap| {
            let wanted = map.metadata.name.as_deref() == Some("settings");
            Ok(wanted.then_some(map))
        })
        .build();
    let (pods, maps) = (factory.informer::<Pod>(), factory.informer::<ConfigMap>());
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();

    assert!(
        pods.lister()
            .namespace("shop")
            .get("cart")
            .unwrap()
            .spec
            .is_none()
    );
    assert_eq!(names(&maps), ["settings"]);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn name_hook_and_managed_fields_reach_every_informer() {
    let server = TestServer::new();
    let mut cart = pod("shop", "cart");
    cart.metadata.managed_fields = Some(vec![Default::default()]);
    server.create(cart);
    let factory = builder(&server)
        .name("till")
        .source(SourceOptions {
            drop_managed_fields: Some(true),
            request_hook: Some(Arc::new(|query: &mut Query| {
                query.set("fieldValidation", "Ignore")
            })),
            ..Default::default()
        })
        .build();
    let pods = factory.informer::<Pod>();
    let maps = factory.informer::<ConfigMap>();
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();
    settle().await;

    assert_eq!(pods.name(), "pods in all namespaces (till)");
    assert_eq!(maps.name(), "configmaps in all namespaces (till)");
    assert!(
        pods.lister()
            .namespace("shop")
            .get("cart")
            .unwrap()
            .metadata
            .managed_fields
            .is_none()
    );
    for request in server.requests() {
        assert_eq!(request.param("fieldValidation"), Some("Ignore"));
    }
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn selectors_of_the_factory_are_checked_when_it_is_built() {
    let server = TestServer::new();
    server.create(Build::label(pod("shop", "cart"), "app", "web"));
    server.create(pod("shop", "db"));

    let Err(error) = builder(&server).labels("app==web==x") else {
        panic!("an invalid selector was accepted")
    };
    assert_eq!(
        error.to_string(),
        "\"app==web==x\" is not a label selector: expected `,` or the end at position 9"
    );
    let Err(error) = builder(&server).fields("status.phase") else {
        panic!("an invalid selector was accepted")
    };
    assert!(
        error
            .to_string()
            .starts_with("\"status.phase\" is not a field selector"),
        "{error}"
    );

    let factory = builder(&server)
        .labels("app=web")
        .unwrap()
        .namespace("shop")
        .build();
    assert_eq!(
        factory.scope(),
        &Scope::namespace("shop").labels("app=web").unwrap()
    );
    let pods = factory.informer::<Pod>();
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();
    assert_eq!(names(&pods), ["cart"]);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn protobuf_of_a_kind_without_a_schema_is_an_error_in_the_log_when_the_informer_is_built() {
    let (logs, _capture) = CapturedLogs::of_this_thread(tracing::Level::ERROR);
    let server = TestServer::new();
    let factory = builder(&server)
        .source(SourceOptions {
            encoding: Encoding::Protobuf,
            ..Default::default()
        })
        .build();

    let pods = factory.informer::<Pod>();
    assert_eq!(logs.text(), "");
    let widget = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let widgets = factory.dynamic(widget);

    assert!(logs.text().contains("cannot sync"), "{}", logs.text());
    assert!(logs.text().contains("Widget"), "{}", logs.text());
    drop((pods, widgets));
    factory.shutdown().await;
}
