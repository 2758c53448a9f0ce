//! One client for informers and for the user's own requests.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use kube_testserver::builders::pod;
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb};

#[tokio::test]
async fn a_throttled_write_succeeds_on_the_second_attempt() {
    let server = TestServer::builder().listen("127.0.0.1:0").await.unwrap();
    server.fault(
        RequestMatcher::create("pods").times(1),
        Fault::status(429).retry_after(1),
    );
    let mut config = server.config().unwrap();
    // kube's default, which the configurations of the test server switch off.
    config.default_retry = true;
    let client = kube::Client::try_from(config).unwrap();

    let pods: Api<Pod> = Api::namespaced(client, "shop");
    let created = pods
        .create(&PostParams::default(), &pod("shop", "cart"))
        .await
        .unwrap();

    assert_eq!(created.metadata.name.as_deref(), Some("cart"));
    assert_eq!(server.count_requests(Verb::Create, "pods"), 2);
}
