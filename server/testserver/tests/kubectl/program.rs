//! The program without kubectl: flags, errors, exit.

use tokio::net::TcpListener;
use tokio::process::Command;

use crate::cluster::{Cluster, PROGRAM, Scratch, run, text};

pub async fn unknown_flags_are_named_and_exit_with_code_2() {
    let said = run(Command::new(PROGRAM).arg("--prot=1")).await;
    assert_eq!(said.code, Some(2));
    assert!(
        said.err.contains("'--prot'") && said.err.contains("'--port'"),
        "{}",
        said.err
    );

    let said = run(Command::new(PROGRAM).args(["--objects", "pods"])).await;
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("write it as pods=10"), "{}", said.err);

    let said = run(Command::new(PROGRAM).args(["--churn", "5/h"])).await;
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("write 20/s or 5/m"), "{}", said.err);
}

pub async fn busy_port_is_named_and_exits_with_code_1() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = taken.local_addr().unwrap();

    let said = run(Command::new(PROGRAM).args(["--port", &address.port().to_string()])).await;

    assert_eq!(said.code, Some(1));
    assert!(
        said.err
            .contains(&format!("cannot listen on {address}: it is in use")),
        "{}",
        said.err
    );
}

pub async fn invalid_manifest_is_named_and_exits_with_code_1() {
    let scratch = Scratch::new();
    let no_kind = scratch.write("no-kind.yaml", "apiVersion: v1\nmetadata: {name: a}\n");
    let no_yaml = scratch.write("no-yaml.yaml", "a: [");
    let unknown = scratch.write(
        "unknown.yaml",
        "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}\n",
    );
    let refused = scratch.write(
        "refused.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_Fine}\n",
    );

    for (path, wanted) in [
        (&no_kind, "document 1 has no kind"),
        (&no_yaml, "invalid YAML"),
        (&unknown, "object 1 (Gadget \"a\")"),
        (&refused, "object 1 (ConfigMap \"Not_Fine\")"),
    ] {
        let said = run(Command::new(PROGRAM).args(["--port", "0", "--manifest", text(path)])).await;
        assert_eq!(said.code, Some(1), "{}", said.out);
        assert!(
            said.err.contains(text(path)) && said.err.contains(wanted),
            "{}",
            said.err
        );
    }
    let said = run(Command::new(PROGRAM).args(["--port", "0", "--manifest", "not-there.yaml"])).await;
    assert!(
        said.err.contains("cannot read the manifest not-there.yaml"),
        "{}",
        said.err
    );
}

pub async fn unknown_resource_is_named() {
    let said = run(Command::new(PROGRAM).args(["--port", "0", "--objects", "gadgets=1"])).await;
    assert_eq!(said.code, Some(1));
    assert!(
        said.err.contains("--objects: unknown resource \"gadgets\""),
        "{}",
        said.err
    );
}

pub async fn program_prints_usage_and_stops_on_a_signal() {
    for signal in ["-INT", "-TERM"] {
        let cluster = Cluster::start_in(Scratch::new(), &["--objects", "pods=5,nodes=2"]).await;
        let introduction = cluster.introduction.clone();
        assert!(introduction.contains("http://127.0.0.1:"), "{introduction}");
        assert!(
            introduction.contains("2 nodes, 1 deployment and 5 pods"),
            "{introduction}"
        );
        assert!(introduction.contains("kubectl --kubeconfig "), "{introduction}");

        let said = cluster.stop(signal).await;

        assert_eq!(said.code, Some(0), "{signal}");
        assert_eq!(said.out.trim(), "stopped");
    }
}

pub async fn kubeconfig_is_printed_without_a_file() {
    let mut child = Command::new(PROGRAM)
        .args(["--port", "0", "--token", "open-sesame"])
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut out = tokio::io::BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("Ctrl-C stops it.") {
        assert!(
            tokio::io::AsyncBufReadExt::read_line(&mut out, &mut text)
                .await
                .unwrap()
                > 0,
            "{text}"
        );
    }

    assert!(
        text.contains("kind: Config\n") && text.contains("token: open-sesame"),
        "{text}"
    );
    assert!(text.contains("add --tls"), "{text}");
}
