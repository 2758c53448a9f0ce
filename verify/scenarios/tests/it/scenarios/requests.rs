//! Lists and watches on the wire: every combination of version options.

use kube::Client;
use kube::api::PostParams;
use kube_informers_e2e::Server;
use serde_json::{Value, json};

use crate::scenarios::support::{Outcome, all, config_map, frames, get, namespace, scenarios};

scenarios! {
    every_version_option_returns_the_documented_state: Setup::shared();
    conflicting_options_are_rejected_alike: Setup::shared();
    future_version_is_waited_for_and_then_rejected: Setup::shared();
    watch_list_sends_initial_events_an_end_marker_and_changes: Setup::shared();
    watch_sends_exactly_the_changes_after_its_version: Setup::shared();
}

async fn every_version_option_returns_the_documented_state(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let path = format!(
        "/api/v1/namespaces/{}/configmaps?labelSelector=even",
        namespace.name
    );
    maps.create(&PostParams::default(), &config_map("a", 0)).await?;
    let second = maps.create(&PostParams::default(), &config_map("b", 0)).await?;
    let then = second.metadata.resource_version.unwrap_or_default();
    maps.create(&PostParams::default(), &config_map("c", 0)).await?;

    let cases = [
        ("", "a b c"),
        ("&resourceVersion=0", "a b c"),
        ("&resourceVersion=0&resourceVersionMatch=NotOlderThan", "a b c"),
        // Reads from the cache ignore the limit.
        ("&resourceVersion=0&limit=1", "a b c"),
        ("&resourceVersion=THEN", "a b c"),
        ("&resourceVersion=THEN&resourceVersionMatch=NotOlderThan", "a b c"),
        (
            "&resourceVersion=THEN&resourceVersionMatch=NotOlderThan&limit=1",
            "a",
        ),
        ("&resourceVersion=THEN&resourceVersionMatch=Exact", "a b"),
        ("&resourceVersion=THEN&resourceVersionMatch=Exact&limit=1", "a"),
        // With a limit, "at least" becomes "exactly".
        ("&resourceVersion=THEN&limit=10", "a b"),
        ("&limit=2", "a b"),
        ("&limit=-1", "a b c"),
    ];
    for (query, names) in cases {
        let list = get(&client, &format!("{path}{}", query.replace("THEN", &then))).await?;
        assert_eq!(
            (list.code, list.names().join(" ").as_str()),
            (200, names),
            "{query}: {}",
            list.text
        );
        if query.contains("Exact") {
            assert_eq!(list.text_at("/metadata/resourceVersion"), then, "{query}");
        }
    }
    namespace.delete().await?;
    Ok(())
}

async fn conflicting_options_are_rejected_alike(server: &Server) -> Outcome {
    let client = server.client()?;
    let forbidden = |why: &str| format!("resourceVersionMatch: Forbidden: {why}");
    let needs_match = forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    let invalid = [
        (
            "resourceVersionMatch=Exact",
            forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""),
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=5&continue=x",
            forbidden("resourceVersionMatch is forbidden when continue is provided"),
        ),
        (
            "resourceVersionMatch=Soon&resourceVersion=5",
            "resourceVersionMatch: Unsupported value: \"Soon\": supported values: \"Exact\", \"NotOlderThan\", \"\""
                .to_owned(),
        ),
        (
            "sendInitialEvents=true",
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list".to_owned(),
        ),
        ("watch=1&sendInitialEvents=true", needs_match.clone()),
        (
            "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
            format!(
                "[{needs_match}, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]"
            ),
        ),
        (
            "watch=1&resourceVersionMatch=NotOlderThan",
            forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"),
        ),
    ];
    for (query, why) in invalid {
        let refused = get(&client, &format!("/api/v1/configmaps?{query}")).await?;
        let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {why}");
        assert_eq!(refused.status(), (422, "Invalid", message.as_str()), "{query}");
    }

    let not_a_number = |what: &str| format!("strconv.Parse{what}: parsing \"many\": invalid syntax");
    let token = |why: &str| format!("invalid continue token: continue key is not valid: {why}");
    let value = format!(
        "resourceVersion: Invalid value: \"many\": {}",
        not_a_number("Uint")
    );
    let bad = [
        (
            "resourceVersion=many",
            400,
            format!("invalid resource version: {value}"),
        ),
        // On a watch the error has no reason.
        ("watch=1&resourceVersion=many", 500, value),
        ("limit=many", 400, not_a_number("Int")),
        ("timeoutSeconds=many", 400, not_a_number("Int")),
        ("continue=!!!", 400, token("illegal base64 data at input byte 0")),
        (
            "continue=abc",
            400,
            token("invalid character 'i' looking for beginning of value"),
        ),
        (
            "continue=e30",
            400,
            token("server does not recognize this encoded version "),
        ),
        (
            "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiIifQ",
            400,
            token("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        ),
    ];
    for (query, code, message) in bad {
        let refused = get(&client, &format!("/api/v1/configmaps?{query}")).await?;
        let reason = if code == 400 { "BadRequest" } else { "" };
        assert_eq!(refused.status(), (code, reason, message.as_str()), "{query}");
    }
    Ok(())
}

async fn future_version_is_waited_for_and_then_rejected(server: &Server) -> Outcome {
    let client = server.client()?;
    let path = "/api/v1/namespaces/default/configmaps?resourceVersion=9000000000000000000";
    let lists = [
        "",
        "&resourceVersionMatch=NotOlderThan",
        "&resourceVersionMatch=Exact",
        "&limit=5",
    ];
    all(lists.len(), lists, async |query: &str| {
        let refused = get(&client, &format!("{path}{query}")).await?;
        assert_eq!(
            (refused.code, refused.text_at("/reason")),
            (504, "Timeout"),
            "{query}"
        );
        let message = "Timeout: Too large resource version: 9000000000000000000, current: ";
        assert!(
            refused.text_at("/message").starts_with(message),
            "{query}: {}",
            refused.text
        );
        assert_eq!(refused.json["details"]["retryAfterSeconds"], 1, "{query}");
        assert_eq!(refused.retry_after.as_deref(), Some("1"), "{query}");
        let cause = refused.text_at("/details/causes/0/reason");
        assert_eq!(cause, "ResourceVersionTooLarge", "{query}");
        Ok::<(), kube::Error>(())
    })
    .await?;

    // A watch is silent, and a watch-list fails in band.
    let silent = frames(&client, &format!("{path}&watch=1&timeoutSeconds=1")).await?;
    assert_eq!(silent, [] as [Value; 0]);
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1";
    let failed = frames(&client, &format!("{path}&watch=1&timeoutSeconds=9&{initial}")).await?;
    let ends: Vec<_> = failed
        .iter()
        .map(|frame| (&frame["type"], &frame["object"]["code"]))
        .collect();
    assert_eq!(ends, [(&json!("ERROR"), &json!(504))]);
    Ok(())
}

/// `ADDED a`; `END` for the bookmark that ends the initial events. Other bookmarks are skipped: their time is not
/// fixed.
async fn events(client: &Client, path: &str) -> Result<Vec<String>, kube::Error> {
    let frames = frames(client, path).await?;
    let words = frames.iter().filter_map(|frame| {
        let metadata = &frame["object"]["metadata"];
        let is_end = metadata["annotations"]["k8s.io/initial-events-end"] == "true";
        match frame["type"].as_str().unwrap_or_default() {
            "BOOKMARK" if is_end => Some("END".to_owned()),
            "BOOKMARK" => None,
            event => Some(format!(
                "{event} {}",
                metadata["name"].as_str().unwrap_or_default()
            )),
        }
    });
    Ok(words.collect())
}

async fn watch_list_sends_initial_events_an_end_marker_and_changes(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    for name in ["b", "a"] {
        maps.create(&PostParams::default(), &config_map(name, 0)).await?;
    }
    let path = format!(
        "/api/v1/namespaces/{}/configmaps?watch=1&labelSelector=even&timeoutSeconds=3",
        namespace.name
    );
    let initial = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let bookmarks = "&allowWatchBookmarks=true";
    let cases = [
        (format!("{initial}{bookmarks}"), "ADDED a, ADDED b, END"),
        (
            format!("{initial}{bookmarks}&resourceVersion=0"),
            "ADDED a, ADDED b, END",
        ),
        (
            format!("{initial}{bookmarks}&resourceVersion=1"),
            "ADDED a, ADDED b, END",
        ),
        (initial.to_owned(), "ADDED a, ADDED b"),
        (format!("{}{bookmarks}", initial.replace("true", "false")), ""),
        // The legacy form without a version is equivalent; the end is marked if bookmarks are enabled.
        (String::new(), "ADDED a, ADDED b"),
        (bookmarks.to_owned(), "ADDED a, ADDED b, END"),
        ("&resourceVersion=0".to_owned(), "ADDED a, ADDED b"),
    ];
    all(cases.len(), cases, async |(query, words): (String, &str)| {
        let events = events(&client, &format!("{path}{query}")).await?;
        assert_eq!(events.join(", "), words, "{query}");
        Ok::<(), kube::Error>(())
    })
    .await?;
    namespace.delete().await?;
    Ok(())
}

async fn watch_sends_exactly_the_changes_after_its_version(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let path = format!(
        "/api/v1/namespaces/{}/configmaps?watch=1&labelSelector=even&timeoutSeconds=2",
        namespace.name
    );
    let mut versions = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let made = maps.create(&PostParams::default(), &config_map(name, 0)).await?;
        versions.push(made.metadata.resource_version.unwrap_or_default());
    }
    let cases = versions.iter().zip(["b c d", "c d", "d", ""]);
    all(4, cases, async |(version, names): (&String, &str)| {
        let events = events(&client, &format!("{path}&resourceVersion={version}")).await?;
        assert_eq!(events.join(" ").replace("ADDED ", ""), names);
        Ok::<(), kube::Error>(())
    })
    .await?;
    namespace.delete().await?;
    Ok(())
}
