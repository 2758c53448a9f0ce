//! Requests that the server rejects, and how an informer reports it.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{ApiResource, GroupVersionKind};
use kube_informers::reflector::ReflectorState;
use kube_informers::{Informer, Scope};
use kube_informers_e2e::Server;

use crate::scenarios::support::{Observed, Outcome, get, namespace, scenarios, unique};

scenarios! {
    missing_permissions_are_reported_with_the_server_message: Setup::shared();
    unserved_kind_is_reported_and_retried: Setup::shared();
}

async fn missing_permissions_are_reported_with_the_server_message(server: &Server) -> Outcome {
    let client = match server.nobody().await {
        Ok(client) => client,
        Err(error) => return Ok(error.skip_loudly("missing permissions")?),
    };
    let namespace = namespace(&server.client()?).await?;
    let observed = Observed::start(Informer::<ConfigMap>::namespaced(client.clone(), &namespace.name))?;
    observed
        .wait_for("it was rejected twice", |observed| observed.errors("403") >= 2)
        .await;

    let not_synced = observed
        .informer
        .synced_within(Duration::ZERO)
        .await
        .expect_err("listing is forbidden");
    let error = not_synced
        .last_error()
        .and_then(|error| error.api())
        .expect("an error of the server");
    let forbidden = |verb: &str| {
        format!(
            "configmaps is forbidden: User \"nobody\" cannot {verb} resource \"configmaps\" in API group \"\" in the namespace \"{}\"",
            namespace.name
        )
    };
    assert_eq!((error.code, error.reason.as_str()), (403, "Forbidden"));
    assert!(
        [forbidden("watch"), forbidden("list")].contains(&error.message),
        "{}",
        error.message
    );
    assert!(matches!(
        observed.informer.state(),
        ReflectorState::BackingOff { .. } | ReflectorState::Listing { .. }
    ));
    assert_eq!(observed.informer.store().len(), 0);
    // The same on the wire.
    let path = format!("/api/v1/namespaces/{}/configmaps", namespace.name);
    assert_eq!(
        get(&client, &path).await?.status(),
        (403, "Forbidden", forbidden("list").as_str())
    );
    let named = get(&client, &format!("{path}/x")).await?;
    assert_eq!(
        named.status().2,
        forbidden("get").replace("configmaps is forbidden", "configmaps \"x\" is forbidden")
    );
    namespace.delete().await?;
    Ok(())
}

async fn unserved_kind_is_reported_and_retried(server: &Server) -> Outcome {
    let client = server.client()?;
    let group = format!("{}.example.com", unique("none"));
    let nowhere = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&group, "v1", "Ghost"), "ghosts");
    let ghosts = Observed::start(Informer::dynamic(client.clone(), &nowhere, Scope::all()))?;
    // In a served group the response is a status, otherwise plain text.
    let in_core = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Ghost"), "ghosts");
    let core = Observed::start(Informer::dynamic(client.clone(), &in_core, Scope::all()))?;

    for (observed, words) in [
        (&ghosts, "404 page not found"),
        (&core, "the server could not find the requested resource"),
    ] {
        observed
            .wait_for("it was refused", |observed| observed.errors("404") > 0)
            .await;
        let not_synced = observed
            .informer
            .synced_within(Duration::ZERO)
            .await
            .expect_err("the kind does not exist");
        let error = not_synced
            .last_error()
            .and_then(|error| error.api())
            .expect("an error of the server");
        assert_eq!(error.code, 404);
        assert!(error.message.contains(words), "{}", error.message);
    }
    Ok(())
}
