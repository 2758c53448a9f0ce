//! What a visitor sees.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use kube_testserver::builders::{Build, node, pod};
use kube_testserver::{Fault, RequestMatcher};
use serde_json::json;

use super::browser::Browser;
use crate::program::{Cluster, Program};

const ESCAPE: &str = "\u{e00c}";

async fn shop() -> Cluster {
    let cluster = Cluster::new().await;
    for name in ["cart", "web", "search"] {
        cluster.server.create(pod("shop", name).label("app", name));
    }
    cluster.server.create(node("node-1"));
    cluster
}

async fn serve(cluster: &Cluster, port: u16) -> (Program, SocketAddr) {
    serve_kinds(cluster, "pods,nodes", port).await
}

async fn serve_kinds(cluster: &Cluster, kinds: &str, port: u16) -> (Program, SocketAddr) {
    let mut program = cluster.start(&["serve", kinds, "--port", &port.to_string()]);
    let line = program.line_with("Serving http://").await;
    let address = line.trim_start_matches("Serving http://").trim_end_matches('/');
    (program, address.parse().unwrap())
}

/// A page that shows three pods.
async fn opened(cluster: &Cluster) -> Option<(Browser, Program, SocketAddr)> {
    let browser = Browser::start().await?;
    let (program, address) = serve(cluster, 0).await;
    browser.size(1600, 1000, false).await;
    browser.open(&format!("http://{address}/")).await;
    browser.until_text("#objects", "search").await;
    Some((browser, program, address))
}

async fn change_image(cluster: &Cluster, name: &str, image: &str) {
    cluster.server.modify("shop", name, |pod: &mut Pod| {
        pod.spec.get_or_insert_default().containers[0].image = Some(image.to_owned());
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_loads_and_changes_appear_by_themselves() {
    let cluster = shop().await;
    let Some((browser, _program, _)) = opened(&cluster).await else {
        return;
    };
    browser.until_text("#link", "live").await;
    browser.until_text("#informers", "watching").await;
    browser.until_text("#cost", "2 watches").await;
    browser.until_text("#objects-count", "3").await;

    change_image(&cluster, "cart", "cart:2").await;
    browser.until_text("#log", "spec.containers[main].image").await;
    browser.until_text("#log", "cart:2").await;
    browser.until_text("#churn-objects", "shop/cart").await;
    browser
        .until_text("#churn-fields", "spec.containers[*].image")
        .await;
    cluster.server.create(pod("shop", "newcomer"));
    browser.until_text("#objects", "newcomer").await;
    cluster.server.delete::<Pod>("shop", "newcomer");
    browser
        .wait_for(
            "newcomer gone",
            "return !document.querySelector('#objects').innerText.includes('newcomer')",
        )
        .await;
    browser.picture("live").await;
    assert_eq!(browser.console().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_and_changes_are_found() {
    let cluster = shop().await;
    let Some((browser, _program, _)) = opened(&cluster).await else {
        return;
    };
    let rows = "return [...document.querySelectorAll('#objects tbody tr')].map((row) => row.cells[1].innerText).join()";

    browser.press("/").await;
    browser.run("document.activeElement.value = ''").await;
    browser.write("#find-name", "sea").await;
    browser.wait_for("one row", &format!("{rows} === 'search'")).await;
    browser.run("const box = document.querySelector('#find-name'); box.value = ''; box.dispatchEvent(new Event('input'))").await;
    browser.write("#find-labels", "app in (web,cart)").await;
    browser
        .wait_for("two rows", &format!("{rows} === 'cart,web'"))
        .await;
    browser.write("#find-labels", " ===").await;
    browser.until_text("#find-problem", "label selector").await;
    browser.run("const box = document.querySelector('#find-labels'); box.value = ''; box.dispatchEvent(new Event('input'))").await;
    browser
        .run("const choice = document.querySelector('#find-index'); choice.value = 'metadata.labels'; choice.dispatchEvent(new Event('change'))")
        .await;
    browser.write("#find-value", "app=web").await;
    browser
        .wait_for("the row of the index", &format!("{rows} === 'web'"))
        .await;

    change_image(&cluster, "cart", "cart:2").await;
    change_image(&cluster, "web", "web:2").await;
    browser.until_text("#log", "web:2").await;
    browser.write("#log-filter", "cart image").await;
    browser
        .wait_for(
            "one change",
            "const text = document.querySelector('#log').innerText; return text.includes('cart:2') && !text.includes('web:2')",
        )
        .await;
    browser.click("#pause").await;
    change_image(&cluster, "cart", "cart:3").await;
    browser.until_text("#log-note", "paused, 1 new one").await;
    assert!(!browser.text("#log").await.contains("cart:3"));
    browser.click("#pause").await;
    browser.until_text("#log", "cart:3").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_shown_with_its_history() {
    let cluster = shop().await;
    let Some((browser, _program, _)) = opened(&cluster).await else {
        return;
    };
    change_image(&cluster, "cart", "cart:2").await;
    browser.until_text("#log", "cart:2").await;
    browser.click("#log .who").await;
    browser.until_text("#object-title", "shop/cart").await;
    browser.until_text("#history", "cart:2").await;
    browser.until_text("#object-body", "\"image\": \"cart:2\"").await;
    browser.until_text("#object-facts", "1 change since").await;
    change_image(&cluster, "cart", "cart:3").await;
    browser.until_text("#object-body", "\"image\": \"cart:3\"").await;
    browser.picture("object").await;

    cluster.server.delete::<Pod>("shop", "cart");
    browser.until_text("#object-facts", "deleted").await;
    browser.press(ESCAPE).await;
    browser
        .wait_for(
            "the view closed",
            "return !document.querySelector('#object').open",
        )
        .await;
    assert_eq!(browser.console().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_a_lost_connection_and_resumes_when_the_program_is_back() {
    let cluster = shop().await;
    let Some((browser, program, address)) = opened(&cluster).await else {
        return;
    };
    change_image(&cluster, "cart", "cart:2").await;
    browser.until_text("#log", "cart:2").await;
    drop(program);
    browser.until_text("#link", "reconnecting").await;
    browser.until_text("#notice", "connection was lost").await;
    browser.picture("reconnecting").await;

    cluster.server.create(pod("shop", "meanwhile"));
    let (_program, _) = serve(&cluster, address.port()).await;
    browser.until_text("#link", "live").await;
    browser.until_text("#objects", "meanwhile").await;
    browser
        .wait_for(
            "the changes of the other run gone",
            "return !document.querySelector('#log').innerText.includes('cart:2')",
        )
        .await;
    change_image(&cluster, "web", "web:7").await;
    browser.until_text("#log", "web:7").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn light_and_dark_follow_the_system_until_one_is_selected() {
    let cluster = shop().await;
    let Some((browser, _program, _)) = opened(&cluster).await else {
        return;
    };
    let background = "return getComputedStyle(document.body).backgroundColor";
    // Emulated media and clicks take effect with the next style update, so every change is waited for.
    let becomes = async |what: &str, colour: &str| {
        let script = format!("{background} === {}", serde_json::json!(colour));
        browser.wait_for(what, &script).await;
    };
    browser.prefers("light").await;
    browser
        .wait_for(
            "light",
            "return matchMedia('(prefers-color-scheme: light)').matches",
        )
        .await;
    let light = browser.run(background).await.as_str().unwrap().to_owned();
    browser.prefers("dark").await;
    browser
        .wait_for("dark", &format!("{background} !== {}", serde_json::json!(light)))
        .await;
    let dark = browser.run(background).await.as_str().unwrap().to_owned();
    browser.picture("dark").await;

    browser.click("#theme").await;
    becomes("the chosen theme instead of the system's", &light).await;
    // The marker is gone once the new document is loaded.
    browser.run("window.beforeReload = true; location.reload()").await;
    browser
        .wait_for("the reloaded page", "return window.beforeReload === undefined")
        .await;
    browser.until_text("#link", "live").await;
    becomes("the remembered theme", &light).await;
    browser.prefers("light").await;
    browser.run("document.activeElement.blur()").await;
    browser.press("t").await;
    becomes("the theme chosen by key", &dark).await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrow_screen_shows_everything_without_scrolling_sideways() {
    let cluster = shop().await;
    let Some((browser, _program, _)) = opened(&cluster).await else {
        return;
    };
    change_image(
        &cluster,
        "cart",
        "a-rather-long-registry.example/with/a/long/path/cart:2",
    )
    .await;
    for width in [320, 390, 700, 900, 1300, 2400] {
        browser.size(width, 844, false).await;
        browser
            .wait_for(
                &format!("no sideways scrolling at {width}"),
                "return document.documentElement.scrollWidth <= window.innerWidth",
            )
            .await;
        browser.picture(&format!("width-{width}")).await;
    }
    browser.size(390, 844, false).await;
    browser.run("location.hash = '#/kinds/pods/shop/cart'").await;
    browser.until_text("#object-body", "with/a/long/path").await;
    browser
        .wait_for(
            "the object fits",
            "const it = document.querySelector('#object'); return it.scrollWidth <= it.clientWidth",
        )
        .await;
    browser.picture("object-narrow").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_failure_of_a_kind_is_shown_until_it_ends() {
    let cluster = shop().await;
    let refusal = cluster
        .server
        .fault(RequestMatcher::resource("nodes").forever(), Fault::status(403));
    let Some((browser, _program, _)) = opened(&cluster).await else {
        return;
    };
    browser.until_text("#remarks", "kubectl create clusterrole").await;
    browser
        .wait_for(
            "disconnected in the title",
            "return document.title.startsWith('disconnected')",
        )
        .await;
    browser.picture("forbidden").await;

    refusal.clear();
    browser
        .wait_for(
            "no remark",
            "return document.querySelector('#remarks').innerText === ''",
        )
        .await;
    browser
        .wait_for("all is well", "return document.title === 'kubectl informers'")
        .await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_values_are_text_and_never_markup() {
    let cluster = shop().await;
    let Some((browser, _program, address)) = opened(&cluster).await else {
        return;
    };
    // The title is no marker: it says "syncing" until the first status in which every kind is synced.
    let evil = "<img src=x onerror=\"window.owned=true\"><script>window.owned=true</script>";
    cluster
        .server
        .create(pod("shop", "evil").annotation("note", evil));
    cluster.server.modify("shop", "evil", |pod: &mut Pod| {
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert("note".to_owned(), format!("{evil}{evil}"));
    });
    browser.until_text("#log", "onerror").await;
    browser
        .open(&format!("http://{address}/#/kinds/pods/shop/evil"))
        .await;
    browser.until_text("#object-body", "onerror").await;
    browser.until_text("#history", "<script>").await;
    let made = browser
        .run("return document.querySelectorAll('main img, main script, dialog img, dialog script').length")
        .await;
    assert_eq!(made.as_u64(), Some(0), "elements made from object data");
    let owned = browser.run("return window.owned === true").await;
    assert_eq!(owned.as_bool(), Some(false), "a script from object data ran");
    browser
        .wait_for(
            "the title of a synced page",
            "return document.title === 'kubectl informers'",
        )
        .await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_live_only_while_the_program_has_contact_with_the_cluster() {
    let cluster = shop().await;
    let Some((browser, _program, _)) = opened(&cluster).await else {
        return;
    };
    browser.until_text("#link", "live").await;
    cluster.server.refuse_connections(true);
    cluster.server.break_watches();
    browser
        .until_text("#link", "disconnected from the cluster for")
        .await;
    browser
        .wait_for(
            "disconnected in the title",
            "return document.title.startsWith('disconnected')",
        )
        .await;
    browser.picture("disconnected").await;
    cluster.server.refuse_connections(false);
    browser.until_text("#link", "live").await;
    browser
        .wait_for("all is well", "return document.title === 'kubectl informers'")
        .await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_name_their_authors() {
    let cluster = shop().await;
    let Some((browser, _program, _)) = opened(&cluster).await else {
        return;
    };
    browser.until_text("#link", "live").await;
    let pods: Api<Pod> = Api::namespaced(cluster.server.client(), "shop");
    let by = PatchParams {
        field_manager: Some("release-bot".to_owned()),
        ..PatchParams::default()
    };
    let patch = json!({ "metadata": { "labels": { "stage": "canary" } } });
    pods.patch("cart", &by, &Patch::Merge(patch)).await.unwrap();
    browser.until_text("#log", "by release-bot").await;
    browser.until_text("#log", "metadata.labels.stage").await;

    cluster.server.delete::<Pod>("shop", "cart");

    browser.until_text("#log", "author not recorded").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_kinds_have_the_columns_of_the_server_and_they_follow_the_changes() {
    let cluster = Cluster::new().await;
    cluster.server.create(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
                "additionalPrinterColumns": [{ "name": "Colour", "type": "string", "jsonPath": ".spec.colour" }],
            }],
        },
    }));
    let widget = |colour: &str| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": { "name": "first", "namespace": "shop" }, "spec": { "colour": colour },
        })
    };
    cluster.server.create(widget("green"));
    let Some(browser) = Browser::start().await else {
        return;
    };
    let (_program, address) = serve_kinds(&cluster, "widgets", 0).await;
    browser.size(1600, 1000, false).await;
    browser.open(&format!("http://{address}/")).await;
    browser.until_text("#objects thead", "colour").await;
    browser.until_text("#objects tbody", "green").await;

    for colour in ["red", "blue", "white"] {
        cluster.server.update(widget(colour));
        browser.until_text("#objects tbody", colour).await;
    }
    assert_eq!(browser.console().await, Vec::<String>::new());
    browser.close().await;
}
