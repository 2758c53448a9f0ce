//! The pages of one list: which request follows a page, and the reading of one.
//!
//! The machine of a reflector, the pager and the audit follow a list by it. They differ in when they send the next
//! request and in what they do after a failure.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use futures_util::StreamExt;
use tokio::time::timeout;

use super::config::Deadlines;
use super::report::Violation;
use crate::quarantine::BadObject;
use crate::source::{ListRequest, ListStream};
use crate::wire::{Fetched, ListItem, ListMeta, SourceError};

/// A list between two pages.
pub(crate) struct Pages {
    first: ListRequest,
    /// The maximum number of pages.
    max: u32,
    /// The number of complete pages.
    complete: u32,
    /// Hashes of the continue tokens.
    tokens: HashSet<u64>,
}

impl Pages {
    pub(crate) fn new(first: ListRequest, max: u32) -> Self {
        Self {
            first,
            max,
            complete: 0,
            tokens: HashSet::new(),
        }
    }

    /// The request for the first page.
    pub(crate) fn first(&self) -> &ListRequest {
        &self.first
    }

    /// The number of complete pages.
    pub(crate) fn complete(&self) -> u32 {
        self.complete
    }

    /// A page is complete. Returns the request for the next one; `None` after the last page.
    ///
    /// # Errors
    ///
    /// The list does not end.
    pub(crate) fn advance(&mut self, meta: &ListMeta) -> Result<Option<ListRequest>, Violation> {
        self.complete += 1;
        let Some(token) = meta.continue_token.as_deref().filter(|token| !token.is_empty()) else {
            return Ok(None);
        };
        let mut hasher = DefaultHasher::new();
        token.hash(&mut hasher);
        // A list that comes back to a token never ends.
        if !self.tokens.insert(hasher.finish()) {
            return Err(Violation::RepeatedToken);
        }
        if self.complete >= self.max {
            return Err(Violation::TooManyPages(self.max));
        }
        Ok(Some(self.continued(token)))
    }

    /// The request for the page of a token. The token has the version: naming it again is an error.
    pub(crate) fn continued(&self, token: &str) -> ListRequest {
        ListRequest {
            continue_token: Some(token.to_owned()),
            resource_version: None,
            version_match: None,
            ..self.first.clone()
        }
    }

    /// The request for the whole list without pages, which has no tokens that could expire.
    pub(crate) fn whole(&self) -> ListRequest {
        ListRequest {
            limit: None,
            ..self.first.clone()
        }
    }
}

/// Reads a page to its end.
pub(crate) async fn read_page<K>(
    mut page: ListStream<K>,
    deadlines: &Deadlines,
    mut object: impl FnMut(Result<Fetched<K>, BadObject>),
) -> Result<ListMeta, SourceError> {
    let (mut what, mut limit) = ("response to a list", deadlines.list_headers);
    loop {
        let item = timeout(limit, page.next())
            .await
            .map_err(|_| SourceError::Deadline { what, after: limit })?;
        match item.transpose()? {
            None => return Err(Violation::Truncated.into_error()),
            Some(ListItem::Progress { .. } | ListItem::Outside) => {}
            Some(ListItem::Object(fetched)) => object(Ok(fetched)),
            Some(ListItem::Unreadable(bad)) => object(Err(bad)),
            Some(ListItem::End(meta)) => return Ok(meta),
        }
        (what, limit) = ("data of a list", deadlines.list_idle);
    }
}
