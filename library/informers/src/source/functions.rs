//! `FnSource`: a source from two functions, for anything that can be listed and watched.

use std::fmt;
use std::marker::PhantomData;

use futures_core::Stream;
use futures_util::{StreamExt, stream};

use super::{
    Known, ListItem, ListMeta, ListRequest, ListStream, ListWatch, ListerWatcher, SourceError, WatchItem,
    WatchListSupport, WatchRequest, WatchStream,
};
use crate::object::Object;

/// A source from two functions: [`ListWatch::from_fns`].
pub struct FnSource<K, L, W> {
    list: L,
    watch: W,
    name: String,
    objects: PhantomData<fn() -> K>,
}

impl<K> ListWatch<K> {
    /// A source from a function that lists and a function that watches, over anything: a database, a message broker,
    /// another API.
    ///
    /// The list returns the objects and the version of the collection. The watch returns the changes after the version in
    /// its request; when the stream ends, it is opened again. A source without versions returns `ListMeta::default()`, and
    /// its watches are requested without a version: then a watch must report every change since the last list.
    ///
    /// ```
    /// use kube_informers::source::{ListMeta, WatchItem};
    /// use kube_informers::{Informer, ListWatch};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use futures_util::stream;
    ///
    /// let source = ListWatch::<ConfigMap>::from_fns(
    ///     async |_request| Ok((vec![/* objects */], ListMeta::default())),
    ///     |_request| stream::pending(), // `Ok(WatchItem::Modified(object.into()))` for each change
    /// );
    /// let informer = Informer::from_source(source.named("rows of a table"));
    /// ```
    #[doc(alias = "ListFunc")]
    #[doc(alias = "WatchFunc")]
    pub fn from_fns<L, Listed, W, Watched>(list: L, watch: W) -> FnSource<K, L, W>
    where
        L: Fn(ListRequest) -> Listed + Send + Sync + 'static,
        Listed: Future<Output = Result<(Vec<K>, ListMeta), SourceError>> + Send + 'static,
        W: Fn(WatchRequest) -> Watched + Send + Sync + 'static,
        Watched: Stream<Item = Result<WatchItem<K>, SourceError>> + Send + 'static,
    {
        FnSource {
            list,
            watch,
            name: "objects".to_owned(),
            objects: PhantomData,
        }
    }
}

impl<K, L, W> FnSource<K, L, W> {
    /// The objects in logs and errors. Default: `objects`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }
}

impl<K, L, Listed, W, Watched> ListerWatcher<K> for FnSource<K, L, W>
where
    K: Object,
    L: Fn(ListRequest) -> Listed + Send + Sync + 'static,
    Listed: Future<Output = Result<(Vec<K>, ListMeta), SourceError>> + Send + 'static,
    W: Fn(WatchRequest) -> Watched + Send + Sync + 'static,
    Watched: Stream<Item = Result<WatchItem<K>, SourceError>> + Send + 'static,
{
    fn list(&self, request: ListRequest, _known: Known<K>) -> ListStream<K> {
        let items = stream::once((self.list)(request)).flat_map(|listed| {
            let items = match listed {
                Ok((objects, meta)) => {
                    let objects = objects
                        .into_iter()
                        .map(|object| Ok(ListItem::Object(object.into())));
                    let mut items = vec![Ok(ListItem::Progress { bytes: 0 })];
                    items.extend(objects);
                    items.push(Ok(ListItem::End(meta)));
                    items
                }
                Err(error) => vec![Err(error)],
            };
            stream::iter(items)
        });
        items.boxed()
    }

    fn watch(&self, request: WatchRequest, _known: Known<K>) -> WatchStream<K> {
        // A quiet watch must count as open before its first change.
        let opened = stream::once(async { Ok(WatchItem::Progress { bytes: 0 }) });
        opened.chain((self.watch)(request)).boxed()
    }

    fn watch_list(&self) -> WatchListSupport {
        WatchListSupport::Unsupported
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}

impl<K, L, W> fmt::Debug for FnSource<K, L, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnSource")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
