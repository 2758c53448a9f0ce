//! The three stages of the migrated controller under perturbations.

#[allow(dead_code, reason = "only the program waits for the first deletion")]
mod after;
mod before;
mod between;
mod facts;

use kube_perturb::{Report, Scenario, perturb};
use kube_testserver::builders::deployment;
use serde_json::json;

fn scenario() -> Scenario {
    let replicas = |count: i32| json!({"spec": {"replicas": count}});
    Scenario::new()
        .apply_object("create the deployment", &deployment("shop", "cart"))
        .patch("scale it", "deployments.apps", "shop/cart", replicas(2))
        .patch(
            "interfere with the facts",
            "configmaps",
            "shop/cart-facts",
            json!({"data": {"replicas": "a lie"}}),
        )
        .delete("delete the facts", "configmaps", "shop/cart-facts")
        .apply_object("create another deployment", &deployment("shop", "till"))
        .delete("delete the first", "deployments.apps", "shop/cart")
}

fn is_clean(report: &Report) {
    println!("{report}");
    report.assert_clean();
}

#[test]
fn before_survives_perturbations() {
    let report = perturb(scenario(), |cluster| before::run(cluster.client())).run();
    is_clean(&report);
}

#[test]
fn between_survives_perturbations() {
    let report = perturb(scenario(), |cluster| between::run(cluster.client())).run();
    is_clean(&report);
}

#[test]
fn after_survives_perturbations() {
    let report = perturb(scenario(), |cluster| async move {
        let deletions = after::Deletions::default();
        after::run(cluster.client(), &deletions, std::future::pending()).await
    })
    .run();
    is_clean(&report);
}
