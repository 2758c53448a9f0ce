//! Every endpoint that no client can use, against an informer: the error names the innermost cause and the usual fix, and
//! its `source()` chain leads to the cause.

use kube_informers::reflector::StreamEnd;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_hostile::Endpoint;
use kube_informers::Informer;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Long enough for a machine under load; nothing waits for it to pass.
const DEADLINE: Duration = Duration::from_secs(60);

/// The texts of an error and of all its sources.
fn chain(error: &dyn Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut next = error.source();
    while let Some(error) = next {
        texts.push(error.to_string());
        next = error.source();
    }
    texts
}

#[tokio::test(flavor = "multi_thread")]
async fn transport_errors_name_the_innermost_cause_and_the_usual_fix() {
    for endpoint in Endpoint::all() {
        let name = endpoint.name;
        let open = endpoint.open().await.unwrap();
        let mut config = kube::Config::new(open.url().parse().unwrap());
        config.root_cert = open.authority_der().map(|authority| vec![authority]);
        let client = kube::Client::try_from(config).unwrap();
        let (failed, mut failures) = mpsc::unbounded_channel();
        let hook = move |end: &StreamEnd<'_>| {
            // The receiver is gone when the test is over.
            failed.send(end.error.map(ToString::to_string)).ok();
        };
        let informer = Informer::<Pod>::namespaced(client, "shop")
            .configure(|config| config.on_stream_end = Some(Arc::new(hook)))
            .start();

        let failure = timeout(DEADLINE, failures.recv()).await.unwrap();
        let error = informer.synced_within(Duration::ZERO).await.unwrap_err();
        let text = error.to_string();

        println!("{name}: {text}");
        let has_cause = |text: &str| {
            let text = text.to_lowercase();
            endpoint.causes.iter().any(|cause| text.contains(cause))
        };
        assert!(has_cause(&text), "{name}: {text}");
        assert!(text.contains(endpoint.fix), "{name}: {text}");
        assert!(
            has_cause(&failure.flatten().unwrap()),
            "{name}: the hook receives it"
        );
        // The first two are the messages of the informer and of its source, which quote the cause.
        let texts = chain(&error);
        let innermost = texts.last().unwrap();
        assert!(has_cause(innermost), "{name}: {texts:#?}");
        assert!(
            !innermost.contains("pods"),
            "{name}: the cause is an error of its own: {texts:#?}"
        );
        informer.shutdown().await;
    }
}
