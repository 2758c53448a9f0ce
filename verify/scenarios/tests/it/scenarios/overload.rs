//! An overloaded server that refuses requests.

use kube_informers::reflector::ReflectorConfig;
use kube_informers::reflector::StreamEnd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use kube_informers::Informer;
use kube_informers_e2e::Server;
use kube_testserver::{Fault, RequestMatcher};
use serde_json::json;

use crate::scenarios::support::{Observed, Outcome, all, config_map, get, namespace, scenarios};

scenarios! {
    requests_rejected_with_retry_after_are_retried_until_they_succeed: Setup::one_request_at_a_time();
}

/// A refused attempt: the status, and the delay until the next attempt.
struct Refusal {
    message: String,
    retry_after: Option<Duration>,
    pause: Duration,
}

async fn requests_rejected_with_retry_after_are_retried_until_they_succeed(server: &Server) -> Outcome {
    let admin = server.client()?;
    let user = server.user().await?;
    let namespace = namespace(&admin).await?;
    let maps = namespace.config_maps();
    allow_everything_to_the_user(&admin).await?;
    all(16, 0..1_000, async |i: usize| {
        let map = config_map(&format!("map-{i:04}"), i);
        maps.create(&PostParams::default(), &map).await.map(drop)
    })
    .await?;

    let refusals: Arc<Mutex<Vec<Refusal>>> = Arc::default();
    let noted = refusals.clone();
    // Lists, because watches are not limited; in pages, because each page may be refused.
    let hook = move |end: &StreamEnd<'_>| {
        if let Some(error) = end
            .error
            .and_then(|error| error.api())
            .filter(|error| error.code == 429)
        {
            noted
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(Refusal {
                    message: error.message.clone(),
                    retry_after: error.retry_after,
                    pause: end.pause,
                });
        }
    };
    let informer = Informer::<ConfigMap>::namespaced(user.clone(), &namespace.name).config(ReflectorConfig {
        watch_list: false,
        page_size: Some(100),
        on_stream_end: Some(Arc::new(hook)),
        ..Default::default()
    });
    let observed = {
        let path = format!("/api/v1/namespaces/{}/configmaps", namespace.name);
        let _load = overload(server, &user, &path);
        let observed = Observed::start(informer)?;
        observed
            .wait_for("it was refused", |observed| observed.errors("429") > 0)
            .await;
        observed
    };

    observed
        .wait_for("it is synced", |observed| observed.informer.has_synced())
        .await;
    observed.assert_exact(&[maps], &ListParams::default()).await?;
    let refusals = refusals.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(!refusals.is_empty());
    for refusal in refusals.iter() {
        assert_eq!(refusal.message, "Too many requests, please try again later.");
        assert_eq!(refusal.retry_after, Some(Duration::from_secs(1)));
        assert!(
            refusal.pause >= Duration::from_secs(1),
            "it retried after {:?}",
            refusal.pause
        );
    }
    Ok(())
}

/// Needed on a server with RBAC. The embedded one accepts the object, too.
async fn allow_everything_to_the_user(admin: &Client) -> Outcome {
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "e2e-user" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "user" }],
    }))?;
    Api::all(admin.clone())
        .create(&PostParams::default(), &binding)
        .await?;
    Ok(())
}

/// Keeps the server busy while the result lives: a real one with lists, the embedded one with a fault.
fn overload(server: &Server, user: &Client, path: &str) -> Load {
    if let Some(embedded) = server.as_embedded() {
        let busy = Fault::status(429)
            .text("Too many requests, please try again later.")
            .retry_after(1);
        let fault = embedded.fault(RequestMatcher::list("configmaps").forever(), busy);
        return Load::Fault(fault);
    }
    let mut lists = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (user, path) = (user.clone(), path.to_owned());
        lists.spawn(async move {
            loop {
                // Refused or not, the request is repeated.
                let _ = get(&user, &path).await;
            }
        });
    }
    Load::Lists(lists)
}

enum Load {
    Fault(kube_testserver::FaultHandle),
    /// Aborted on drop.
    Lists(#[allow(dead_code)] tokio::task::JoinSet<()>),
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Load::Fault(fault) = self {
            fault.clear();
        }
    }
}
