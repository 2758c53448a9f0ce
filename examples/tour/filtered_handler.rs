//! A handler that sees only failing pods: entering the filter is an add, leaving it a delete.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use kube_informers::handler::{Handlers, filtered};
use kube_informers::{Informer, ObjectKey};
use kube_testserver::TestServer;
use kube_testserver::builders::pod;

pub async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let pods = Informer::<Pod>::all(server.client()).start();

    let log = Arc::new(Mutex::new(Vec::new()));
    let (failing, recovered) = (log.clone(), log.clone());
    let handler = filtered(
        |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Failed"),
        Handlers::<Pod>::default()
            .on_add(move |pod, _| {
                failing
                    .lock()
                    .unwrap()
                    .push(format!("{} started failing", ObjectKey::of(&*pod)))
            })
            .on_delete(move |pod, _| {
                recovered
                    .lock()
                    .unwrap()
                    .push(format!("{} recovered", ObjectKey::of(&*pod)))
            }),
    );
    let registration = pods.add_event_handler(handler)?;
    registration.synced().await?;

    for phase in ["Failed", "Running"] {
        server.modify::<Pod>("shop", "cart", |pod| {
            pod.status.get_or_insert_default().phase = Some(phase.to_owned());
        });
    }
    pods.wait_for_within(
        &server.resource_version().to_string(),
        std::time::Duration::from_secs(5),
    )
    .await?;
    while registration.pending() > 0 {
        tokio::task::yield_now().await;
    }
    registration.remove().await;

    let log = log.lock().unwrap().join("\n");
    println!("{log}");
    assert_eq!(log, "shop/cart started failing\nshop/cart recovered");
    Ok(())
}
