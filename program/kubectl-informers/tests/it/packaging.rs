//! What a release consists of: the archives, the manifest for krew, and the one for `serve` in a cluster.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use crate::health::becomes;
use crate::program::{Cluster, Ended, Home, Program, ended, within};

const MANIFEST: &str = include_str!("../../../../packaging/serve.yaml");
const KREW: &str = include_str!("../../../../.krew.yaml");
const WORKFLOW: &str = include_str!("../../../../.github/workflows/release.yml");
const PACKAGE: &str = include_str!("../../Cargo.toml");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

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
    let mut program = Program::start(command);
    within("the page", program.line_with("Serving http://")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_works_with_exactly_the_permissions_of_the_manifest() {
    let home = Home::new();
    let config = home.path().join("config");
    let config = config.to_str().unwrap();
    let manifest = format!("{ROOT}/packaging/serve.yaml");
    let mut server = home.start(&[
        "testserver",
        "--port",
        "0",
        "--tls",
        "--rbac",
        "--manifest",
        &manifest,
        "--kubeconfig",
        config,
    ]);
    server.line_with(config).await;
    let account = [
        "--kubeconfig",
        config,
        "--as",
        "system:serviceaccount:informers:informers",
    ];

    let arguments = texts(&object("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]);
    let serve = [arguments[0].as_str(), &arguments[1], "--port", "0"];
    let mut program = home.start(&[&serve[..], &account].concat());
    let line = program.line_with("Serving http://").await;
    let address = line.trim_start_matches("Serving http://").trim_end_matches('/');
    becomes(address.parse().unwrap(), "/readyz", 200).await;

    // Everything else is refused.
    let ended = home
        .run(&[&["watch", "secrets", "-A"][..], &account].concat())
        .await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.contains("cannot list resource \"secrets\""),
        "{}",
        ended.err
    );
}

/// Runs `packaging/archive` in a directory.
async fn archive(directory: &Path, program: &Path) -> Ended {
    let mut command = Command::new(format!("{ROOT}/packaging/archive"));
    command
        .arg("some-target")
        .arg(program)
        .current_dir(directory)
        .stdin(Stdio::null());
    ended(command).await
}

#[tokio::test]
async fn the_archive_has_the_program_and_its_completion_at_the_top() {
    let home = Home::new();
    let program = home.write("built/program", "#!/bin/sh\necho \"$@\"\n");
    let made = archive(home.path(), &program).await;
    assert_eq!(made.code, Some(0), "{}", made.err);
    let unpacked = home.path().join("unpacked");
    std::fs::create_dir(&unpacked).unwrap();
    let mut unpack = Command::new("tar");
    unpack
        .args(["-xzf", "../kubectl-informers-some-target.tar.gz"])
        .current_dir(&unpacked);
    assert_eq!(ended(unpack).await.code, Some(0));

    let mut names: Vec<String> = std::fs::read_dir(&unpacked)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["LICENSE", "kubectl-informers", "kubectl_complete-informers"]
    );
    // As kubectl runs it.
    let path = std::env::var("PATH").unwrap_or_default();
    let mut complete = Command::new(unpacked.join("kubectl_complete-informers"));
    complete
        .arg("watch")
        .env("PATH", format!("{}:{path}", unpacked.display()));
    assert_eq!(ended(complete).await.out, "__complete watch\n");
}

#[tokio::test]
async fn a_program_of_25_mb_is_refused() {
    let home = Home::new();
    let program = home.path().join("program");
    for (size, code) in [(24_999_999, 0), (25_000_000, 1)] {
        std::fs::File::create(&program).unwrap().set_len(size).unwrap();
        let made = archive(home.path(), &program).await;
        assert_eq!(made.code, Some(code), "{size}: {}", made.err);
    }
}

#[test]
fn krew_and_binstall_load_the_archives_that_the_workflow_makes() {
    let workflow: Value = serde_saphyr::from_str(WORKFLOW).unwrap();
    let matrix = &workflow["jobs"]["program"]["strategy"]["matrix"]["include"];
    let built: BTreeSet<&str> = matrix
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["target"].as_str().unwrap())
        .collect();
    assert!(WORKFLOW.contains(
        "packaging/archive ${{ matrix.target }} target/${{ matrix.target }}/release/kubectl-informers"
    ));

    // As krew-release-bot fills the template in, with its fixed indentation.
    let mut manifest = String::new();
    for line in KREW.replace("{{ .TagName }}", "v1.2.3").lines() {
        match line.split_once("{{addURIAndSha \"") {
            Some((indent, rest)) => {
                let url = rest.strip_suffix("\" .TagName }}").expect(line);
                manifest.push_str(&format!("{indent}uri: {url}\n    sha256: abc123\n"));
            }
            None => manifest.push_str(&format!("{line}\n")),
        }
    }
    let manifest: Value = serde_saphyr::from_str(&manifest).unwrap();
    assert_eq!(manifest["spec"]["version"], "v1.2.3");
    let mut loaded = BTreeSet::new();
    for platform in manifest["spec"]["platforms"].as_array().unwrap() {
        assert_eq!(platform["bin"], "kubectl-informers");
        assert_eq!(platform["sha256"], "abc123");
        let target = platform["uri"]
            .as_str()
            .unwrap()
            .strip_prefix("https://github.com/kube-informers/kube-informers/releases/download/v1.2.3/kubectl-informers-")
            .and_then(|rest| rest.strip_suffix(".tar.gz"));
        let target = target.unwrap_or_else(|| panic!("{platform}"));
        let labels = &platform["selector"]["matchLabels"];
        let (os, arch) = (labels["os"].as_str().unwrap(), labels["arch"].as_str().unwrap());
        assert!(target.contains(os), "{target} is not {os}");
        assert_eq!(
            target.starts_with("x86_64"),
            arch == "amd64",
            "{target} is not {arch}"
        );
        loaded.insert(target.to_owned());
    }
    assert_eq!(loaded.iter().map(String::as_str).collect::<BTreeSet<_>>(), built);

    // Every address of binstall is one of them, too.
    for line in PACKAGE.lines().filter(|line| line.starts_with("pkg-url")) {
        let file = line.rsplit('/').next().unwrap().trim_end_matches('"');
        let target = file
            .replace("{ name }", "kubectl-informers")
            .replace("{ target }", "x86_64-unknown-linux-musl");
        let target = target
            .trim_start_matches("kubectl-informers-")
            .trim_end_matches(".tar.gz");
        assert!(built.contains(target), "{line}");
    }
}
