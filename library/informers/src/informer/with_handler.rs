//! The low-level informer with a store and one handler.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tracing::error;

use super::low_level::LowLevelInformer;
use super::problem_log::ProblemLog;
use crate::delta::Delta;
use crate::handler::{Delivery, EventHandler};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::queue::{InOrderQueue, PopInfo};
use crate::source::ListerWatcher;
use crate::store::{DeltaWriter, Origin, Prepared, Store};

impl<K: Object> LowLevelInformer<K> {
    /// A store, and the informer that fills it and calls a handler for each change.
    ///
    /// One task does everything: it updates the store, calls the handler, and continues reading. So the store always
    /// holds at least the handler's event, the handler needs no mailbox, and it must return quickly. An
    /// [`Informer`](crate::Informer) has several handlers, each on its own task.
    ///
    /// Indexes are added to the store. With a [resync period](Self::resync) the handler receives every object again as an
    /// update with `resync: true`. A panic of the handler skips that event and is logged. The initial list has been
    /// delivered when the [queue](Self::queue) is synced.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kube_informers::LowLevelInformer;
    /// use kube_informers::{Event, ListWatch, Scope};
    /// use kube_testserver::{TestServer, builders::pod};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
    /// let server = TestServer::new();
    /// server.create(pod("shop", "cart"));
    ///
    /// let source = ListWatch::<Pod>::new(server.client(), Scope::all());
    /// let (pods, controller) = LowLevelInformer::with_handler(source, |event: Event<Pod>| println!("{event}"));
    /// let by_node = pods.add_index("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone())?;
    /// let queue = controller.queue();
    /// let stop = tokio_util::sync::CancellationToken::new();
    /// let running = tokio::spawn(controller.run(stop.clone()));
    ///
    /// queue.synced().await?;
    /// assert!(pods.contains(("shop", "cart")));
    ///
    /// stop.cancel();
    /// running.await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[doc(alias = "NewInformer")]
    #[doc(alias = "NewIndexerInformer")]
    #[doc(alias = "NewInformerWithOptions")]
    #[doc(alias = "NewTransformingInformer")]
    #[doc(alias = "NewTransformingIndexerInformer")]
    pub fn with_handler(
        source: impl ListerWatcher<K>,
        mut handler: impl EventHandler<K>,
    ) -> (Store<K>, Self) {
        let mut writer = DeltaWriter::new();
        let store = writer.store();
        let mut problems = ProblemLog::new(source.describe());
        let read = store.clone();
        let process = move |deltas: &[Delta<K>], info: PopInfo| {
            let origin = Origin {
                initial: info.initial,
                ..Origin::default()
            };
            let prepared = Prepared::new(&read, origin, deltas.to_vec());
            let mut events = Vec::new();
            let applied = writer.apply(prepared, &mut events);
            problems.report(&read, &applied.problems);
            for event in events {
                let object = event.object().clone();
                if catch_unwind(AssertUnwindSafe(|| handler.on_delivery(Delivery::from(event)))).is_err() {
                    let key = ObjectKey::of(&*object);
                    error!(%key, "the handler panicked; the event is skipped");
                }
            }
            Ok(())
        };
        let informer = Self::new(source, Arc::new(InOrderQueue::new()), process);
        (store.clone(), informer.known(Arc::new(store)))
    }
}
