//! Texts: selectors, paths, keys, versions, kubeconfigs and manifests.

use kube::config::Kubeconfig;
use kube_informers::{ObjectKey, ResourceVersion, Selector};
use kube_protobuf::path::FieldPath;
use kube_testserver::manifest;
use serde_json::json;

use super::{MEGABYTE, Reader};
use crate::outcome::Outcome;

pub fn readers() -> Vec<Reader> {
    vec![
        text(
            "selector",
            &[
                "app=web,tier!=front",
                "app in (a,b),!canary",
                "a notin (x), b",
                "k8s.io/name==v",
            ],
            &[" in (", " notin (", "!=", "==", ",", "!", ")", "a/b"],
            selector,
        ),
        text(
            "path",
            &[
                "spec.containers[web].image",
                "metadata.labels['a.b/c']",
                "/spec/replicas",
                "status.conditions[Ready].status",
            ],
            &["[", "]", ".", "['", "']", "[0]", "~1", "/"],
            path,
        ),
        text(
            "key-and-version",
            &["shop/cart-1", "node-1", "12345", "0"],
            &["/", "0", "-1"],
            key_and_version,
        ),
        text("kubeconfig", &[KUBECONFIG], YAML, kubeconfig),
        text("manifest", &[MANIFEST, LIST], YAML, manifests),
    ]
}

type ReadText = fn(&str, &mut Outcome);

fn text(name: &'static str, seeds: &[&str], words: &'static [&'static str], read: ReadText) -> Reader {
    Reader {
        name,
        seeds: seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect(),
        words,
        memory_base: MEGABYTE,
        memory_per_byte: 1024,
        read: Box::new(move |input, outcome| {
            // All of these receive text. What is not UTF-8 is rejected before them.
            read(&String::from_utf8_lossy(input), outcome);
        }),
    }
}

fn selector(text: &str, outcome: &mut Outcome) {
    match text.parse::<Selector>() {
        Ok(selector) => {
            // What is printed reads as the same selector.
            let printed = selector.to_string();
            let again: Selector = printed.parse().expect("a printed selector can be read");
            assert_eq!(printed, again.to_string(), "a printed selector reads as itself");
            for value in [None, Some("web"), Some("")] {
                let matches = selector.matches_labels(|_| value);
                assert_eq!(matches, again.matches_labels(|_| value), "both match the same");
                outcome.note(matches);
            }
        }
        Err(error) => {
            // In characters from 1; the end of the text is a position, too.
            let end = text.chars().count() + 1;
            assert!(
                error.position().is_some_and(|at| (1..=end).contains(&at)),
                "the position is in the text"
            );
            outcome.error(&error);
        }
    }
}

fn path(text: &str, outcome: &mut Outcome) {
    match text.parse::<FieldPath>() {
        Ok(path) => {
            outcome.count(path.steps().len());
            let value = json!({"spec": {"containers": [{"name": "web", "image": "nginx"}], "replicas": 1},
                "metadata": {"labels": {"a.b/c": "d"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
            let bytes = value.to_string();
            let read = path.read_json(bytes.as_bytes()).expect("valid JSON");
            assert_eq!(read.as_ref(), path.find(&value), "both ways to read a path agree");
            outcome.note(read.is_some());
        }
        Err(error) => outcome.error(&error),
    }
}

fn key_and_version(text: &str, outcome: &mut Outcome) {
    match text.parse::<ObjectKey>() {
        // `/name` is `name`, as in client-go.
        Ok(key) => assert_eq!(key.to_string().parse(), Ok(key), "a printed key reads as itself"),
        Err(error) => outcome.error(&error),
    }
    match text.parse::<ResourceVersion>() {
        Ok(version) => outcome.note(version.to_string().len()),
        Err(error) => outcome.error(&error),
    }
}

fn kubeconfig(text: &str, outcome: &mut Outcome) {
    match Kubeconfig::from_yaml(text) {
        Ok(config) => {
            outcome.count(config.clusters.len());
            outcome.count(config.contexts.len());
            outcome.count(config.auth_infos.len());
        }
        Err(error) => outcome.error(&error),
    }
}

fn manifests(text: &str, outcome: &mut Outcome) {
    match manifest::objects(text) {
        Ok(objects) => outcome.count(objects.len()),
        Err(error) => outcome.error(&error),
    }
}

const YAML: &[&str] = &[
    "- ",
    ": ",
    "\n",
    "---\n",
    "  ",
    "&a ",
    "*a",
    "<<: *a\n",
    "!!binary ",
    "|\n",
    "{",
    "[",
    "'",
    "\"",
];

const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
current-context: c
clusters:
- name: k
  cluster: {server: 'https://127.0.0.1:6443', certificate-authority-data: AAEC}
contexts:
- name: c
  context: {cluster: k, user: u, namespace: shop}
users:
- name: u
  user:
    token: t
    exec: {apiVersion: client.authentication.k8s.io/v1, command: login, args: [a], env: [{name: A, value: b}]}
";

const MANIFEST: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: shop}
data: {k: |-
    two
    lines
  }
---
# a comment
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
";

const LIST: &str =
    r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}]}"#;
