//! The text of a shard selector, as parsed by a server.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_informers::shard::{Shard, ShardField, ShardRange};
use kube_testserver::TestServer;
use kube_testserver::builders::config_map;

use super::support::contains;

/// The server parses the selector, and both sides assign each object to the same shard.
#[tokio::test(start_paused = true)]
async fn the_server_parses_the_selector_and_selects_the_same_objects() {
    let server = TestServer::builder().sharding().build();
    for number in 0..200 {
        server.create(config_map(
            &format!("space-{}", number % 17),
            &format!("map-{number}"),
        ));
    }
    let all = list(&server, None).await;
    assert_eq!(all.len(), 200);
    let pieces = ShardRange::ALL.split(16);
    for field in [ShardField::Uid, ShardField::Namespace] {
        for chosen in [vec![0], vec![15], vec![3, 4, 9], (1..16).collect()] {
            let shard = Shard::new(field, chosen.iter().map(|piece| pieces[*piece]));
            let selector = shard.selector().unwrap();
            let mut expected = all.clone();
            expected.retain(|map| contains(&shard, map));

            assert_eq!(list(&server, Some(&selector)).await, expected, "{shard}");
        }
    }
}

async fn list(server: &TestServer, selector: Option<&str>) -> Vec<ConfigMap> {
    let selector = selector.map_or_else(String::new, |selector| {
        let encoded: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        format!("?shardSelector={encoded}")
    });
    let request = http::Request::get(format!("/api/v1/configmaps{selector}"))
        .body(Vec::new())
        .unwrap();
    let list: kube::core::ObjectList<ConfigMap> = server.client().request(request).await.unwrap();
    list.items
}
