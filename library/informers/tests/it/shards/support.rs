//! A server with pods, and the pods of a shard.

use k8s_openapi::api::core::v1::Pod;
use kube_informers::Object;
use kube_informers::shard::Shard;
use kube_informers::shard::{Membership, ShardField, ShardRange, shard_hash, shard_membership};
use kube_testserver::TestServer;
use kube_testserver::builders::pod;

/// The given eighths of the hash space, by UID.
pub fn eighths(range: std::ops::Range<usize>) -> Shard {
    Shard::new(ShardField::Uid, ShardRange::ALL.split(8)[range].to_vec())
}

/// Whether an object belongs to a shard.
pub fn contains<K: Object>(shard: &Shard, object: &K) -> bool {
    shard_membership(shard, object) == Membership::Inside
}

/// A server with some pods in two namespaces.
pub fn server(honours: bool, pods: usize) -> TestServer {
    let builder = TestServer::builder().seed(7);
    let server = if honours { builder.sharding() } else { builder }.build();
    for number in 0..pods {
        server.create(pod(
            if number % 2 == 0 { "a" } else { "b" },
            &format!("p{number}"),
        ));
    }
    server
}

/// The pods of a shard at the server, as `namespace/name@version`, sorted.
pub fn stored_in(server: &TestServer, shard: &Shard) -> Vec<String> {
    let text = |object: &serde_json::Value, pointer: &str| {
        let text = object.pointer(pointer).and_then(serde_json::Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let objects = server.objects("pods");
    let inside = objects.iter().filter(|object| {
        let hashed = match shard.field() {
            ShardField::Uid => text(object, "/metadata/uid"),
            ShardField::Namespace => text(object, "/metadata/namespace"),
        };
        shard.covers_hash(shard_hash(&hashed))
    });
    let mut lines: Vec<_> = inside
        .map(|object| {
            format!(
                "{}/{}@{}",
                text(object, "/metadata/namespace"),
                text(object, "/metadata/name"),
                text(object, "/metadata/resourceVersion")
            )
        })
        .collect();
    lines.sort();
    lines
}

/// Creates a pod that belongs to a shard. The server chooses the UID, so this may take several attempts.
pub fn create_in(server: &TestServer, shard: &Shard, name: &str) -> Pod {
    for _ in 0..1000 {
        let made = server.create(pod("a", name));
        if contains(shard, &made) {
            return made;
        }
        server.delete::<Pod>("a", name);
    }
    panic!("no pod of a thousand is in {shard}");
}
