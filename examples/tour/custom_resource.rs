//! A custom resource known only at run time: found by discovery, cached as dynamic objects, indexed by a field.

use kube::core::GroupVersionKind;
use kube_informers::{Informer, Scope};
use kube_testserver::TestServer;
use serde_json::json;

pub async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    server.create(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    }));
    for (name, size) in [("wheel", "large"), ("bolt", "small"), ("door", "large")] {
        server.create(json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"size": size},
        }));
    }

    let client = server.client();
    let gvk = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let (resource, _) = kube::discovery::pinned_kind(&client, &gvk).await?;
    let widgets = Informer::dynamic(client, &resource, Scope::all()).start();
    let by_size = widgets.add_index("size", |widget| {
        widget.data["spec"]["size"].as_str().map(str::to_owned)
    })?;
    widgets.synced().await?;

    println!("{} large widgets", by_size.get("large").len());
    assert_eq!(by_size.get("large").len(), 2);
    widgets.shutdown().await;
    Ok(())
}
