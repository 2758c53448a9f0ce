//! Resource versions: waited for, kept fresh, and asked for in every way a request can.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube_informers::{Informer, ResourceVersion, Scope};
use kube_informers_e2e::{PATIENCE, Server};
use serde_json::{Value, json};

use crate::support::{Observed, Outcome, config_map, frames, get, merge, namespace, scenarios, unique};

scenarios! {
    a_write_can_be_read_back_once_its_version_is_reached: Setup::shared();
    a_bookmark_brings_an_idle_watch_up_to_date_before_it_ends: Setup::shared();
    an_idle_informer_reaches_versions_that_were_written_elsewhere: Setup::shared();
    versions_and_matches_are_honoured_and_refused_alike: Setup::shared();
    a_version_from_the_future_is_waited_for_and_then_refused: Setup::shared();
    a_watch_list_tells_what_is_there_marks_the_end_and_goes_on: Setup::shared();
}

async fn a_write_can_be_read_back_once_its_version_is_reached(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let observed =
        Observed::synced(Informer::<ConfigMap>::namespaced(client.clone(), &namespace.name)).await?;
    let store = observed.informer.store();
    maps.create(&PostParams::default(), &config_map("own", 0)).await?;

    for value in 0..50 {
        let written = merge(&maps, "own", json!({ "data": { "value": format!("{value}.") } })).await?;
        observed.informer.wait_for(&written, PATIENCE).await?;
        let read = store
            .get_by(Some(&namespace.name), "own")
            .and_then(|own| own.metadata.resource_version.clone());
        assert_eq!(read.as_deref(), Some(written.as_str()));
    }
    maps.delete("own", &DeleteParams::default()).await?;
    // What others write in the scope takes us past the deletion.
    let after = maps
        .create(&PostParams::default(), &config_map("after", 0))
        .await?;
    observed
        .reaches(after.metadata.resource_version.as_deref().unwrap_or_default())
        .await?;
    assert!(store.get_by(Some(&namespace.name), "own").is_none());
    observed.assert_exact(&[maps], &ListParams::default()).await?;
    namespace.delete().await?;
    Ok(())
}

async fn a_bookmark_brings_an_idle_watch_up_to_date_before_it_ends(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let path = format!("/api/v1/namespaces/{}/configmaps", namespace.name);
    let idle = format!("{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds=5&labelSelector=idle");
    let before = get(&client, &path)
        .await?
        .text_at("/metadata/resourceVersion")
        .to_owned();
    // Written elsewhere in the collection, outside of the selection.
    let written = maps
        .create(&PostParams::default(), &config_map("elsewhere", 0))
        .await?;

    let told = frames(&client, &format!("{idle}&resourceVersion={before}")).await?;

    let last = told.last().unwrap_or(&Value::Null);
    assert!(told.iter().all(|frame| frame["type"] == "BOOKMARK"), "{told:?}");
    let version = last["object"]["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    let written = written.metadata.resource_version.unwrap_or_default();
    assert!(
        ResourceVersion::compare(&written, version).is_some_and(|order| order.is_le()),
        "the bookmark is of {version}, and {written} was written before"
    );
    assert_eq!(
        (&last["object"]["kind"], &last["object"]["apiVersion"]),
        (&json!("ConfigMap"), &json!("v1"))
    );
    // From there nothing is left to tell.
    assert_eq!(
        frames(
            &client,
            &format!("{path}?watch=1&timeoutSeconds=1&resourceVersion={version}")
        )
        .await?,
        [] as [Value; 0]
    );
    namespace.delete().await?;
    Ok(())
}

async fn an_idle_informer_reaches_versions_that_were_written_elsewhere(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let scope = Scope::namespace(&namespace.name).labels(&unique("idle"))?;
    let observed = Observed::synced(Informer::<ConfigMap>::scoped(client.clone(), scope)).await?;
    let written = namespace
        .config_maps()
        .create(&PostParams::default(), &config_map("elsewhere", 0))
        .await?;
    let version = written.metadata.resource_version.unwrap_or_default();

    // A bookmark comes about once a minute.
    observed.informer.wait_for(&version, PATIENCE * 2).await?;

    let members = observed.informer.stats().members;
    assert!(members[0].reflector.bookmarks > 0);
    assert_eq!(observed.lists(), 1);
    assert_eq!(observed.story.len(), 0, "nobody is told of it");
    namespace.delete().await?;
    Ok(())
}

async fn versions_and_matches_are_honoured_and_refused_alike(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let path = format!(
        "/api/v1/namespaces/{}/configmaps?labelSelector=even",
        namespace.name
    );
    maps.create(&PostParams::default(), &config_map("a", 0)).await?;
    let first = maps.create(&PostParams::default(), &config_map("b", 0)).await?;
    let v = first.metadata.resource_version.unwrap_or_default();
    maps.create(&PostParams::default(), &config_map("c", 0)).await?;
    let names = async |query: &str| -> Result<Vec<String>, kube::Error> {
        let list = get(&client, &format!("{path}&{query}")).await?;
        assert_eq!(list.code, 200, "{query}: {}", list.text);
        Ok(list.names().iter().map(|name| name.to_string()).collect())
    };
    let (then, now) = (["a", "b"], ["a", "b", "c"]);

    assert_eq!(names("").await?, now);
    assert_eq!(names("resourceVersion=0").await?, now);
    assert_eq!(
        names("resourceVersion=0&resourceVersionMatch=NotOlderThan").await?,
        now
    );
    assert_eq!(
        names("resourceVersion=0&limit=1").await?,
        now,
        "the limit is ignored"
    );
    assert_eq!(names(&format!("resourceVersion={v}")).await?, now);
    assert_eq!(
        names(&format!("resourceVersion={v}&resourceVersionMatch=NotOlderThan")).await?,
        now
    );
    assert_eq!(
        names(&format!("resourceVersion={v}&resourceVersionMatch=Exact")).await?,
        then
    );
    assert_eq!(
        names(&format!("resourceVersion={v}&limit=10")).await?,
        then,
        "a limit makes it exact"
    );
    assert_eq!(
        names(&format!("resourceVersion={v}&resourceVersionMatch=Exact&limit=1")).await?,
        ["a"]
    );
    assert_eq!(
        names(&format!(
            "resourceVersion={v}&resourceVersionMatch=NotOlderThan&limit=1"
        ))
        .await?,
        ["a"]
    );
    let exact = get(
        &client,
        &format!("{path}&resourceVersion={v}&resourceVersionMatch=Exact"),
    )
    .await?;
    assert_eq!(exact.text_at("/metadata/resourceVersion"), v);

    let invalid = "ListOptions.meta.k8s.io \"\" is invalid: ";
    let refused = [
        (
            "resourceVersionMatch=Exact",
            422,
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            422,
            "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ),
        (
            "resourceVersionMatch=Soon&resourceVersion=5",
            422,
            "resourceVersionMatch: Unsupported value: \"Soon\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=5&continue=x",
            422,
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
        ),
        (
            "sendInitialEvents=true",
            422,
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
        (
            "watch=1&sendInitialEvents=true",
            422,
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
            422,
            "[resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]",
        ),
        (
            "watch=1&resourceVersionMatch=NotOlderThan",
            422,
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        (
            "resourceVersion=new",
            400,
            "invalid resource version: resourceVersion: Invalid value: \"new\": strconv.ParseUint: parsing \"new\": invalid syntax",
        ),
        (
            "watch=1&resourceVersion=new",
            500,
            "resourceVersion: Invalid value: \"new\": strconv.ParseUint: parsing \"new\": invalid syntax",
        ),
        (
            "limit=many",
            400,
            "strconv.ParseInt: parsing \"many\": invalid syntax",
        ),
        (
            "continue=!!!",
            400,
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 0",
        ),
        (
            "continue=abc",
            400,
            "invalid continue token: continue key is not valid: invalid character 'i' looking for beginning of value",
        ),
        (
            "continue=e30",
            400,
            "invalid continue token: continue key is not valid: server does not recognize this encoded version ",
        ),
        (
            "timeoutSeconds=soon",
            400,
            "strconv.ParseInt: parsing \"soon\": invalid syntax",
        ),
    ];
    for (query, code, message) in refused {
        let answer = get(&client, &format!("{path}&{query}")).await?;
        let message = if code == 422 {
            format!("{invalid}{message}")
        } else {
            message.to_owned()
        };
        assert_eq!(
            (answer.code, answer.text_at("/message")),
            (code, message.as_str()),
            "{query}"
        );
    }
    namespace.delete().await?;
    Ok(())
}

async fn a_version_from_the_future_is_waited_for_and_then_refused(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let path = format!(
        "/api/v1/namespaces/{}/configmaps?resourceVersion=9999999999",
        namespace.name
    );
    for query in [
        "",
        "&resourceVersionMatch=NotOlderThan",
        "&resourceVersionMatch=Exact",
        "&limit=5",
    ] {
        let refused = get(&client, &format!("{path}{query}")).await?;
        assert_eq!(
            (refused.code, refused.text_at("/reason")),
            (504, "Timeout"),
            "{query}"
        );
        assert!(
            refused
                .text_at("/message")
                .starts_with("Timeout: Too large resource version: 9999999999, current: ")
        );
        assert_eq!(refused.json["details"]["retryAfterSeconds"], 1, "{query}");
        assert_eq!(refused.retry_after.as_deref(), Some("1"), "{query}");
        assert_eq!(
            refused.text_at("/details/causes/0/reason"),
            "ResourceVersionTooLarge"
        );
    }
    // A watch is silent, and a watch-list fails inside the stream.
    assert_eq!(
        frames(&client, &format!("{path}&watch=1&timeoutSeconds=1")).await?,
        [] as [Value; 0]
    );
    let list = frames(&client, &format!("{path}&watch=1&timeoutSeconds=9&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1")).await?;
    assert_eq!(list.len(), 1);
    assert_eq!(
        (&list[0]["type"], &list[0]["object"]["code"]),
        (&json!("ERROR"), &json!(504))
    );
    namespace.delete().await?;
    Ok(())
}

async fn a_watch_list_tells_what_is_there_marks_the_end_and_goes_on(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    for name in ["b", "a"] {
        maps.create(&PostParams::default(), &config_map(name, 0)).await?;
    }
    let path = format!(
        "/api/v1/namespaces/{}/configmaps?watch=1&labelSelector=even&timeoutSeconds=4",
        namespace.name
    );
    let words = |frames: Vec<Value>| -> Vec<String> {
        frames
            .iter()
            .map(|frame| {
                let end = &frame["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"];
                match (frame["type"].as_str().unwrap_or_default(), end.as_str()) {
                    ("BOOKMARK", Some("true")) => "END".to_owned(),
                    ("BOOKMARK", _) => "BOOKMARK".to_owned(),
                    (event, _) => format!(
                        "{event} {}",
                        frame["object"]["metadata"]["name"].as_str().unwrap_or_default()
                    ),
                }
            })
            .filter(|word| word != "BOOKMARK")
            .collect()
    };
    let all = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    assert_eq!(
        words(frames(&client, &format!("{path}&{all}")).await?),
        ["ADDED a", "ADDED b", "END"]
    );
    let unmarked = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    assert_eq!(
        words(frames(&client, &format!("{path}&{unmarked}")).await?),
        ["ADDED a", "ADDED b"]
    );
    let none = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    assert_eq!(
        words(frames(&client, &format!("{path}&{none}")).await?),
        [] as [&str; 0]
    );
    // The old way, without a version: the same, and the end is marked where bookmarks are taken.
    assert_eq!(words(frames(&client, &path).await?), ["ADDED a", "ADDED b"]);
    assert_eq!(
        words(frames(&client, &format!("{path}&allowWatchBookmarks=true")).await?),
        ["ADDED a", "ADDED b", "END"]
    );
    namespace.delete().await?;
    Ok(())
}
