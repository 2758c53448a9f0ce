//! The table of scenarios.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::body::Step;
use crate::reply::{
    Call, ESCAPES, Reply, chunks, discovery, endless, event, failure, failure_with, gzip, list, list_start,
    page, pod, pod_with, quiet_watch, slowly,
};

/// What a hostile server does, and what a client must do about it.
pub struct Scenario {
    /// Its name: `endless-list`.
    pub name: &'static str,
    /// What the server does.
    pub server: &'static str,
    /// What a client must do.
    pub client: &'static str,
    /// Which suite runs it.
    pub audience: Audience,
    /// How `kubectl informers watch pods` ends.
    pub program: ProgramEnd,
    pub(crate) respond: fn(&Call) -> Reply,
}

/// The suites that run scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Audience {
    /// The library's informer, and the program: discovery is answered properly.
    Library,
    /// The program only.
    Program,
}

/// How the program ends when a scenario is played to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramEnd {
    /// With exit code 1 and an error message.
    Fails,
    /// It shows the objects that can be read, and runs until it is stopped.
    Runs,
}

impl ProgramEnd {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Fails => "exits with code 1",
            Self::Runs => "runs until it is stopped",
        }
    }
}

impl Scenario {
    /// All scenarios.
    pub fn all() -> &'static [Scenario] {
        SCENARIOS
    }

    /// The scenario of this name.
    pub fn named(name: &str) -> Option<&'static Scenario> {
        SCENARIOS.iter().find(|scenario| scenario.name == name)
    }

    /// The reply to a request.
    pub(crate) fn reply(&self, call: &Call) -> Reply {
        match self.audience == Audience::Library && call.is_discovery() {
            true => discovery(call),
            false => (self.respond)(call),
        }
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scenario").field(&self.name).finish()
    }
}

/// Replies to lists; watch-lists are rejected, so that a client lists, and watches stay silent.
fn on_list(call: &Call, reply: impl FnOnce(&Call) -> Reply) -> Reply {
    match (call.watch, call.initial_events) {
        (true, true) => failure(422, "Invalid"),
        (true, false) => quiet_watch(),
        (false, _) => reply(call),
    }
}

/// Replies to watch-lists; lists return one pod, and watches stay silent.
fn on_watch_list(call: &Call, reply: impl FnOnce() -> Reply) -> Reply {
    match (call.watch, call.initial_events) {
        (true, true) => reply(),
        (true, false) => quiet_watch(),
        (false, _) => list(&[pod("shop", "cart")]),
    }
}

/// Replies to discovery; nothing else should be requested.
fn on_discovery(call: &Call, reply: impl FnOnce() -> Reply) -> Reply {
    match call.is_discovery() {
        true => reply(),
        false => failure(404, "NotFound"),
    }
}

/// The number in the continue token; 0 for the first page.
fn page_number(call: &Call) -> u64 {
    let token = call.continue_token.as_deref();
    token.and_then(|token| token.parse().ok()).unwrap_or_default()
}

const CEILING: &str = "sends at most 30 requests per minute";

const WASTED: &str = "ends the list at `limits.wasted_bytes` and says so";

const SCENARIOS: &[Scenario] = &[
    library(
        "endless-list",
        "sends distinct objects in one list that never ends",
        "ends the list at `limits.objects` or `limits.bytes`, if one is set, and in any case at `deadlines.list_total`",
        |call| {
            on_list(call, |_| {
                endless(list_start(""), |number| pod("shop", &format!("p{number}")))
            })
        },
    ),
    library(
        "endless-pages",
        "returns a full page and a new continue token for every page",
        "adds up all pages of a list and applies the same limits",
        |call| {
            on_list(call, |call| {
                let number = page_number(call);
                let pods: Vec<_> = (0..500)
                    .map(|pod_number| pod("shop", &format!("p{number}-{pod_number}")))
                    .collect();
                page(&pods, &(number + 1).to_string())
            })
        },
    ),
    library(
        "endless-numbers",
        "sends a list of numbers instead of objects that never ends",
        WASTED,
        |call| on_list(call, |_| endless(list_start(""), |_| "1".to_owned())),
    ),
    library(
        "list-of-numbers",
        "sends a complete list of 10,000 numbers",
        "counts the items without keeping them, and reports that none is an object: the cache is not synced",
        |call| {
            on_list(call, |_| {
                Reply::text(format!("{}{}]}}", list_start(""), vec!["1"; 10_000].join(",")))
            })
        },
    ),
    library(
        "endless-whitespace",
        "sends spaces inside a list that never end",
        WASTED,
        |call| {
            on_list(call, |_| {
                let spaces = std::iter::repeat_with(|| Bytes::from(vec![b' '; 64 << 10]));
                let start = Bytes::from(list_start(""));
                Reply::json(std::iter::once(start).chain(spaces).map(Step::Bytes))
            })
        },
    ),
    library(
        "repeated-object",
        "repeats one object in a list that never ends",
        "keeps one copy and ends the list at `limits.wasted_bytes`",
        |call| on_list(call, |_| endless(list_start(""), |_| pod("shop", "cart"))),
    ),
    runs(library(
        "repeated-initial-event",
        "repeats one object as initial event of a watch-list that never ends",
        "keeps one copy, ends the watch-list at `limits.wasted_bytes` and lists instead",
        |call| {
            on_watch_list(call, || {
                let events = event("ADDED", &pod("shop", "cart")).repeat(500);
                let chunk = Bytes::from(events);
                Reply::json(std::iter::repeat_with(move || Step::Bytes(chunk.clone())))
            })
        },
    )),
    library(
        "endless-undecodable",
        "sends named objects with a spec of the wrong type in a list that never ends",
        WASTED,
        |call| {
            on_list(call, |_| {
                endless(list_start(""), |number| {
                    pod_with("shop", &format!("p{number}"), r#","spec":7"#)
                })
            })
        },
    ),
    library(
        "trickle-list",
        "sends one byte of a list every 29 s",
        "ends the list after a minute below `deadlines.min_throughput`",
        |call| {
            on_list(call, |_| {
                let spaces = std::iter::repeat_with(|| Bytes::from_static(b" "));
                Reply::json(slowly(spaces, Duration::from_secs(29)))
            })
        },
    ),
    runs(library(
        "trickle-watch-list",
        "sends one initial event of a watch-list every 4 s",
        "ends the watch-list after a minute below `deadlines.min_throughput` and lists instead",
        |call| {
            on_watch_list(call, || {
                let events = (0..u64::MAX)
                    .map(|number| Bytes::from(event("ADDED", &pod("shop", &format!("p{number}")))));
                Reply::json(slowly(events, Duration::from_secs(4)))
            })
        },
    )),
    library(
        "steady-list",
        "sends 64 KiB of distinct objects every 29 s, forever",
        "ends the list at `deadlines.list_total`",
        |call| {
            on_list(call, |_| {
                // Large objects, so that the scenario is about time.
                let annotation = format!(r#","status":{{"message":"{}"}}"#, "x".repeat(8 << 10));
                let objects = chunks(list_start(""), move |number| {
                    pod_with("shop", &format!("p{number}"), &annotation)
                });
                Reply::json(slowly(objects, Duration::from_secs(29)))
            })
        },
    ),
    library(
        "no-response",
        "accepts the request and never responds",
        "gives up after `deadlines.list_headers`",
        |call| on_list(call, |_| Reply::silence()),
    ),
    library(
        "silent-list",
        "sends the start of a list and nothing more",
        "gives up after `deadlines.list_idle`",
        |call| {
            on_list(call, |_| {
                Reply::json([Step::Bytes(list_start("").into()), Step::Hang])
            })
        },
    ),
    library(
        "broken-list",
        "breaks the connection in the middle of a list",
        "discards the part and reports the cause",
        |call| {
            on_list(call, |_| {
                let start = format!("{}{}", list_start(""), pod("shop", "cart"));
                Reply::json([Step::Bytes(start.into()), Step::Break])
            })
        },
    ),
    runs(library(
        "foreign-namespace",
        "includes objects of other namespaces in the list of one namespace",
        "ignores and counts them",
        |call| {
            on_list(call, |_| {
                list(&[pod("shop", "cart"), pod("kube-system", "proxy")])
            })
        },
    )),
    runs(library(
        "foreign-kind",
        "includes a Secret in a list of pods",
        "quarantines it; the other objects are cached",
        |call| {
            on_list(call, |_| {
                let secret =
                    r#"{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"key"}}"#;
                list(&[pod("shop", "cart"), secret.to_owned()])
            })
        },
    )),
    runs(library(
        "deep-nesting",
        "nests arrays 100,000 levels deep in an object",
        "quarantines the object; the other objects are cached",
        |call| {
            on_list(call, |_| {
                let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
                let deep = pod_with("shop", "deep", &format!(r#","spec":{open}{close}"#));
                list(&[pod("shop", "cart"), deep])
            })
        },
    )),
    runs(library(
        "oversized-object",
        "sends an object of 33 MiB",
        "skips it at `SourceOptions::max_object_size` and quarantines it; the other objects are cached",
        |call| {
            on_list(call, |_| {
                let long = format!(r#","status":{{"message":"{}"}}"#, "x".repeat(33 << 20));
                list(&[pod("shop", "cart"), pod_with("shop", "large", &long)])
            })
        },
    )),
    runs(library(
        "invalid-utf8",
        "sends an object with bytes that are not UTF-8",
        "quarantines the object or reports the response; nothing panics",
        |call| {
            on_list(call, |_| {
                let mut body = list_start("").into_bytes();
                body.extend(pod("shop", "cart").bytes());
                body.extend(b",");
                let odd = pod_with("shop", "odd", r#","spec":{"nodeName":"@"}"#);
                body.extend(odd.bytes().map(|byte| if byte == b'@' { 0xff } else { byte }));
                body.extend(b"]}");
                Reply::text(body)
            })
        },
    )),
    runs(library(
        "extreme-numbers",
        "sends integers beyond 64 bits and versions of 40 digits",
        "quarantines what does not fit its type; nothing panics",
        |call| {
            on_list(call, |_| {
                let grace = format!(
                    r#","spec":{{"terminationGracePeriodSeconds":1{}}}"#,
                    "0".repeat(40)
                );
                let odd =
                    pod_with("shop", "odd", &grace).replace(r#""7""#, &format!(r#""1{}""#, "0".repeat(40)));
                list(&[pod("shop", "cart"), odd])
            })
        },
    )),
    runs(library(
        "false-end-marker",
        "marks an ordinary object as the end of the initial events of a watch-list, and ends the stream",
        "does not take the part for the whole collection, and lists instead",
        |call| {
            on_watch_list(call, || {
                let marked = pod("shop", "false").replace(
                    r#""uid""#,
                    r#""annotations":{"k8s.io/initial-events-end":"true"},"uid""#,
                );
                Reply::text(event("ADDED", &marked))
            })
        },
    )),
    library(
        "compressed",
        "compresses the response although that was not requested",
        "decompresses nothing, so that a small body cannot become a large one, and says so",
        |call| {
            on_list(call, |_| {
                Reply::text(vec![0x1f, 0x8b, 8, 0]).header("content-encoding", "gzip")
            })
        },
    ),
    library(
        "redirect",
        "redirects to another host",
        "does not follow: the other host would receive the credentials",
        |call| {
            on_list(call, |_| {
                Reply::text("")
                    .status(302)
                    .header("location", "https://evil.example/api/v1/pods")
            })
        },
    ),
    library(
        "html",
        "responds with a login page",
        "says that the response is not from an API server",
        |call| match call.watch && !call.initial_events {
            true => quiet_watch(),
            false => Reply::text("<html></html>").header("content-type", "text/html"),
        },
    ),
    library(
        "endless-error",
        "responds with 500 and a body that never ends",
        "reads 64 KiB of it",
        |call| {
            on_list(call, |_| {
                endless(String::new(), |_| "error".repeat(100)).status(500)
            })
        },
    ),
    library(
        "success-status",
        "responds to a list with a Status object and 200",
        "says that the response is not a list",
        |call| {
            on_list(call, |_| {
                Reply::text(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#)
            })
        },
    ),
    runs(library(
        "short-watches",
        "ends every watch at once",
        CEILING,
        |call| match (call.watch, call.initial_events) {
            (true, true) => failure(422, "Invalid"),
            (true, false) => Reply::text(""),
            (false, _) => list(&[pod("shop", "cart")]),
        },
    )),
    library(
        "expired-second-page",
        "returns a first page, and 410 for every second page",
        CEILING,
        |call| {
            on_list(call, |call| match call.continue_token {
                Some(_) => failure(410, "Expired"),
                None => page(&[pod("shop", "cart")], "next"),
            })
        },
    ),
    library(
        "endless-empty-pages",
        "returns empty pages with a new continue token each, forever",
        "requests pages that make no progress at most 30 times per minute, and counts them as `paced_pages`",
        |call| on_list(call, |call| page(&[], &(page_number(call) + 1).to_string())),
    ),
    library(
        "alternating-tokens",
        "returns two continue tokens in turn, forever",
        "ends the list at the first token it has seen before, counts it as `endless_lists`, and lists at most 30 times per minute",
        |call| {
            on_list(call, |call| {
                let (name, next) = match call.continue_token.as_deref() {
                    Some("a") => ("second", "b"),
                    _ => ("first", "a"),
                };
                page(&[pod("shop", name)], next)
            })
        },
    ),
    library(
        "repeated-token",
        "returns the continue token of the request again, forever",
        "ends the list at the first token it has seen before, counts it as `endless_lists`, and lists at most 30 times per minute",
        |call| on_list(call, |_| page(&[pod("shop", "cart")], "again")),
    ),
    runs(library(
        "expired-watches",
        "returns 410 to every watch",
        CEILING,
        |call| match (call.watch, call.initial_events) {
            (true, true) => failure(422, "Invalid"),
            (true, false) => failure(410, "Expired"),
            (false, _) => list(&[pod("shop", "cart")]),
        },
    )),
    library(
        "gzip-bomb",
        "compresses endless spaces a thousandfold in a list that was requested with `SourceOptions::gzip`",
        "decompresses about 64 kB at a time, and ends the list at `limits.wasted_bytes` of decompressed data",
        |call| {
            on_list(call, |_| {
                let start = gzip(list_start("").as_bytes());
                let spaces = gzip(&vec![b' '; 1 << 20]);
                let spaces = std::iter::repeat_with(move || spaces.clone());
                Reply::json(std::iter::once(start).chain(spaces).map(Step::Bytes))
                    .header("content-encoding", "gzip")
            })
        },
    ),
    program(
        "endless-discovery",
        "sends a discovery document that never ends",
        "gives up at 32 MiB and says so",
        |call| {
            on_discovery(call, || {
                endless(r#"{"kind":"APIVersions","versions":["#.to_owned(), |number| {
                    format!("\"v{number}\"")
                })
            })
        },
    ),
    program(
        "discovery-html",
        "responds to discovery with a login page",
        "says that the response is not a discovery document",
        |call| {
            on_discovery(call, || {
                Reply::text("<html>\u{1b}[2J</html>").header("content-type", "text/html")
            })
        },
    ),
    program(
        "escapes-in-discovery",
        "refuses discovery with a message that contains terminal escapes and bidi overrides",
        "prints the message without them",
        |call| on_discovery(call, || failure_with(403, "Forbidden", ESCAPES)),
    ),
    program(
        "escapes-in-refusal",
        "refuses lists with a message that contains terminal escapes and bidi overrides",
        "prints the message without them",
        |call| match call.is_discovery() {
            true => discovery(call),
            false => failure_with(403, "Forbidden", ESCAPES),
        },
    ),
    runs(program(
        "escapes-in-objects",
        "sends objects whose names and fields contain terminal escapes and bidi overrides",
        "prints them without",
        |call| match call.is_discovery() {
            true => discovery(call),
            false => on_list(call, |_| {
                let status = format!(r#","status":{{"phase":"{ESCAPES}","message":"{ESCAPES}"}}"#);
                let unreadable = pod_with("shop", &format!("unreadable{ESCAPES}"), r#","spec":7"#);
                let named = pod(&format!("shop{ESCAPES}"), &format!("named{ESCAPES}"));
                list(&[named, pod_with("shop", "cart", &status), unreadable])
            }),
        },
    )),
];

/// A scenario for the library's informer.
const fn library(
    name: &'static str,
    server: &'static str,
    client: &'static str,
    respond: fn(&Call) -> Reply,
) -> Scenario {
    Scenario {
        name,
        server,
        client,
        audience: Audience::Library,
        program: ProgramEnd::Fails,
        respond,
    }
}

/// A scenario for the program only.
const fn program(
    name: &'static str,
    server: &'static str,
    client: &'static str,
    respond: fn(&Call) -> Reply,
) -> Scenario {
    Scenario {
        audience: Audience::Program,
        ..library(name, server, client, respond)
    }
}

/// The scenario, which does not end the program.
const fn runs(scenario: Scenario) -> Scenario {
    Scenario {
        program: ProgramEnd::Runs,
        ..scenario
    }
}
