//! Collections that do not fit into one response.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams};
use kube_informers::Informer;
use kube_informers_e2e::Server;

use crate::scenarios::support::{Observed, Outcome, all, config_map, get, namespace, scenarios};

scenarios! {
    five_thousand_objects_are_the_same_by_pages_and_by_watch_list: Setup::shared();
}

const OBJECTS: usize = 5_000;

async fn five_thousand_objects_are_the_same_by_pages_and_by_watch_list(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    all(32, 0..OBJECTS, async |i: usize| {
        let map = config_map(&format!("page-{i:04}"), i);
        maps.create(&PostParams::default(), &map).await.map(drop)
    })
    .await?;

    let informer = || Informer::<ConfigMap>::namespaced(client.clone(), &namespace.name);
    let paged = Observed::synced(informer().configure(|config| {
        config.watch_list = false;
        config.page_size = Some(500);
    }))
    .await?;
    let streamed = Observed::synced(informer()).await?;

    let there = paged.informer.store().len();
    assert!(there >= OBJECTS);
    for observed in [&paged, &streamed] {
        observed
            .assert_exact(std::slice::from_ref(&maps), &ListParams::default())
            .await?;
        assert_eq!(observed.lists(), 1);
        assert!(
            observed
                .log
                .since(0)
                .iter()
                .all(|calls| calls.starts_with("added (initial)"))
        );
    }
    let members = (paged.informer.stats().members, streamed.informer.stats().members);
    let reflectors = (&members.0[0].reflector, &members.1[0].reflector);
    assert_eq!(
        reflectors.0.list_pages as usize,
        there.div_ceil(500),
        "pages of 500"
    );
    assert_eq!((reflectors.0.watch_lists, reflectors.1.watch_lists), (0, 1));

    // The pages on the wire.
    let path = format!("/api/v1/namespaces/{}/configmaps?limit=500", namespace.name);
    let (mut token, mut seen, mut versions) = (String::new(), 0, Vec::new());
    loop {
        let page = get(&client, &format!("{path}&continue={token}")).await?;
        seen += page.names().len();
        versions.push(page.text_at("/metadata/resourceVersion").to_owned());
        let remaining = page
            .json
            .pointer("/metadata/remainingItemCount")
            .and_then(serde_json::Value::as_u64);
        token = page.text_at("/metadata/continue").to_owned();
        if token.is_empty() {
            assert_eq!(remaining, None);
            break;
        }
        assert_eq!(remaining, Some((there - seen) as u64));
    }
    assert_eq!(seen, there);
    versions.dedup();
    assert_eq!(versions.len(), 1, "all pages have the same version");
    namespace.delete().await?;
    Ok(())
}
