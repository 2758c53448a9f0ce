//! Every scenario for the library, against an informer. In process and on the paused clock: hours of hostility take
//! seconds, and the amount of data is bounded by small limits.

use kube_informers::reflector::StreamEnd;
use kube_informers::source::SourceOptions;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_hostile::{Audience, HostileServer, Scenario};
use kube_informers::reflector::{Operation, ReflectorStats, Resume};
use kube_informers::{Event, Informer};
use tokio::sync::Notify;

/// Small, so that endless responses end soon.
const WASTED: u64 = 2 << 20;
const OBJECTS: usize = 10_000;
/// The most that a client may read of the responses of one fetch.
const MOST: u64 = 40 << 20;

/// The result of a fetch that must not harm the client.
enum Outcome {
    /// The list fails with this text, and the informer is not synced.
    Fails(&'static str),
    /// The informer is synced with this many objects and quarantined objects.
    Synced(usize, usize),
    /// The watch-list fails with this text, and the list that replaces it succeeds.
    ListsInstead(&'static str),
}

use Outcome::{Fails, ListsInstead, Synced};

const OUTCOMES: &[(&str, Outcome)] = &[
    ("endless-list", Fails("`limits.objects`")),
    ("endless-pages", Fails("`limits.objects`")),
    ("endless-numbers", Fails("`limits.wasted_bytes`")),
    ("list-of-numbers", Fails("none of the 10000 items of the list")),
    ("endless-whitespace", Fails("`limits.wasted_bytes`")),
    ("repeated-object", Fails("`limits.wasted_bytes`")),
    ("repeated-initial-event", ListsInstead("`limits.wasted_bytes`")),
    ("endless-undecodable", Fails("`limits.wasted_bytes`")),
    ("trickle-list", Fails("`deadlines.min_throughput`")),
    ("trickle-watch-list", ListsInstead("`deadlines.min_throughput`")),
    ("steady-list", Fails("`deadlines.list_total`")),
    (
        "no-response",
        Fails("no response to the list request within 60 s"),
    ),
    ("silent-list", Fails("no more of the list within 30 s")),
    ("broken-list", Fails("connection reset")),
    ("foreign-namespace", Synced(1, 0)),
    ("foreign-kind", Synced(1, 1)),
    ("deep-nesting", Synced(1, 1)),
    ("oversized-object", Synced(1, 1)),
    ("invalid-utf8", Synced(1, 1)),
    ("extreme-numbers", Synced(1, 1)),
    (
        "false-end-marker",
        ListsInstead("did not mark the end of its initial events"),
    ),
    (
        "compressed",
        Fails("the response is compressed (gzip), which was not requested"),
    ),
    ("redirect", Fails("redirects to evil.example are not followed")),
    ("html", Fails("the response is HTML, not from an API server")),
    ("endless-error", Fails("the server returned 500")),
    ("success-status", Fails("cannot list pods in shop")),
    ("short-watches", Synced(1, 0)),
    ("expired-second-page", Fails("410 Expired")),
    ("endless-empty-pages", Fails("`deadlines.list_total`")),
    ("alternating-tokens", Fails("continue token for the second time")),
    ("repeated-token", Fails("continue token for the second time")),
    ("expired-watches", Synced(1, 0)),
    ("gzip-bomb", Fails("`limits.wasted_bytes`")),
];

/// What an informer did until its first list had failed or it was synced.
struct Run {
    synced: bool,
    objects: usize,
    quarantined: usize,
    /// The errors of watch-lists and of lists.
    watch_list_errors: Vec<String>,
    list_errors: Vec<String>,
    stats: ReflectorStats,
    sent: u64,
}

async fn run(scenario: &'static Scenario) -> Run {
    let server = HostileServer::new(scenario);
    let errors = Arc::new(Mutex::new((Vec::new(), Vec::new())));
    let failed = Arc::new(Notify::new());
    let (collected, list_failed) = (errors.clone(), failed.clone());
    // Only the scenario about compression may compress.
    let source = SourceOptions {
        gzip: scenario.name == "gzip-bomb",
        ..Default::default()
    };
    let hook = move |end: &StreamEnd<'_>| {
        let Some(error) = end.error else { return };
        let mut errors = collected.lock().unwrap();
        match end.operation {
            Operation::WatchList if end.resume == Resume::ListInstead => errors.0.push(error.to_string()),
            Operation::Watch => {}
            _ => {
                errors.1.push(error.to_string());
                list_failed.notify_one();
            }
        }
    };
    let informer = Informer::<Pod>::namespaced(server.client(), "shop")
        .source(source)
        .unwrap()
        .configure(|config| {
            config.on_stream_end = Some(Arc::new(hook));
            config.limits.objects = Some(OBJECTS);
            // One object that is larger than the limit of an object must not exceed that of a list.
            if scenario.name != "oversized-object" {
                config.limits.wasted_bytes = WASTED;
            }
        })
        .start();
    informer.add_event_handler(|_: Event<Pod>| {}).unwrap();
    let wait = async {
        tokio::select! {
            () = failed.notified() => {}
            synced = informer.synced() => synced.unwrap(),
        }
    };
    tokio::time::timeout(Duration::from_secs(3 * 3600), wait)
        .await
        .unwrap_or_else(|_| panic!("{}: neither synced nor failed after three hours", scenario.name));
    let (watch_list_errors, list_errors) = errors.lock().unwrap().clone();
    let run = Run {
        synced: informer.has_synced(),
        objects: informer.store().len(),
        quarantined: informer.quarantine().len(),
        watch_list_errors,
        list_errors,
        stats: informer.stats().members[0].reflector.clone(),
        sent: server.sent(),
    };
    let report = informer.shutdown().await;
    assert!(report.is_clean(), "{}: {report}", scenario.name);
    run
}

#[tokio::test(start_paused = true)]
async fn no_scenario_harms_the_library() {
    for scenario in Scenario::all() {
        if scenario.audience != Audience::Library {
            continue;
        }
        let name = scenario.name;
        let outcome = OUTCOMES.iter().find(|(expected, _)| *expected == name);
        let Some((_, outcome)) = outcome else {
            panic!("{name} has no expected outcome: add one to OUTCOMES");
        };
        let run = run(scenario).await;
        let (lists, watch_lists) = (&run.list_errors, &run.watch_list_errors);
        let found = format!(
            "{name}: synced {}, {} objects, {} quarantined, lists {lists:?}, watch-lists {watch_lists:?}",
            run.synced, run.objects, run.quarantined
        );
        println!("{found}, {} bytes", run.sent);
        match outcome {
            Fails(text) => {
                assert!(
                    !run.synced && lists.iter().any(|error| error.contains(text)),
                    "{found}"
                );
                assert_eq!(run.objects, 0, "{found}");
            }
            Synced(objects, quarantined) => {
                assert!(run.synced && lists.is_empty(), "{found}");
                assert_eq!(
                    (run.objects, run.quarantined),
                    (*objects, *quarantined),
                    "{found}"
                );
            }
            ListsInstead(text) => {
                assert!(run.synced && lists.is_empty() && run.objects == 1, "{found}");
                assert!(watch_lists.iter().any(|error| error.contains(text)), "{found}");
            }
        }
        assert!(run.sent <= MOST, "{found}: it read {} bytes", run.sent);
        if name == "foreign-namespace" {
            assert_eq!(run.stats.foreign, 1, "{found}");
        }
    }
    for (name, _) in OUTCOMES {
        assert!(Scenario::named(name).is_some(), "there is no scenario {name}");
    }
}

/// The counter that must grow during a quarter of an hour of a scenario.
type Counter = fn(&ReflectorStats) -> u64;

fn failures(stats: &ReflectorStats) -> u64 {
    stats.errors.values().sum()
}

const LOOPS: &[(&str, Counter)] = &[
    ("short-watches", |stats| stats.watches),
    ("list-of-numbers", failures),
    ("html", failures),
    ("redirect", failures),
    ("broken-list", failures),
    ("expired-second-page", failures),
    ("endless-empty-pages", |stats| stats.paced_pages),
    ("alternating-tokens", |stats| stats.endless_lists),
    ("repeated-token", |stats| stats.endless_lists),
    ("expired-watches", |stats| stats.lists),
];

/// Contract 7: at most 30 requests per informer and minute under any fault, after a small burst.
#[tokio::test(start_paused = true)]
async fn hostile_responses_do_not_cause_a_request_loop() {
    for (name, counter) in LOOPS {
        let server = HostileServer::new(Scenario::named(name).unwrap());
        let informer = Informer::<Pod>::namespaced(server.client(), "shop").start();
        let mut before = 0;
        for minute in 0..15 {
            let most = before + if minute == 0 { 35 } else { 30 };
            tokio::time::sleep(Duration::from_secs(60)).await;
            let requests = server.requests();
            assert!(
                requests <= most,
                "{name}: {} requests in minute {minute}",
                requests - before
            );
            before = requests;
        }
        let stats = informer.stats().members[0].reflector.clone();
        assert!(
            counter(&stats) > 5,
            "{name}: it keeps trying, and counts: {stats:?}"
        );
        informer.shutdown().await;
    }
}

/// The scenarios can be served on a socket too, for programs.
#[tokio::test]
async fn a_scenario_can_be_served_on_a_socket() {
    let server = HostileServer::new(Scenario::named("html").unwrap());
    let serving = server.serve().await.unwrap();
    let config = kube::Config::new(serving.url().parse().unwrap());
    let informer = Informer::<Pod>::namespaced(kube::Client::try_from(config).unwrap(), "shop").start();

    let error = informer.synced_within(Duration::from_secs(5)).await.unwrap_err();

    assert!(error.to_string().contains("the response is HTML"), "{error}");
    informer.shutdown().await;
}
