//! Who changed an object: the field managers of real requests.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube_testserver::builders::{deployment, pod};
use kube_testserver::{Fault, RequestMatcher};
use serde_json::{Value, json};

use crate::program::{Cluster, Program};

async fn next(program: &mut Program) -> Value {
    loop {
        let event = program.event().await;
        if event["event"] != "synced" && event["initial"] != true {
            return event;
        }
    }
}

/// Manager, operation, subresource and paths of every author.
fn authors(event: &Value) -> Vec<(&str, &str, Option<&str>, Vec<&str>)> {
    let by = event["by"].as_array().unwrap_or_else(|| panic!("{event}"));
    by.iter()
        .map(|one| {
            assert!(one["time"].is_string() || one["subresource"] == "scale", "{one}");
            (
                one["manager"].as_str().unwrap(),
                one["operation"].as_str().unwrap(),
                one["subresource"].as_str(),
                one["paths"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter_map(Value::as_str)
                    .collect(),
            )
        })
        .collect()
}

fn by(manager: &str) -> PatchParams {
    PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_of_writing_has_its_author() {
    let cluster = Cluster::new().await;
    let mut program = cluster.start(&["watch", "cm,deploy", "-n", "shop", "-o", "json"]);
    for _ in 0..2 {
        program.event_of("synced").await;
    }
    let client = cluster.server.client();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "shop");
    let apply = |colour: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" }, "data": { "colour": colour },
        })
    };
    maps.patch(
        "settings",
        &PatchParams::apply("deployer"),
        &Patch::Apply(apply("blue")),
    )
    .await
    .unwrap();
    let added = next(&mut program).await;
    assert_eq!(added["event"], "added");
    assert_eq!(authors(&added), [("deployer", "Apply", None, vec![])]);

    maps.patch(
        "settings",
        &PatchParams::apply("deployer"),
        &Patch::Apply(apply("green")),
    )
    .await
    .unwrap();
    let applied = next(&mut program).await;
    assert_eq!(
        authors(&applied),
        [("deployer", "Apply", None, vec!["data.colour"])]
    );

    // Another manager adds a field, as `kubectl edit` does.
    maps.patch(
        "settings",
        &by("kubectl-edit"),
        &Patch::Merge(json!({ "data": { "size": "7" } })),
    )
    .await
    .unwrap();
    let edited = next(&mut program).await;
    assert_eq!(
        authors(&edited),
        [("kubectl-edit", "Update", None, vec!["data.size"])]
    );

    // And removes one of its own: nobody owns it any more, and still it is clear who it was.
    maps.patch(
        "settings",
        &by("kubectl-edit"),
        &Patch::Merge(json!({ "data": { "size": null } })),
    )
    .await
    .unwrap();
    let removed = next(&mut program).await;
    assert_eq!(removed["diff"][0]["new"], Value::Null);

    let deployments: Api<Deployment> = Api::namespaced(client, "shop");
    let parameters = PostParams {
        field_manager: Some("creator".to_owned()),
        ..PostParams::default()
    };
    deployments
        .create(&parameters, &deployment("shop", "web"))
        .await
        .unwrap();
    assert_eq!(authors(&next(&mut program).await)[0].0, "creator");
    deployments
        .patch_scale(
            "web",
            &by("autoscaler"),
            &Patch::Merge(json!({ "spec": { "replicas": 5 } })),
        )
        .await
        .unwrap();
    let scaled = next(&mut program).await;
    let (manager, _, subresource, paths) = authors(&scaled).remove(0);
    assert_eq!((manager, subresource), ("autoscaler", Some("scale")));
    assert!(paths.contains(&"spec.replicas"), "{paths:?}");
    deployments
        .patch_status(
            "web",
            &by("deployment-controller"),
            &Patch::Merge(json!({ "status": { "readyReplicas": 5, "replicas": 5 } })),
        )
        .await
        .unwrap();
    let reported = next(&mut program).await;
    let (manager, _, subresource, paths) = authors(&reported).remove(0);
    assert_eq!((manager, subresource), ("deployment-controller", Some("status")));
    assert!(paths.contains(&"status.readyReplicas"), "{paths:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_and_unmanaged_writes_have_an_unknown_author() {
    let cluster = Cluster::new().await;
    let mut program = cluster.start(&["watch", "pods", "-o", "json"]);
    let mut text = cluster.start(&["watch", "pods"]);
    program.event_of("synced").await;
    text.says("watching for changes").await;
    // Written behind the API, as by a server without managed fields.
    cluster.server.create(pod("default", "cart"));
    assert_eq!(next(&mut program).await["by"], Value::Null);
    let line = text.line_with("ADDED").await;
    assert!(line.ends_with("  by unknown"), "{line}");
    cluster.server.delete::<Pod>("default", "cart");
    assert_eq!(next(&mut program).await["by"], Value::Null);
    let line = text.line_with("DELETED").await;
    assert!(
        line.ends_with("  by unknown: deletions are not recorded"),
        "{line}"
    );
}

/// What happened during an outage is one change, of several managers.
#[tokio::test(flavor = "multi_thread")]
async fn each_field_names_its_author_if_there_are_several() {
    let cluster = Cluster::new().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.server.client(), "default");
    let map = json!({ "metadata": { "name": "settings" }, "data": { "a": "1", "b": "1" } });
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap())
        .await
        .unwrap();
    let mut text = cluster.start(&["watch", "cm"]);
    let mut json_lines = cluster.start(&["watch", "cm", "-o", "json"]);
    text.says("watching for changes").await;
    json_lines.event_of("synced").await;
    cluster
        .server
        .wait_for("both watch", |server| server.open_watches() == 2)
        .await;

    let outage = cluster.server.fault(
        RequestMatcher::resource("configmaps")
            .user_agent("kubectl-informers")
            .forever(),
        Fault::refuse(),
    );
    cluster.server.break_watches();
    for (manager, field) in [("first", "a"), ("second", "b")] {
        let patch = Patch::Merge(json!({ "data": { field: "2" } }));
        maps.patch("settings", &by(manager), &patch).await.unwrap();
    }
    cluster.server.compact();
    outage.clear();

    let updated = next(&mut json_lines).await;
    let mut found = authors(&updated);
    found.sort();
    assert_eq!(
        found,
        [
            ("first", "Update", None, vec!["data.a"]),
            ("second", "Update", None, vec!["data.b"]),
        ]
    );
    let line = text.line_with("UPDATED").await;
    assert!(
        line.ends_with("by first and second") || line.ends_with("by second and first"),
        "{line}"
    );
    let line = text.line_with("data.a  1 → 2").await;
    assert!(line.ends_with("(first)"), "{line}");
    let line = text.line_with("data.b  1 → 2").await;
    assert!(line.ends_with("(second)"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn authors_are_in_the_text_and_can_be_selected() {
    let cluster = Cluster::new().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.server.client(), "default");
    let map = json!({ "metadata": { "name": "settings" }, "data": { "a": "1", "b": "1" } });
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap())
        .await
        .unwrap();
    let mut text = cluster.start(&["watch", "cm"]);
    let mut brief = cluster.start(&["watch", "cm", "-o", "brief"]);
    let mut selected = cluster.start(&["watch", "cm", "-o", "json", "--by", "second"]);
    text.says("watching for changes").await;
    brief.says("watching for changes").await;
    selected.event_of("synced").await;
    for (manager, field) in [("first", "a"), ("second", "b")] {
        maps.patch(
            "settings",
            &by(manager),
            &Patch::Merge(json!({ "data": { field: "2" } })),
        )
        .await
        .unwrap();
    }
    let line = text.line_with("UPDATED").await;
    assert!(line.ends_with("default/settings  by first"), "{line}");
    let line = text.line_with("UPDATED").await;
    assert!(line.ends_with("default/settings  by second"), "{line}");
    let line = brief.line().await;
    assert!(
        line.ends_with("configmap default/settings  data.a 1 → 2  by first"),
        "{line}"
    );
    let updated = next(&mut selected).await;
    assert_eq!(authors(&updated)[0].0, "second");
    assert_eq!(updated["diff"][0]["field"], "data.b");
}
