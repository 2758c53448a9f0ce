//! What `top` shows on a pseudo-terminal: who changed what, outages, trouble, filters, narrow terminals.

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube_testserver::builders::{deployment, node, pod};
use serde_json::json;

use crate::findings::fight;
use crate::program::Cluster;
use crate::terminal::Terminal;

async fn shop() -> Cluster {
    let cluster = Cluster::new().await;
    for name in ["cart", "web"] {
        cluster.server.create(pod("shop", name));
    }
    cluster.server.create(node("node-1"));
    cluster
}

/// A new image, set by this manager.
async fn set_image(cluster: &Cluster, name: &str, image: &str, manager: &str) {
    let pods: Api<Pod> = Api::namespaced(cluster.server.client(), "shop");
    let parameters = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    let patch = json!({ "spec": { "containers": [{ "name": "main", "image": image }] } });
    pods.patch(name, &parameters, &Patch::Strategic(patch))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_have_fields_by_identity_old_and_new_values_and_their_author() {
    let cluster = shop().await;
    let terminal = Terminal::sized(&cluster, &["top", "pods"], (100, 30));
    terminal.shows(&["live", "pods"], &[]).await;

    set_image(&cluster, "cart", "cart:2", "release-bot").await;

    let fields = [
        "shop/cart",
        "by release-bot",
        "spec.containers[main].image",
        "→ cart:2",
    ];
    terminal.shows(&fields, &[]).await;
    terminal.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_headline_follows_an_outage_and_its_end() {
    let cluster = shop().await;
    let terminal = Terminal::sized(&cluster, &["top", "pods,nodes"], (100, 30));
    terminal.shows(&["live", "watching"], &["disconnected"]).await;

    cluster.server.refuse_connections(true);
    cluster.server.break_watches();
    terminal.shows(&["disconnected for 00:00:0"], &["live"]).await;

    cluster.server.refuse_connections(false);
    terminal.shows(&["live"], &["disconnected for"]).await;
    terminal.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_applies_to_every_list_and_excludes_words() {
    let cluster = shop().await;
    // Wide enough for all lists at once.
    let terminal = Terminal::sized(&cluster, &["top", "pods"], (140, 40));
    terminal.shows(&["live"], &[]).await;
    set_image(&cluster, "cart", "cart:2", "release-bot").await;
    set_image(&cluster, "web", "web:2", "release-bot").await;
    terminal
        .shows(
            &["busiest objects", "busiest fields", "shop/cart", "shop/web"],
            &[],
        )
        .await;

    terminal.press("/!cart\r");

    terminal
        .shows(&["filter of the lists: !cart", "shop/web"], &["shop/cart"])
        .await;
    terminal.press("\u{1b}");
    terminal.shows(&["shop/web", "shop/cart"], &[]).await;
    terminal.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trouble_names_object_field_and_managers() {
    let cluster = Cluster::new().await;
    cluster.server.create(deployment("shop", "web"));
    let terminal = Terminal::sized(&cluster, &["top", "deploy"], (120, 40));
    terminal.shows(&["live"], &[]).await;
    fight(&cluster, 5).await;

    terminal.press("4");

    let parts = ["fight", "shop/web", "spec.replicas", "by autoscaler and operator"];
    terminal.shows(&parts, &[]).await;
    terminal.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrow_terminal_drops_columns_and_keeps_the_first_ones_whole() {
    let cluster = shop().await;
    for (width, dropped) in [(100, ""), (40, "received")] {
        let terminal = Terminal::sized(&cluster, &["top", "pods"], (width, 24));
        let shown = terminal.shows(&["live", "watching"], &[]).await;
        let head = shown.lines().nth(1).unwrap().trim_start();
        assert!(head.starts_with("kind"), "{shown}");
        assert_eq!(head.contains("received"), dropped.is_empty(), "{shown}");
        let row = shown.lines().nth(2).unwrap().trim_start();
        assert!(row.starts_with("pods"), "{shown}");
        terminal.quit().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_count_for_the_object_they_are_about() {
    let cluster = shop().await;
    let terminal = Terminal::sized(&cluster, &["top", "pods,events"], (140, 40));
    terminal.shows(&["live"], &[]).await;
    let events: Api<Event> = Api::namespaced(cluster.server.client(), "shop");
    for number in 0..5 {
        let event = json!({
            "metadata": { "name": format!("event-{number}"), "namespace": "shop" },
            "involvedObject": { "kind": "Pod", "namespace": "shop", "name": "web" },
            "reason": "Unhealthy", "message": "it does not answer", "type": "Warning",
        });
        let event = serde_json::from_value(event).unwrap();
        events.create(&PostParams::default(), &event).await.unwrap();
    }

    let shown = terminal.shows(&["Unhealthy", "pods shop/web"], &[]).await;

    // The list of objects is on the left.
    let left = shown
        .lines()
        .map(|line| line.chars().take(50).collect::<String>());
    let busiest: Vec<String> = left
        .skip_while(|line| !line.contains("busiest objects"))
        .collect();
    assert!(busiest.iter().any(|line| line.contains("shop/web")), "{shown}");
    assert!(!busiest.iter().any(|line| line.contains("event-")), "{shown}");
    terminal.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opened_object_has_its_changes_their_authors_and_its_yaml() {
    let cluster = shop().await;
    let terminal = Terminal::sized(&cluster, &["top", "pods"], (120, 60));
    terminal.shows(&["live"], &[]).await;
    set_image(&cluster, "web", "web:2", "intern").await;
    set_image(&cluster, "cart", "cart:2", "release-bot").await;
    // The newest change is marked.
    terminal.shows(&["intern", "release-bot"], &[]).await;

    terminal.press("\r");

    let parts = [
        "pods shop/cart",
        "by release-bot",
        "spec.containers[main].image",
        "→ cart:2",
        "apiVersion: v1",
        "image: cart:2",
    ];
    terminal.shows(&parts, &["intern"]).await;
    // It follows the object.
    set_image(&cluster, "cart", "cart:3", "night-shift").await;
    terminal
        .shows(&["by night-shift", "by release-bot", "image: cart:3"], &[])
        .await;
    terminal.press("\u{1b}");
    terminal.shows(&["intern"], &["apiVersion:"]).await;
    terminal.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_colon_changes_namespace_and_context() {
    let cluster = shop().await;
    cluster.server.create(pod("search", "index"));
    let other = Cluster::new().await;
    for number in 0..7 {
        other.server.create(pod("far", &format!("away-{number}")));
    }
    let there = other
        .server
        .kubeconfig()
        .unwrap()
        .replace("kube-testserver", "there");
    let config = cluster.home().write("there", &there);
    let both = format!(
        "{}:{}",
        cluster.home().path().join(".kube/config").display(),
        config.display()
    );
    let terminal = Terminal::with(&cluster, &["top", "pods"], (120, 40), &[("KUBECONFIG", &both)]);
    let count = |shown: &str| {
        let row = shown
            .lines()
            .find(|line| line.trim_start().starts_with("pods"))
            .unwrap_or_default();
        row.split_whitespace().find_map(|word| word.parse::<u32>().ok())
    };
    let counts = async |wanted: u32| {
        crate::program::within(&format!("{wanted} pods"), async {
            while count(&terminal.shows(&["live", "pods"], &[]).await) != Some(wanted) {}
        })
        .await;
    };
    counts(3).await;
    terminal.press(":ns shop\r");
    counts(2).await;
    terminal.press(":ns all\r");
    counts(3).await;
    terminal.press(":ctx there\r");
    counts(7).await;
    terminal.press(":ctx nowhere\r");
    terminal.shows(&["context \"nowhere\" does not exist"], &[]).await;
    counts(7).await;
    terminal.quit().await;
}
