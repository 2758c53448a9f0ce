//! `serve`: the dashboard as a web page, with a JSON API and metrics. Reads only, and never shows the values of Secrets.
//!
//! ```text
//!  gate ─▶ routes ─▶ assets · objects · status · metrics · stream
//!  who may  what      the page, the cache, the board, what changes
//! ```

mod answer;
mod app;
mod assets;
mod gate;
mod indexes;
pub(crate) mod listen;
mod metrics;
mod objects;
mod query;
mod routes;
mod status;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::cli::{Global, ServeArgs};
use crate::output::notes::Notes;
use crate::output::writer::Output;
use crate::process::failure::{Exit, Failure};
use crate::process::signals;
use crate::session::{Feed, FeedItem, Session};
use crate::text::safe::SafeText;

use app::App;
use gate::Gate;
use listen::Listening;
use metrics::Exporter;

/// The interval at which informers are polled.
const TICK: Duration = Duration::from_secs(1);

/// Serves until it is stopped.
///
/// # Errors
///
/// The address cannot be listened on, or must not be without a token.
pub async fn run(
    args: ServeArgs,
    global: &Global,
    session: Session,
    mut feed: Feed,
) -> Result<Exit, Failure> {
    // Before anything starts that needs a shutdown.
    let stopped = signals::stopped();
    tokio::pin!(stopped);
    let gate = Gate::new(&args)?;
    let notes = Notes::new(&global.showing);
    let app = Arc::new(App::new(&session, &args));
    // The first request already sees the state of the informers.
    app.tick(session.informers(), feed.coalesced());
    let exporter = Exporter::new(&session, app.clone());
    let listening = Listening::start(&args, gate, app.clone(), exporter).await?;
    let mut out = Output::start()?;
    out.line(&SafeText::line(format!("Serving {}", listening.invitation())));
    out.submit();

    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut open = true;
    let exit = loop {
        // All are cancel-safe: a change is returned or kept, a tick may be late.
        tokio::select! {
            biased;
            exit = &mut stopped => break exit,
            written = out.written(), if out.is_busy() => {
                written?;
                out.submit();
            }
            _ = tick.tick() => app.tick(session.informers(), feed.coalesced()),
            item = feed.next(), if open => match item {
                Some(FeedItem::Change(change)) => app.apply(change),
                Some(FeedItem::Note(note)) => {
                    app.note(&note);
                    // While standard error is blocked notes are shown on the page only.
                    if !out.is_busy() {
                        notes.warn_to(&mut out, &note.stamped());
                        out.submit();
                    }
                }
                Some(FeedItem::Coalesced(_)) => {}
                None => open = false,
            },
        }
    };
    listening.stop().await;
    session.close().await;
    Ok(exit)
}
