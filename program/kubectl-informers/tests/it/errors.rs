//! Errors and exit codes are kubectl's.

use kube_testserver::{ApiError, Fault, RequestMatcher};

use crate::program::{Cluster, Home};

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_kind_is_reported_in_the_wording_of_kubectl() {
    let cluster = Cluster::new().await;
    let ended = cluster.run(&["watch", "gadgets"]).await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended
            .err
            .ends_with("error: the server doesn't have a resource type \"gadgets\"\n"),
        "{}",
        ended.err
    );
    assert_eq!(ended.out, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments_end_with_code_1_and_help_with_0() {
    let home = Home::new();
    for arguments in [
        &["watch"][..],
        &["--nonsense"],
        &["frobnicate"],
        &["watch", "pods", "-o", "yaml"],
    ] {
        let ended = home.run(arguments).await;
        assert_eq!(ended.code, Some(1), "{arguments:?}");
        assert!(ended.err.starts_with("error: "), "{}", ended.err);
    }
    for arguments in [&["--help"][..], &["watch", "--help"], &["--version"]] {
        assert_eq!(home.run(arguments).await.code, Some(0), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unusable_kubeconfig_is_an_error_without_fallback() {
    let home = Home::new();
    let broken = home.write("broken", "clusters: [\n  token: canary-credential\n  : }");
    let empty = home.write("empty", "");
    let nowhere = home.write(
        "nowhere",
        "apiVersion: v1\nkind: Config\ncurrent-context: gone\ncontexts: []\nclusters: []\nusers: []\n",
    );
    for (arguments, says) in [
        (
            vec!["--kubeconfig", "/no/such/file"],
            "error: stat /no/such/file: no such file or directory",
        ),
        (
            vec!["--kubeconfig", broken.to_str().unwrap()],
            "error: error loading config file",
        ),
        (
            vec!["--kubeconfig", empty.to_str().unwrap()],
            "error: current-context is not set",
        ),
        (
            vec!["--kubeconfig", nowhere.to_str().unwrap()],
            "error: context \"gone\" does not exist",
        ),
        (
            vec!["--context", "mine"],
            "error: context \"mine\" does not exist",
        ),
    ] {
        let mut all = vec!["watch", "pods"];
        all.extend(arguments);
        let ended = home.run(&all).await;
        assert_eq!(ended.code, Some(1), "{all:?}: {}", ended.err);
        assert!(ended.err.contains(says), "{all:?}: {}", ended.err);
        assert!(!ended.err.contains("canary-credential"), "{}", ended.err);
        assert!(!ended.err.contains("in memory"), "{}", ended.err);
    }
    let mut command = home.command(&["watch", "pods"]);
    command.env("KUBECONFIG", "/no/such/file");
    assert_eq!(crate::program::ended(command).await.code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_that_does_not_exist_is_named() {
    let cluster = Cluster::new().await;
    let ended = cluster.run(&["watch", "pods", "--context", "other"]).await;
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.err, "error: context \"other\" does not exist\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_is_named_with_or_without_a_cache() {
    let cluster = Cluster::new().await;
    let host = cluster.server.url().unwrap().replace("http://", "");
    let refused =
        format!("The connection to the server {host} was refused - did you specify the right host or port?");
    cluster
        .start(&["watch", "pods", "-o", "json"])
        .event_of("synced")
        .await;
    cluster.server.shutdown().await;

    for options in [&[][..], &["--cache-dir", "/no/such/place"]] {
        let mut arguments = vec!["watch", "pods"];
        arguments.extend_from_slice(options);
        let ended = cluster.run(&arguments).await;
        assert_eq!(ended.code, Some(1), "{}", ended.err);
        assert!(ended.err.contains(&refused), "{}", ended.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_permission_comes_with_the_commands_that_grant_it() {
    let cluster = Cluster::new().await;
    let forbidden = ApiError::new(
        403,
        "Forbidden",
        "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"shop\"",
    );
    cluster.server.fault(
        RequestMatcher::resource("pods").forever(),
        Fault::error(forbidden),
    );

    let ended = cluster.run(&["watch", "pods", "-n", "shop"]).await;

    assert_eq!(ended.code, Some(1));
    for part in [
        "Error from server (Forbidden): pods is forbidden: User \"jane\"",
        "The permission to list and watch pods in the namespace shop is missing",
        "kubectl create clusterrole informers-pods --verb=list,watch --resource=pods\n",
        "kubectl create rolebinding informers-pods --clusterrole=informers-pods --user=jane --namespace=shop\n",
    ] {
        assert!(ended.err.contains(part), "{part:?}\n{}", ended.err);
    }

    // The kinds that may be watched are.
    cluster
        .server
        .create(kube_testserver::builders::config_map("shop", "settings"));
    let mut program = cluster.start(&["watch", "pods,cm", "-n", "shop", "-o", "json"]);
    assert_eq!(program.event().await["name"], "settings");
    program.says("kubectl create clusterrole informers-pods").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_credentials_have_the_wording_of_kubectl() {
    let cluster = Cluster::with(kube_testserver::TestServer::builder().token("right")).await;
    let config = cluster.server.kubeconfig().unwrap().replace("right", "wrong");
    let path = cluster.home().write("wrong", &config);

    let ended = cluster
        .run(&["watch", "pods", "--kubeconfig", path.to_str().unwrap()])
        .await;

    assert_eq!(ended.code, Some(1));
    assert!(
        ended
            .err
            .contains("error: You must be logged in to the server (Unauthorized)"),
        "{}",
        ended.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_selectors_are_named() {
    let cluster = Cluster::new().await;
    let ended = cluster.run(&["watch", "pods", "-l", "a in"]).await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.contains("error: unable to parse the selector \"a in\""),
        "{}",
        ended.err
    );

    let ended = cluster
        .run(&["watch", "pods", "--field-selector", "spec.nonsense=1"])
        .await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.contains("Error from server (BadRequest)"),
        "{}",
        ended.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connection_is_reported_before_the_server_responds() {
    let cluster = Cluster::new().await;
    cluster
        .server
        .fault(RequestMatcher::any().forever(), Fault::hang());
    let mut program = cluster.start(&["watch", "pods"]);
    program.says("Connecting to http://127.0.0.1:").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_without_a_status_name_the_code_and_the_usual_cause() {
    for (code, fault, cause) in [
        (
            403,
            Fault::status(403).html("<html>blocked</html>"),
            "proxy, gateway or firewall",
        ),
        (
            502,
            Fault::status(502).html("<html>bad gateway</html>"),
            "load balancer cannot reach",
        ),
        (
            503,
            Fault::status(503).text("no healthy upstream"),
            "no healthy upstream; usually the API server is starting",
        ),
        (404, Fault::status(404).text(""), "not that of an API server"),
    ] {
        // In discovery, and in the first list of a kind that is in the discovery cache.
        for path in ["/api", "/api/v1/namespaces/default/pods"] {
            let cluster = Cluster::new().await;
            if path != "/api" {
                cluster
                    .start(&["watch", "pods", "-o", "json"])
                    .event_of("synced")
                    .await;
            }
            cluster
                .server
                .fault(RequestMatcher::path(path).forever(), fault.clone());
            let mut program = cluster.start(&["watch", "pods"]);
            program.says(&format!("{code}")).await;
            program.says(cause).await;
            assert!(!program.err().contains("clusterrole"), "{}", program.err());
            assert!(!program.err().contains("<html"), "{}", program.err());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_in_addresses_are_in_no_output() {
    let cluster = Cluster::new().await;
    let address = cluster.server.url().unwrap();
    let with_password = address.replace("http://", "http://jane:canary-credential@");
    let config = cluster
        .server
        .kubeconfig()
        .unwrap()
        .replace(&address, &with_password);
    let path = cluster.home().write("with-password", &config);
    let mut command = cluster.home().command(&[
        "watch",
        "pods",
        "-o",
        "json",
        "--kubeconfig",
        path.to_str().unwrap(),
    ]);
    command.env("RUST_LOG", "trace");
    let mut program = crate::program::Program::start(command);
    program.event_of("synced").await;
    cluster.server.shutdown().await;
    program.says("interrupted").await;
    assert!(
        !program.everything().contains("canary-credential"),
        "{}",
        program.everything()
    );

    let home = Home::new();
    let config = home.write(
        "proxy",
        &config.replace(
            "    server:",
            "    proxy-url: http://jane:canary-credential@127.0.0.1:1\n    server:",
        ),
    );
    let mut command = home.command(&["watch", "pods", "--kubeconfig", config.to_str().unwrap()]);
    command.env("RUST_LOG", "trace");
    let ended = crate::program::ended(command).await;
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(!ended.err.contains("canary-credential"), "{}", ended.err);
}
