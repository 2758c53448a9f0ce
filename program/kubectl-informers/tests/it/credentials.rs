//! Credentials that another program or an issuer of tokens provides.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kube_testserver::TestServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::program::{Cluster, Home, Program, ended};

/// A kubeconfig with this user, in YAML.
fn kubeconfig(server: &str, user: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
clusters: [{{ name: c, cluster: {{ server: \"{server}\" }} }}]
users: [{{ name: u, user: {user} }}]
contexts: [{{ name: x, context: {{ cluster: c, user: u }} }}]
current-context: x
"
    )
}

/// A user whose credentials come from this program.
fn plugin_user(command: &str) -> String {
    format!(
        "{{ exec: {{ apiVersion: client.authentication.k8s.io/v1, command: \"{command}\", interactiveMode: Never, \
         installHint: \"See https://example.com/install\" }} }}"
    )
}

fn plugin(home: &Home, script: &str) -> String {
    let path = home.write("plugin", &format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn use_plugin(cluster: &Cluster, script: &str) {
    let user = plugin_user(&plugin(cluster.home(), script));
    let config = kubeconfig(&cluster.server.url().unwrap(), &user);
    cluster.home().write(".kube/config", &config);
}

/// A script that prints a token, which is valid until this time.
fn prints(token: &str, until: &str) -> String {
    format!(
        r#"echo '{{ "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{ "token": "{token}", "expirationTimestamp": "{until}" }} }}'"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_plugin_provides_the_token() {
    let cluster = Cluster::with(TestServer::builder().token("correct-horse")).await;
    use_plugin(&cluster, &prints("correct-horse", "2999-01-02T03:04:05Z"));

    let mut program = cluster.start(&["watch", "pods"]);

    program.says("watching for changes").await;
    assert!(!program.everything().contains("correct-horse"));
}

/// A token that has expired is replaced before the next request, without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_credential_plugin_is_run_again_when_its_token_expires() {
    let cluster = Cluster::with(TestServer::builder().token("correct-horse")).await;
    let runs = cluster.home().path().join("runs");
    let count = format!("echo run >> {}\n", runs.display());
    use_plugin(
        &cluster,
        &(count.clone() + &prints("correct-horse", "2020-01-02T03:04:05Z")),
    );
    let mut program = cluster.start(&["watch", "pods", "-o", "json"]);
    program.event_of("synced").await;
    cluster
        .server
        .wait_for("the program watches", |server| server.open_watches() == 1)
        .await;
    let before = std::fs::read_to_string(&runs).unwrap().lines().count();
    assert!(before > 1, "for every request: {before}");

    // From now on it fails, as after a logout. The program says so, and recovers.
    use_plugin(
        &cluster,
        "echo warming up >&2; echo canary-token; echo please log in >&2; exit 3",
    );
    cluster.server.break_watches();
    program.says("please log in").await;
    let said = program.err();
    assert!(
        said.contains("the credential plugin") && said.contains("exit status: 3"),
        "{said}"
    );
    assert!(!said.contains("canary-token"), "{said}");
    use_plugin(
        &cluster,
        &(count + &prints("correct-horse", "2020-01-02T03:04:05Z")),
    );
    program.says("again after").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_plugin_that_fails_is_named_with_its_last_message() {
    let cluster = Cluster::new().await;
    use_plugin(&cluster, "echo canary-token; echo please log in >&2; exit 3");

    let failed = cluster.run(&["watch", "pods"]).await;

    assert_eq!(failed.code, Some(1), "{}", failed.err);
    let expected = format!(
        "the credential plugin {}/plugin failed (exit status: 3): please log in; log in again, or run it to see why",
        cluster.home().path().display()
    );
    assert!(failed.err.contains(&expected), "{}", failed.err);
    assert!(!failed.err.contains("canary-token"), "{}", failed.err);

    let config = kubeconfig(&cluster.server.url().unwrap(), &plugin_user("no-such-plugin"));
    cluster.home().write(".kube/config", &config);
    let missing = cluster.run(&["watch", "pods"]).await;
    assert_eq!(missing.code, Some(1), "{}", missing.err);
    for part in [
        "the credential plugin no-such-plugin cannot be started: No such file",
        "install it",
        "See https://example.com/install",
    ] {
        assert!(missing.err.contains(part), "{}", missing.err);
    }

    use_plugin(&cluster, "echo canary-token");
    let mute = cluster.run(&["watch", "pods"]).await;
    assert_eq!(mute.code, Some(1), "{}", mute.err);
    assert!(mute.err.contains("has printed no ExecCredential"), "{}", mute.err);
    assert!(!mute.err.contains("canary-token"), "{}", mute.err);
}

/// A token that expires at this second, and is signed by nobody.
fn id_token(expires: i64) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!(
        "{}.{}.signature",
        part(r#"{"alg":"none"}"#),
        part(&format!(r#"{{"exp":{expires}}}"#))
    )
}

const FUTURE: i64 = 32_500_000_000;

fn oidc_user(id_token: &str, more: &str) -> String {
    format!("{{ auth-provider: {{ name: oidc, config: {{ id-token: \"{id_token}\"{more} }} }} }}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_valid_id_token_of_oidc_is_used() {
    let token = id_token(FUTURE);
    let cluster = Cluster::with(TestServer::builder().token(&token)).await;
    let config = kubeconfig(&cluster.server.url().unwrap(), &oidc_user(&token, ""));
    cluster.home().write(".kube/config", &config);

    let mut program = cluster.start(&["watch", "pods"]);

    program.says("watching for changes").await;
    assert!(!program.everything().contains(&token));
}

/// Answers the two requests of a refresh: where tokens are issued, and a new token.
async fn issue(listener: TcpListener, acceptor: TlsAcceptor, url: String, token: String) {
    while let Ok((stream, _)) = listener.accept().await {
        let Ok(mut stream) = acceptor.accept(stream).await else {
            continue;
        };
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        while !request.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut buffer).await {
                Ok(count @ 1..) => request.extend_from_slice(&buffer[..count]),
                _ => break,
            }
        }
        let body = match request.starts_with(b"GET /.well-known/openid-configuration") {
            true => format!(r#"{{ "token_endpoint": "{url}/token" }}"#),
            false => format!(r#"{{ "id_token": "{token}", "refresh_token": "next" }}"#),
        };
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        // The client may be gone.
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_id_token_of_oidc_is_refreshed() {
    let fresh = id_token(FUTURE);
    let cluster = Cluster::with(TestServer::builder().token(&fresh)).await;
    let home = cluster.home();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let authority = home.write("authority.pem", &made.cert.pem());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let mut issuer = tokio::task::JoinSet::new();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    issuer.spawn(issue(listener, acceptor, url.clone(), fresh.clone()));
    let more = format!(
        ", idp-issuer-url: \"{url}\", client-id: kubernetes, client-secret: canary-secret, refresh-token: canary-refresh"
    );
    let user = oidc_user(&id_token(1_600_000_000), &more);
    home.write(".kube/config", &kubeconfig(&cluster.server.url().unwrap(), &user));

    let mut command = home.command(&["watch", "pods"]);
    command.env("SSL_CERT_FILE", &authority);
    let mut program = Program::start(command);

    program.says("watching for changes").await;
    assert!(
        !program.everything().contains("canary"),
        "{}",
        program.everything()
    );

    // An issuer that is gone is named as the reason, and not a certificate.
    issuer.shutdown().await;
    let mut command = home.command(&["watch", "pods"]);
    command.env("SSL_CERT_FILE", &authority);
    let failed = ended(command).await;
    assert_eq!(failed.code, Some(1), "{}", failed.err);
    assert!(
        failed.err.contains("ID token expired and refreshing failed") && failed.err.contains("log in again"),
        "{}",
        failed.err
    );
    assert!(!failed.err.contains("canary"), "{}", failed.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_id_token_that_cannot_be_refreshed_says_what_to_do() {
    let cluster = Cluster::new().await;
    let user = oidc_user(&id_token(1_600_000_000), "");
    let config = kubeconfig(&cluster.server.url().unwrap(), &user);
    cluster.home().write(".kube/config", &config);

    let failed = cluster.run(&["watch", "pods"]).await;

    assert_eq!(failed.code, Some(1), "{}", failed.err);
    assert!(
        failed.err.contains("ID token expired") && failed.err.contains("log in again"),
        "{}",
        failed.err
    );
    assert!(!failed.err.contains("certificate"), "{}", failed.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_providers_that_kubectl_has_dropped_name_their_plugin() {
    let cluster = Cluster::new().await;
    for (provider, plugin) in [
        ("gcp", "gke-gcloud-auth-plugin"),
        ("azure", "kubelogin"),
        ("other", "exec"),
    ] {
        let user = format!("{{ auth-provider: {{ name: {provider}, config: {{}} }} }}");
        let config = kubeconfig(&cluster.server.url().unwrap(), &user);
        cluster.home().write(".kube/config", &config);

        let refused = cluster.run(&["watch", "pods"]).await;

        assert_eq!(refused.code, Some(1), "{}", refused.err);
        assert!(
            refused
                .err
                .contains(&format!("the auth provider {provider} of the kubeconfig"))
                && refused.err.contains(plugin),
            "{}",
            refused.err
        );
    }
}
