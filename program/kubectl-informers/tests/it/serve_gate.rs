//! Who may ask `serve`, over a socket: names, origins, methods, tokens, ports.

use std::net::SocketAddr;

use crate::http::{get, get_with, raw};
use crate::program::Cluster;
use crate::serve::serve;

#[tokio::test(flavor = "multi_thread")]
async fn it_listens_on_loopback_and_accepts_only_its_own_host_names() {
    let cluster = Cluster::new().await;
    let (_program, address) = serve(&cluster, &["pods"]).await;
    assert!(address.ip().is_loopback());

    for (host, code) in [
        (address.to_string(), 200),
        (format!("localhost:{}", address.port()), 200),
        ("rebound.example".to_owned(), 403),
        (format!("rebound.example:{}", address.port()), 403),
    ] {
        for path in ["/", "/api/v1/status", "/metrics", "/healthz"] {
            let answer = raw(address, &format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n")).await;
            assert_eq!(answer.code, code, "{host} {path}");
        }
    }
    assert_eq!(
        raw(address, "GET / HTTP/1.0\r\n\r\n").await.code,
        400,
        "no name at all"
    );
    let foreign = get_with(address, "/api/v1/status", "Origin: https://elsewhere.example\r\n").await;
    assert_eq!(foreign.code, 403);
    assert_eq!(foreign.header("access-control-allow-origin"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_get_is_answered() {
    let cluster = Cluster::new().await;
    let (_program, address) = serve(&cluster, &["pods"]).await;
    for method in [
        "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "BREW",
    ] {
        let request =
            format!("{method} /api/v1/status HTTP/1.0\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n");
        let answer = raw(address, &request).await;
        assert_eq!(
            (answer.code, answer.header("allow")),
            (405, Some("get")),
            "{method}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_may_load_nothing_from_other_origins() {
    let cluster = Cluster::new().await;
    let (_program, address) = serve(&cluster, &["pods"]).await;
    for path in ["/", "/app.js", "/style.css", "/api/v1/status", "/nothing"] {
        let answer = get(address, path).await;
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self';"),
            "{path}: {policy}"
        );
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listening_beyond_loopback_requires_a_token() {
    let cluster = Cluster::new().await;
    let refused = cluster.run(&["serve", "--bind", "0.0.0.0", "--port", "0"]).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("--token"), "{}", refused.err);

    let token = "0123456789abcdef";
    let mut program = cluster.start(&[
        "serve", "pods", "--bind", "0.0.0.0", "--port", "0", "--token", token,
    ]);
    let line = program.line_with("Serving http://").await;
    let port: u16 = line
        .split(':')
        .nth(2)
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(!program.everything().contains(token), "the token is not printed");
    let address = SocketAddr::from(([127, 0, 0, 1], port));

    for path in ["/", "/app.js", "/api/v1/status", "/api/v1/watch", "/metrics"] {
        let answer = get(address, path).await;
        assert_eq!(
            (answer.code, answer.header("www-authenticate")),
            (401, Some("bearer")),
            "{path}"
        );
    }
    assert_eq!(get(address, "/healthz").await.code, 200);
    let bearer = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(get_with(address, "/api/v1/status", &bearer).await.code, 200);
    let welcome = get(address, &format!("/?token={token}")).await;
    let cookie = welcome.header("set-cookie").unwrap().to_owned();
    assert_eq!((welcome.code, welcome.header("location")), (303, Some("/")));
    assert!(
        cookie.contains("httponly") && cookie.contains("samesite=strict"),
        "{cookie}"
    );
    let pair = cookie.split(';').next().unwrap();
    assert_eq!(
        get_with(address, "/", &format!("Cookie: {pair}\r\n")).await.code,
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_reported() {
    let cluster = Cluster::new().await;
    let (_program, address) = serve(&cluster, &["pods"]).await;
    let ended = cluster
        .run(&["serve", "pods", "--port", &address.port().to_string()])
        .await;
    assert_eq!(ended.code, Some(1));
    let wanted = format!("error: cannot listen on {address}: the port is taken; choose another with --port");
    assert!(ended.err.contains(&wanted), "{}", ended.err);
}
