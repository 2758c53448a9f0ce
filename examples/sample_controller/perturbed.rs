//! The sample controller under perturbations: crashes, stale views, skipped states.

#![allow(clippy::disallowed_names, reason = "the kind is called Foo")]
#![allow(dead_code, reason = "a part of the modules is for the program")]

mod controller;
mod flags;
mod foo;
mod recorder;
mod run;

use kube_perturb::{Scenario, perturb};
use serde_json::json;

type Error = Box<dyn std::error::Error + Send + Sync>;

#[test]
fn sample_controller_survives_perturbations() {
    let foo = |name: &str, replicas: i32| {
        json!({
            "apiVersion": format!("{}/{}", foo::GROUP, foo::VERSION), "kind": "Foo",
            "metadata": {"namespace": "default", "name": name},
            "spec": {"deploymentName": format!("{name}-deployment"), "replicas": replicas},
        })
    };
    let foos = format!("foos.{}", foo::GROUP);
    let scenario = Scenario::new()
        .given_object(&foo::definition())
        .apply_object("create a Foo", &foo("example", 1))
        // The deployment controller reports a ready pod.
        .patch(
            "its pod becomes ready",
            "deployments.apps",
            "default/example-deployment",
            json!({"status": {"availableReplicas": 1}}),
        )
        .patch(
            "scale it",
            &foos,
            "default/example",
            json!({"spec": {"replicas": 3}}),
        )
        .apply_object("create another Foo", &foo("other", 2))
        .delete("delete the first", &foos, "default/example");

    let report = perturb(scenario, |cluster| async move {
        let flags = flags::Flags::from_arguments(std::iter::empty())?;
        run::run(cluster.client(), &flags)
            .await
            .map_err(|error| error.to_string())
    })
    .check(|end| assert_eq!(end.server().count("deployments.apps"), 1));
    println!("{report}");
}
