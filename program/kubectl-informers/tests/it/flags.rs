//! kubectl's connection flags.

use std::net::SocketAddr;

use kube_testserver::TestServer;
use kube_testserver::builders::pod;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::program::{Cluster, Home, within};

/// The head of the first request that arrives, which is then rejected.
async fn first_request(listener: &TcpListener) -> String {
    within("a request", async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            bytes.push(socket.read_u8().await.unwrap());
        }
        let answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        socket.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(bytes).unwrap().to_lowercase()
    })
    .await
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_can_be_named_without_a_kubeconfig() {
    let server = TestServer::builder()
        .token("right-token")
        .listen("127.0.0.1:0")
        .await
        .unwrap();
    server.create(pod("default", "cart"));
    let home = Home::new();
    let url = server.url().unwrap();
    let mut program = home.start(&[
        "watch",
        "pods",
        "-o",
        "json",
        "-s",
        &url,
        "--api-token",
        "right-token",
    ]);
    assert_eq!(program.event().await["name"], "cart");
    let mut program = home.start(&[
        "watch",
        "pods",
        "-o",
        "json",
        "-s",
        &url,
        "--token",
        "right-token",
    ]);
    assert_eq!(program.event().await["name"], "cart");

    let file = home.path().join("a.rec");
    let file = file.to_str().unwrap();
    for command in [
        &["watch", "pods", "--api-token", "wrong-token"][..],
        &["watch", "pods", "--token", "wrong-token"],
        &["record", file, "pods", "--token", "wrong-token"],
    ] {
        let ended = home.run(&[command, &["-s", &url]].concat()).await;
        assert_eq!(ended.code, Some(1), "{command:?}: {}", ended.err);
        assert!(ended.err.contains("You must be logged in"), "{}", ended.err);
        assert!(!ended.err.contains("wrong-token"), "{}", ended.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_go_before_the_kubeconfig() {
    let cluster = Cluster::new().await;
    let (listener, address) = listen().await;
    let _program = cluster.start(&[
        "watch",
        "pods",
        "--server",
        &format!("http://{address}"),
        "--api-token",
        "from-the-flag",
        "--as",
        "jane",
        "--as-group",
        "dev",
        "--as-group",
        "ops",
        "--as-uid",
        "u1",
    ]);
    let request = first_request(&listener).await;
    for header in [
        "authorization: bearer from-the-flag",
        "impersonate-user: jane",
        "impersonate-group: dev",
        "impersonate-group: ops",
        "impersonate-uid: u1",
    ] {
        assert!(request.contains(header), "{header} is not in\n{request}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_that_do_not_fit_together_are_rejected() {
    let home = Home::new();
    for (flags, says) in [
        (
            &["--as-group", "dev", "-s", "http://127.0.0.1:1"][..],
            "--as-group and --as-uid need --as",
        ),
        (
            &["--client-key", "k", "-s", "http://127.0.0.1:1"],
            "belong together",
        ),
        (&["-s", "ftp://x"], "--server \"ftp://x\" is not an address"),
        (&["-s", ""], "is not an address"),
        (&["-s", "http://x", "--embedded"], "cannot be used with"),
        (
            &[
                "--insecure-skip-tls-verify",
                "--certificate-authority",
                "ca",
                "-s",
                "https://127.0.0.1:1",
            ],
            "contradict each other",
        ),
    ] {
        let mut arguments = vec!["watch", "pods"];
        arguments.extend_from_slice(flags);
        let ended = home.run(&arguments).await;
        assert_eq!(ended.code, Some(1), "{flags:?}");
        assert!(ended.err.contains(says), "{flags:?}: {}", ended.err);
    }
}

/// A server with a certificate of its own authority, which the system does not know.
#[tokio::test(flavor = "multi_thread")]
async fn the_certificate_of_the_server_is_verified_as_the_flags_say() {
    let builder = TestServer::builder().token("right-token").tls(&[]).unwrap();
    let server = builder.listen("127.0.0.1:0").await.unwrap();
    server.create(pod("default", "cart"));
    let home = Home::new();
    let authority = home.write("authority.pem", server.certificate_authority().unwrap());
    let authority = authority.to_str().unwrap();
    let url = server.url().unwrap();
    let base = [
        "watch",
        "pods",
        "-o",
        "json",
        "--token",
        "right-token",
        "-s",
        &url,
    ];
    for accepted in [
        &["--certificate-authority", authority][..],
        &["--insecure-skip-tls-verify"],
        &[
            "--certificate-authority",
            authority,
            "--tls-server-name",
            "localhost",
        ],
    ] {
        let mut program = home.start(&[&base[..], accepted].concat());
        assert_eq!(program.event().await["name"], "cart", "{accepted:?}");
    }
    for (rejected, says) in [
        (&[][..], "UnknownIssuer"),
        (
            &[
                "--certificate-authority",
                authority,
                "--tls-server-name",
                "elsewhere.example",
            ],
            "elsewhere.example",
        ),
        (&["--certificate-authority", "/no/such/file"], "/no/such/file"),
    ] {
        let ended = home.run(&[&base[..], rejected].concat()).await;
        assert_eq!(ended.code, Some(1), "{rejected:?}: {}", ended.err);
        assert!(ended.err.contains(says), "{rejected:?}: {}", ended.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_takes_longer_than_allowed_is_given_up() {
    let cluster = Cluster::new().await;
    cluster.server.fault(
        kube_testserver::RequestMatcher::any().forever(),
        kube_testserver::Fault::hang(),
    );
    let began = tokio::time::Instant::now();
    let ended = cluster.run(&["watch", "pods", "--request-timeout", "1s"]).await;
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(ended.err.contains("1 s"), "{}", ended.err);
    // The default is 30 s.
    assert!(
        began.elapsed() < std::time::Duration::from_secs(25),
        "{:?}",
        began.elapsed()
    );
}
