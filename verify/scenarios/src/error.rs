//! Why no server is available, or why it cannot do what a scenario needs.

/// No server is available, or it cannot do what a scenario needs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoServer {
    /// The scenario cannot run in this environment.
    #[error("{0}")]
    Skipped(String),
    /// An unexpected failure.
    #[error("{0}")]
    Failed(String),
}

impl NoServer {
    /// Prints that a test was skipped; returns the error if it is a failure.
    ///
    /// # Errors
    ///
    /// Any error that is not a reason to skip.
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
