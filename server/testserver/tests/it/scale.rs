//! Many objects and many watchers.

use futures_util::future::join_all;
use kube_testserver::TestServer;
use kube_testserver::builders::{config_map, pod};
use serde_json::json;

use crate::common::{Watch, get};

#[tokio::test(start_paused = true)]
async fn thousand_watches_each_receive_every_event_once() {
    let server = TestServer::new();
    let mut watches = Vec::new();
    for number in 0..1000 {
        // Half of them watch a namespace with fewer changes.
        let path = if number % 2 == 0 {
            "/api/v1/configmaps?watch=true&resourceVersion=1".to_owned()
        } else {
            format!("/api/v1/namespaces/ns-{number}/configmaps?watch=true&resourceVersion=1")
        };
        watches.push(Watch::open(&server, &path).await);
    }
    assert_eq!(server.open_watches(), 1000);

    for number in 0..20 {
        server.create(config_map(&format!("ns-{}", number * 2 + 1), "x"));
    }

    let counts = join_all(
        watches
            .iter_mut()
            .map(|watch| async { watch.ready().await.len() }),
    )
    .await;
    let everywhere = counts.iter().step_by(2);
    assert!(everywhere.copied().all(|count| count == 20));
    assert_eq!(counts.iter().skip(1).step_by(2).sum::<usize>(), 20);
    drop(watches);
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn many_objects_are_loaded_listed_and_paged() {
    let server = TestServer::new();
    let pods = (0..5_000).map(|number| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": format!("ns-{}", number % 10), "name": format!("p{number:05}")}})
    });
    server.load(pods);

    assert_eq!((server.count("pods"), server.resource_version()), (5_000, 5_001));
    assert_eq!(get(&server, "/api/v1/pods").await.items().len(), 5_000);
    assert_eq!(
        get(&server, "/api/v1/namespaces/ns-3/pods").await.items().len(),
        500
    );
    let (mut seen, mut token) = (0, String::new());
    loop {
        let page = get(&server, &format!("/api/v1/pods?limit=500&continue={token}")).await;
        seen += page.items().len();
        match page.continue_token() {
            Some(next) => token = next,
            None => break,
        }
    }
    assert_eq!(seen, 5_000);
}

#[tokio::test(start_paused = true)]
async fn watch_of_a_quiet_namespace_survives_a_busy_window() {
    let server = TestServer::builder().watch_window(5_000).build();
    let mut quiet = Watch::open(
        &server,
        "/api/v1/namespaces/quiet/configmaps?watch=true&resourceVersion=1",
    )
    .await;
    for number in 0..12_000 {
        server.create(config_map("busy", &format!("c{number}")));
        if number % 1_000 == 0 {
            assert!(quiet.ready().await.is_empty());
        }
    }

    server.create(config_map("quiet", "x"));
    server.create(pod("quiet", "not-this"));

    assert_eq!(quiet.ready().await, ["ADDED quiet/x@12002"]);
}
