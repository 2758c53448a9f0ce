//! What is written to the log, and what is not.

use std::io;
use std::sync::{OnceLock, mpsc};

use tokio::sync::oneshot;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use super::*;
use crate::handler::blocking;

/// Keeps what this thread logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn start(level: tracing::Level) -> (Self, DefaultGuard) {
        // With a single subscriber in the process, tracing asks whichever thread meets a log line first whether
        // anybody wants it, and remembers the answer of a thread without one. A second one makes it ask them all.
        static SECOND: OnceLock<tracing::Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| tracing::Dispatch::new(tracing_subscriber::fmt().finish()));
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(level)
            .with_writer(log.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }

    /// The lines that contain `part`.
    fn lines(&self, part: &str) -> Vec<String> {
        self.text()
            .lines()
            .filter(|line| line.contains(part))
            .map(str::to_owned)
            .collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn f27_a_panic_is_reported_with_handler_and_key_and_nothing_of_the_object() {
    let (log, _guard) = Log::start(tracing::Level::TRACE);
    let mut stage = Stage::started();
    let options = HandlerOptions::default().name("billing");
    let secret = thing_of_uid("cart", "canary-in-the-body", 1);
    stage.add_with(
        options,
        |event: Event<Thing>| {
            assert!(
                event.object().uid.is_empty(),
                "cannot bill {}",
                event.object().uid
            )
        },
        no_objects(),
    );

    stage.dispatch([added(&secret), added(&thing("fine", 1))]);
    quiet().await;

    let reports = log.lines("panicked");
    assert_eq!(reports.len(), 2, "{}", log.text());
    assert!(reports[0].contains("ERROR"), "{}", reports[0]);
    assert!(reports[0].contains("handler=billing"), "{}", reports[0]);
    assert!(reports[0].contains("object=\"cart\""), "{}", reports[0]);
    assert!(!log.text().contains("canary"), "{}", log.text());
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn abandoned_blocking_call_is_reported() {
    let (log, _guard) = Log::start(tracing::Level::WARN);
    let mut stage = Stage::started();
    let (entered, has_entered) = oneshot::channel();
    let (_finish, finished) = mpsc::channel::<()>();
    let mut entered = Some(entered);
    let options = HandlerOptions::default().name("archive");
    let handler = blocking(move |_: Event<Thing>| {
        entered.take().unwrap().send(()).unwrap();
        finished.recv().ok();
    });
    stage.add_with(options, handler, no_objects());
    stage.dispatch([added(&thing("a", 1))]);
    has_entered.await.unwrap();

    drop(stage.dispatcher.close(false));
    tokio::task::yield_now().await;
    // The clock is held while the call runs, so it is advanced explicitly.
    tokio::time::advance(Duration::from_millis(100)).await;
    stage.spawner.wait().await;

    let reports = log.lines("abandoned");
    assert_eq!(reports.len(), 1, "{}", log.text());
    assert!(
        reports[0].contains("WARN") && reports[0].contains("handler=archive"),
        "{}",
        reports[0]
    );
}

#[tokio::test(start_paused = true)]
async fn slow_handler_with_a_large_backlog_is_reported() {
    let (log, _guard) = Log::start(tracing::Level::WARN);
    let mut stage = Stage::started();
    let slow = |_: Event<Thing>| tokio::time::sleep(Duration::from_millis(200));
    let quick = |_: Event<Thing>| tokio::time::sleep(Duration::from_millis(50));
    let slow = stage.add_with(HandlerOptions::default().name("slow"), slow, no_objects());
    let quick = stage.add_with(HandlerOptions::default().name("quick"), quick, no_objects());

    for n in 0..2_000 {
        stage.dispatch([added(&thing("a", n))]);
    }
    while slow.delivered() < 10 || quick.delivered() < 10 {
        quiet().await;
    }

    let reports = log.lines("large backlog");
    assert!(!reports.is_empty());
    assert!(
        reports.iter().all(|line| line.contains("handler=slow")),
        "{reports:?}"
    );
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn one_object_can_be_traced_through_every_stage() {
    let (log, _guard) = Log::start(tracing::Level::TRACE);
    let mut stage = Stage::started();
    stage.add_with(
        HandlerOptions::default().name("one"),
        |_: Event<Thing>| (),
        no_objects(),
    );
    stage.add_with(
        HandlerOptions::default().name("two"),
        |_: Event<Thing>| (),
        no_objects(),
    );

    stage.dispatch([added(&thing("cart", 1))]);
    quiet().await;

    assert_eq!(log.lines("dispatching").len(), 1);
    let delivered = log.lines("delivering");
    assert_eq!(delivered.len(), 2);
    assert!(
        delivered.iter().all(|line| line.contains("event=added cart")),
        "{delivered:?}"
    );
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn debug_output_names_the_handlers_and_no_object() {
    let mut stage = Stage::started();
    let options = HandlerOptions::default().name("billing");
    stage.add_with(options, |_: Event<Thing>| (), things(&[&thing("c4n4ry", 1)]));

    let text = format!("{:?}", stage.dispatcher);

    assert!(text.starts_with("Dispatcher"), "{text}");
    assert!(text.contains("billing"), "{text}");
    assert!(!text.contains("c4n4ry"), "{text}");
    stage.stop(false).await;
}
