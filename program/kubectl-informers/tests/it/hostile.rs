//! The program against all scenarios of a hostile server. It ends with the documented exit code, neither hangs nor
//! panics, prints no control characters, and uses a bounded amount of memory.

use std::sync::Arc;

use kube_hostile::{HostileServer, ProgramEnd, Scenario};

use tokio::sync::Semaphore;

use crate::program::Home;

/// The most memory that a scenario may take.
#[cfg(target_os = "linux")]
const MOST_MEMORY: u64 = 400 << 20;

/// The number of programs that run at the same time.
const AT_A_TIME: usize = 8;

/// How the program is run, and the text that it must print: an object on standard output if it
/// [runs](ProgramEnd::Runs), otherwise a part of its error message.
struct Run {
    scenario: &'static str,
    options: &'static [&'static str],
    prints: &'static str,
}

const fn run(scenario: &'static str, options: &'static [&'static str], prints: &'static str) -> Run {
    Run {
        scenario,
        options,
        prints,
    }
}

const DEFAULTS: &[&str] = &[];
const FEW_OBJECTS: &[&str] = &["--max-objects", "2000"];
const FEW_BYTES: &[&str] = &["--max-bytes", "2Mi"];
const SHORT: &[&str] = &["--request-timeout", "3s"];

const RUNS: &[Run] = &[
    run("endless-list", FEW_OBJECTS, "raise --max-objects"),
    run("endless-pages", FEW_OBJECTS, "raise --max-objects"),
    run("endless-numbers", FEW_BYTES, "bytes that are not objects"),
    run("list-of-numbers", DEFAULTS, "none of the 10000 items of the list"),
    run("endless-whitespace", FEW_BYTES, "raise --max-bytes"),
    run("repeated-object", FEW_BYTES, "repeat an object"),
    run("repeated-initial-event", FEW_BYTES, "cart"),
    run("endless-undecodable", FEW_BYTES, "raise --max-bytes"),
    run("trickle-list", SHORT, "no complete list within 3 s"),
    run("trickle-watch-list", SHORT, "cart"),
    run("steady-list", SHORT, "no complete list within 3 s"),
    run("no-response", SHORT, "no complete list within 3 s"),
    run("silent-list", SHORT, "no complete list within 3 s"),
    run("broken-list", DEFAULTS, "Unable to connect to the server: "),
    run("foreign-namespace", DEFAULTS, "cart"),
    run("foreign-kind", DEFAULTS, "cart"),
    run("deep-nesting", DEFAULTS, "cart"),
    run("oversized-object", DEFAULTS, "cart"),
    run("invalid-utf8", DEFAULTS, "cart"),
    run("extreme-numbers", DEFAULTS, "cart"),
    run("false-end-marker", DEFAULTS, "cart"),
    run(
        "compressed",
        DEFAULTS,
        "compressed (gzip), which was not requested",
    ),
    run("redirect", DEFAULTS, "redirects to evil.example are not followed"),
    run("html", DEFAULTS, "the response is HTML"),
    run("endless-error", DEFAULTS, "500"),
    run("success-status", DEFAULTS, "cannot list pods in shop"),
    run("short-watches", DEFAULTS, "cart"),
    run("expired-second-page", DEFAULTS, "Error from server (Expired)"),
    run("endless-empty-pages", SHORT, "raise --request-timeout"),
    run(
        "alternating-tokens",
        DEFAULTS,
        "continue token for the second time",
    ),
    run("repeated-token", DEFAULTS, "continue token for the second time"),
    run("expired-watches", DEFAULTS, "cart"),
    run(
        "gzip-bomb",
        DEFAULTS,
        "compressed (gzip), which was not requested",
    ),
    run("endless-discovery", DEFAULTS, "larger than 32 MiB"),
    run(
        "discovery-html",
        DEFAULTS,
        "error: the answer to /api is not what an API server sends",
    ),
    run("escapes-in-discovery", DEFAULTS, "title"),
    run("escapes-in-refusal", DEFAULTS, "title"),
    run("escapes-in-objects", DEFAULTS, "cart"),
];

/// Characters that a terminal would act on, or that hide what is printed.
fn unsafe_character(text: &str) -> Option<char> {
    let hides = |character| matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .find(|&character| (character.is_control() && character != '\n') || hides(character))
}

async fn check(run: &Run, output: &str) {
    let name = run.scenario;
    let scenario = Scenario::named(name).unwrap();
    let server = HostileServer::new(scenario);
    let serving = server.serve().await.unwrap();
    let home = Home::new();
    let url = serving.url();
    home.write(
        ".kube/config",
        &format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
        ),
    );
    if run.options == SHORT {
        // The timeout is about the list. On a busy machine, discovery could exceed it.
        home.cache_discovery(&url);
    }
    let mut arguments = vec!["watch", "pods", "-n", "shop", "-o", output];
    arguments.extend(run.options);
    let mut program = home.start(&arguments);
    let mut seen = String::new();
    if scenario.program == ProgramEnd::Runs {
        program.line_with(run.prints).await;
        #[cfg(target_os = "linux")]
        {
            let peak = program.peak_memory();
            assert!(peak < MOST_MEMORY, "{name}: {} MiB", peak >> 20);
        }
        program.signal("TERM").await;
        seen = program.everything();
    }
    let ended = program.end().await;
    let all = format!("{seen}\n{}\n{}", ended.out, ended.err);
    let code = match scenario.program {
        ProgramEnd::Fails => 1,
        _ => 143,
    };
    assert_eq!(ended.code, Some(code), "{name}, {output}: {all}");
    if code == 1 {
        assert!(ended.err.contains(run.prints), "{name}, {output}: {all}");
        assert_eq!(ended.out, "", "{name}, {output}: nothing was complete");
    }
    assert!(!all.contains("panicked"), "{name}, {output}: {all}");
    assert!(
        !all.contains("kube-system"),
        "{name}, {output}: a foreign namespace: {all}"
    );
    let found = unsafe_character(&all);
    assert_eq!(found, None, "{name}, {output}: {all:?}");
}

/// Runs the scenarios side by side, and names all that fail.
async fn check_all(names: impl Fn(&str) -> bool, output: &'static str) {
    let mut running = tokio::task::JoinSet::new();
    let turns = Arc::new(Semaphore::new(AT_A_TIME));
    for run in RUNS.iter().filter(|run| names(run.scenario)) {
        let turns = turns.clone();
        running.spawn(async move {
            let _turn = turns.acquire().await;
            check(run, output).await;
        });
    }
    let mut failures = Vec::new();
    while let Some(ended) = running.join_next().await {
        failures.extend(ended.err().map(|error| error.to_string()));
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_scenario_harms_the_program() {
    check_all(|_| true, "json").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn terminal_escapes_of_a_server_are_not_printed_as_text_either() {
    check_all(|name| name.starts_with("escapes-"), "text").await;
}

/// A scenario that this suite does not run would prove nothing.
#[test]
fn every_scenario_is_played_to_the_program() {
    for scenario in Scenario::all() {
        let runs = RUNS.iter().filter(|run| run.scenario == scenario.name).count();
        assert_eq!(runs, 1, "add {} to RUNS", scenario.name);
    }
}
