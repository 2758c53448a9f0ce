//! Servers that go away, readers that go away, users who have seen enough.

use k8s_openapi::api::core::v1::Pod;
use kube_testserver::builders::pod;
use kube_testserver::{Fault, RequestMatcher, TestServer};
use serde_json::json;

use crate::program::{Cluster, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_watch_is_reported() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("default", "cart"));
    let mut program = cluster.start(&["watch", "pods", "-o", "json"]);
    program.event_of("synced").await;
    cluster
        .server
        .wait_for("the program watches", |server| server.open_watches() == 1)
        .await;

    cluster.server.break_watches();
    cluster.server.create(pod("default", "meanwhile"));

    assert_eq!(program.event().await["name"], "meanwhile");
    program.says("watching from the last version").await;
    program
        .says("s: resumed from the last version, nothing was missed; caught up on 1 change")
        .await;
    assert!(!program.err().contains("listing again"), "{}", program.err());
    let stamped = program
        .err()
        .lines()
        .filter(|line| line.contains("interrupted: ") || line.contains("watching pods again after"))
        .filter(|line| line.as_bytes().get(2) == Some(&b':') && line.as_bytes().get(5) == Some(&b':'))
        .count();
    assert_eq!(stamped, 2, "once each, with the time: {}", program.err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_restarted_without_its_state_is_relisted_and_deletions_are_printed() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("default", "old"));
    cluster.server.create(pod("default", "stays"));
    let mut program = cluster.start(&["watch", "pods", "-o", "json"]);
    program.event_of("synced").await;
    let address = cluster.server.url().unwrap().replace("http://", "");

    cluster.server.shutdown().await;
    program.says("failed").await;
    let again = within("the port is free", async {
        let mut look = tokio::time::interval(std::time::Duration::from_millis(20));
        loop {
            look.tick().await;
            if let Ok(server) = TestServer::builder().seed(9).listen(&address).await {
                return server;
            }
        }
    })
    .await;
    // Its versions are later, and it knows nothing of what was before.
    again.skip_versions(1000);
    again.create(pod("default", "new"));
    again.compact();

    let mut reported = Vec::new();
    while reported.len() < 3 {
        let event = program.event().await;
        reported.push((
            event["event"].clone(),
            event["name"].clone(),
            event["cause"].clone(),
        ));
    }
    for expected in [
        (json!("deleted"), json!("old"), json!("missed")),
        (json!("deleted"), json!("stays"), json!("missed")),
        (json!("added"), json!("new"), json!(null)),
    ] {
        assert!(reported.contains(&expected), "{expected:?} in {reported:?}");
    }
    program.says("again after").await;
    again.delete::<Pod>("default", "new");
    assert_eq!(program.event().await["cause"], "observed");
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_history_causes_a_relist_that_is_reported() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("default", "cart"));
    let mut program = cluster.start(&["watch", "pods", "-o", "json"]);
    program.event_of("synced").await;
    cluster
        .server
        .wait_for("the program watches", |server| server.open_watches() == 1)
        .await;
    let version = cluster.server.resource_version();
    cluster.server.refuse_connections(true);
    cluster.server.break_watches();
    cluster.server.delete::<Pod>("default", "cart");
    cluster.server.compact_to(version + 1);
    cluster.server.refuse_connections(false);

    let deleted = program.event().await;

    assert_eq!(
        (&deleted["event"], &deleted["cause"]),
        (&json!("deleted"), &json!("missed"))
    );
    program
        .says(
            "listed again because the last version has expired, changes in between were merged; caught up on 1 change, 1 \
             missed delete included",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pipe_ends_it_silently() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("default", "cart"));
    for arguments in [
        &["watch", "pods", "-o", "json", "-q"][..],
        &["watch", "pods", "-q"],
        &["top", "pods", "-q"],
    ] {
        let mut program = cluster.start(arguments);
        program.line().await;
        program.close_output();
        cluster
            .server
            .wait_for("the program watches", |server| server.open_watches() > 0)
            .await;
        // Its first write after that fails.
        cluster.server.recreate("pods", "default/cart");

        let ended = program.end().await;

        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{arguments:?}");
        cluster
            .server
            .wait_for("the watch is closed", |server| server.open_watches() == 0)
            .await;
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn signals_end_it_with_the_code_of_the_signal() {
    let cluster = Cluster::new().await;
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        for arguments in [&["watch", "pods", "-o", "json"][..], &["top", "pods"]] {
            let mut program = cluster.start(arguments);
            program.line().await;
            program.signal(signal).await;
            let ended = program.end().await;
            assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.err);
            assert!(!ended.err.contains("panicked"), "{}", ended.err);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_object_is_named_and_the_others_are_shown() {
    use kube_testserver::Poison;
    let cluster = Cluster::new().await;
    cluster.server.create(pod("default", "bad"));
    cluster.server.create(pod("default", "good"));
    cluster.server.poison(
        "pods",
        "default/bad",
        Poison::edit(|object| object["kind"] = json!("Impostor")),
    );
    let mut program = cluster.start(&["watch", "pods", "-o", "json"]);

    assert_eq!(program.event().await["name"], "good");
    program
        .says("pod default/bad is not shown: it is a v1/Impostor, not a v1/Pod")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_without_a_name_is_counted_and_the_others_are_shown() {
    use kube_testserver::Poison;
    let cluster = Cluster::new().await;
    cluster.server.create(pod("default", "bad"));
    cluster.server.create(pod("default", "good"));
    cluster.server.poison(
        "pods",
        "default/bad",
        Poison::edit(|object| {
            object["metadata"].as_object_mut().unwrap().remove("name");
        }),
    );
    let mut program = cluster.start(&["watch", "pods", "-o", "json"]);

    assert_eq!(program.event().await["name"], "good");
    program.says("1 pod without a name is not shown").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_unreadable_objects_are_a_few_lines_and_a_number() {
    use kube_testserver::Poison;
    let cluster = Cluster::new().await;
    for number in 0..300 {
        let name = format!("bad-{number}");
        cluster.server.create(pod("default", &name));
        cluster.server.poison(
            "pods",
            &format!("default/{name}"),
            Poison::edit(|object| object["kind"] = json!("Impostor")),
        );
    }
    let mut program = cluster.start(&["watch", "pods", "-o", "json"]);
    program.event_of("synced").await;
    program.says("and 295 more pods are not shown").await;
    assert_eq!(program.err().matches("is not shown: it is a").count(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_reported_once_for_all_kinds_and_the_end_only_when_the_server_accepts() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("default", "cart"));
    let mut program = cluster.start(&["watch", "pods,cm,secrets", "-o", "json"]);
    for _ in 0..3 {
        program.event_of("synced").await;
    }
    cluster
        .server
        .wait_for("the program watches", |server| server.open_watches() == 3)
        .await;
    // New watches are requested at once, and accepted three seconds later.
    let delay = std::time::Duration::from_secs(3);
    cluster
        .server
        .fault(RequestMatcher::any().times(3), Fault::delay(delay));
    cluster.server.break_watches();
    program.says("interrupted: ").await;
    program
        .says("watching configmaps, pods, secrets again after")
        .await;
    program.says("nothing was missed").await;
    let said = program.err();
    let seconds = said
        .split("again after ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    assert!(seconds.parse::<f64>().unwrap() >= 2.9, "{said}");
    assert_eq!(
        program.err().matches("interrupted: ").count(),
        1,
        "{}",
        program.err()
    );
    assert_eq!(
        program.err().matches("again after").count(),
        1,
        "{}",
        program.err()
    );
}
