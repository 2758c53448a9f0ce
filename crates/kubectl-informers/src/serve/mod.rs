//! `serve`: the dashboard as a web page.

use crate::cli::ServeArgs;
use crate::failure::{Exit, Failure};
use crate::session::{Feed, Session};

/// Serves until told to stop.
///
/// # Errors
///
/// The page cannot be served.
pub async fn run(_args: ServeArgs, _session: Session, _feed: Feed) -> Result<Exit, Failure> {
    Err(Failure::error(
        "the web page is not part of this build; use `top` for the dashboard in the terminal",
    ))
}
