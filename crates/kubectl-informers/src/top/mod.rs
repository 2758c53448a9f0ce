//! `top`: the dashboard.

pub mod plain;

use crate::cli::{Global, TopArgs};
use crate::failure::{Exit, Failure};
use crate::session::{Feed, Session};

/// What is watched unless kinds are given.
pub const KINDS: &str = "pods,nodes,deployments,events";

/// Shows the dashboard until told to stop.
///
/// # Errors
///
/// Nothing can be written any more.
pub async fn run(args: TopArgs, global: &Global, session: Session, feed: Feed) -> Result<Exit, Failure> {
    plain::run(args, global, session, feed).await
}
