//! Reads the body of a response: chunks in, items out, in the order of the body.
//!
//! Objects are decoded here, by the task that reads. Of a long list or a burst of events whose objects take long to decode,
//! a second thread decodes every other part:
//!
//! ```text
//!  chunks ─▶ splitter ─▶ job 1 ─▶ helper thread ─┐
//!                        job 2, decoded here ────┴─▶ items in order
//! ```
//!
//! At most two jobs are in flight, which bounds the memory. Nothing is held back: a job is what has arrived. [`Workload`]
//! decides whether the second thread is used; the items do not depend on it.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use kube_informers_core::tasks::spawn_thread;
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::{coop, yield_now};
use tokio::time::Instant;

use super::response::ResponseBody;
use crate::codec::{DecodeJob, Decoder};
use crate::wire::SourceError;

/// The most items of a job, and the bytes after which no more are read for it: they bound what is held, and how long a job
/// takes.
const JOB_ITEMS: usize = 32;
const JOB_BYTES: usize = 256 << 10;

/// The body of one response while it is read.
pub(super) struct Reading<T> {
    response: ResponseBody,
    decoder: Box<dyn Decoder<T>>,
    progress: fn(usize) -> T,
    workload: Workload,
    helper: Helper<T>,
    /// Items that come next.
    ready: VecDeque<Result<T, SourceError>>,
    /// The job of the helper. Its items come before those `behind`.
    handed_over: Option<HandedOver<T>>,
    behind: VecDeque<Result<T, SourceError>>,
    /// The last job was more than single events: more is probably on its way.
    flowing: bool,
    /// The body is complete, or the connection is lost.
    end: Option<Result<(), SourceError>>,
    /// The body cannot be read further. The error is the last item.
    broken: bool,
    finished: bool,
}

impl<T: Send + 'static> Reading<T> {
    pub(super) fn new(
        response: ResponseBody,
        decoder: Box<dyn Decoder<T>>,
        progress: fn(usize) -> T,
        may_have_help: bool,
    ) -> Self {
        Self {
            response,
            decoder,
            progress,
            workload: Workload::new(may_have_help && has_second_thread()),
            helper: Helper { jobs: None },
            ready: VecDeque::new(),
            handed_over: None,
            behind: VecDeque::new(),
            flowing: false,
            end: None,
            broken: false,
            finished: false,
        }
    }

    /// The next item; `None` after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<T>, SourceError> {
        // A large chunk is decoded without waiting for I/O: yield to other tasks from time to time.
        coop::consume_budget().await;
        loop {
            if let Some(item) = self.ready.pop_front() {
                return item.map(Some);
            }
            if self.finished {
                return Ok(None);
            }
            if !self.workload.is_for_one_thread() {
                self.advance().await;
                continue;
            }
            let next = self.decoder.next();
            match next.map_err(|error| self.response.add_context(error))? {
                Some(item) => return Ok(Some(item)),
                None => self.receive().await,
            }
        }
    }

    /// Waits for the next chunk, or ends the body.
    async fn receive(&mut self) {
        match self.end.take() {
            None => {
                let chunk = self.response.chunk().await;
                let bytes = self.take(chunk);
                self.report(bytes);
            }
            Some(Ok(())) => {
                let last = self.decoder.finish();
                let last = last.map_err(|error| self.response.add_context(error));
                self.ready.extend(last.transpose());
                self.finished = true;
            }
            Some(Err(error)) => {
                self.ready.push_back(Err(error));
                self.finished = true;
            }
        }
    }

    /// Adds a chunk to the decoder. Returns its length.
    fn take(&mut self, chunk: Result<Option<Bytes>, SourceError>) -> usize {
        match chunk {
            Ok(Some(chunk)) => {
                let bytes = chunk.len();
                self.decoder.push(chunk);
                return bytes;
            }
            Ok(None) => self.end = Some(Ok(())),
            Err(error) => self.end = Some(Err(error)),
        }
        0
    }

    fn report(&mut self, bytes: usize) {
        if bytes > 0 {
            self.ready.push_back(Ok((self.progress)(bytes)));
        }
    }

    /// Decodes what has arrived, here and by the helper.
    async fn advance(&mut self) {
        // The reader decodes one job beside that of the helper, which would have nothing to do otherwise.
        let job = match self.behind.is_empty() {
            true => self.collect().await,
            false => None,
        };
        match (job, self.handed_over.take()) {
            (Some(job), Some(handed_over)) => {
                self.handed_over = Some(handed_over);
                let items = self.run(job);
                self.behind.extend(items);
            }
            (Some(job), None) => self.start(job),
            (None, Some(mut handed_over)) => {
                let is_idle = self.behind.is_empty() && self.end.is_none() && !self.broken;
                // Both are cancel-safe: a reply stays in its channel, and a chunk is taken whole.
                tokio::select! {
                    biased;
                    items = handed_over.wait() => self.helped(items).await,
                    chunk = self.response.chunk(), if is_idle => {
                        self.handed_over = Some(handed_over);
                        let bytes = self.take(chunk);
                        self.report(bytes);
                    }
                }
            }
            (None, None) if self.broken => self.finished = true,
            (None, None) => self.receive().await,
        }
    }

    /// The helper has decoded its job.
    async fn helped(&mut self, items: Items<T>) {
        let items = self.add_context(items);
        self.ready.extend(items);
        self.ready.append(&mut self.behind);
        // The next job first: these items are passed on while the helper decodes it.
        if let Some(job) = self.collect().await {
            self.start(job);
        }
    }

    /// The items that have arrived, as a job.
    async fn collect(&mut self) -> Option<DecodeJob<T>> {
        if self.broken {
            return None;
        }
        let mut bytes = 0;
        while self.decoder.collect(JOB_ITEMS) < JOB_ITEMS
            && bytes < JOB_BYTES
            && self.end.is_none()
            && let Some(chunk) = self.arrived().await
        {
            bytes += self.take(chunk);
        }
        self.report(bytes);
        let job = self.decoder.take_job();
        self.broken = job.as_ref().is_some_and(DecodeJob::has_failed);
        self.flowing = job.as_ref().is_some_and(|job| job.objects() >= Workload::MIN);
        job
    }

    /// The next chunk, if it has arrived. The task of the connection has a chunk only after it has run, and is woken when the
    /// one before is taken: it gets the chance to.
    async fn arrived(&mut self) -> Option<Result<Option<Bytes>, SourceError>> {
        for _ in 0..if self.flowing { 8 } else { 1 } {
            // Cancel-safe: a chunk is taken whole.
            if let Some(chunk) = self.response.chunk().now_or_never() {
                return Some(chunk);
            }
            yield_now().await;
        }
        self.response.chunk().now_or_never()
    }

    /// Hands a job over, or decodes it here.
    fn start(&mut self, job: DecodeJob<T>) {
        if self.workload.deserves_help(job.objects()) {
            self.handed_over = Some(self.helper.hand_over(job));
        } else {
            let items = self.run(job);
            self.ready.extend(items);
        }
    }

    fn run(&mut self, job: DecodeJob<T>) -> Items<T> {
        let (objects, start) = (job.objects(), Instant::now());
        let items = job.run();
        self.workload.measured(objects, start.elapsed());
        self.add_context(items)
    }

    fn add_context(&self, items: Items<T>) -> Items<T> {
        let with_context = |item: Result<T, _>| item.map_err(|error| self.response.add_context(error));
        items.into_iter().map(with_context).collect()
    }
}

/// Whether the runtime has a second thread. A runtime of one thread is asked for by programs that want no other, and by
/// tests with a paused clock.
fn has_second_thread() -> bool {
    Handle::try_current().is_ok_and(|runtime| {
        runtime.runtime_flavor() == RuntimeFlavor::MultiThread && runtime.metrics().num_workers() > 1
    })
}

/// Decides whether a second thread shortens the time to read a body.
#[derive(Debug)]
struct Workload {
    /// Objects that were decoded here, and the time it took.
    objects: usize,
    time: Duration,
    /// `None` until enough objects have been decoded.
    pays: Option<bool>,
}

impl Workload {
    /// The objects after which a body is long.
    const LONG: usize = 256;
    /// A second thread costs about 10 µs for each job: waking it and waiting for it.
    const SLOW: Duration = Duration::from_micros(10);
    /// The fewest objects of a job.
    const MIN: usize = 8;

    fn new(has_second_thread: bool) -> Self {
        Self {
            objects: 0,
            time: Duration::ZERO,
            pays: (!has_second_thread).then_some(false),
        }
    }

    /// Some objects were decoded here.
    fn measured(&mut self, objects: usize, took: Duration) {
        if self.pays.is_some() || objects == 0 {
            return;
        }
        self.objects += objects;
        self.time += took;
        if self.objects >= Self::LONG {
            self.pays = Some(self.time.as_nanos() / self.objects as u128 >= Self::SLOW.as_nanos());
        }
    }

    /// Whether everything is decoded here.
    fn is_for_one_thread(&self) -> bool {
        self.pays == Some(false)
    }

    /// Whether to hand over a job with this many objects to decode.
    fn deserves_help(&self, objects: usize) -> bool {
        self.pays == Some(true) && objects >= Self::MIN
    }
}

/// A thread that decodes jobs. It starts with the first one, and ends when it has nothing to do for a while.
struct Helper<T> {
    jobs: Option<mpsc::Sender<Request<T>>>,
}

type Items<T> = Vec<Result<T, SourceError>>;

struct Request<T> {
    job: Slot<T>,
    reply: oneshot::Sender<Result<Items<T>, Box<dyn Any + Send>>>,
}

/// Emptied by whoever decodes the job.
type Slot<T> = Arc<Mutex<Option<DecodeJob<T>>>>;

/// A job that the helper decodes.
struct HandedOver<T> {
    job: Slot<T>,
    reply: oneshot::Receiver<Result<Items<T>, Box<dyn Any + Send>>>,
}

impl<T: Send + 'static> Helper<T> {
    /// How long an idle thread waits for another job.
    const IDLE: Duration = Duration::from_secs(1);

    fn hand_over(&mut self, job: DecodeJob<T>) -> HandedOver<T> {
        let job = Arc::new(Mutex::new(Some(job)));
        let (reply, replied) = oneshot::channel();
        let request = Request {
            job: job.clone(),
            reply,
        };
        let request = match &self.jobs {
            Some(jobs) => jobs.send(request).err().map(|unsent| unsent.0),
            None => Some(request),
        };
        if let Some(request) = request {
            let (jobs, inbox) = mpsc::channel();
            // The inbox exists, so it is accepted. If there is no thread for it, the job is decoded here.
            jobs.send(request).ok();
            self.jobs = spawn_thread("decode", move || serve(&inbox))
                .is_ok()
                .then_some(jobs);
        }
        HandedOver { job, reply: replied }
    }
}

fn serve<T>(inbox: &mpsc::Receiver<Request<T>>) {
    while let Ok(request) = inbox.recv_timeout(Helper::<()>::IDLE) {
        let job = request.job.lock().take();
        if let Some(job) = job {
            let items = catch_unwind(AssertUnwindSafe(|| job.run()));
            // Nobody waits for it if the request was cancelled.
            request.reply.send(items).ok();
        }
    }
}

impl<T> HandedOver<T> {
    /// The items. Cancel-safe.
    async fn wait(&mut self) -> Items<T> {
        match (&mut self.reply).await {
            Ok(Ok(items)) => items,
            // As if it had been decoded here.
            Ok(Err(panic)) => resume_unwind(panic),
            // The thread ended before it took the job.
            Err(_) => {
                let job = self.job.lock().take();
                job.map(DecodeJob::run).unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::codec::{Codec, Decoding, Expected};
    use crate::wire::WatchItem;

    fn measured(objects: usize, micros: u64) -> Workload {
        let mut workload = Workload::new(true);
        workload.measured(objects, Duration::from_micros(micros));
        workload
    }

    #[test]
    fn a_second_thread_helps_with_many_slow_objects() {
        assert!(measured(256, 256 * 10).deserves_help(Workload::MIN));
        assert!(!measured(256, 256 * 10).deserves_help(Workload::MIN - 1));
        // Too few so far, objects that are decoded fast, and no second thread.
        assert!(!measured(255, 255 * 50).deserves_help(32));
        assert!(!measured(256, 256 * 9).deserves_help(32));
        assert!(!Workload::new(false).deserves_help(32));
    }

    #[test]
    fn the_decision_is_made_once_and_by_decoded_objects_only() {
        let mut workload = Workload::new(true);
        for _ in 0..1000 {
            workload.measured(0, Duration::from_millis(1));
        }
        assert!(!workload.is_for_one_thread() && !workload.deserves_help(32));
        workload.measured(256, Duration::from_millis(1));
        assert!(workload.is_for_one_thread());
        workload.measured(256, Duration::from_secs(1));
        assert!(workload.is_for_one_thread());
    }

    #[tokio::test]
    async fn a_job_whose_thread_has_ended_is_decoded_by_the_reader() {
        let decoding = Decoding {
            expected: Expected {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                metadata_only: false,
            },
            known: None,
            drop_managed_fields: false,
            max_object_size: 1 << 20,
            shard: None,
        };
        let mut decoder = Codec::<Pod>::new().watch_decoder(None, decoding).unwrap();
        decoder.push(r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#.into());
        assert_eq!(decoder.collect(2), 1);
        let mut handed_over = HandedOver {
            job: Arc::new(Mutex::new(decoder.take_job())),
            // Its sender is dropped, as by a thread that ends.
            reply: oneshot::channel().1,
        };

        let items = handed_over.wait().await;

        assert!(matches!(items[..], [Ok(WatchItem::Added(_))]));
    }
}
