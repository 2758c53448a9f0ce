//! The program against the named scenarios of a hostile server. It neither hangs nor panics, prints no control
//! characters, and uses a bounded amount of memory.

use kube_hostile::{HostileServer, Scenario};

use crate::program::Home;

/// The most memory that a scenario may take.
#[cfg(target_os = "linux")]
const MOST_MEMORY: u64 = 400 << 20;

/// What the program does about a scenario.
enum Outcome {
    /// It exits with 1, and its error contains this text.
    Exits(&'static str),
    /// It says this on standard error, and exits with 1 or retries until it is stopped.
    Reports(&'static str),
    /// It prints this object and continues until it is stopped.
    Prints(&'static str),
}

use Outcome::{Exits, Prints, Reports};

const OUTCOMES: &[(&str, Outcome)] = &[
    ("endless-discovery", Exits("larger than 32 MiB")),
    ("discovery-html", Exits("error: ")),
    ("escapes-in-discovery", Exits("title")),
    ("escapes-in-refusal", Reports("title")),
    ("escapes-in-objects", Prints("cart")),
    ("html", Reports("the response is HTML")),
    ("redirect", Reports("redirects to evil.example are not followed")),
    ("broken-list", Reports("pods")),
    ("list-of-numbers", Reports("none of the 10000 items of the list")),
    ("endless-error", Reports("500")),
    ("repeated-token", Reports("continue token for the second time")),
    (
        "alternating-tokens",
        Reports("continue token for the second time"),
    ),
    (
        "compressed",
        Reports("compressed (gzip), which was not requested"),
    ),
    ("foreign-kind", Prints("cart")),
    ("deep-nesting", Prints("cart")),
    ("invalid-utf8", Prints("cart")),
    ("extreme-numbers", Prints("cart")),
    ("oversized-object", Prints("cart")),
    ("short-watches", Prints("cart")),
    ("expired-watches", Prints("cart")),
];

/// Characters that a terminal would act on, or that hide what is printed.
fn unsafe_character(text: &str) -> Option<char> {
    let hides = |character| matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .find(|&character| (character.is_control() && character != '\n') || hides(character))
}

async fn check(name: &str, outcome: &Outcome, output: &str) {
    let server = HostileServer::new(Scenario::named(name).unwrap());
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
    let mut program = home.start(&["watch", "pods", "-n", "shop", "-o", output]);
    match outcome {
        Exits(_) => {}
        Reports(text) => program.says(text).await,
        Prints(text) => drop(program.line_with(text).await),
    }
    #[cfg(target_os = "linux")]
    if let Prints(_) = outcome {
        let peak = program.peak_memory();
        assert!(peak < MOST_MEMORY, "{name}: {} MiB", peak >> 20);
    }
    let codes: &[i32] = match outcome {
        Exits(_) => &[1],
        Reports(_) => &[1, 143],
        Prints(_) => &[143],
    };
    let mut seen = String::new();
    if !matches!(outcome, Exits(_)) {
        program.signal("TERM").await;
        seen = program.everything();
    }
    let ended = program.end().await;
    let all = format!("{seen}\n{}\n{}", ended.out, ended.err);
    assert!(
        ended.code.is_some_and(|code| codes.contains(&code)),
        "{name}, {output}: {:?}: {all}",
        ended.code
    );
    if let Exits(text) = outcome {
        assert!(ended.err.contains(text), "{name}, {output}: {all}");
    }
    assert!(!all.contains("panicked"), "{name}, {output}: {all}");
    let found = unsafe_character(&all);
    assert_eq!(found, None, "{name}, {output}: {all:?}");
}

/// Runs the scenarios side by side, and names all that fail.
async fn check_all(names: impl Fn(&str) -> bool, output: &'static str) {
    let mut running = tokio::task::JoinSet::new();
    for (name, outcome) in OUTCOMES.iter().filter(|(name, _)| names(name)) {
        running.spawn(check(name, outcome, output));
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

/// A scenario for the program that this suite does not run would prove nothing.
#[test]
fn every_scenario_for_the_program_has_an_expected_outcome() {
    for scenario in Scenario::all() {
        let expected = OUTCOMES.iter().any(|(name, _)| *name == scenario.name);
        assert!(
            expected || scenario.audience != kube_hostile::Audience::Program,
            "{} has no expected outcome: add one to OUTCOMES",
            scenario.name
        );
    }
}
