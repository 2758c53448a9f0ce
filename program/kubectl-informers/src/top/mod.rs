//! `top`: the dashboard.
//!
//! ```text
//!  session ─▶ model ─▶ draw ─▶ screen
//!  changes,    pure     pure    the terminal, and nothing else
//!  stats, keys
//! ```

mod draw;
mod keys;
mod lists;
mod look;
mod model;
mod object;
pub mod plain;
mod screen;
mod switch;
mod table;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};

use crate::cli::{DASHBOARD_KINDS, Global, TopArgs};
use crate::process::failure::{Exit, Failure};
use crate::session::{Feed, Session};

pub use draw::draw;
pub use keys::Outcome;
pub use model::Model;

/// Shows the dashboard until it is stopped: on a terminal as a screen, else as lines.
///
/// # Errors
///
/// The output is closed, or the terminal cannot be used.
pub async fn run(args: TopArgs, global: &Global, session: Session, feed: Feed) -> Result<Exit, Failure> {
    let terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    let kinds = args.kinds.as_deref().unwrap_or(DASHBOARD_KINDS);
    match terminal && !args.plain {
        true => screen::run(global, kinds, session, feed).await,
        false => plain::run(args, global, session, feed).await,
    }
}
