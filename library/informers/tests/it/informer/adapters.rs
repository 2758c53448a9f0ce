//! Handlers and adapters written outside the library.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::Event;
use kube_informers::handler::Delivery;
use kube_informers::handler::{AsyncEventHandler, EventHandler, HandlerOptions, blocking, filtered};
use kube_informers::source::SourceError;
use kube_testserver::builders::{Build, pod};
use kube_testserver::{Fault, RequestMatcher, TestServer};
use parking_lot::Mutex;

use crate::support::*;

/// Counts the events that reach the inner handler, synchronous or asynchronous.
struct Counted<H> {
    handler: H,
    seen: Arc<AtomicUsize>,
}

impl<K, H: EventHandler<K>> EventHandler<K> for Counted<H> {
    fn on_event(&mut self, event: Event<K>) {
        self.on_delivery(event.into());
    }

    fn on_delivery(&mut self, delivery: Delivery<K>) {
        self.seen.fetch_add(1, Ordering::Relaxed);
        self.handler.on_delivery(delivery);
    }

    fn name(&self) -> String {
        self.handler.name()
    }

    fn may_block(&self) -> bool {
        self.handler.may_block()
    }
}

impl<K: Send + Sync + 'static, H: AsyncEventHandler<K>> AsyncEventHandler<K> for Counted<H> {
    async fn on_event(&mut self, event: Event<K>) {
        AsyncEventHandler::on_delivery(self, event.into()).await;
    }

    async fn on_delivery(&mut self, delivery: Delivery<K>) {
        self.seen.fetch_add(1, Ordering::Relaxed);
        self.handler.on_delivery(delivery).await;
    }
}

/// Borrows from itself across an await.
struct Slow {
    log: Log,
    pause: Duration,
}

impl AsyncEventHandler<Pod> for Slow {
    async fn on_event(&mut self, event: Event<Pod>) {
        tokio::time::sleep(self.pause).await;
        self.log.push(&event);
    }
}

#[tokio::test(start_paused = true)]
async fn an_adapter_wraps_synchronous_asynchronous_and_blocking_handlers() {
    let server = TestServer::new();
    server.create(pod("ns", "a").label("app", "web"));
    server.create(pod("ns", "b"));
    let informer = synced_pods(&server).await;
    let seen = Arc::new(AtomicUsize::new(0));
    let web = |pod: &Pod| pod.metadata.labels.is_some();
    let logs = [Log::new(), Log::new(), Log::new()];
    let thread: Arc<Mutex<Option<ThreadId>>> = Arc::default();

    let inline = Counted {
        handler: logs[0].handler(),
        seen: seen.clone(),
    };
    let slow = Counted {
        handler: Slow {
            log: logs[1].clone(),
            pause: Duration::from_secs(1),
        },
        seen: seen.clone(),
    };
    let (log, on) = (logs[2].clone(), thread.clone());
    let blocked = Counted {
        handler: blocking(move |event: Event<Pod>| {
            *on.lock() = Some(std::thread::current().id());
            log.push(&event);
        }),
        seen: seen.clone(),
    };
    let registrations = [
        informer.add_event_handler(inline).unwrap(),
        informer.add_event_handler(filtered(web, slow)).unwrap(),
        informer.add_event_handler(filtered(web, blocked)).unwrap(),
    ];
    for registration in &registrations {
        registration.synced().await.unwrap();
    }

    assert_eq!(logs[0].take(), ["added ns/a (initial)", "added ns/b (initial)"]);
    assert_eq!(logs[1].take(), ["added ns/a (initial)"]);
    assert_eq!(logs[2].take(), ["added ns/a (initial)"]);
    // The filter wraps two of the three.
    assert_eq!(seen.load(Ordering::Relaxed), 4);
    assert!(thread.lock().is_some_and(|id| id != std::thread::current().id()));
    informer.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_resync_period_can_be_set_by_the_configuration() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    for (builder, expected) in [
        (pods(&server), 0),
        (
            pods(&server).configure(|config| config.resync = Some(secs(10))),
            3,
        ),
        (
            pods(&server)
                .configure(|config| config.resync = Some(secs(10)))
                .configure(|config| config.resync = Some(secs(20))),
            1,
        ),
    ] {
        let informer = synced(builder).await;
        let log = Log::new();
        let handler = informer
            .add_event_handler_with(HandlerOptions::default(), log.handler())
            .unwrap();
        handler.synced().await.unwrap();
        log.take();

        pass(secs(35)).await;

        assert_eq!(log.take(), vec!["updated ns/a (resync)"; expected]);
        informer.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_sync_leads_to_its_cause() {
    let server = TestServer::new();
    server.fault(RequestMatcher::list("pods").forever(), Fault::status(403));
    let informer = paged_pods(&server).start();

    let error = informer.synced_within(secs(5)).await.unwrap_err();

    let source: &SourceError = error.source().and_then(|source| source.downcast_ref()).unwrap();
    assert_eq!(source.api().map(|error| error.code), Some(403));
    informer.shutdown().await;
}
