//! The `kube-testserver` program, on its own and with the real kubectl as its client.
//!
//! Tests that need kubectl are reported as ignored where it is not installed, which libtest cannot do at run time.

mod basics;
mod cluster;
mod custom;
mod program;
mod writes;

use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Trial};

/// One trial per async test function, named by its path.
macro_rules! trials {
    ($($test:path),+ $(,)?) => {
        vec![$(Trial::test(stringify!($test), || Ok(run_test($test())))),+]
    };
}

fn run_test(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a tokio runtime");
    runtime.block_on(test);
}

fn kubectl_is_installed() -> bool {
    let output = Command::new("kubectl").args(["version", "--client"]).output();
    output.is_ok_and(|output| output.status.success())
}

fn main() -> ExitCode {
    let mut tests = trials![
        program::unknown_flags_are_named_and_end_with_code_2,
        program::a_busy_port_is_named_and_ends_with_code_1,
        program::a_bad_manifest_is_named_with_its_place_and_ends_with_code_1,
        program::an_unknown_resource_is_named,
        program::it_says_how_to_use_it_and_stops_when_told,
        program::without_a_file_the_kubeconfig_is_printed,
    ];
    let with_kubectl = trials![
        basics::get_prints_the_known_columns,
        basics::objects_are_printed_as_yaml_and_json_with_their_type,
        basics::selectors_choose_and_wrong_ones_are_explained,
        basics::describe_shows_an_object_and_its_events,
        basics::a_watch_prints_what_happens,
        basics::discovery_tells_what_there_is,
        custom::a_custom_kind_lives_from_its_definition_to_its_deletion,
        custom::apply_works_on_custom_kinds_both_ways,
        custom::definitions_and_objects_come_from_manifests,
        custom::a_wrong_definition_is_refused_with_the_fields,
        writes::apply_creates_leaves_alone_and_changes,
        writes::server_side_apply_tells_conflicts_and_can_force_them,
        writes::every_kind_of_patch_is_taken,
        writes::labels_annotations_scale_images_and_cordons_are_set,
        writes::what_exists_conflicts_or_is_invalid_is_refused_with_a_reason,
        writes::deleting_waits_for_finalizers_and_takes_collections,
        writes::the_create_commands_and_other_protobuf_writers_work,
        writes::a_living_cluster_follows_what_kubectl_asks_for,
    ];
    if kubectl_is_installed() {
        tests.extend(with_kubectl);
    } else {
        let ignore = |test: Trial| test.with_kind("kubectl is not installed").with_ignored_flag(true);
        tests.extend(with_kubectl.into_iter().map(ignore));
    }
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}
