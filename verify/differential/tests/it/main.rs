//! Programs in Go beside ours. Without a Go toolchain the tests are reported as ignored, which libtest cannot do at run time; a
//! program that does not build is a failure.

mod election;
mod informer;
mod recorder;
mod tapes;

use std::process::ExitCode;

use kube_differential::go;
use libtest_mimic::{Arguments, Trial};

fn trial<F: Future<Output = ()>>(name: &str, test: impl FnOnce() -> F + Send + 'static) -> Trial {
    Trial::test(name, move || {
        tokio::runtime::Runtime::new()?.block_on(test());
        Ok(())
    })
    .with_ignored_flag(!go::is_installed())
}

fn main() -> ExitCode {
    let tests = vec![
        trial(
            "client_go_and_ours_deliver_the_same_on_the_embedded_server",
            tapes::on_the_embedded_server,
        ),
        // `verify/scenarios/run` requests it.
        trial(
            "client_go_and_ours_deliver_the_same_on_a_real_server",
            tapes::on_a_real_server,
        )
        .with_ignored_flag(true),
        trial(
            "client_go_informer_lists_watches_and_notices_missed_deletes",
            informer::client_go_informer_lists_watches_and_notices_missed_deletes,
        ),
        trial(
            "same_occurrences_lead_to_the_same_events",
            recorder::same_occurrences_lead_to_the_same_events,
        ),
        trial(
            "candidates_of_both_languages_exclude_each_other_and_hand_over",
            election::candidates_of_both_languages_exclude_each_other_and_hand_over,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}
