//! Three replicas of a controller share the objects. One is killed, and the others take over its shard. The example
//! checks that every object is handled and none by two replicas at a time.
//!
//! Each replica has its own runtime, client, informer, work queue and membership; it is killed by dropping its runtime.
//! With `--cluster NAMESPACE` it runs in the current cluster; otherwise with the embedded server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_informers::shard::Shard;
use kube_informers::shard::ShardField;
use kube_informers::{Event, Informer, ObjectKey, Scope};
use kube_informers_examples::{ClientMaker, cluster_to_write_to};
use kube_leases::{ShardConfig, ShardGroup};
use kube_workqueue::{Item, WorkQueue, limiter, workers};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

type Error = Box<dyn std::error::Error + Send + Sync>;

const OBJECTS: usize = 60;
const LABEL: &str = "example=sharded-controller";

/// Records which replica handles which object, to check the result. Not part of the controller.
#[derive(Default)]
struct Ledger {
    pages: Mutex<Pages>,
    changed: Notify,
}

#[derive(Default)]
struct Pages {
    running: BTreeMap<String, usize>,
    /// The replicas that have handled an object, by round and object.
    handled: BTreeMap<(String, String), BTreeSet<usize>>,
    overlaps: Vec<String>,
}

/// While it lives, a replica is processing an object.
struct ProcessingGuard<'a> {
    ledger: &'a Ledger,
    name: String,
}

impl Ledger {
    fn with<T>(&self, read: impl FnOnce(&mut Pages) -> T) -> T {
        read(&mut self.pages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn begin(&self, name: &str, replica: usize) -> ProcessingGuard<'_> {
        self.with(|pages| {
            if let Some(other) = pages.running.insert(name.to_owned(), replica) {
                pages
                    .overlaps
                    .push(format!("{name} by replicas {other} and {replica}"));
            }
        });
        ProcessingGuard {
            ledger: self,
            name: name.to_owned(),
        }
    }

    fn done(&self, name: &str, round: &str, replica: usize) {
        let key = (round.to_owned(), name.to_owned());
        self.with(|pages| pages.handled.entry(key).or_default().insert(replica));
        self.changed.notify_waiters();
    }

    /// The number of objects that each replica handled in a round.
    fn count(&self, round: &str) -> (usize, BTreeMap<usize, usize>) {
        self.with(|pages| {
            let of_round = pages.handled.iter().filter(|((of, _), _)| of == round);
            let mut by = BTreeMap::new();
            let objects = of_round
                .inspect(|(_, replicas)| {
                    replicas
                        .iter()
                        .for_each(|replica| *by.entry(*replica).or_default() += 1)
                })
                .count();
            (objects, by)
        })
    }

    async fn wait_for_all_handled(&self, round: &str) -> Result<(), Error> {
        let all = async {
            loop {
                let changed = self.changed.notified();
                if self.count(round).0 == OBJECTS {
                    return;
                }
                changed.await;
            }
        };
        let waited = timeout(Duration::from_secs(30), all).await;
        waited.map_err(|_| {
            format!(
                "round {round}: only {} of {OBJECTS} were handled",
                self.count(round).0
            )
            .into()
        })
    }
}

impl Drop for ProcessingGuard<'_> {
    fn drop(&mut self) {
        self.ledger.with(|pages| pages.running.remove(&self.name));
    }
}

/// One replica, until it is stopped.
async fn replica(
    number: usize,
    clients: ClientMaker,
    namespace: String,
    ledger: Arc<Ledger>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let client = clients.client().await?;
    let scope = Scope::namespace(&namespace)
        .labels(LABEL)?
        .shard(Shard::nothing(ShardField::Uid));
    let maps = Informer::<ConfigMap>::scoped(client.clone(), scope).start();
    let queue = WorkQueue::new(limiter::controller_default());
    let changed = queue.clone();
    maps.add_event_handler(move |event: Event<ConfigMap>| match event {
        Event::Deleted { .. } => {}
        other => changed.add(other.key()),
    })?;

    let member = ShardGroup::new(client, &namespace, "sharded-example", format!("replica-{number}"))
        // Short for the example; the defaults are 30 s, 20 s and 5 s.
        .config(ShardConfig {
            lease_duration: Duration::from_secs(3),
            renew_deadline: Duration::from_secs(2),
            retry_period: Duration::from_millis(300),
        })
        .start()?;

    let (ownership, store) = (member.ownership(), maps.store());
    let working = workers(4, &queue, move |item: Item<ObjectKey>| {
        let (ownership, store, ledger) = (ownership.clone(), store.clone(), ledger.clone());
        async move {
            let Some(map) = store.get(&*item) else { return };
            // Not owned, or being released: the new owner receives it from its informer.
            let Some(permit) = ownership.enter_for(&*map) else {
                return;
            };
            let name = item.name().to_owned();
            let work = async {
                let _entry = ledger.begin(&name, number);
                sleep(Duration::from_millis(20)).await;
                let round = map.data.as_ref().and_then(|data| data.get("round"));
                ledger.done(&name, round.map_or("", String::as_str), number);
            };
            permit.run(work).await;
        }
    });

    member.drive(stop, |shard| maps.set_shard(shard.clone())).await?;
    queue.drain().await;
    working.join().await;
    maps.shutdown().await;
    Ok(())
}

async fn run(ledger: Arc<Ledger>) -> Result<(), Error> {
    let (cluster, namespace) = cluster_to_write_to().await?;
    let maps = Api::<ConfigMap>::namespaced(cluster.client.clone(), &namespace);
    let stop = CancellationToken::new();
    let mut replicas = BTreeMap::new();
    let mut ends = Vec::new();
    for number in 1..=3 {
        let runtime = Runtime::new()?;
        let running = replica(
            number,
            cluster.clients.clone(),
            namespace.clone(),
            ledger.clone(),
            stop.clone(),
        );
        ends.push((number, runtime.spawn(running)));
        replicas.insert(number, runtime);
    }

    for number in 0..OBJECTS {
        let map: ConfigMap = serde_json::from_value(json!({
            "metadata": { "name": format!("sharded-example-{number}"), "labels": { "example": "sharded-controller" } },
            "data": { "round": "1" },
        }))?;
        maps.create(&PostParams::default(), &map).await?;
    }
    ledger.wait_for_all_handled("1").await?;
    println!("round 1: all {OBJECTS} objects handled");

    // Changed objects are handled until every replica has a shard.
    let mut round = 1;
    while ledger.count(&round.to_string()).1.len() < 3 {
        round += 1;
        if round > 30 {
            return Err("not every replica has a shard".into());
        }
        touch(&maps, round).await?;
        ledger.wait_for_all_handled(&round.to_string()).await?;
    }
    println!(
        "round {round}: by replica {:?}",
        ledger.count(&round.to_string()).1
    );

    println!("replica 2 is killed");
    touch(&maps, round + 1).await?;
    if let Some(runtime) = replicas.remove(&2) {
        runtime.shutdown_background();
    }
    touch(&maps, round + 2).await?;
    let last = (round + 2).to_string();
    ledger.wait_for_all_handled(&last).await?;
    let (_, by) = ledger.count(&last);
    println!("round {last}: by replica {by:?}");

    stop.cancel();
    for (number, end) in ends {
        match end.await {
            Ok(ended) => ended?,
            Err(_) if number == 2 => {}
            Err(error) => return Err(format!("replica {number}: {error}").into()),
        }
    }
    for (_, runtime) in replicas {
        runtime.shutdown_background();
    }
    let ours = ListParams::default().labels(LABEL);
    maps.delete_collection(&DeleteParams::default(), &ours).await?;

    let overlaps = ledger.with(|pages| std::mem::take(&mut pages.overlaps));
    if !overlaps.is_empty() {
        return Err(format!("handled by two at a time: {}", overlaps.join(", ")).into());
    }
    println!("every object was handled, and none by two at a time");
    Ok(())
}

async fn touch(maps: &Api<ConfigMap>, round: u32) -> Result<(), Error> {
    let patch = json!({ "data": { "round": round.to_string() } });
    for number in 0..OBJECTS {
        let name = format!("sharded-example-{number}");
        maps.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let ledger = Arc::new(Ledger::default());
    run(ledger).await
}
