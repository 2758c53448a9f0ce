//! `top` without a terminal: changes as they arrive and a summary every few seconds, as lines.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::changes::{Change, What};
use crate::cli::{Global, TopArgs};
use crate::output::style::Colours;
use crate::output::writer::Output;
use crate::process::failure::{Exit, Failure};
use crate::process::signals;
use crate::session::observe::InformerView;
use crate::session::{Feed, FeedItem, Session};
use crate::text::safe::SafeText;
use crate::text::units::bytes;
use crate::view::server_columns::ServerColumns;
use crate::view::text::Texts;

/// Changes in one batch of output.
const BATCH: usize = 1000;

/// Prints until a signal stops the program.
///
/// # Errors
///
/// The output is closed.
pub async fn run(args: TopArgs, global: &Global, session: Session, mut feed: Feed) -> Result<Exit, Failure> {
    let texts = Texts {
        colours: Colours::on(&io::stdout(), global.showing.color),
        several_kinds: true,
        server: ServerColumns::default(),
    };
    let period = Duration::from_secs(args.every.clamp(1, 100 * 365 * 24 * 3600));
    let mut summary = interval_at(Instant::now() + period, period);
    summary.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before: Vec<u64> = Vec::new();
    let mut out = Output::start()?;
    let stopped = signals::stopped();
    tokio::pin!(stopped);
    let exit = loop {
        // All are cancel-safe: the feed keeps what is not taken, a tick may be missed, the signal is waited for once.
        // While a batch is being written nothing is taken from the feed, which coalesces what is pending.
        let item = tokio::select! {
            biased;
            exit = &mut stopped => break exit,
            written = out.written(), if out.is_busy() => {
                written?;
                out.submit();
                continue;
            }
            _ = summary.tick(), if !out.is_busy() => {
                let views = session.informers();
                out.line(&summary_text(&views, &before, period));
                out.submit();
                before = views.iter().map(|view| view.events).collect();
                continue;
            }
            item = feed.next(), if !out.is_busy() => item,
        };
        if item.is_none() {
            break Exit::Success;
        }
        let mut next = item;
        for _ in 0..BATCH {
            match next.take().or_else(|| feed.try_next()) {
                None => break,
                Some(FeedItem::Note(note)) => out.line(&SafeText::lines(format!("! {}", note.stamped()))),
                Some(FeedItem::Coalesced(coalesced)) => out.line(&SafeText::line(format!("! {coalesced}"))),
                Some(FeedItem::Change(change)) => {
                    if let Some(text) = text(&texts, &change) {
                        out.line(&text);
                    }
                }
            }
        }
        out.submit();
    };
    session.close().await;
    out.shutdown().await?;
    Ok(exit)
}

fn text(texts: &Texts, change: &Change) -> Option<SafeText> {
    match change.event {
        What::Added { initial: true } => None,
        _ => Some(texts.change(change)),
    }
}

fn summary_text(views: &[InformerView], before: &[u64], period: Duration) -> SafeText {
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
            text.push_str(&format!("; {}", crate::view::progress::text(&progress)));
        }
        if let Some(error) = &view.last_error {
            text.push_str(&format!("; {}", SafeText::line(error)));
        }
    }
    SafeText::lines(text)
}
