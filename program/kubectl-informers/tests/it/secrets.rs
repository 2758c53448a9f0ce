//! Values of Secrets are in no output of any command, unless asked for.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube_testserver::builders::secret;

use crate::program::Cluster;

const VALUE: &str = "canary-7f3a-value";
const BASE64: &str = "Y2FuYXJ5LTdmM2EtdmFsdWU=";

async fn cluster() -> Cluster {
    let cluster = Cluster::new().await;
    let mut object = secret("default", "db");
    object.data = Some(BTreeMap::from([(
        "password".to_owned(),
        ByteString(VALUE.into()),
    )]));
    object.metadata.annotations = Some(BTreeMap::from([(
        "kubectl.kubernetes.io/last-applied-configuration".to_owned(),
        last_applied(),
    )]));
    cluster.server.create(object);
    cluster
}

fn last_applied() -> String {
    format!("{{\"data\":{{\"password\":\"{BASE64}\"}}}}")
}

/// Another value of the same length.
fn rotate(cluster: &Cluster) {
    cluster.server.modify("default", "db", |secret: &mut Secret| {
        let data = secret.data.get_or_insert_default();
        data.insert("password".to_owned(), ByteString("canary-7f3a-other".into()));
    });
}

fn assert_clean(text: &str) {
    for part in ["canary-7f3a", "Y2FuYXJ5LTdmM2", BASE64] {
        assert!(!text.contains(part), "{part} in\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_output_of_any_command_shows_a_value() {
    for arguments in [
        &["watch", "secrets"][..],
        &["watch", "secrets", "-o", "wide", "--show-noise"],
        &["watch", "secrets", "-o", "json"],
        &["watch", "secrets", "-o", "json", "--with-object", "--show-noise"],
        &["top", "secrets", "--plain", "--every", "1"],
    ] {
        let cluster = cluster().await;
        let mut command = cluster.home().command(arguments);
        command.env("RUST_LOG", "trace");
        let mut program = crate::program::Program::start(command);
        // Whatever `watch` prints first, it prints after the list.
        program
            .line_with(if arguments[0] == "top" { "SYNCED" } else { "" })
            .await;
        rotate(&cluster);
        // The change is seen, though its length is the same.
        program.line_with("another value").await;
        cluster.server.delete::<Secret>("default", "db");
        let deleted = if arguments.contains(&"json") {
            "deleted"
        } else {
            "DELETED"
        };
        program.line_with(deleted).await;

        assert_clean(&program.everything());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bench_shows_no_value() {
    let cluster = cluster().await;
    let mut command = cluster.home().command(&["bench", "secrets", "--seconds", "0"]);
    command.env("RUST_LOG", "trace");
    let ended = crate::program::ended(command).await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_clean(&ended.out);
    assert_clean(&ended.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn lengths_are_shown_instead() {
    let cluster = cluster().await;
    let mut program = cluster.start(&["watch", "secrets", "-o", "json", "--with-object"]);
    let added = program.event().await;
    assert_eq!(added["object"]["data"]["password"], "<17 bytes>");
    let annotations = &added["object"]["metadata"]["annotations"];
    assert_eq!(
        annotations["kubectl.kubernetes.io/last-applied-configuration"],
        format!("<{} bytes>", last_applied().len())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_shown_on_request() {
    let cluster = cluster().await;
    let mut program = cluster.start(&[
        "watch",
        "secrets",
        "-o",
        "json",
        "--with-object",
        "--show-secrets",
    ]);
    assert_eq!(program.event().await["object"]["data"]["password"], BASE64);
    program.event_of("synced").await;
    rotate(&cluster);
    let updated = program.event().await;
    assert_eq!(updated["diff"][0]["old"], BASE64);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_web_page_never_shows_secret_values() {
    let cluster = cluster().await;
    let ended = cluster.run(&["serve", "--show-secrets"]).await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.contains("--show-secrets cannot be used with serve"),
        "{}",
        ended.err
    );
}
