//! The manifest for `serve` in a cluster.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::program::{Cluster, within};

const MANIFEST: &str = include_str!("../../../../packaging/serve.yaml");

fn objects() -> Vec<Value> {
    let documents = MANIFEST.split("\n---\n");
    documents
        .map(|document| serde_saphyr::from_str(document).unwrap())
        .collect()
}

fn object(kind: &str) -> Value {
    objects()
        .into_iter()
        .find(|object| object["kind"] == kind)
        .unwrap()
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().unwrap().iter();
    texts.map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_role_allows_to_read_what_is_watched_and_nothing_else() {
    let role = object("ClusterRole");
    let mut allowed = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        assert_eq!(texts(&rule["verbs"]), ["list", "watch"]);
        allowed.extend(texts(&rule["resources"]));
    }
    let deployment = object("Deployment");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let arguments = texts(&container["args"]);
    let watched: BTreeSet<String> = arguments[1].split(',').map(str::to_owned).collect();
    assert_eq!(allowed, watched);
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_accepts_the_manifest_and_the_program_its_arguments() {
    let cluster = Cluster::new().await;
    for object in objects() {
        cluster.server.create(object);
    }
    let deployment = object("Deployment");
    let arguments = texts(&deployment["spec"]["template"]["spec"]["containers"][0]["args"]);
    let mut all: Vec<&str> = arguments.iter().map(String::as_str).collect();
    all.extend(["--port", "0"]);
    let mut command = cluster.home().command(&all);
    command.env("KUBECTL_INFORMERS_TOKEN", "0123456789abcdef");
    let mut program = crate::program::Program::start(command);
    within("the page", program.line_with("Serving http://")).await;
}
