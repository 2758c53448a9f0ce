//! Custom kinds with kubectl: from the definition to the deletion.

use serde_json::Value;

use crate::cluster::{Cluster, Scratch, text};

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: A widget.
        properties:
          spec:
            type: object
            description: What is wanted.
            properties: {color: {type: string, description: How it looks.}, size: {type: integer}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
    selectableFields: [{jsonPath: .spec.color}]
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}
    additionalPrinterColumns:
    - {name: Color, type: string, jsonPath: .spec.color}
    - {name: Size, type: integer, jsonPath: .spec.size, priority: 1}
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

const WIDGET: &str = "
apiVersion: example.com/v1
kind: Widget
metadata: {name: one}
spec: {color: red, size: 2}
";

pub async fn custom_kind_is_defined_used_and_deleted() {
    let cluster = Cluster::start(&[]).await;
    let (definition, widget) = (
        cluster.write("crd.yaml", DEFINITION),
        cluster.write("widget.yaml", WIDGET),
    );
    cluster.ok(&format!("create -f {}", definition.display())).await;
    cluster
        .ok("wait --for=condition=Established crd/widgets.example.com --timeout=10s")
        .await;
    assert!(
        cluster
            .ok("api-resources --api-group=example.com")
            .await
            .contains("wd")
    );

    assert_eq!(
        cluster.ok(&format!("create -f {}", widget.display())).await,
        "widget.example.com/one created\n"
    );
    let table = cluster.table("get wd").await;
    assert_eq!(table, [["NAME", "COLOR"], ["one", "red"]]);
    assert_eq!(cluster.table("get widgets -o wide").await[1], ["one", "red", "2"]);
    assert_eq!(
        cluster.ok("get wd --field-selector spec.color=red -o name").await,
        "widget.example.com/one\n"
    );
    assert_eq!(
        cluster
            .ok("get wd --field-selector spec.color=blue -o name")
            .await,
        ""
    );
    let other: Value =
        serde_json::from_str(&cluster.ok("get widgets.v1beta1.example.com one -o json").await).unwrap();
    assert_eq!(other["apiVersion"], "example.com/v1beta1");
    assert_eq!(other["spec"]["color"], "red");

    let described = cluster.ok("explain widget.spec").await;
    assert!(
        described.contains("What is wanted.") && described.contains("How it looks."),
        "{described}"
    );
    assert!(cluster.ok("describe widget one").await.contains("Color:"));
    cluster.ok("label widget one tier=front").await;
    cluster.ok("annotate widget one note=hello").await;
    cluster.ok("scale widget one --replicas=5").await;
    cluster
        .ok_with(&[
            "patch",
            "widget",
            "one",
            "--type=merge",
            "-p",
            r#"{"spec":{"color":"blue"}}"#,
        ])
        .await;
    cluster
        .ok_with(&[
            "patch",
            "widget",
            "one",
            "--type=merge",
            "--subresource=status",
            "-p",
            r#"{"status":{"size":4}}"#,
        ])
        .await;
    let object: Value = serde_json::from_str(&cluster.ok("get widget one -o json").await).unwrap();
    assert_eq!(object["spec"], serde_json::json!({ "color": "blue", "size": 5 }));
    assert_eq!(object["status"], serde_json::json!({ "size": 4 }));
    assert_eq!(object["metadata"]["labels"]["tier"], "front");

    assert_eq!(
        cluster.ok("delete widget one").await,
        "widget.example.com \"one\" deleted\n"
    );
    cluster.ok("delete crd widgets.example.com").await;
    assert!(
        cluster
            .error("get --raw /apis/example.com/v1/widgets")
            .await
            .contains("NotFound")
    );
}

pub async fn custom_kinds_support_client_side_and_server_side_apply() {
    let cluster = Cluster::start(&[]).await;
    let (definition, widget) = (
        cluster.write("crd.yaml", DEFINITION),
        cluster.write("widget.yaml", WIDGET),
    );
    cluster.ok(&format!("apply -f {}", definition.display())).await;
    cluster
        .ok("wait --for=condition=Established crd/widgets.example.com --timeout=10s")
        .await;
    let apply = format!("apply -f {}", widget.display());

    assert_eq!(cluster.ok(&apply).await, "widget.example.com/one created\n");
    assert_eq!(cluster.ok(&apply).await, "widget.example.com/one unchanged\n");
    cluster.write("widget.yaml", &WIDGET.replace("red, size: 2", "green"));
    assert_eq!(cluster.ok(&apply).await, "widget.example.com/one configured\n");
    let spec = cluster.ok("get widget one -o jsonpath={.spec}").await;
    assert_eq!(spec, r#"{"color":"green"}"#);

    cluster.write("widget.yaml", &WIDGET.replace("name: one", "name: two"));
    let server_side = format!("apply --server-side -f {}", widget.display());
    assert_eq!(
        cluster.ok(&server_side).await,
        "widget.example.com/two serverside-applied\n"
    );
    let managers = cluster
        .ok("get widget two --show-managed-fields -o jsonpath={.metadata.managedFields[*].manager}")
        .await;
    assert_eq!(managers, "kubectl");
}

pub async fn manifests_create_definitions_and_objects() {
    let scratch = Scratch::new();
    let definition = scratch.write("crd.yaml", DEFINITION);
    let widgets = scratch.write("widgets.yaml", WIDGET);
    let flags = [
        "--manifest",
        text(&definition),
        "--manifest",
        text(&widgets),
        "--objects",
        "widgets.example.com=3",
    ];
    let (definition, widgets) = (flags[1].to_owned(), flags[3].to_owned());
    let cluster = Cluster::start_in(
        scratch,
        &[
            "--manifest",
            &definition,
            "--manifest",
            &widgets,
            flags[4],
            flags[5],
        ],
    )
    .await;

    assert_eq!(
        cluster.ok("get widgets -o name").await,
        "widget.example.com/one\n"
    );
    assert_eq!(cluster.ok("get widgets -A -o name").await.lines().count(), 4);
}

pub async fn invalid_definition_is_rejected_with_its_fields() {
    let cluster = Cluster::start(&[]).await;
    let wrong = DEFINITION
        .replace("name: widgets.example.com", "name: gadgets.example.com")
        .replace("storage: true", "storage: false");
    let path = cluster.write("crd.yaml", &wrong);

    let error = cluster.error(&format!("create -f {}", path.display())).await;

    assert!(
        error.contains("metadata.name: Invalid value: \"gadgets.example.com\""),
        "{error}"
    );
    assert!(
        error.contains("must have exactly one version marked as storage version"),
        "{error}"
    );
}
