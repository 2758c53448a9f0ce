//! Error statuses, lost connections, and responses that are not from an API server.

use super::*;

#[tokio::test]
async fn refusals_carry_code_and_reason() {
    let status_of = |code: u16, reason: &str| {
        json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "no"})
            .to_string()
    };
    for (code, reason) in [
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (410, "Expired"),
        (422, "Invalid"),
        (500, "InternalError"),
    ] {
        let body = status_of(code, reason);
        let error = refusal(move || status(code, &[("content-type", "application/json")], &body)).await;
        assert_eq!(
            error.to_string(),
            format!("the server returned {code} {reason}: no")
        );
        assert_eq!(error.class(), code.to_string());
    }

    let plain = refusal(|| status(404, &[("content-type", "text/plain")], "404 page not found\n")).await;
    assert_eq!(plain.to_string(), "the server returned 404: 404 page not found");
    let html = refusal(|| status(502, &[("content-type", "text/html")], "<html>Bad Gateway</html>")).await;
    assert_eq!(
        html.to_string(),
        "the server returned 502: (24 bytes of HTML: the response is not from an API server)"
    );
    assert_eq!(
        refusal(|| status(503, &[], "")).await.to_string(),
        "the server returned 503"
    );
    // The timeout filter of the API server sends neither a content type nor a kind.
    let bare = refusal(|| status(504, &[], r#"{"status":"Failure","reason":"Timeout","code":504}"#)).await;
    assert_eq!(bare.to_string(), "the server returned 504 Timeout");
}

#[tokio::test]
async fn a_rejected_page_token_keeps_the_server_message() {
    let body = json!({"kind": "Status", "code": 410, "reason": "Expired",
        "message": "The provided continue parameter is too old", "metadata": {"continue": "other"}})
    .to_string();
    assert!(refusal(move || status(410, &[], &body)).await.is_expired());
    let bad = refusal(|| {
        status(
            400,
            &[],
            r#"{"reason":"BadRequest","message":"continue key is not valid"}"#,
        )
    })
    .await;
    assert!(bad.api().unwrap().is_invalid(), "{bad}");
}

#[tokio::test]
async fn the_time_to_wait_is_kept_in_every_form() {
    let after = |headers: &'static [(&str, &str)], body: &'static str| async move {
        refusal(move || status(429, headers, body)).await.retry_after()
    };
    let details = r#"{"kind":"Status","details":{"retryAfterSeconds":3}}"#;

    assert_eq!(
        after(&[("retry-after", "5")], "slow down").await,
        Some(Duration::from_secs(5))
    );
    assert_eq!(
        after(&[("retry-after", "5")], details).await,
        Some(Duration::from_secs(5))
    );
    assert_eq!(after(&[], details).await, Some(Duration::from_secs(3)));
    let date = &[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")];
    assert_eq!(after(date, details).await, Some(Duration::from_secs(3)));
    assert_eq!(after(&[("retry-after", "-1")], "").await, None);
    assert_eq!(
        after(&[("retry-after", "18446744073709551615")], "").await,
        Some(Duration::from_secs(86_400))
    );
}

#[tokio::test]
async fn an_endless_error_body_is_read_only_so_far() {
    let polled = Arc::new(AtomicUsize::new(0));
    let count = polled.clone();
    let error = refusal(move || {
        let count = count.clone();
        let chunks = stream::repeat_with(move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(Frame::data(Bytes::from(vec![b'x'; 10_000])))
        });
        let mut response = Response::new(StreamBody::new(chunks).boxed_unsync());
        *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
    .await;

    assert_eq!(polled.load(Ordering::Relaxed), 7);
    assert!(error.to_string().len() < 700, "{error}");
}

#[tokio::test]
async fn redirects_are_errors_and_nobody_goes_there() {
    let (client, seen) = client(|| status(302, &[("location", "https://login.example/?token=secret")], ""));

    let lines = list(&pods_of(&client)).await;

    assert_eq!(
        lines,
        [
            "302: the server returned 302: redirects to login.example are not followed: check the server address"
        ]
    );
    assert_eq!(seen.uris().len(), 1);
}

#[tokio::test]
async fn what_is_no_api_server_is_called_so() {
    let by_type = refusal(|| status(200, &[("content-type", "text/html")], "<html>")).await;
    assert_eq!(
        by_type.to_string(),
        "cannot list pods in shop: the response is HTML, not from an API server: \
         check the server address and any proxy in between"
    );
    assert_eq!(by_type.class(), "malformed");
    let empty = refusal(|| status(204, &[], "")).await;
    assert!(
        empty
            .to_string()
            .contains("returned 204, but an API server returns 200"),
        "{empty}"
    );
    let packed = refusal(|| status(200, &[("content-encoding", "gzip")], "\u{1f}")).await;
    assert!(packed.to_string().contains("compressed (gzip)"), "{packed}");
    let other = refusal(|| status(200, &[("content-type", "application/yaml")], "items: []")).await;
    assert!(
        other.to_string().contains("the response is application/yaml"),
        "{other}"
    );

    for body in [
        "<html></html>",
        "OK",
        "{}",
        "",
        r#"{"kind":"Status","status":"Success"}"#,
    ] {
        let (client, _) = client(move || ok(body));
        let lines = list(&pods_of(&client)).await;
        let last = lines.last().unwrap();
        assert!(
            last.starts_with("malformed: cannot list pods in shop: "),
            "{lines:?}"
        );
    }
}

#[tokio::test]
async fn f39_a_list_that_breaks_off_has_no_end() {
    let half = &TWO_PODS[..150];
    let (clean, _) = client(move || ok(half));
    let (broken, _) =
        client(move || Response::new(chunked(vec![Ok(half.into()), Err("connection reset".into())])));

    assert_eq!(
        list(&pods_of(&clean)).await[3..],
        ["malformed: cannot list pods in shop: the list is truncated after 150 bytes"]
    );
    assert_eq!(
        list(&pods_of(&broken)).await[3..],
        ["transport: connection lost: list pods in shop: connection reset"]
    );
}

#[tokio::test]
async fn a_broken_watch_tells_what_came_before() {
    let frame = added("a");
    let (client, _) = client(move || {
        Response::new(chunked(vec![
            Ok(frame.clone().into()),
            Err("connection reset".into()),
        ]))
    });
    assert_eq!(
        watch(&pods_of(&client)).await[2..],
        [
            "added a",
            "transport: connection lost: watch pods in shop: connection reset"
        ]
    );
}

#[tokio::test]
async fn a_refused_connection_is_recognised() {
    // Nothing listens on port 1, and no test can be given it.
    let uri = "http://127.0.0.1:1".parse().unwrap();
    let client = kube::Client::try_from(kube::Config::new(uri)).unwrap();

    let mut items = pods_of(&client).list(ListRequest::default(), None);
    let error = items.next().await.unwrap().err().unwrap();

    assert!(error.is_connection_refused(), "{error:?}");
    assert_eq!(
        error.to_string(),
        "cannot list pods in shop: Connection refused (os error 111); is the server running, and is its address right?"
    );
}

#[tokio::test]
async fn other_failures_to_connect_are_not_refused_connections() {
    let service = tower::service_fn(|_: Request<Body>| async {
        let inner = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        Err::<Response<TestBody>, BoxError>(std::io::Error::other(inner).into())
    });
    let client = kube::Client::new(service, "default");
    let error = pods_of(&client)
        .list(ListRequest::default(), None)
        .next()
        .await
        .unwrap();
    assert!(!error.err().unwrap().is_connection_refused());

    let service = tower::service_fn(|_: Request<Body>| async {
        let inner = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        Err::<Response<TestBody>, BoxError>(std::io::Error::other(inner).into())
    });
    let client = kube::Client::new(service, "default");
    let error = pods_of(&client)
        .list(ListRequest::default(), None)
        .next()
        .await
        .unwrap();
    assert!(error.err().unwrap().is_connection_refused());
}

#[tokio::test(start_paused = true)]
async fn the_client_below_repeats_none_of_our_requests() {
    use kube::client::ClientBuilder;
    use kube::client::retry::RetryPolicy;
    use tower::retry::RetryLayer;

    for code in [429, 503, 504] {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move { Ok::<_, BoxError>(status(code, &[], "slow down")) }
        });
        let client = ClientBuilder::new(service, "default")
            .with_layer(&RetryLayer::new(RetryPolicy::server_retry()))
            .build();

        let listed = list(&pods_of(&client)).await;
        let watched = watch(&pods_of(&client)).await;
        assert_eq!(listed, [format!("{code}: the server returned {code}: slow down")]);
        assert_eq!(watched, listed);
        assert_eq!(count.swap(0, Ordering::Relaxed), 2, "one request each");

        // The retry layer is active: it repeats requests that it can clone.
        let request = Request::get("/api/v1/pods").body(Body::empty()).unwrap();
        client.send(request).await.unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 16);
    }
}
