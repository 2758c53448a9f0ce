//! Why there is no server to test against, or why it cannot do what was asked.

/// There is no server, or it cannot do what a scenario needs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoServer {
    /// Nothing is wrong, but the scenario cannot run here.
    #[error("{0}")]
    Skipped(String),
    /// It should have worked.
    #[error("{0}")]
    Failed(String),
}

impl NoServer {
    /// Prints loudly that something was not tested; gives back what is a failure.
    ///
    /// # Errors
    ///
    /// Whatever is not a reason to skip.
    pub fn skip_loudly(self, what: &str) -> Result<(), NoServer> {
        match self {
            NoServer::Skipped(reason) => {
                eprintln!("\n*** SKIPPED: {what}: {reason} ***\n");
                Ok(())
            }
            failed @ NoServer::Failed(_) => Err(failed),
        }
    }

    pub(crate) fn failed(what: &str, error: impl std::fmt::Display) -> NoServer {
        NoServer::Failed(format!("{what}: {error}"))
    }
}
