//! What kubectl shows of a server that behaves as a real one.

use crate::cluster::Cluster;

pub async fn deployment_has_defaults_and_is_described() {
    let cluster = Cluster::start(&[]).await;

    cluster.ok("create deployment web --image nginx").await;
    let described = cluster.ok("describe deployment web").await;

    assert!(
        described.contains("25% max unavailable, 25% max surge"),
        "{described}"
    );
    cluster.ok("expose deployment web --port 80").await;
    let services = cluster.ok("get service web -o jsonpath={.spec.clusterIP}").await;
    assert!(services.starts_with("10.0."), "{services}");
    let namespaces = cluster.ok("get namespaces -o name").await;
    assert!(namespaces.contains("namespace/kube-system"), "{namespaces}");
}

pub async fn invalid_objects_are_rejected_with_the_field() {
    let cluster = Cluster::start(&[]).await;

    let missing = cluster.error("create configmap c -n nowhere").await;
    assert!(missing.contains("namespaces \"nowhere\" not found"), "{missing}");
    let image = cluster.error("run web --image= --restart=Never").await;
    assert!(image.contains("image"), "{image}");
    let manifest = cluster.scratch.write(
        "typo.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replica: 2}\n",
    );
    let typo = cluster.error(&format!("apply -f {}", manifest.display())).await;
    assert!(typo.contains("unknown field \"spec.replica\""), "{typo}");
}

pub async fn fields_are_explained_to_any_depth() {
    let cluster = Cluster::start(&[]).await;

    let explained = cluster
        .ok("explain deployment.spec.template.spec.containers.ports")
        .await;

    assert!(
        explained.contains("containerPort") && explained.contains("-required-"),
        "{explained}"
    );
}

pub async fn tls_accepts_certificates_and_tokens() {
    let by_certificate = Cluster::start(&["--tls"]).await;
    assert!(
        by_certificate.introduction.contains("https://127.0.0.1:"),
        "{}",
        by_certificate.introduction
    );
    by_certificate.ok("create configmap c").await;

    let by_token = Cluster::start(&["--tls", "--token", "open-sesame"]).await;
    assert!(
        by_token
            .ok("get namespaces -o name")
            .await
            .contains("namespace/default")
    );
    let refused = by_token.error("get namespaces --token wrong").await;
    assert!(
        refused.contains("Unauthorized") || refused.contains("must be logged in"),
        "{refused}"
    );
}

pub async fn roles_decide_what_users_may_do() {
    let cluster = Cluster::start(&["--tls", "--rbac"]).await;
    cluster.ok("create serviceaccount operator").await;
    let operator = "--as system:serviceaccount:default:operator";
    let refused = cluster.error(&format!("get pods {operator}")).await;
    assert!(
        refused.contains("User \"system:serviceaccount:default:operator\" cannot list resource \"pods\""),
        "{refused}"
    );
    assert!(
        cluster
            .error(&format!("auth can-i list pods {operator}"))
            .await
            .is_empty()
    );

    cluster
        .ok("create role reader --verb=get,list,watch --resource=pods")
        .await;
    cluster
        .ok("create rolebinding read --role=reader --serviceaccount=default:operator")
        .await;
    assert_eq!(
        cluster.ok(&format!("auth can-i list pods {operator}")).await,
        "yes\n"
    );
    cluster.ok(&format!("get pods {operator}")).await;
    let rules = cluster.ok(&format!("auth can-i --list {operator}")).await;
    assert!(rules.contains("[get list watch]"), "{rules}");
    let who = cluster.ok(&format!("auth whoami {operator}")).await;
    assert!(who.contains("system:serviceaccounts:default"), "{who}");
}
