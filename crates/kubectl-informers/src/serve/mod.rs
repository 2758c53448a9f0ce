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
mod listen;
mod metrics;
mod objects;
mod query;
mod routes;
mod status;
mod stream;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::cli::{Global, ServeArgs};
use crate::failure::{Exit, Failure};
use crate::notes::Notes;
use crate::session::{Feed, Session, Told};
use crate::signals;

use app::App;
use gate::Gate;
use listen::Listening;

/// How often the informers are looked at.
const TICK: Duration = Duration::from_secs(1);

/// Serves until told to stop.
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
    // Before anything is begun that has to be ended.
    let stopped = signals::stopped();
    tokio::pin!(stopped);
    let gate = Gate::new(&args)?;
    let notes = Notes::new(&global.showing);
    let app = Arc::new(App::new(&session));
    // The first visitor sees how they are doing, and not that nothing is known.
    app.tick(session.informers());
    let listening = Listening::start(&args, gate, app.clone()).await?;
    let mut out = io::stdout();
    writeln!(out, "Serving {}", listening.invitation())?;
    out.flush()?;

    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut open = true;
    let exit = loop {
        // All are cancel-safe: a change is returned or kept, a tick may be late.
        tokio::select! {
            biased;
            exit = &mut stopped => break exit,
            _ = tick.tick() => app.tick(session.informers()),
            told = feed.next(), if open => match told {
                Some(Told::Change(change)) => app.apply(change),
                Some(Told::Note(note)) => {
                    app.note(&note);
                    notes.warn(&note.text());
                }
                None => open = false,
            },
        }
    };
    listening.stop().await;
    session.close().await;
    Ok(exit)
}
