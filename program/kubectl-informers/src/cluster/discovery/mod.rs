//! Discovery: which kinds the server serves. From the cache that kubectl keeps, or from the server.
//!
//! Takes a client and a cache directory, returns a [`Catalogue`].

mod cache;
mod documents;
mod fetch;

use std::path::PathBuf;

use kube::Client;

pub use cache::Cache;

use crate::cli::limits::Limits;
use crate::objects::kinds::{Catalogue, Kind};
use crate::process::failure::Failure;

/// Finds kinds by name.
pub struct Discovery {
    client: Client,
    server: String,
    cache: Option<Cache>,
    limits: Limits,
}

impl Discovery {
    /// Uses `client`, which talks to `server`; with a directory, results are cached there in kubectl's layout.
    pub fn new(client: Client, server: &str, directory: Option<PathBuf>) -> Self {
        Self {
            client,
            server: server.to_owned(),
            cache: directory.map(|directory| Cache::new(&directory, server)),
            limits: Limits::default(),
        }
    }

    /// With a timeout of requests other than the default.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The kinds that `pods,deploy` refers to. Names missing from the cache cause one more request.
    ///
    /// # Errors
    ///
    /// One of them is unknown, or the server cannot be reached.
    pub async fn find_all(&self, names: &str) -> Result<Vec<Kind>, Failure> {
        if let Some(kinds) = self
            .cache
            .as_ref()
            .and_then(Cache::read)
            .and_then(|documents| documents.catalogue().find_all(names).ok())
        {
            return Ok(kinds);
        }
        self.fetch().await?.find_all(names)
    }

    /// What the server serves, from the cache if there is one.
    ///
    /// # Errors
    ///
    /// The server cannot be reached.
    pub async fn catalogue(&self) -> Result<Catalogue, Failure> {
        match self.cache.as_ref().and_then(Cache::read) {
            Some(documents) => Ok(documents.catalogue()),
            None => self.fetch().await,
        }
    }

    /// What the server currently serves.
    ///
    /// # Errors
    ///
    /// The server cannot be reached.
    pub async fn fetch(&self) -> Result<Catalogue, Failure> {
        let documents = fetch::documents(&self.client, &self.limits)
            .await
            .map_err(|error| error.into_failure(&self.server))?;
        if let Some(cache) = &self.cache {
            cache.write(&documents);
        }
        Ok(documents.catalogue())
    }
}
