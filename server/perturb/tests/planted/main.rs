//! Controllers with planted bugs of the kinds that Sieve found in popular controllers. Every bug must be found; the corrected
//! version of each controller must pass.
//!
//! The parents are ConfigMaps ("sites"), the children ServiceAccounts and Pods, so that no custom kind is needed.

mod by_hand;
mod informers;
mod kube_runtime_style;
mod site;

use std::pin::Pin;
use std::time::{Duration, Instant};

use kube_perturb::{Cluster, FindingKind, Report, Scenario, perturb};

type Running = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// A controller in two versions.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    style: &'static str,
    scenario: fn() -> Scenario,
    controller: fn(Cluster, Version) -> Running,
    /// The finding that describes the bug.
    shows_as: FindingKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Planted,
    Corrected,
}

impl Case {
    fn run(self, version: Version) -> Report {
        perturb((self.scenario)(), move |cluster| {
            (self.controller)(cluster, version)
        })
        .run()
    }

    #[track_caller]
    fn is_found(self) -> Report {
        let report = self.run(Version::Planted);
        let found = report
            .findings
            .iter()
            .find(|finding| finding.kind == self.shows_as);
        assert!(
            found.is_some(),
            "{}: the planted bug was not found: {report}",
            self.name
        );
        assert!(
            report.findings.iter().all(|finding| finding.plan != "reference"),
            "{}: the bug must not show without a perturbation: {report}",
            self.name
        );
        report
    }

    #[track_caller]
    fn passes(self) -> Report {
        let report = self.run(Version::Corrected);
        assert!(report.findings.is_empty(), "{}: {report}", self.name);
        assert!(report.plans_run > 0, "{}: nothing was perturbed", self.name);
        assert_eq!(report.plans_missed, 0, "{}: {report}", self.name);
        report
    }
}

macro_rules! cases {
    ($($module:ident :: $case:ident),* $(,)?) => {
        const CASES: &[Case] = &[$($module::$case::CASE),*];

        $(mod $case {
            use super::$module::$case::CASE;

            #[test]
            fn bug_is_found() {
                CASE.is_found();
            }

            #[test]
            fn corrected_version_passes() {
                CASE.passes();
            }
        })*
    };
}

cases!(
    kube_runtime_style::creates_twice_after_a_crash,
    kube_runtime_style::never_removes_a_finalizer,
    kube_runtime_style::deletes_by_a_stale_read,
    kube_runtime_style::relies_on_a_transient_state,
    kube_runtime_style::numbers_from_memory,
    kube_runtime_style::panics_on_half_done_work,
    informers::misses_a_deletion,
    informers::counts_children_in_a_stale_cache,
    informers::takes_its_own_object_for_a_foreign_one,
    informers::rewrites_forever_after_a_restart,
    by_hand::waits_for_its_own_lock,
    by_hand::polls_without_a_pause,
    by_hand::rewrites_without_effect,
);

/// Prints the figures of the documentation:
/// `cargo test -p kube-perturb --test planted figures -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures; the other tests check the same"]
#[allow(clippy::disallowed_methods, reason = "plans per minute of real time")]
fn figures() {
    let started = Instant::now();
    let (mut plans, mut found, mut alarms) = (0, 0, 0);
    println!("| Controller | Style | Plans | Found by | Corrected |");
    println!("|---|---|---|---|---|");
    for case in CASES {
        let (planted, corrected) = (case.run(Version::Planted), case.run(Version::Corrected));
        plans += planted.plans_run + corrected.plans_run;
        let by = planted
            .findings
            .iter()
            .find(|finding| finding.kind == case.shows_as)
            .map(|finding| 1 + finding.other_plans.len());
        found += usize::from(by.is_some());
        alarms += corrected.findings.len();
        println!(
            "| {} | {} | {} | {} plans | {} findings |",
            case.name.replace('_', " "),
            case.style,
            planted.plans_run,
            by.unwrap_or(0),
            corrected.findings.len()
        );
    }
    let minutes = started.elapsed().as_secs_f64() / 60.0;
    println!();
    println!("detection: {found} of {}", CASES.len());
    println!("false alarms: {alarms}");
    println!("{plans} plans, {:.0} plans per minute", plans as f64 / minutes);
}

/// Two findings of the same plan are equal in every respect.
#[test]
fn runs_are_deterministic() {
    let case = kube_runtime_style::creates_twice_after_a_crash::CASE;
    let (one, two) = (case.run(Version::Planted), case.run(Version::Planted));
    let stories = |report: &Report| -> Vec<(String, Vec<String>, Vec<String>)> {
        let findings = report.findings.iter();
        findings
            .map(|finding| {
                (
                    finding.plan.clone(),
                    finding.other_plans.clone(),
                    finding.story.clone(),
                )
            })
            .collect()
    };
    assert_eq!(stories(&one), stories(&two));
}

#[test]
fn single_plan_can_be_replayed_and_tells_its_story() {
    let case = kube_runtime_style::creates_twice_after_a_crash::CASE;
    let found = case.is_found();
    let first = &found.findings[0];

    let replayed = perturb((case.scenario)(), move |cluster| {
        (case.controller)(cluster, Version::Planted)
    })
    .only(first.plan.clone())
    .run();

    assert_eq!(replayed.plans_run, 1);
    assert_eq!(replayed.findings[0].story, first.story);
    let text = replayed.to_string();
    for part in [
        "the controller crashed",
        "POST /api/v1/namespaces/shop/serviceaccounts (web-*)",
        "serviceaccounts shop/web-* exists 2 times, in the reference run 1 times",
        &format!(
            "replay: KUBE_PERTURB_PLAN={} cargo test single_plan_can_be_replayed_and_tells_its_story -- --exact",
            first.plan
        ),
        "all writes of the plan:",
    ] {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[test]
fn request_that_fails_until_the_end_is_a_finding() {
    let report = kube_runtime_style::never_removes_a_finalizer::CASE.is_found();
    let failing = report
        .findings
        .iter()
        .find(|finding| finding.kind == FindingKind::KeepsFailing);
    let failing = failing.expect("the deletion of the child fails again and again");
    assert!(
        failing
            .id
            .contains("DELETE /api/v1/namespaces/shop/serviceaccounts/web-account 404"),
        "{}",
        failing.id
    );
}

#[test]
fn known_finding_does_not_fail_the_test_but_is_reported() {
    let case = kube_runtime_style::creates_twice_after_a_crash::CASE;
    let id = case.is_found().findings[0].id.clone();

    let report = perturb((case.scenario)(), move |cluster| {
        (case.controller)(cluster, Version::Planted)
    })
    .known(id.clone(), "the names are random")
    .known("leaked-object pods", "no longer happens")
    .run();

    report.assert_clean();
    assert_eq!(report.known[0].id, id);
    assert!(!report.known[0].plans.is_empty());
    assert!(
        report
            .to_string()
            .contains("known, but not found: leaked-object pods")
    );
}

#[test]
fn failed_check_is_a_finding_with_its_message() {
    let case = kube_runtime_style::creates_twice_after_a_crash::CASE;
    let report = perturb((case.scenario)(), move |cluster| {
        (case.controller)(cluster, Version::Corrected)
    })
    .crash_between_writes()
    .also_check(|end| assert_eq!(end.server().count("serviceaccounts"), 7, "seven are needed"))
    .run();

    let finding = &report.findings[0];
    assert_eq!(finding.kind, FindingKind::CheckFailed);
    assert!(finding.id.contains("seven are needed"), "{}", finding.id);
}

#[test]
fn controller_that_never_settles_or_returns_is_a_finding_of_the_reference_run() {
    let scenario = || site::scenario("web", &[]);
    let returns = perturb(scenario(), |_| async {}).run();
    assert_eq!(returns.findings[0].kind, FindingKind::ControllerExited);
    assert_eq!(returns.plans_run, 0);

    let fails = perturb(scenario(), |_| async { Err::<(), _>("no such thing") }).run();
    assert!(fails.to_string().contains("no such thing"), "{fails}");

    let writes = perturb(scenario(), |cluster| site::write_forever(cluster.client())).run();
    assert_eq!(writes.findings[0].kind, FindingKind::NeverSettles, "{writes}");
}

#[test]
fn controller_that_blocks_its_thread_is_a_finding() {
    let report = perturb(site::scenario("web", &[]), |_| async {
        // The sender is alive, so this waits forever.
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let _ = receiver.recv();
        drop(sender);
    })
    .real_time_limit(Duration::from_secs(1))
    .run();

    assert_eq!(report.findings[0].kind, FindingKind::Blocked, "{report}");
}

#[test]
fn scenario_that_cannot_be_performed_names_the_step() {
    let scenario = Scenario::new().delete("remove the site", "configmaps", "shop/web");
    let report = perturb(scenario, |_| std::future::pending::<()>()).run();
    let text = report.to_string();
    assert!(
        text.contains("the step \"remove the site\" of the scenario"),
        "{text}"
    );
}
