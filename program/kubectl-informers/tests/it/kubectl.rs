//! Together with kubectl: as its plugin, and on one cache. Where there is no kubectl the tests say so and pass.

use std::process::Stdio;

use tokio::process::Command;

use crate::program::{Cluster, ended};

/// kubectl in the surroundings of the cluster, the program being on its path; `None` without kubectl.
async fn kubectl(cluster: &Cluster, arguments: &[&str]) -> Option<Command> {
    let there = Command::new("kubectl")
        .args(["version", "--client"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .await
        .is_ok_and(|status| status.success());
    if !there {
        println!("skipped: there is no kubectl on the PATH");
        return None;
    }
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_kubectl-informers"));
    let mut path = vec![program.parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    let mut command = Command::new("kubectl");
    command
        .args(arguments)
        .env_clear()
        .env("HOME", cluster.home().path())
        .env("PATH", std::env::join_paths(path).unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    Some(command)
}

fn discovery_requests(cluster: &Cluster) -> usize {
    let requests = cluster.server.requests();
    let documents = requests.iter().filter(|seen| {
        seen.resource.is_empty() && (seen.path.starts_with("/apis") || seen.path.starts_with("/api"))
    });
    documents.count()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_a_plugin_of_kubectl() {
    let cluster = Cluster::new().await;
    let Some(command) = kubectl(&cluster, &["informers", "--version"]).await else {
        return;
    };
    assert_eq!(
        ended(command).await.out,
        format!("kubectl-informers {}\n", env!("CARGO_PKG_VERSION"))
    );

    cluster
        .server
        .create(kube_testserver::builders::pod("default", "cart"));
    let Some(command) = kubectl(&cluster, &["informers", "watch", "pods", "-o", "json"]).await else {
        return;
    };
    let mut program = crate::program::Program::start(command);
    assert_eq!(program.event().await["name"], "cart");
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_uses_our_discovery_cache() {
    let cluster = Cluster::new().await;
    cluster
        .server
        .create(kube_testserver::builders::deployment("default", "cart"));
    cluster
        .start(&["watch", "deploy", "-o", "json"])
        .event_of("synced")
        .await;
    let before = discovery_requests(&cluster);

    let Some(command) = kubectl(&cluster, &["get", "deploy", "-o", "name"]).await else {
        return;
    };
    let got = ended(command).await;

    assert_eq!(got.out, "deployment.apps/cart\n", "{}", got.err);
    assert_eq!(discovery_requests(&cluster), before, "kubectl asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn we_use_the_discovery_cache_of_kubectl() {
    let cluster = Cluster::new().await;
    let Some(command) = kubectl(&cluster, &["api-resources"]).await else {
        return;
    };
    assert_eq!(ended(command).await.code, Some(0));
    let before = discovery_requests(&cluster);

    cluster
        .start(&["watch", "deploy", "-o", "json"])
        .event_of("synced")
        .await;

    assert_eq!(discovery_requests(&cluster), before, "asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_the_wording_of_kubectl() {
    let cluster = Cluster::new().await;
    for (ours, theirs) in [
        (&["watch", "gadgets"][..], &["get", "gadgets"][..]),
        (
            &["watch", "pods", "--kubeconfig", "/no/such"],
            &["get", "pods", "--kubeconfig", "/no/such"],
        ),
    ] {
        let Some(command) = kubectl(&cluster, theirs).await else {
            return;
        };
        let theirs = ended(command).await;
        let ours = cluster.run(ours).await;
        let last = |text: &str| text.trim_end().lines().last().unwrap_or_default().to_owned();
        assert_eq!((ours.code, last(&ours.err)), (theirs.code, last(&theirs.err)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_kubectl_writes_is_attributed_to_it() {
    let cluster = Cluster::new().await;
    let manifest = |colour: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: settings, namespace: default }}\ndata: {{ colour: {colour} }}\n"
        )
    };
    let (blue, green) = (
        cluster.home().write("blue.yaml", &manifest("blue")),
        cluster.home().write("green.yaml", &manifest("green")),
    );
    cluster
        .server
        .create(kube_testserver::builders::deployment("default", "web"));
    let mut program = cluster.start(&["watch", "cm,deploy", "-o", "json", "--since-sync"]);
    for _ in 0..2 {
        program.event_of("synced").await;
    }
    let steps: [(&[&str], &str, &str); 5] = [
        (
            &["apply", "-f", blue.to_str().unwrap()],
            "kubectl-client-side-apply",
            "",
        ),
        (
            &["apply", "-f", green.to_str().unwrap()],
            "kubectl-client-side-apply",
            "data.colour",
        ),
        (
            &[
                "apply",
                "--server-side",
                "--force-conflicts",
                "-f",
                blue.to_str().unwrap(),
            ],
            "kubectl",
            "data.colour",
        ),
        (
            &[
                "patch",
                "cm",
                "settings",
                "--type",
                "merge",
                "-p",
                r#"{"data":{"size":"7"}}"#,
            ],
            "kubectl-patch",
            "data.size",
        ),
        (
            &["scale", "deploy/web", "--replicas", "4"],
            "kubectl",
            "spec.replicas",
        ),
    ];
    for (arguments, manager, path) in steps {
        let Some(command) = kubectl(&cluster, arguments).await else {
            return;
        };
        let done = ended(command).await;
        assert_eq!(done.code, Some(0), "{arguments:?}: {}", done.err);
        // A server-side apply of kubectl is followed by a second write, of the last applied configuration.
        let author = loop {
            let event = program.event().await;
            let author = event["by"].as_array().and_then(|by| {
                by.iter().find(|one| {
                    let paths = one["paths"].as_array();
                    path.is_empty() || paths.is_some_and(|paths| paths.iter().any(|one| one == path))
                })
            });
            if let Some(author) = author {
                break author.clone();
            }
        };
        assert_eq!(author["manager"], manager, "{arguments:?}: {author}");
    }
}

/// `kubectl informers watch deployments.a<TAB>`: kubectl asks the program by the name `kubectl_complete-informers`.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_completes_through_the_program() {
    let cluster = Cluster::new().await;
    cluster
        .server
        .create(kube_testserver::builders::pod("default", "cart-1"));
    for (words, expected) in [
        (&["watch", "deployments.a"][..], "deployments.apps"),
        (&["watch", "pods", "ca"], "cart-1"),
        (&["trou"], "trouble\t"),
    ] {
        let arguments = [&["__complete", "informers"][..], words].concat();
        let Some(mut command) = kubectl(&cluster, &arguments).await else {
            return;
        };
        let names = cluster.home().path().join("names");
        std::fs::create_dir_all(&names).unwrap();
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_kubectl-informers"));
        for name in ["kubectl-informers", "kubectl_complete-informers"] {
            // There from the round before.
            let _ = std::os::unix::fs::symlink(program, names.join(name));
        }
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", names.display()));

        let completed = ended(command).await;

        assert!(
            completed.out.lines().any(|line| line.starts_with(expected)),
            "{words:?}: {}{}",
            completed.out,
            completed.err
        );
    }
}
