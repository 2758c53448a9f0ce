//! `SourceOptions`: how a `ListWatch` reads from an API server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::request::Query;
use crate::codec::{Encoding, LazyOptions, Validate};

pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A function that adds parameters to list and watch requests.
pub type RequestHook = Arc<dyn Fn(&mut Query) + Send + Sync>;

/// How a [`ListWatch`](crate::ListWatch) reads from an API server. What it reads is its [`Scope`](crate::Scope).
///
/// ```
/// # use kube_informers::source::{Encoding, SourceOptions};
/// let options = SourceOptions { encoding: Encoding::Json, gzip: true, ..Default::default() };
/// ```
#[derive(Clone)]
pub struct SourceOptions {
    /// The encoding to request. Default: [`Encoding::Auto`].
    #[doc(alias = "ContentType")]
    #[doc(alias = "AcceptContentTypes")]
    pub encoding: Encoding,
    /// Whether to remove `metadata.managedFields` from every object before it is decoded. It is about half of the memory
    /// of a typical pod. Default: only for [`Lazy`](crate::lazy::Lazy) objects.
    #[doc(alias = "TransformStripManagedFields")]
    pub drop_managed_fields: Option<bool>,
    /// Whether to request compressed lists and watch-lists, for slow links to the server. Default: no.
    ///
    /// Compression costs CPU on both sides: on a fast network the initial list takes longer with it. Servers compress
    /// lists over 128 kB and, from 1.37 on, watch-lists. Plain watches are never compressed.
    #[doc(alias = "DisableCompression")]
    #[doc(alias = "WatchListCompression")]
    pub gzip: bool,
    /// The size limit of one object, in bytes. Larger objects are quarantined, not decoded. Default: 32 MiB; etcd rejects
    /// requests over 1.5 MiB by default.
    pub max_object_size: usize,
    /// The time within which a request must get a connection, whatever the timeout of the client is. Default: 5 s, so that
    /// the cache is current again within seconds after an outage. Raise it if refreshing the credentials takes longer,
    /// because that counts as connecting.
    pub connect_timeout: Duration,
    /// Adds parameters to every list and watch request.
    ///
    /// It cannot change the parameters that drive the informer (`resourceVersion`, `limit`, `watch` and others), nor a
    /// selector set by the scope: every request then fails with an error that names the parameter. The hook is not
    /// part of an informer's identity; the [`Scope`](crate::Scope) is.
    #[doc(alias = "WithTweakListOptions")]
    #[doc(alias = "TweakListOptionsFunc")]
    #[doc(alias = "optionsModifier")]
    pub request_hook: Option<RequestHook>,
    /// When [`Lazy`](crate::lazy::Lazy) objects are validated by decoding them. Default: [`Validate::OnArrival`].
    pub validate: Validate,
    /// Keeps the most recently used decoded [`Lazy`](crate::lazy::Lazy) objects, up to about this many bytes per informer.
    /// Default: 0, none are kept.
    ///
    /// The memory of a decoded object is estimated at ten times its encoded size, which is what a pod takes.
    pub decoded_cache: usize,
    /// Whether to compress [`Lazy`](crate::lazy::Lazy) objects against similar ones; see
    /// [compression](crate::lazy#compression). Default: no.
    pub compressed: bool,
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self {
            encoding: Encoding::Auto,
            drop_managed_fields: None,
            gzip: false,
            max_object_size: 32 << 20,
            connect_timeout: CONNECT_TIMEOUT,
            request_hook: None,
            validate: Validate::OnArrival,
            decoded_cache: 0,
            compressed: false,
        }
    }
}

impl SourceOptions {
    /// How objects are held that stay encoded.
    pub(super) fn lazy(&self) -> LazyOptions {
        LazyOptions {
            validate: self.validate,
            decoded_cache: self.decoded_cache,
            compressed: self.compressed,
        }
    }
}

impl fmt::Debug for SourceOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceOptions")
            .field("encoding", &self.encoding)
            .field("drop_managed_fields", &self.drop_managed_fields)
            .field("gzip", &self.gzip)
            .field("max_object_size", &self.max_object_size)
            .field("connect_timeout", &self.connect_timeout)
            .field("request_hook", &self.request_hook.is_some())
            .field("validate", &self.validate)
            .field("decoded_cache", &self.decoded_cache)
            .field("compressed", &self.compressed)
            .finish()
    }
}
