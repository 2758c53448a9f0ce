//! Connections that are never established.

use std::future::{Pending, pending};
use std::io;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::middleware::BaseUriLayer;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tower::{Layer, Service};

use super::*;

/// A connector without a timeout, to an address that drops all packets.
#[derive(Clone)]
struct NeverConnects;

impl Service<Uri> for NeverConnects {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pending<Result<Self::Response, io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        pending()
    }
}

#[tokio::test(start_paused = true)]
async fn connecting_is_bounded_whatever_the_timeout_of_the_client_is() {
    let http = HttpClient::builder(TokioExecutor::new()).build::<_, Body>(NeverConnects);
    let service = BaseUriLayer::new(Uri::from_static("http://10.0.0.1")).layer(http);
    let client = kube::Client::new(service, "default");
    for (source, seconds) in [
        (ListWatch::<Pod>::new(client.clone(), Scope::all()), 5),
        (
            ListWatch::<Pod>::new(client, Scope::all()).options(SourceOptions {
                connect_timeout: Duration::from_secs(9),
                ..Default::default()
            }),
            9,
        ),
    ] {
        let started = Instant::now();
        let first = source.watch(WatchRequest::default(), None).next().await;
        let Some(Err(error)) = first else {
            panic!("it connected");
        };

        assert_eq!(started.elapsed().as_secs(), seconds);
        let message = error.to_string();
        let expected = format!("cannot watch pods in all namespaces: no connection within {seconds} s");
        assert!(message.starts_with(&expected), "{message}");
        assert_eq!(error.class(), "transport");
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_may_take_longer_than_connecting() {
    let service = tower::service_fn(|request: Request<Body>| async move {
        drop(request);
        tokio::time::sleep(Duration::from_secs(40)).await;
        Ok::<_, Infallible>(Response::new(whole("{}")))
    });
    let client = kube::Client::new(service, "default");
    let source = ListWatch::<Pod>::new(client, Scope::all());

    let first = source.watch(WatchRequest::default(), None).next().await;
    assert!(matches!(first, Some(Ok(WatchItem::Progress { .. }))), "{first:?}");
}
