//! Where the objects come from when nothing is configured.

use crate::program::{Cluster, Home, Program};

#[tokio::test(flavor = "multi_thread")]
async fn without_a_kubeconfig_the_embedded_cluster_with_churn_is_used() {
    let home = Home::new();
    let mut program = home.start(&["watch", "pods", "-o", "json"]);

    program
        .says("No cluster is configured, so this is a cluster in memory")
        .await;
    assert_eq!(program.event().await["initial"], true);
    program.event_of("synced").await;
    program.event_of("updated").await;
    assert!(!home.path().join(".kube").exists(), "nothing of it is cached");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_cluster_can_be_requested() {
    let cluster = Cluster::new().await;
    let mut program = cluster.start(&["watch", "nodes", "-o", "json", "--embedded"]);
    assert_eq!(
        program.event().await["name"].as_str().map(|name| &name[..4]),
        Some("node")
    );
    assert!(cluster.server.requests().is_empty());

    let ended = cluster
        .run(&["watch", "pods", "--embedded", "--context", "x"])
        .await;
    assert_eq!(ended.code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_option_overrides_the_environment_which_overrides_the_default_kubeconfig() {
    let (usual, other, third) = (Cluster::new().await, Cluster::new().await, Cluster::new().await);
    for (cluster, name) in [(&usual, "usual"), (&other, "other"), (&third, "third")] {
        cluster.server.create(kube_testserver::builders::node(name));
    }
    let config = usual.home().write("other", &other.server.kubeconfig().unwrap());
    let option = usual.home().write("third", &third.server.kubeconfig().unwrap());

    let mut command = usual.home().command(&["watch", "nodes", "-o", "json"]);
    // A file that is not there is left out, as long as there is one that is.
    command.env("KUBECONFIG", format!("/no/such/file:{}", config.display()));
    let mut program = crate::program::Program::start(command);
    assert_eq!(program.event().await["name"], "other");

    let mut command = usual.home().command(&[
        "watch",
        "nodes",
        "-o",
        "json",
        "--kubeconfig",
        option.to_str().unwrap(),
    ]);
    command.env("KUBECONFIG", &config);
    let mut program = crate::program::Program::start(command);
    assert_eq!(program.event().await["name"], "third");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_test_server_is_a_command_with_all_its_options() {
    let home = Home::new();
    let config = home.path().join("config");
    let mut server = home.start(&[
        "testserver",
        "--port",
        "0",
        "--objects",
        "pods=5,nodes=2",
        "--churn",
        "50/s",
        "--seed",
        "7",
        "--kubeconfig",
        config.to_str().unwrap(),
    ]);
    server.line_with("with 2 nodes").await;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&config).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "it may contain a token");
    }

    let mut program = home.start(&[
        "watch",
        "pods",
        "-A",
        "-o",
        "json",
        "--kubeconfig",
        config.to_str().unwrap(),
    ]);
    // The simulated activity replaces pods all the time.
    let objects = program.event_of("synced").await["objects"].as_u64();
    assert!(
        objects.is_some_and(|objects| (1..=10).contains(&objects)),
        "{objects:?}"
    );
    program.event().await;

    let ended = home.run(&["testserver", "--objects", "pods"]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("has no number"), "{}", ended.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_default_kubeconfig_counts_as_none() {
    let home = Home::new();
    home.write(".kube/config", "apiVersion: v1\nkind: Config\ncontexts: []\n");
    let mut program = home.start(&["watch", "nodes", "-o", "json"]);
    program.event_of("synced").await;

    home.write(".kube/config", "contexts: {");
    assert_eq!(home.run(&["watch", "nodes"]).await.code, Some(1));
}

/// Waits for an update by one of the programs of a cluster.
async fn author(program: &mut Program) -> String {
    loop {
        let event = program.event_of("updated").await;
        // Deletion times are set by the server.
        if let Some(manager) = event["by"][0]["manager"].as_str() {
            return manager.to_owned();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_simulated_clusters_have_authors() {
    let known = [
        "kubelet",
        "kube-scheduler",
        "kube-controller-manager",
        "kubectl-set",
        "kubectl-scale",
    ];
    let home = Home::new();
    let mut embedded = home.start(&["watch", "pods,deploy", "--embedded", "-o", "json"]);
    let manager = author(&mut embedded).await;
    assert!(known.contains(&manager.as_str()), "{manager}");

    let config = home.path().join("config");
    let config = config.to_str().unwrap();
    for options in [&["--churn", "20/s"][..], &["--churn", "20/s", "--live"]] {
        let all = [
            &["testserver", "--port", "0", "--kubeconfig", config][..],
            options,
        ]
        .concat();
        let mut server = home.start(&all);
        server.line_with("with 3 nodes, 4 deployments").await;
        let mut program = home.start(&["watch", "pods,deploy", "-A", "-o", "json", "--kubeconfig", config]);
        let manager = author(&mut program).await;
        assert!(known.contains(&manager.as_str()), "{options:?}: {manager}");
    }
}
