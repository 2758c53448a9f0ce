//! Credentials that another program provides.

use std::os::unix::fs::PermissionsExt;

use kube_testserver::TestServer;

use crate::program::{Cluster, Home};

/// A kubeconfig whose user runs this program.
fn kubeconfig(server: &str, plugin: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
clusters: [{{ name: c, cluster: {{ server: \"{server}\" }} }}]
users:
  - name: u
    user:
      exec: {{ apiVersion: client.authentication.k8s.io/v1, command: \"{plugin}\", interactiveMode: Never }}
contexts: [{{ name: x, context: {{ cluster: c, user: u }} }}]
current-context: x
"
    )
}

fn plugin(home: &Home, script: &str) -> String {
    let path = home.write("plugin", &format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_plugin_provides_the_token() {
    let cluster = Cluster::with(TestServer::builder().token("correct-horse")).await;
    let home = cluster.home();
    let run = plugin(
        home,
        r#"echo '{ "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": { "token": "correct-horse" } }'"#,
    );
    home.write(".kube/config", &kubeconfig(&cluster.server.url().unwrap(), &run));

    let mut program = cluster.start(&["watch", "pods"]);

    program.says("watching for changes").await;
    assert!(!program.everything().contains("correct-horse"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_plugin_that_fails_is_named() {
    let cluster = Cluster::new().await;
    let home = cluster.home();
    let run = plugin(home, "echo please log in >&2; exit 3");
    home.write(".kube/config", &kubeconfig(&cluster.server.url().unwrap(), &run));

    let ended = cluster.run(&["watch", "pods"]).await;

    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(ended.err.contains("plugin"), "{}", ended.err);
}
