//! Recordings that were cut or damaged, recorders that are killed, disks that are full, and how much memory a recorder needs.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_testserver::builders::{Build, pod};

use crate::program::{Program, within};
use crate::recording::{Recorded, stop};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_recorder_leaves_a_readable_file_that_is_continued() {
    let recorded = Recorded::new().await;
    recorded
        .cluster
        .server
        .create(pod("shop", "cart").label("step", "zero"));
    let recorder = recorded.record("pods").await;
    recorded.label("cart", "one");
    recorded.has("updated", 1).await;
    recorder.signal("KILL").await;
    recorder.exit_code().await;
    // As if the last block had not been written completely.
    let torn = [std::fs::read(&recorded.file).unwrap(), b"\xf1KIBC".to_vec()].concat();
    std::fs::write(&recorded.file, torn).unwrap();

    let ended = recorded.run(&["history", recorded.path()]).await;
    assert!(ended.out.contains("zero → one"), "{}", ended.out);
    assert!(
        ended.err.contains("the last 5 bytes") && ended.err.contains("incomplete"),
        "{}",
        ended.err
    );

    recorded.label("cart", "two");
    let recorder = recorded.record("pods").await;
    assert!(
        recorder
            .err()
            .contains("its last 5 bytes were an incomplete block"),
        "{}",
        recorder.err()
    );
    let lines = recorded.has("updated", 2).await;
    stop(recorder).await;
    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["began", "updated", "began", "updated"]);
    assert!(
        lines[2]["message"].as_str().unwrap().contains("was killed at"),
        "{lines:?}"
    );
    assert_eq!(
        lines[3]["diff"][0]["new"], "two",
        "what changed in between is shown"
    );
}

/// Damage in the middle costs what follows up to the next keyframe, and every command says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_recording_yields_what_is_readable_and_a_clear_message() {
    let recorded = Recorded::story().await;
    let whole = std::fs::read(&recorded.file).unwrap();
    let sound = recorded.history(&[]).await.len();
    // Blocks begin with these bytes. The last one says that the recorder ended, the one before has the last change.
    let starts: Vec<usize> = (0..whole.len())
        .filter(|at| whole[*at..].starts_with(b"\xf1KIB"))
        .collect();
    let last_change = starts[starts.len() - 2];
    let at = last_change + 50;
    let mut damaged = whole.clone();
    damaged[at] ^= 0x55;
    std::fs::write(&recorded.file, &damaged).unwrap();

    let history = recorded.run(&["history", recorded.path()]).await;
    assert_eq!(history.code, Some(0), "{}", history.err);
    assert!(history.out.contains("zero → one"), "{}", history.out);
    let lines = recorded.history(&[]).await.len();
    assert!((2..sound).contains(&lines), "{lines} of {sound}");
    let at = recorded.run(&["at", "end", recorded.path(), "-o", "name"]).await;
    assert_eq!(at.code, Some(0), "{}", at.err);
    assert!(at.out.contains("pod/shop/cart"), "{}", at.out);
    let mut watch = recorded
        .cluster
        .start(&["watch", "po", "-o", "json", "--recording", recorded.path()]);
    assert_eq!(watch.event().await["name"], "cart");
    watch.says("damaged").await;
    for said in [&history.err, &at.err] {
        assert!(said.contains("damaged"), "{said}");
    }

    // Cut in the middle of a block, as by a full disk or a copy that was interrupted.
    std::fs::write(&recorded.file, &whole[..last_change + 45]).unwrap();
    let cut = recorded.run(&["history", recorded.path()]).await;
    assert_eq!(cut.code, Some(0), "{}", cut.err);
    assert!(cut.err.contains("incomplete"), "{}", cut.err);
    assert!(cut.out.contains("zero → one"), "{}", cut.out);
}

/// What is written to the disk is not kept.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn the_memory_of_a_recorder_does_not_grow_with_the_recording() {
    let recorded = Recorded::new().await;
    recorded.cluster.server.create(pod("shop", "cart"));
    let recorder = recorded.record("pods").await;
    let write = |number: usize| {
        recorded.cluster.server.modify("shop", "cart", |pod: &mut Pod| {
            let annotations = pod.metadata.annotations.get_or_insert_default();
            // Does not compress.
            let mut text = String::with_capacity(20_000);
            let mut state = number as u64 + 1;
            while text.len() < 20_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(&format!("{state:x}"));
            }
            annotations.insert("note".to_owned(), text);
        });
    };
    // When the next object is in the recording, everything before is.
    let is_recorded = async |name: &str| {
        recorded.cluster.server.create(pod("shop", name));
        let named = format!("pod/{name}");
        within(name, async {
            let at = ["at", "end", recorded.path(), &named, "-o", "name"];
            while recorded.run(&at).await.code != Some(0) {}
        })
        .await;
    };
    (0..700).for_each(write);
    is_recorded("first").await;
    let before = recorder.peak_memory();
    (700..1400).for_each(write);
    is_recorded("second").await;

    let grown = recorder.peak_growth(before);

    let size = std::fs::metadata(&recorded.file).unwrap().len();
    assert!(size > 5_000_000, "{size}");
    assert!(
        grown < 6_000_000,
        "grew by {grown} bytes while 14 MB of changes arrived"
    );
    stop(recorder).await;
}

/// The signal of a file that is too large is ignored, so that the write fails as it does on a full disk.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_an_error_and_what_was_written_is_readable() {
    let recorded = Recorded::new().await;
    for number in 0..50 {
        recorded
            .cluster
            .server
            .create(pod("shop", &format!("cart-{number}")));
    }
    let program = recorded
        .cluster
        .home()
        .command(&["record", recorded.path(), "pods", "--max-size", "1Gi"]);
    let program = program.as_std();
    let mut command = tokio::process::Command::new("bash");
    command
        .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "bash"])
        .arg(program.get_program())
        .args(program.get_args())
        .env_clear()
        .env("HOME", recorded.cluster.home().path())
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true);
    let mut recorder = Program::start(command);
    recorder.says("recording changes").await;
    recorded.label("cart-0", "first");
    recorded.has("updated", 1).await;
    let changes = async {
        let mut pace = tokio::time::interval(Duration::from_millis(10));
        for round in 0.. {
            recorded.label(&format!("cart-{}", round % 50), &format!("{round}"));
            pace.tick().await;
        }
    };
    let ended = tokio::select! {
        ended = recorder.end() => ended,
        () = changes => unreachable!("there is always another round"),
    };
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(
        ended.err.contains("error: cannot write") && ended.err.contains("make room"),
        "{}",
        ended.err
    );
    assert!(recorded.history(&[]).await.len() > 1);
}
