//! `Pager`: a list in pages, as a stream.

use std::fmt;
use std::sync::Arc;

use futures_core::Stream;
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;

use super::config::Deadlines;
use super::pages::{Pages, read_page};
use super::report::Violation;
use super::transform::{Transformed, transformed};
use crate::delta::Replacement;
use crate::object::Object;
use crate::quarantine::BadObject;
use crate::source::{ListRequest, ListerWatcher, VersionMatch};
use crate::task;
use crate::wire::{ListMeta, SourceError};

/// client-go's page size.
const PAGE_SIZE: u32 = 500;
/// client-go's page buffer.
const BUFFER: usize = 5;
/// As of a reflector.
const MAX_PAGES: u32 = 10_000;

/// Lists a collection in pages, once, without a cache.
///
/// For programs that go through all objects and keep little of them: at no time is more than the page buffer in memory.
/// Failures are not retried; an [`Informer`](crate::Informer) or a [`Reflector`](super::Reflector) does that.
///
/// If the server drops the version of the list between two pages (410), the whole list is requested without pages, unless
/// [`full_list_if_expired`](Self::full_list_if_expired) is switched off. A source that returns a continue token twice, or more
/// than 10,000 pages, is an error.
///
/// ```
/// use futures_util::TryStreamExt;
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::reflector::Pager;
/// use kube_informers::{ListWatch, Scope};
/// use kube_testserver::{TestServer, builders::pod};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let server = TestServer::new();
/// for number in 0..7 {
///     server.create(pod("shop", &format!("cart-{number}")));
/// }
/// let pager = Pager::new(ListWatch::<Pod>::new(server.client(), Scope::all())).page_size(3);
///
/// let mut sizes = Vec::new();
/// let mut pages = pager.pages();
/// while let Some(page) = pages.try_next().await? {
///     sizes.push(page.objects.len());
/// }
/// assert_eq!(sizes, [3, 3, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[doc(alias = "pager.New")]
#[doc(alias = "ListPager")]
#[doc(alias = "ListPageFunc")]
#[doc(alias = "SimplePageFunc")]
#[must_use = "a pager does nothing until its pages are read"]
pub struct Pager<K> {
    source: Arc<dyn ListerWatcher<K>>,
    first: ListRequest,
    buffer: usize,
    full_list_if_expired: bool,
    deadlines: Deadlines,
}

/// One page of a list.
#[non_exhaustive]
pub struct Page<K> {
    /// The objects, in the order of the list.
    pub objects: Vec<Arc<K>>,
    /// The objects that could not be decoded.
    pub unreadable: Vec<BadObject>,
    /// The version of the list.
    pub resource_version: Option<String>,
    /// The number of objects on later pages, if the server reports it.
    #[doc(alias = "RemainingItemCount")]
    pub remaining: Option<u64>,
    /// Whether this is the whole list, which replaces the pages before it: their version has expired.
    pub restarted: bool,
}

/// Without the objects, which may be Secrets.
impl<K> fmt::Debug for Page<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page")
            .field("objects", &self.objects.len())
            .field("unreadable", &self.unreadable)
            .field("resource_version", &self.resource_version)
            .field("remaining", &self.remaining)
            .field("restarted", &self.restarted)
            .finish()
    }
}

impl<K> fmt::Debug for Pager<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pager")
            .field("first", &self.first)
            .field("buffer", &self.buffer)
            .field("full_list_if_expired", &self.full_list_if_expired)
            .finish_non_exhaustive()
    }
}

impl<K: Object> Pager<K> {
    /// A pager for the newest version of a collection, in pages of 500 objects.
    pub fn new(source: impl ListerWatcher<K>) -> Self {
        let first = ListRequest {
            limit: Some(PAGE_SIZE),
            shard: source.shard(),
            ..ListRequest::default()
        };
        Self {
            source: Arc::new(source),
            first,
            buffer: BUFFER,
            full_list_if_expired: true,
            deadlines: Deadlines::default(),
        }
    }

    /// The number of objects in a page: at least 1.
    #[doc(alias = "PageSize")]
    pub fn page_size(mut self, objects: u32) -> Self {
        self.first.limit = Some(objects.max(1));
        self
    }

    /// The number of pages that are fetched while the reader is busy. 0: the next page is requested when it is read.
    /// Default: 5.
    #[doc(alias = "PageBufferSize")]
    pub fn page_buffer(mut self, pages: usize) -> Self {
        self.buffer = pages.min(MAX_PAGES as usize);
        self
    }

    /// Whether the whole list is requested without pages if the version of the list expires between two pages. If not, the
    /// 410 is the result. Default: yes.
    #[doc(alias = "FullListIfExpired")]
    pub fn full_list_if_expired(mut self, full_list: bool) -> Self {
        self.full_list_if_expired = full_list;
        self
    }

    /// Lists at this version instead of the newest one.
    #[doc(alias = "ResourceVersionMatch")]
    pub fn at(mut self, resource_version: &str, version_match: VersionMatch) -> Self {
        self.first.resource_version = Some(resource_version.to_owned());
        self.first.version_match = Some(version_match);
        self
    }

    /// The pages. The stream ends after an error. Dropping it cancels the current request.
    ///
    /// The [page buffer](Self::page_buffer) is filled by a task of its own, which starts with the first poll and ends with
    /// the stream.
    pub fn pages(self) -> BoxStream<'static, Result<Page<K>, SourceError>> {
        let buffer = self.buffer;
        let pages = self.unbuffered();
        match buffer {
            0 => pages.boxed(),
            _ => buffered(pages, buffer).boxed(),
        }
    }

    /// The objects of all pages. Objects that could not be decoded are skipped; [`pages`](Self::pages) has them.
    ///
    /// If the version of the list expires between two pages, the stream ends with that error: a full list would deliver
    /// objects twice.
    #[doc(alias = "EachListItem")]
    pub fn objects(self) -> BoxStream<'static, Result<Arc<K>, SourceError>> {
        let pages = self.full_list_if_expired(false).pages();
        pages
            .flat_map(|page| {
                stream::iter(match page {
                    Ok(page) => page.objects.into_iter().map(Ok).collect(),
                    Err(error) => vec![Err(error)],
                })
            })
            .boxed()
    }

    /// The whole collection, in memory.
    ///
    /// # Errors
    ///
    /// A request failed.
    #[doc(alias = "ListWithAlloc")]
    pub async fn list(self) -> Result<Replacement<K>, SourceError> {
        let shard = self.first.shard.clone();
        let mut list = Replacement {
            objects: Vec::new(),
            unreadable: Vec::new(),
            resource_version: None,
            shard,
        };
        let mut pages = std::pin::pin!(self.unbuffered());
        let mut is_first = true;
        while let Some(page) = pages.next().await {
            let page = page?;
            if page.restarted {
                list.objects.clear();
                list.unreadable.clear();
            }
            if is_first || page.restarted {
                list.resource_version = page.resource_version;
            }
            is_first = false;
            list.objects.extend(page.objects);
            list.unreadable.extend(page.unreadable);
        }
        Ok(list)
    }

    fn unbuffered(self) -> impl Stream<Item = Result<Page<K>, SourceError>> + Send + 'static {
        let paging = Paging {
            next: Some(self.first.clone()),
            pages: Pages::new(self.first.clone(), MAX_PAGES),
            pager: self,
        };
        stream::unfold(paging, |mut paging| async move {
            let page = paging.next_page().await?;
            Some((page, paging))
        })
    }
}

/// A list between two pages.
struct Paging<K> {
    pager: Pager<K>,
    /// The request for the next page.
    next: Option<ListRequest>,
    pages: Pages,
}

impl<K: Object> Paging<K> {
    async fn next_page(&mut self) -> Option<Result<Page<K>, SourceError>> {
        let request = self.next.take()?;
        let is_first = request.continue_token.is_none();
        let mut fetched = self.pager.fetch(request).await;
        if let Err(SourceError::Api(error)) = &fetched
            && error.is_expired()
            && !is_first
            && self.pager.full_list_if_expired
        {
            // If the server returns pages all the same, they follow, and an expired one of them is an error.
            self.pager.full_list_if_expired = false;
            fetched = self.pager.fetch(self.pages.whole()).await;
            if let Ok((page, _)) = &mut fetched {
                page.restarted = true;
            }
        }
        Some(fetched.and_then(|(page, meta)| {
            self.next = self.pages.advance(&meta).map_err(Violation::into_error)?;
            Ok(page)
        }))
    }
}

impl<K: Object> Pager<K> {
    async fn fetch(&self, request: ListRequest) -> Result<(Page<K>, ListMeta), SourceError> {
        let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
        let items = self.source.list(request, None);
        let meta = read_page(items, &self.deadlines, |object| {
            match object.map(|object| transformed(None, object)) {
                Ok(Transformed::Object(object)) => objects.push(object),
                Ok(Transformed::Bad(bad)) | Err(bad) => unreadable.push(bad),
                Ok(Transformed::Dropped { .. }) => {}
            }
        })
        .await?;
        let page = Page {
            objects,
            unreadable,
            resource_version: meta.resource_version.clone(),
            remaining: meta.remaining,
            restarted: false,
        };
        Ok((page, meta))
    }
}

/// Ends the task that fills the buffer with the stream that reads it.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Fetches up to `buffer` pages ahead of the reader, from its first poll on.
fn buffered<K: Object>(
    pages: impl Stream<Item = Result<Page<K>, SourceError>> + Send + 'static,
    buffer: usize,
) -> impl Stream<Item = Result<Page<K>, SourceError>> + Send + 'static {
    let start = async move {
        let (sender, receiver) = mpsc::channel(buffer);
        let fill = async move {
            let mut pages = std::pin::pin!(pages);
            // The place in the buffer comes first, so that no page is held outside of it.
            while let Ok(place) = sender.reserve().await {
                match pages.next().await {
                    Some(page) => place.send(page),
                    None => return,
                }
            }
        };
        let task = AbortOnDrop(task::spawn(tracing::info_span!("pager"), fill));
        stream::unfold(Some((receiver, task)), |state| async move {
            let (mut receiver, mut task) = state?;
            if let Some(page) = receiver.recv().await {
                return Some((page, Some((receiver, task))));
            }
            // The end of the list, unless the source panicked.
            let panicked = (&mut task.0).await.is_err();
            panicked.then(|| {
                (
                    Err(SourceError::Malformed("the source panicked".to_owned())),
                    None,
                )
            })
        })
    };
    stream::once(start).flatten()
}
