//! The same requests as a real kube-apiserver was asked, and the same answers, up to names, versions and times.
//!
//! The stories lie in `tests/recorded`, recorded by `e2e/src/bin/record.rs`. Where an answer differs, the server is wrong until
//! proven otherwise; what is known to differ is listed below with its reason, and has to go when it differs no more.

mod differences;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use differences::KNOWN;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use kube_exchanges::{Act, Answer, Difference, Sent, Server, Story, User};
use kube_testserver::{Fault, RequestMatcher, TestServer};
use tower_service::Service;

const TOKEN: &str = "admin-token";

/// The embedded server, set up as a real one is.
struct Embedded {
    server: TestServer,
}

impl Embedded {
    fn new(story: &Story) -> Embedded {
        let mut builder = TestServer::builder()
            .token(TOKEN)
            .user_without_permissions("nobody-token", "nobody")
            .require_namespaces()
            .graceful_pods();
        if story
            .flags
            .iter()
            .any(|flag| flag.contains("ShardedListAndWatch=true"))
        {
            builder = builder.sharding();
        }
        let server = builder.build();
        // Small versions would be taken for other numbers, those in messages above all.
        server.skip_versions(1_000);
        Embedded { server }
    }
}

impl Server for Embedded {
    async fn send(&mut self, sent: Sent) -> Result<Answer, String> {
        let is_watch = sent.is_watch();
        let token = match sent.user {
            User::Admin => TOKEN,
            User::Nobody => "nobody-token",
            User::Stranger => "nobody-gave-this-token",
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
        let answer = self
            .server
            .service()
            .call(request)
            .await
            .map_err(|error| error.to_string())?;
        let (parts, body) = answer.into_parts();
        let bytes = body
            .collect()
            .await
            .map_err(|error| error.to_string())?
            .to_bytes();
        let headers = parts
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()));
        Ok(Answer::new(parts.status.as_u16(), headers, &bytes, is_watch))
    }

    async fn pause(&mut self) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    async fn act(&mut self, act: Act) -> Result<(), String> {
        match act {
            Act::Forget => self.server.compact(),
            Act::Overload => {
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

/// One difference that is known: where, and why it stays.
struct Known {
    /// `story/exchange`; a star at the end stands for anything.
    exchange: &'static str,
    /// The start of the place; a star stands for one step, nothing for the whole answer.
    at: &'static str,
    reason: &'static str,
}

impl Known {
    fn covers(&self, story: &str, difference: &Difference) -> bool {
        let name = format!("{story}/{}", difference.exchange);
        let named = match self.exchange.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == self.exchange,
        };
        let mut place = difference.at.split('/');
        let mut steps = self.at.split('/').filter(|step| !step.is_empty());
        named && steps.all(|step| place.next().is_some_and(|at| step == "*" || step == at))
    }
}

/// What differs and is not known, and what is known and differs no more.
fn judge(known: &[Known], differences: &[(String, Difference)]) -> Vec<String> {
    let covers = |known: &Known| {
        differences
            .iter()
            .any(|(story, difference)| known.covers(story, difference))
    };
    let unknown = differences
        .iter()
        .filter(|(story, difference)| !known.iter().any(|known| known.covers(story, difference)))
        .map(|(story, difference)| format!("{story}/{difference}"));
    let gone = known.iter().filter(|known| !covers(known)).map(|known| {
        format!(
            "{} at {} differs no more ({}): take it off the list",
            known.exchange, known.at, known.reason
        )
    });
    unknown.chain(gone).collect()
}

#[tokio::test(start_paused = true)]
async fn the_embedded_server_answers_as_a_real_one_did() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let stories = kube_exchanges::read(&directory).expect("the stories can be read");

    let mut exchanges = 0;
    let mut differences = Vec::new();
    for (name, story) in &stories {
        let unrecorded = story.exchanges.iter().find(|exchange| exchange.answer.is_none());
        assert!(unrecorded.is_none(), "{name} was not recorded: {unrecorded:?}");
        let mut server = Embedded::new(story);
        let answers = kube_exchanges::play(story, &mut server)
            .await
            .unwrap_or_else(|failed| panic!("{name}: {failed}"));
        exchanges += answers.len();
        let found = kube_exchanges::differences(story, &answers);
        differences.extend(found.into_iter().map(|difference| (name.clone(), difference)));
    }

    assert!(exchanges > 300, "only {exchanges} exchanges were compared");
    let offences = judge(KNOWN, &differences);
    println!("{exchanges} exchanges, {} known differences", KNOWN.len());
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn what_is_not_listed_and_what_is_listed_in_vain_are_both_found() {
    let difference = |at: &str| {
        let difference = Difference {
            exchange: "get".into(),
            at: at.into(),
            recorded: Some("1".into()),
            answered: None,
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
            "lists/get at body/0/name: recorded 1, answered nothing",
            "* at headers/date differs no more (why): take it off the list",
        ]
    );
    assert!(judge(&[known("lists/get", "")], &seen).is_empty());
}
