//! The peer with this library: an informer in one of its forms, with one handler and one index.

use kube_informers::source::SourceOptions;
use std::borrow::Cow;
use std::hint::black_box;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent, Pod, Secret};
use kube::core::PartialObjectMeta;
use kube::{Client, Resource};
use kube_informers::Store;
use kube_informers::lazy::Lazy;
use kube_informers::lazy::Validate;
use kube_informers::source::{FromWire, ResourceType};
use kube_informers::store::Index;
use kube_informers::{Event, Informer, ListWatch, Object, ObjectKey, Scope};
use kube_informers_bench::kind::Kind;
use kube_informers_bench::peer::{self, Form, Meter, Options};
use kube_informers_bench::pod::SENT;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// What the benchmark reads of an object in each form.
trait Read: Object + FromWire {
    /// The path of the node. Only pods have one.
    const NODE: Option<&'static str> = None;

    /// The annotation [`SENT`].
    fn sent(&self) -> Option<Cow<'_, str>>;

    /// The node, for the index.
    fn node(&self) -> Option<String> {
        None
    }

    /// The length of the name of the node: what reading this one field costs.
    fn node_length(&self) -> Option<usize> {
        Some(self.node()?.len())
    }

    /// A number from the whole object: what obtaining it costs. `None` if the form has no whole object.
    fn whole(&self) -> Option<usize> {
        None
    }
}

impl Read for Pod {
    const NODE: Option<&'static str> = Some("spec.nodeName");

    fn sent(&self) -> Option<Cow<'_, str>> {
        let sent = self.metadata.annotations.as_ref()?.get(SENT)?;
        Some(sent.as_str().into())
    }

    fn node(&self) -> Option<String> {
        self.spec.as_ref()?.node_name.clone()
    }

    fn node_length(&self) -> Option<usize> {
        Some(self.spec.as_ref()?.node_name.as_ref()?.len())
    }

    fn whole(&self) -> Option<usize> {
        self.node_length()
    }
}

macro_rules! read_annotation {
    ($($kind:ty),*) => {$(
        impl Read for $kind {
            fn sent(&self) -> Option<Cow<'_, str>> {
                let sent = self.metadata.annotations.as_ref()?.get(SENT)?;
                Some(sent.as_str().into())
            }
        }
    )*};
}

read_annotation!(Secret, ConfigMap, CoreEvent, PartialObjectMeta<Pod>);

impl<K: Read + DeserializeOwned> Read for Lazy<K> {
    fn sent(&self) -> Option<Cow<'_, str>> {
        let sent = self.text(r#"metadata.annotations["example.org/sent"]"#);
        sent.ok().flatten().map(Cow::Owned)
    }

    fn node(&self) -> Option<String> {
        self.text(K::NODE?).ok().flatten()
    }

    fn whole(&self) -> Option<usize> {
        self.get().ok()?.node_length()
    }
}

/// A pod with the fields that the benchmark reads.
#[derive(Deserialize)]
struct Placement {
    metadata: Meta,
    spec: Option<Spec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: String,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    annotations: Option<Annotations>,
}

#[derive(Deserialize)]
struct Annotations {
    #[serde(rename = "example.org/sent")]
    sent: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

impl Object for Placement {
    fn object_name(&self) -> &str {
        &self.metadata.name
    }

    fn object_namespace(&self) -> Option<&str> {
        self.metadata.namespace.as_deref()
    }

    fn object_uid(&self) -> Option<&str> {
        self.metadata.uid.as_deref()
    }

    fn object_version(&self) -> Option<&str> {
        self.metadata.resource_version.as_deref()
    }
}

impl Read for Placement {
    fn sent(&self) -> Option<Cow<'_, str>> {
        let sent = self.metadata.annotations.as_ref()?.sent.as_deref()?;
        Some(sent.into())
    }

    fn node(&self) -> Option<String> {
        self.spec.as_ref()?.node_name.clone()
    }

    fn node_length(&self) -> Option<usize> {
        Some(self.spec.as_ref()?.node_name.as_ref()?.len())
    }
}

struct Ours<K> {
    pods: Store<K>,
    by_node: Index<K>,
}

impl<K: Read> peer::Cache for Ours<K> {
    type Key = ObjectKey;

    fn key(&self, namespace: &str, name: &str) -> ObjectKey {
        ObjectKey::namespaced(namespace, name)
    }

    fn get(&self, key: &ObjectKey) -> bool {
        self.pods.get(key).is_some()
    }

    fn get_at_once(&self, keys: &[ObjectKey]) -> Option<usize> {
        let pods = self.pods.view();
        Some(
            keys.iter()
                .filter(|key| black_box(pods.get(*key)).is_some())
                .count(),
        )
    }

    fn read(&self, key: &ObjectKey) -> bool {
        let pod = self.pods.get(key);
        pod.is_some_and(|pod| pod.object_name().len() < key.as_str().len())
    }

    fn get_by_name(&self, namespace: &str, name: &str) -> bool {
        self.pods.get((namespace, name)).is_some()
    }

    fn on_node(&self, node: &str) -> Option<usize> {
        Some(self.by_node.get(node).len())
    }

    fn list(&self) -> usize {
        self.pods
            .list()
            .iter()
            .filter(|pod| !pod.object_name().is_empty())
            .count()
    }

    fn read_node(&self, key: &ObjectKey) -> Option<usize> {
        self.pods.get(key)?.node_length()
    }

    fn read_whole(&self, key: &ObjectKey) -> Option<usize> {
        self.pods.get(key)?.whole()
    }
}

type Error = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let options = Options::from_arguments()?;
    let client = kube::Client::try_from(options.config().await?)?;
    match options.kind {
        Kind::Pods => pods(client, &options).await,
        Kind::Secrets => of_kind::<Secret>(client, &options).await,
        Kind::ConfigMaps => of_kind::<ConfigMap>(client, &options).await,
        Kind::Events => of_kind::<CoreEvent>(client, &options).await,
    }
}

async fn pods(client: Client, options: &Options) -> Result<(), Error> {
    match options.form {
        Form::Projected => {
            let resource = ResourceType::of::<Pod>();
            run(
                ListWatch::<Placement>::projected(client, resource, Scope::all()),
                options,
            )
            .await
        }
        Form::Metadata => {
            run(
                ListWatch::<PartialObjectMeta<Pod>>::new(client, Scope::all()),
                options,
            )
            .await
        }
        _ => of_kind::<Pod>(client, options).await,
    }
}

async fn of_kind<K>(client: Client, options: &Options) -> Result<(), Error>
where
    K: Read + DeserializeOwned + Resource<DynamicType = ()>,
{
    let scope = Scope::all();
    match options.form {
        Form::Typed => run(ListWatch::<K>::new(client, scope), options).await,
        Form::Packed | Form::PackedOnArrival | Form::Compressed => {
            run(ListWatch::<Lazy<K>>::new(client, scope), options).await
        }
        form => Err(format!("{} has no form {}", options.kind, form.argument()).into()),
    }
}

async fn run<K: Read>(source: ListWatch<K>, options: &Options) -> Result<(), Error> {
    let source = source.options(SourceOptions {
        drop_managed_fields: Some(options.drop_managed_fields),
        validate: match options.form {
            Form::PackedOnArrival => Validate::OnArrival,
            _ => Validate::OnAccess,
        },
        compressed: matches!(options.form, Form::Compressed),
        ..Default::default()
    });
    let pods = Informer::from_list_watch(source).start();
    let by_node = pods.add_index("node", |pod: &K| pod.node())?;
    let meter = Arc::new(Meter::default());
    let handler = pods.add_event_handler({
        let meter = meter.clone();
        move |event: Event<K>| {
            black_box(event.key());
            match event {
                Event::Added { object, .. } | Event::Updated { new: object, .. } => {
                    meter.saw_sent(object.sent().as_deref());
                }
                Event::Deleted { .. } => {}
            }
        }
    })?;
    handler.synced().await?;
    let store = pods.store();
    peer::synced(store.len());
    let cache = Ours { pods: store, by_node };
    peer::run_commands(cache, meter).await
}
