//! The columns of kinds that the program has none for: those of the server, in tables, in live lines and on the page.

use kube_testserver::{Fault, RequestMatcher};
use serde_json::{Value, json};

use crate::discovery::{definition, widget};
use crate::http::get;
use crate::program::{Cluster, within};
use crate::serve::synced;

/// A cluster with one widget, whose definition has columns.
async fn cluster() -> Cluster {
    let cluster = Cluster::new().await;
    let mut columns = definition();
    columns["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        { "name": "Size", "type": "integer", "jsonPath": ".spec.size" },
        { "name": "Note", "type": "string", "jsonPath": ".spec.note", "priority": 1 },
        { "name": "Made", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
    ]);
    cluster.server.create(columns);
    cluster.server.create(widget("a"));
    cluster
}

/// A widget of another size.
fn sized(name: &str, size: u64) -> Value {
    let mut widget = widget(name);
    widget["spec"]["size"] = size.into();
    widget
}

fn has(line: &str, expected: &[&str]) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(expected.len()).any(|words| words == expected)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_has_the_columns_of_the_server() {
    let cluster = cluster().await;
    for (output, head) in [
        ("text", ["NAME", "SIZE", "MADE", "AGE"]),
        ("wide", ["SIZE", "NOTE", "MADE", "AGE"]),
    ] {
        let mut program = cluster.start(&["watch", "widgets", "-o", output]);
        let line = program.line().await;
        assert!(has(&line, &head), "{line}");
        let line = program.line().await;
        assert!(has(&line, &["a", "1"]), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn live_lines_have_the_columns_before_and_after_the_change() {
    let cluster = cluster().await;
    let mut brief = cluster.start(&["watch", "widgets", "-o", "brief"]);
    brief.says("watching for changes").await;
    let mut text = cluster.start(&["watch", "widgets"]);
    text.says("watching for changes").await;

    let mut with_columns = 0;
    for size in 2..20 {
        cluster.server.update(sized("a", size));
        let line = brief.line().await;
        let (old, new) = ((size - 1).to_string(), size.to_string());
        // Not the field, and not the age. The field only if the row is late, which a busy machine makes possible.
        let has_columns = has(&line, &["widget.example.com", "default/a", &old, "→", &new, "by"]);
        assert!(
            has_columns || has(&line, &["default/a", "spec.size", &old, "→", &new, "by"]),
            "{line}"
        );
        with_columns += usize::from(has_columns);
    }
    assert!(with_columns > 0, "no line has the columns");
    cluster.server.create(sized("b", 7));
    let line = brief.line().await;
    assert!(has(&line, &["default/b", "added", "7", "by"]), "{line}");
    cluster.server.delete_key("widgets.example.com", "default/b");
    let line = brief.line().await;
    assert!(has(&line, &["default/b", "deleted", "7", "by"]), "{line}");
    let line = text.line_with("ADDED").await;
    assert!(has(&line, &["default/b", "SIZE", "7", "by"]), "{line}");
    let line = text.line_with("DELETED").await;
    assert!(has(&line, &["default/b", "SIZE", "7", "by"]), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_kinds_without_columns_of_ours_have_those_of_the_server() {
    let cluster = Cluster::new().await;
    let ingress = |host: &str| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": { "name": "shop", "namespace": "default" },
            "spec": { "ingressClassName": "nginx", "rules": [{ "host": host, "http": { "paths": [{
                "path": "/", "pathType": "Prefix",
                "backend": { "service": { "name": "web", "port": { "number": 80 } } },
            }] } }] },
        })
    };
    cluster.server.create(ingress("old.example"));
    let mut program = cluster.start(&["watch", "ingress"]);
    let line = program.line().await;
    assert!(has(&line, &["NAME", "CLASS", "HOSTS"]), "{line}");
    let mut brief = cluster.start(&["watch", "ingress", "-o", "brief"]);
    brief.says("watching for changes").await;

    cluster.server.update(ingress("new.example"));

    let line = brief.line().await;
    assert!(has(&line, &["old.example", "→", "new.example"]), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tables_changes_are_shown_by_their_fields() {
    let cluster = cluster().await;
    // Only tables are requested in pages: the informer lists with a watch.
    let tables = RequestMatcher::list("widgets.example.com").param("limit", "500");
    let fault = cluster.server.fault(tables.forever(), Fault::status(406));
    let mut brief = cluster.start(&["watch", "widgets", "-o", "brief"]);
    brief.says("watching for changes").await;

    cluster.server.update(sized("a", 2));

    let line = brief.line().await;
    assert!(has(&line, &["spec.size", "1", "→", "2"]), "{line}");
    assert!(fault.struck() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rows_of_the_page_follow_the_changes() {
    let cluster = cluster().await;
    let (_program, address) = synced(&cluster, &["widgets"]).await;
    let path = "/api/v1/kinds/widgets.example.com/objects?view=rows";
    let row = async || {
        let found = get(address, path).await.json();
        let columns = found["columns"].as_array().cloned().unwrap_or_default();
        let size = columns.iter().position(|column| column == "SIZE");
        let row = found["rows"][0].clone();
        if found["late"] == true {
            return (None, None);
        }
        (
            size.map(|size| row["cells"][size].clone()),
            row["changes"].as_u64(),
        )
    };
    within("the columns", async {
        while row().await.0 != Some(json!("1")) {}
    })
    .await;

    for size in 2..20u64 {
        cluster.server.update(sized("a", size));
        let cell = within("the change", async {
            loop {
                // When the change is counted and nothing is late, the cell is that of the new version.
                if let (cell, Some(changes)) = row().await
                    && changes == size - 1
                {
                    break cell;
                }
            }
        })
        .await;
        assert_eq!(cell, Some(json!(size.to_string())));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_a_kind_named_secret_are_not_requested() {
    let cluster = Cluster::new().await;
    let mut copy: Value = definition();
    copy["metadata"]["name"] = "secrets.example.com".into();
    copy["spec"]["names"] = json!({ "plural": "secrets", "singular": "secret", "kind": "Secret" });
    copy["spec"]["versions"][0]["additionalPrinterColumns"] =
        json!([{ "name": "Value", "type": "string", "jsonPath": ".data.password" }]);
    cluster.server.create(copy);
    cluster.server.create(json!({
        "apiVersion": "example.com/v1", "kind": "Secret",
        "metadata": { "name": "db", "namespace": "default" }, "data": { "password": "canary" },
    }));

    let mut program = cluster.start(&["watch", "secrets.example.com"]);
    program.line_with("db").await;
    program.says("watching for changes").await;

    assert!(
        !program.everything().contains("canary"),
        "{}",
        program.everything()
    );
}
