//! Completions, the manual page, the version.

use kube_testserver::builders::pod;

use crate::program::Home;

#[tokio::test(flavor = "multi_thread")]
async fn completions_know_the_commands() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ended = home.run(&["completion", shell]).await;
        assert_eq!(ended.code, Some(0));
        for word in ["kubectl-informers", "watch", "testserver", "since-sync"] {
            assert!(ended.out.contains(word), "{shell}: {word}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manual_page_has_every_command_and_option() {
    let home = Home::new();
    let page = home.run(&["man"]).await.out;
    let help = home.run(&["--help"]).await.out;
    let commands: Vec<&str> = [
        "watch",
        "top",
        "serve",
        "record",
        "history",
        "at",
        "replay",
        "trouble",
        "testserver",
        "bench",
        "completion",
        "man",
    ]
    .into();
    for command in commands {
        assert!(help.contains(command), "{command}");
        assert!(
            page.contains(&format!("KUBECTL INFORMERS {}", command.to_uppercase())),
            "{command}"
        );
    }
    for option in [
        "since\\-sync",
        "field\\-selector",
        "show\\-secrets",
        "log\\-format",
        "manifest",
    ] {
        assert!(page.contains(option), "{option}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_version_is_that_of_the_package() {
    let version = Home::new().run(&["--version"]).await.out;
    assert_eq!(
        version,
        format!("kubectl-informers {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_and_option_is_documented() {
    let document = include_str!("../../../../docs/reference/program.md");
    let home = Home::new();
    for command in [
        "watch",
        "top",
        "serve",
        "record",
        "history",
        "at",
        "replay",
        "trouble",
        "testserver",
        "bench",
        "completion",
        "man",
    ] {
        assert!(document.contains(&format!("## `{command}")), "{command}");
        let help = home.run(&[command, "--help"]).await.out;
        let options = help
            .split_whitespace()
            .filter_map(|word| {
                word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-')
                    .strip_prefix("--")
            })
            .filter(|option| !option.is_empty());
        for option in options {
            assert!(document.contains(&format!("--{option}")), "{command}: --{option}");
        }
    }
}

/// Its links would lead to this program, which cannot stand in for envtest's.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_test_server_itself_offers_envtest() {
    let home = Home::new();
    let help = home.run(&["testserver", "--help"]).await.out;
    assert!(help.contains("--manifest"), "{help}");
    let page = home.run(&["man"]).await.out;
    for text in [
        help,
        page,
        include_str!("../../../../docs/reference/program.md").to_owned(),
    ] {
        assert!(!text.contains("--envtest"), "{text}");
    }
    let directory = home.path().join("assets");
    let ended = home
        .run(&["testserver", "--envtest", directory.to_str().unwrap()])
        .await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.contains("unexpected argument '--envtest'"),
        "{}",
        ended.err
    );
    assert!(!directory.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_completes_kinds_names_namespaces_and_contexts() {
    let cluster = crate::program::Cluster::new().await;
    cluster.server.create(pod("shop", "cart-1"));
    cluster.server.create(pod("shop", "cart-2"));
    cluster.server.create(pod("other", "web"));
    cluster.server.create(
        serde_json::json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } }),
    );
    for (words, expected) in [
        (vec!["watch", "deployments.a"], "deployments.apps\n:6\n"),
        (vec!["watch", "pods,deployments.a"], "pods,deployments.apps\n:6\n"),
        (vec!["top", "deployments.a"], "deployments.apps\n:6\n"),
        (vec!["watch", "pods", "-n", "shop", "ca"], "cart-1\ncart-2\n:4\n"),
        (
            vec!["watch", "-n", "shop", "pod/"],
            "pod/cart-1\npod/cart-2\n:4\n",
        ),
        (vec!["watch", "pods", "-n", "sh"], "shop\n:4\n"),
        (vec!["--context=kube"], "--context=kube-testserver\n:4\n"),
        (vec!["--context", "kube"], "kube-testserver\n:4\n"),
        (vec!["watch", "gadgets", ""], ":4\n"),
        (vec!["--kubeconfig", "/nowhere", "watch", "po"], ":6\n"),
    ] {
        let all: Vec<&str> = std::iter::once("__complete")
            .chain(words.iter().copied())
            .collect();
        let ended = cluster.run(&all).await;
        assert_eq!(
            (ended.code, ended.out.as_str()),
            (Some(0), expected),
            "{words:?}: {}",
            ended.err
        );
        assert_eq!(ended.err, "", "{words:?}");
    }
    // A link under the name that kubectl looks for.
    let link = cluster.home().path().join("kubectl_complete-informers");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-informers"), &link).unwrap();
    let output = tokio::process::Command::new(&link)
        .arg("trou")
        .output()
        .await
        .unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("trouble\t"));
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_text_or_json_and_off_by_default() {
    let cluster = crate::program::Cluster::new().await;
    for (format, log) in [("json", "{\"timestamp\""), ("text", " DEBUG ")] {
        let mut command = cluster
            .home()
            .command(&["watch", "pods", "-o", "json", "--log-format", format]);
        command.env("RUST_LOG", "kube_informers=debug");
        let mut program = crate::program::Program::start(command);
        program.event_of("synced").await;
        program.says(log).await;
    }
    let mut program = cluster.start(&["watch", "pods", "-o", "json", "-q"]);
    program.event_of("synced").await;
    assert_eq!(program.err(), "");
}
