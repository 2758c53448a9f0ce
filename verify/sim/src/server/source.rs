//! The server as a source for a reflector.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt};
use kube_informers::source::{
    Known, ListRequest, ListStream, ListerWatcher, SourceError, WatchListSupport, WatchRequest, WatchStream,
};

use super::SharedServer;
use super::stream::{Item, Yield};
use crate::object::Thing;

/// Lists and watches of a [`Server`](super::Server).
#[derive(Debug)]
pub struct ModelSource {
    /// The server.
    pub server: SharedServer,
    /// Whether it announces watch-lists.
    pub watch_list: bool,
}

impl ListerWatcher<Thing> for ModelSource {
    fn list(&self, request: ListRequest, _known: Known<Thing>) -> ListStream<Thing> {
        let id = self.server.lock().list(&request);
        let part = self.server.lock().part(request.shard.as_ref());
        let items = self.response(id);
        items.map(move |item| item.map(|item| item.listed(part))).boxed()
    }

    fn watch(&self, request: WatchRequest, _known: Known<Thing>) -> WatchStream<Thing> {
        let id = self.server.lock().watch(&request);
        let part = self.server.lock().part(request.shard.as_ref());
        let items = self.response(id);
        items.map(move |item| item.map(|item| item.watched(part))).boxed()
    }

    fn watch_list(&self) -> WatchListSupport {
        if self.watch_list {
            WatchListSupport::Probe
        } else {
            WatchListSupport::Unsupported
        }
    }
}

impl ModelSource {
    fn response(&self, id: u64) -> Response {
        Response {
            server: self.server.clone(),
            id,
        }
    }
}

/// A response. Dropping it closes the connection.
struct Response {
    server: SharedServer,
    id: u64,
}

impl Stream for Response {
    type Item = Result<Item, SourceError>;

    /// Registers no waker: the world polls the reflector after every step.
    fn poll_next(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.server.lock().poll(self.id) {
            Yield::Pending => Poll::Pending,
            Yield::Item(item) => Poll::Ready(Some(Ok(item))),
            Yield::Failed(error) => Poll::Ready(Some(Err(error))),
            Yield::Ended => Poll::Ready(None),
        }
    }
}

impl Drop for Response {
    fn drop(&mut self) {
        self.server.lock().forget(self.id);
    }
}
