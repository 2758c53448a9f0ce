//! `top` without a terminal: changes as they come, and a summary every few seconds, as lines.

use std::io::{self, Write};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::changes::{Change, What};
use crate::cli::{Global, TopArgs};
use crate::failure::{Exit, Failure};
use crate::observe::InformerView;
use crate::session::{Feed, Session, Told};
use crate::signals;
use crate::style::Colours;
use crate::watch::text::{Texts, bytes};

/// Prints until told to stop.
///
/// # Errors
///
/// Nothing can be written any more.
pub async fn run(args: TopArgs, global: &Global, session: Session, mut feed: Feed) -> Result<Exit, Failure> {
    let texts = Texts {
        colours: Colours::on(&io::stdout(), global.showing.color),
        several_kinds: true,
    };
    let period = Duration::from_secs(args.every.max(1));
    let mut summary = interval_at(Instant::now() + period, period);
    summary.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before: Vec<u64> = Vec::new();
    let stopped = signals::stopped();
    tokio::pin!(stopped);
    let exit = loop {
        // All are cancel-safe: the feed keeps what is not taken, a tick may be missed, the signal is waited for once.
        let told = tokio::select! {
            biased;
            exit = &mut stopped => break exit,
            _ = summary.tick() => {
                let views = session.informers();
                print(&summary_text(&views, &before, period))?;
                before = views.iter().map(|view| view.events).collect();
                continue;
            }
            told = feed.next() => told,
        };
        match told {
            None => break Exit::Success,
            Some(Told::Note(note)) => print(&format!("! {}", note.text()))?,
            Some(Told::Change(change)) => {
                if let Some(text) = text(&texts, &change) {
                    print(&text)?;
                }
            }
        }
    };
    session.close().await;
    Ok(exit)
}

fn text(texts: &Texts, change: &Change) -> Option<String> {
    match change.event {
        What::Added { initial: true } => None,
        _ => Some(texts.change(change)),
    }
}

fn summary_text(views: &[InformerView], before: &[u64], period: Duration) -> String {
    let watches: usize = views.iter().map(|view| view.members).sum();
    let received: u64 = views.iter().map(|view| view.bytes).sum();
    let mut text = format!(
        "== {watches} {} on the server, {} received",
        if watches == 1 { "watch" } else { "watches" },
        bytes(received)
    );
    for (index, view) in views.iter().enumerate() {
        let events = view
            .events
            .saturating_sub(before.get(index).copied().unwrap_or(0));
        let rate = events as f64 / period.as_secs_f64();
        text.push_str(&format!(
            "\n==   {:<24} {:<9} {:>7} objects {:>8.1} events/s {:>10} {:>3} relists {:>3} errors {:>5} waiting",
            view.kind.full_name(),
            view.state_word(),
            view.objects,
            rate,
            bytes(view.bytes),
            view.relists,
            view.errors,
            view.backlog,
        ));
        if let Some(progress) = view.progress {
            text.push_str(&format!("; {}", crate::progress::text(&progress)));
        }
        if let Some(error) = &view.last_error {
            text.push_str(&format!("; {error}"));
        }
    }
    text
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}
