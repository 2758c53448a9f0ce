//! Which requests share an informer.

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube_informers::source::ResourceType;
use kube_informers::{Informer, Object, Scope};
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, config_map, node, pod};
use serde::Deserialize;

use super::{builder, factory};
use crate::support::{names, secs};

/// A projection: the name of an object.
#[derive(Deserialize)]
struct Named {
    metadata: Meta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: String,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Object for Named {
    fn object_name(&self) -> &str {
        &self.metadata.name
    }
    fn object_namespace(&self) -> Option<&str> {
        self.metadata.namespace.as_deref()
    }
    fn object_uid(&self) -> Option<&str> {
        self.metadata.uid.as_deref()
    }
    fn object_version(&self) -> Option<&str> {
        self.metadata.resource_version.as_deref()
    }
}

#[tokio::test(start_paused = true)]
async fn equal_requests_share_one_watch() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let factory = factory(&server);

    let first = factory.informer::<Pod>();
    let second = factory.clone().informer::<Pod>();
    let third = factory.scoped(Scope::all()).informer::<Pod>();
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();

    assert_eq!(factory.informers(), 1);
    assert_eq!(server.open_watches(), 1);
    for informer in [&first, &second, &third] {
        assert_eq!(names(informer), ["cart"]);
    }
    factory.shutdown().await;
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn different_scopes_are_different_informers_and_equivalent_scopes_are_not() {
    let server = TestServer::new();
    server.create(Build::label(pod("shop", "cart"), "app", "web"));
    server.create(Build::label(pod("blog", "web"), "app", "web"));
    server.create(pod("shop", "db"));
    let factory = factory(&server);
    let scoped = |scope: Scope| factory.scoped(scope).informer::<Pod>();

    let all = factory.informer::<Pod>();
    let shop = scoped(Scope::namespace("shop"));
    let web = scoped(Scope::all().labels("app=web,app").unwrap());
    let same = scoped(
        Scope::all()
            .labels("app")
            .unwrap()
            .labels("app in (web)")
            .unwrap(),
    );
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();

    assert_eq!(factory.informers(), 3);
    assert_eq!(names(&all), ["cart", "db", "web"]);
    assert_eq!(names(&shop), ["cart", "db"]);
    assert_eq!(names(&web), ["cart", "web"]);
    assert_eq!(names(&same), ["cart", "web"]);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn one_factory_serves_typed_dynamic_metadata_only_and_projected_objects() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let factory = factory(&server);
    let resource = ApiResource::erase::<Pod>(&());

    let typed = factory.informer::<Pod>();
    let dynamic = factory.dynamic(&resource);
    let metadata = factory.informer::<PartialObjectMeta<Pod>>();
    let projected = factory.projected::<Named>(&resource);
    let dynamic_again = factory.dynamic(ResourceType::of::<Pod>());
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();

    assert_eq!(factory.informers(), 4, "one for each representation");
    assert_eq!(names(&typed), ["cart"]);
    assert_eq!(names(&metadata), ["cart"]);
    assert_eq!(names(&projected), ["cart"]);
    let found: Vec<_> = [dynamic, dynamic_again]
        .iter()
        .map(|informer: &Informer<DynamicObject>| informer.lister().namespace("shop").get("cart").unwrap())
        .collect();
    assert!(std::sync::Arc::ptr_eq(&found[0], &found[1]));
    assert!(found[0].data.pointer("/spec").is_some());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_of_a_factory_do_not_apply_to_cluster_scoped_kinds() {
    let server = TestServer::new();
    server.create(node("worker-1"));
    server.create(pod("shop", "cart"));
    server.create(pod("blog", "web"));
    let factory = builder(&server).namespace("shop").build();

    let nodes = factory.informer::<Node>();
    let pods = factory.informer::<Pod>();
    let same = factory.scoped(Scope::all()).informer::<Node>();
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();

    assert_eq!(
        (names(&nodes), names(&same)),
        (vec!["worker-1".to_owned()], vec!["worker-1".to_owned()])
    );
    assert_eq!(names(&pods), ["cart"]);
    assert_eq!(factory.informers(), 2);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn several_namespaces_are_one_cache_over_one_watch_each() {
    let server = TestServer::new();
    for namespace in ["shop", "blog", "bank"] {
        server.create(config_map(namespace, &format!("of-{namespace}")));
    }
    let factory = builder(&server).namespaces(["shop", "blog"]).build();

    let maps = factory.informer::<ConfigMap>();
    let same = factory
        .scoped(Scope::namespaces(["blog", "shop", "blog"]))
        .informer::<ConfigMap>();
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();
    server.create(config_map("blog", "later"));
    server.create(config_map("bank", "elsewhere"));
    let version = server.resource_version().to_string();
    maps.wait_for_within(&version, secs(120)).await.unwrap();

    assert_eq!(names(&maps), ["later", "of-blog", "of-shop"]);
    assert_eq!(names(&same), names(&maps));
    assert_eq!(maps.lister().namespace("blog").all().len(), 2);
    assert_eq!((factory.informers(), server.open_watches()), (1, 2));
    factory.shutdown().await;
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn constructor_has_its_own_informer_and_is_called_once() {
    let server = TestServer::new();
    server.create(Build::label(pod("shop", "cart"), "app", "web"));
    server.create(pod("shop", "db"));
    let factory = factory(&server);
    fn web(factory: &kube_informers::SharedInformerFactory) -> kube_informers::InformerBuilder<Pod> {
        let scope = Scope::all().labels("app=web").expect("a selector");
        factory.configure(Informer::scoped(factory.client(), scope))
    }

    let standard = factory.informer::<Pod>();
    let one = factory.informer_for::<Pod>(web);
    let again = factory.informer_for::<Pod>(web);
    let configured = factory.informer_for::<Pod>(|factory| {
        factory
            .default_builder()
            .configure(|config| config.queue_capacity = 10)
    });
    let mut calls = 0;
    let mut named = |name: &str, label: &str| {
        factory.informer_named::<Pod>(name, |factory| {
            calls += 1;
            let scope = Scope::all().labels(label).expect("a selector");
            Informer::scoped(factory.client(), scope)
        })
    };
    let named = [
        named("apps", "app"),
        named("apps", "app"),
        named("others", "!app"),
    ];
    factory.start();
    factory.wait_for_sync_within(secs(30)).await.unwrap();

    assert_eq!(calls, 2);
    assert_eq!(factory.informers(), 5);
    assert_eq!(names(&standard), ["cart", "db"]);
    assert_eq!(
        (names(&one), names(&again)),
        (vec!["cart".to_owned()], vec!["cart".to_owned()])
    );
    assert_eq!(names(&configured), ["cart", "db"]);
    assert_eq!(
        named.map(|informer| names(&informer).join(" ")),
        ["cart", "cart", "db"]
    );
    factory.shutdown().await;
}

#[test]
fn concurrent_requests_share_one_informer() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let server = TestServer::new();
    let factory = factory(&server);

    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| std::mem::drop(factory.informer::<Pod>()));
        }
    });

    assert_eq!(factory.informers(), 1);
}
