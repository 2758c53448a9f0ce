//! Compares the responses to recorded requests with those of a real kube-apiserver, up to names, versions and times.
//!
//! The recordings are in `tests/recorded`, made by `verify/scenarios/src/bin/e2e/exchanges.rs`. A difference is a bug of this server until
//! proven otherwise; known differences are listed with their reason, and a listed difference that no longer occurs
//! fails the test.

mod differences;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use differences::KNOWN;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use kube_exchanges::{Difference, Disruption, Recording, Response, Sent, Server, User};
use kube_testserver::{Fault, RequestMatcher, TestServer};
use tower_service::Service;

const TOKEN: &str = "admin-token";

/// The embedded server, configured like the real one.
struct Embedded {
    server: TestServer,
}

impl Embedded {
    fn new(recording: &Recording) -> Embedded {
        let mut builder = TestServer::builder()
            .token(TOKEN)
            .user_without_permissions("nobody-token", "nobody")
            .rbac()
            .conformant();
        if recording
            .flags
            .iter()
            .any(|flag| flag.contains("ShardedListAndWatch=true"))
        {
            builder = builder.sharding();
        }
        let server = builder.build();
        // Small versions could be mistaken for other numbers, especially in messages.
        server.skip_versions(1_000);
        Embedded { server }
    }
}

impl Server for Embedded {
    async fn send(&mut self, sent: Sent) -> Result<Response, String> {
        let is_watch = sent.is_watch();
        let token = match sent.user {
            User::Admin => TOKEN,
            User::Nobody => "nobody-token",
            User::Unauthenticated => "invalid-token",
        };
        let mut request = Request::builder()
            .method(Method::from_bytes(sent.method.as_bytes()).map_err(|error| error.to_string())?)
            .uri(&sent.path)
            .header("authorization", format!("Bearer {token}"));
        for (name, value) in &sent.headers {
            request = request.header(name, value);
        }
        let request = request
            .body(Full::new(Bytes::from(sent.body)))
            .map_err(|error| error.to_string())?;
        let response = self
            .server
            .service()
            .call(request)
            .await
            .map_err(|error| error.to_string())?;
        let (parts, body) = response.into_parts();
        let bytes = body
            .collect()
            .await
            .map_err(|error| error.to_string())?
            .to_bytes();
        let headers = parts
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()));
        Ok(Response::new(parts.status.as_u16(), headers, &bytes, is_watch))
    }

    async fn pause(&mut self) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    async fn disrupt(&mut self, disrupt: Disruption) -> Result<(), String> {
        match disrupt {
            Disruption::Compact => self.server.compact(),
            Disruption::Overload => {
                let refused = "Too many requests, please try again later.\n";
                self.server.fault(
                    RequestMatcher::any(),
                    Fault::status(429).text(refused).retry_after(1),
                );
            }
        }
        Ok(())
    }
}

/// A known difference and its reason.
struct Known {
    /// `recording/exchange`; a star at the end matches anything.
    exchange: &'static str,
    /// The start of the path; a star matches one segment, an empty path the whole response.
    at: &'static str,
    reason: &'static str,
}

impl Known {
    fn covers(&self, recording: &str, difference: &Difference) -> bool {
        let name = format!("{recording}/{}", difference.exchange);
        let named = match self.exchange.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == self.exchange,
        };
        let mut place = difference.at.split('/');
        let mut steps = self.at.split('/').filter(|step| !step.is_empty());
        named && steps.all(|step| place.next().is_some_and(|at| step == "*" || step == at))
    }
}

/// Differences that are not known, and known differences that no longer occur.
fn judge(known: &[Known], differences: &[(String, Difference)]) -> Vec<String> {
    let covers = |known: &Known| {
        differences
            .iter()
            .any(|(recording, difference)| known.covers(recording, difference))
    };
    let unknown = differences
        .iter()
        .filter(|(recording, difference)| !known.iter().any(|known| known.covers(recording, difference)))
        .map(|(recording, difference)| format!("{recording}/{difference}"));
    let gone = known.iter().filter(|known| !covers(known)).map(|known| {
        format!(
            "{} at {} no longer differs ({}): remove it from the list",
            known.exchange, known.at, known.reason
        )
    });
    unknown.chain(gone).collect()
}

#[tokio::test(start_paused = true)]
async fn responses_match_a_real_server() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let recordings = kube_exchanges::read(&directory).expect("the recordings can be read");

    let mut exchanges = 0;
    let mut differences = Vec::new();
    for (name, recording) in &recordings {
        let unrecorded = recording
            .exchanges
            .iter()
            .find(|exchange| exchange.response.is_none());
        assert!(unrecorded.is_none(), "{name} was not recorded: {unrecorded:?}");
        let mut server = Embedded::new(recording);
        let responses = kube_exchanges::play(recording, &mut server)
            .await
            .unwrap_or_else(|failed| panic!("{name}: {failed}"));
        exchanges += responses.len();
        let found = kube_exchanges::differences(recording, &responses);
        differences.extend(found.into_iter().map(|difference| (name.clone(), difference)));
    }

    assert!(exchanges > 300, "only {exchanges} exchanges were compared");
    let offences = judge(KNOWN, &differences);
    println!("{exchanges} exchanges, {} known differences", KNOWN.len());
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn unlisted_and_obsolete_differences_are_reported() {
    let difference = |at: &str| {
        let difference = Difference {
            exchange: "get".into(),
            at: at.into(),
            recorded: Some("1".into()),
            received: None,
        };
        ("lists".to_owned(), difference)
    };
    let known = |exchange, at| Known {
        exchange,
        at,
        reason: "why",
    };

    let listed = [known("lists/get", "body/*/uid"), known("*", "headers/date")];
    let seen = [difference("body/0/uid"), difference("body/0/name")];
    assert_eq!(
        judge(&listed, &seen),
        [
            "lists/get at body/0/name: recorded 1, received nothing",
            "* at headers/date no longer differs (why): remove it from the list",
        ]
    );
    assert!(judge(&[known("lists/get", "")], &seen).is_empty());
}
