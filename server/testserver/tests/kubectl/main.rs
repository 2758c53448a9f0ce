//! The `kube-testserver` program, on its own and with the real kubectl as its client.
//!
//! Tests that need kubectl are reported as ignored if it is not installed, which libtest cannot do at run time.

mod basics;
mod cluster;
mod conformance;
mod custom;
mod live;
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
        program::unknown_flags_are_named_and_exit_with_code_2,
        program::busy_port_is_named_and_exits_with_code_1,
        program::invalid_manifest_is_named_and_exits_with_code_1,
        program::unknown_resource_is_named,
        program::program_prints_usage_and_stops_on_a_signal,
        program::kubeconfig_is_printed_without_a_file,
    ];
    let with_kubectl = trials![
        basics::get_prints_the_usual_columns,
        basics::yaml_and_json_output_includes_the_type,
        basics::selectors_filter_and_invalid_ones_are_reported,
        basics::describe_shows_an_object_and_its_events,
        basics::watch_prints_changes,
        basics::discovery_lists_kinds_and_versions,
        conformance::deployment_has_defaults_and_is_described,
        conformance::invalid_objects_are_rejected_with_the_field,
        conformance::fields_are_explained_to_any_depth,
        conformance::tls_accepts_certificates_and_tokens,
        conformance::roles_decide_what_users_may_do,
        custom::custom_kind_is_defined_used_and_deleted,
        custom::custom_kinds_support_client_side_and_server_side_apply,
        custom::manifests_create_definitions_and_objects,
        custom::invalid_definition_is_rejected_with_its_fields,
        live::live_cluster_needs_no_other_flag,
        live::rollouts_are_followed_undone_and_scaled,
        live::drained_node_is_empty_and_pods_move,
        live::namespace_is_deleted_with_everything_in_it,
        live::own_deployment_is_rolled_out_at_once_despite_churn,
        writes::apply_creates_keeps_and_changes_objects,
        writes::server_side_apply_reports_conflicts_and_can_force_them,
        writes::every_patch_type_is_accepted,
        writes::labels_annotations_scale_images_and_cordons_are_set,
        writes::duplicate_conflicting_and_invalid_writes_are_rejected_with_a_reason,
        writes::delete_waits_for_finalizers_and_supports_collections,
        writes::create_commands_and_other_protobuf_writers_work,
        writes::controllers_reconcile_deployments_of_kubectl_under_churn,
    ];
    if kubectl_is_installed() {
        tests.extend(with_kubectl);
    } else {
        let ignore = |test: Trial| test.with_kind("kubectl is not installed").with_ignored_flag(true);
        tests.extend(with_kubectl.into_iter().map(ignore));
    }
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}
