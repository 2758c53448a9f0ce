//! A perturbation test: a controller that creates an object twice after a crash, and its correction.
//!
//! In a project of your own this is a `#[test]` that ends with `.check(..)`; see the `perturbed.rs` of the sample controller.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use kube_perturb::{Report, Scenario, perturb};
use serde_json::json;

/// Gives each ConfigMap an account, looking every ten seconds.
async fn give_accounts(client: Client, careful: bool) -> kube::Result<()> {
    let sites = Api::<ConfigMap>::namespaced(client.clone(), "shop");
    let accounts = Api::<ServiceAccount>::namespaced(client, "shop");
    loop {
        for site in sites.list(&ListParams::default()).await? {
            let name = site.name_any();
            let mut account = ServiceAccount::default();
            account.metadata.owner_references = Some(Vec::from_iter(site.controller_owner_ref(&())));
            if careful {
                // The name follows from the parent, so a repeated write changes nothing.
                account.metadata.name = Some(name.clone());
                let params = PatchParams::apply("accounts").force();
                accounts.patch(&name, &params, &Patch::Apply(&account)).await?;
            } else if site.annotations().get("account").is_none() {
                // A crash between these two writes forgets the account.
                account.metadata.generate_name = Some(format!("{name}-"));
                let account = accounts.create(&PostParams::default(), &account).await?;
                let note = json!({"metadata": {"annotations": {"account": account.name_any()}}});
                sites
                    .patch(&name, &PatchParams::default(), &Patch::Merge(note))
                    .await?;
            }
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

fn test(careful: bool) -> Report {
    let scenario = Scenario::new()
        .apply(
            "create a site",
            "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: web}}",
        )
        .delete("delete it", "configmaps", "shop/web")
        .apply(
            "create it again",
            "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: web}}",
        );
    perturb(scenario, move |cluster| give_accounts(cluster.client(), careful))
        .crash_between_writes()
        .stale_views()
        .skipped_states()
        .also_check(|end| assert!(end.server().count("serviceaccounts") > 0))
        .run()
}

pub fn run() {
    let report = test(false);
    println!("the careless version: {report}\n");
    assert!(
        !report.findings.is_empty(),
        "the account that was created twice is not found"
    );

    let report = test(true);
    println!("the careful version: {report}");
    report.assert_clean();
}
