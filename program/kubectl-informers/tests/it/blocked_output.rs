//! A reader that stops reading without closing the pipe, as `| less` does.

use std::io::{PipeReader, PipeWriter, Write};

use k8s_openapi::api::core::v1::Pod;
use kube_testserver::builders::{Build, pod};
use rustix::pipe::fcntl_setpipe_size;

use crate::program::{Cluster, Program};

const COMMANDS: [&[&str]; 3] = [
    &["watch", "pods", "-o", "json"],
    &["watch", "pods"],
    &["top", "pods", "--plain"],
];

fn annotate(cluster: &Cluster, name: &str, value: &str) {
    cluster.server.modify("default", name, |pod: &mut Pod| {
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert("note".to_owned(), value.to_owned());
    });
}

/// A program that cannot write any further: every pod has changed more often than a pipe can hold.
async fn blocked(cluster: &Cluster, arguments: &[&str]) -> Program {
    let mut program = cluster.start(arguments);
    match arguments {
        ["watch", _] => program.says("watching for changes").await,
        ["watch", ..] => drop(program.line_with("\"synced\"").await),
        _ => drop(program.line_with("SYNCED").await),
    }
    for number in 0..600 {
        annotate(cluster, "cart", &format!("{number} {}", "x".repeat(300)));
    }
    program.blocked().await;
    program
}

async fn small_cluster() -> Cluster {
    let cluster = Cluster::new().await;
    cluster
        .server
        .create(pod("default", "cart").annotation("note", "start"));
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_program_while_its_output_is_blocked() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        for arguments in COMMANDS {
            let cluster = small_cluster().await;
            let program = blocked(&cluster, arguments).await;
            program.signal(signal).await;

            assert_eq!(program.exit_code().await, Some(code), "{signal}: {arguments:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_program_at_once() {
    let cluster = small_cluster().await;
    let program = blocked(&cluster, COMMANDS[0]).await;
    program.signal("INT").await;
    cluster
        .server
        .wait_for("the program closes its watch", |server| {
            server.open_watches() == 0
        })
        .await;
    program.signal("TERM").await;

    // Without the second signal it would wait, and end with the code of the first one.
    assert_eq!(program.exit_code().await, Some(143));
}

#[tokio::test(flavor = "multi_thread")]
async fn blocked_output_is_coalesced_by_key_in_bounded_memory() {
    let cluster = small_cluster().await;
    let mut program = blocked(&cluster, COMMANDS[0]).await;
    let before = program.peak_memory();
    let size = 40_000;
    for number in 0..4000 {
        annotate(&cluster, "cart", &format!("{number} {}", "y".repeat(size)));
    }
    annotate(&cluster, "cart", "the end");

    let mut coalesced = 0;
    let mut last_version = None;
    loop {
        let event = program.event().await;
        if event["event"] != "updated" {
            continue;
        }
        if let Some(last) = last_version.replace(event["resourceVersion"].clone()) {
            assert_eq!(event["oldResourceVersion"], last, "no state is skipped silently");
        }
        coalesced += event["coalesced"].as_u64().unwrap_or(0);
        if event["diff"][0]["new"] == "the end" {
            break;
        }
    }

    assert!(coalesced > 1000, "{coalesced} changes were merged");
    let grown = program.peak_growth(before);
    assert!(
        grown < 100_000_000,
        "grew by {grown} bytes while 160 MB of changes arrived"
    );
    program.says("the output was blocked").await;
}

/// A pipe with room for this many bytes.
fn nearly_full_pipe(room: usize) -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    // One page, the smallest pipe.
    let size = fcntl_setpipe_size(&writer, 4096).unwrap();
    writer.write_all(&vec![b'.'; size - room]).unwrap();
    (reader, writer)
}

/// Notes are written in the background, and so are logs.
#[tokio::test(flavor = "multi_thread")]
async fn blocked_standard_error_delays_no_signal_and_costs_bounded_memory() {
    for (log, changes) in [("off", 1500), ("trace", 200)] {
        let cluster = small_cluster().await;
        let (_unread, stderr) = nearly_full_pipe(100);
        let mut command = cluster.home().command(&["watch", "pods", "-o", "json"]);
        command.env("RUST_LOG", log).stderr(stderr);
        let mut program = Program::start(command);
        program.event_of("synced").await;
        cluster
            .server
            .wait_for("the program watches", |server| server.open_watches() == 1)
            .await;
        // The note about it does not fit into the pipe.
        cluster.server.break_watches();
        annotate(&cluster, "cart", "after the break");
        let before = program.peak_memory();
        for number in 0..changes {
            annotate(&cluster, "cart", &format!("{number} {}", "y".repeat(40_000)));
        }
        cluster
            .server
            .wait_for("the program watches again", |server| server.open_watches() == 1)
            .await;

        let grown = program.peak_growth(before);
        assert!(grown < 60_000_000, "RUST_LOG={log}: grew by {grown} bytes");
        program.signal("TERM").await;
        assert_eq!(program.exit_code().await, Some(143), "RUST_LOG={log}");
    }
}
