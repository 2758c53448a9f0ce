//! Reads one's own writes from the cache: waits until it has reached the version of the write's response.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube_informers::Informer;
use kube_testserver::TestServer;
use kube_testserver::builders::config_map;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    let client = server.client();
    let maps = Informer::<ConfigMap>::namespaced(client.clone(), "shop").start();
    maps.synced().await?;
    let api = Api::<ConfigMap>::namespaced(client, "shop");

    for number in 0..100 {
        let name = format!("settings-{number}");
        let written = api
            .create(&PostParams::default(), &config_map("shop", &name))
            .await?;
        let version = written
            .metadata
            .resource_version
            .ok_or("the response has no version")?;
        maps.wait_for(&version, Duration::from_secs(5)).await?;
        assert!(
            maps.store().get(("shop", &name)).is_some(),
            "{name} is in the cache"
        );
    }
    println!("wrote 100 objects and read each of them back from the cache");
    maps.shutdown().await;
    Ok(())
}
