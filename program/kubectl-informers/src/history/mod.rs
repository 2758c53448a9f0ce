//! `history`: the changes of a recording, with diffs and authors.

pub mod at;
mod shown;

use std::io::{self, BufWriter, Write};
use std::path::Path;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::changes::{Change, What, json};
use crate::cli::recording::HistoryArgs;
use crate::cli::{Global, Output as Format};
use crate::history::shown::{Shown, keep};
use crate::output::notes::Notes;
use crate::output::style::{Colours, DIM, HEAD};
use crate::process::failure::{Exit, Failure};
use crate::recording::cursor::{Cursor, Step};
use crate::recording::reader::{Recording, timestamp};
use crate::recording::record::RecordKind;
use crate::text::safe::SafeText;
use crate::text::units::time;
use crate::view::filter::Filter;
use crate::view::server_columns::ServerColumns;
use crate::view::text::Texts;

/// Prints the changes of a recording.
///
/// # Errors
///
/// The recording cannot be read, or an option is invalid.
pub fn run(args: &HistoryArgs, global: &Global) -> Result<Exit, Failure> {
    let (kinds, name, file) = target(&args.target)?;
    let filter = Filter::new(&args.changes, args.output)?;
    let shown = Shown::new(global, &args.changes.ignore)?;
    let mut recording = Recording::open(Path::new(file))?;
    let from = args
        .from
        .as_deref()
        .map(|text| recording.moment(text))
        .transpose()?;
    let to = args
        .to
        .as_deref()
        .map(|text| recording.moment(text))
        .transpose()?;
    if let (Some(from), Some(to)) = (from, to)
        && from > to
    {
        return Err(Failure::error("--from is after --to: nothing lies between them"));
    }
    let keep = keep(&mut recording, kinds, name, global)?;
    let mut cursor = match from {
        // What happened at this moment is part of the history.
        Some(from) => Cursor::seek(recording, keep, from.saturating_sub(1))?,
        None => Cursor::new(recording, keep),
    };
    let notes = Notes::new(&global.showing);
    let mut printer = Printer {
        out: BufWriter::new(io::stdout().lock()),
        texts: Texts {
            colours: Colours::on(&io::stdout(), global.showing.color),
            several_kinds: true,
            server: ServerColumns::default(),
        },
        args,
        show_noise: global.showing.show_noise,
        date: None,
    };
    while let Some(step) = cursor.next()? {
        for damage in cursor.recording().take_damage() {
            printer.out.flush()?;
            notes.warn(&damage);
        }
        if to.is_some_and(|to| step.time() > to) {
            break;
        }
        if from.is_some_and(|from| step.time() < from) {
            continue;
        }
        match shown.change(&step)? {
            Some(mut change) => {
                if filter.admit(&mut change) {
                    printer.change(&change)?;
                }
            }
            None => printer.other(&step)?,
        }
    }
    printer.out.flush()?;
    for damage in cursor.recording().take_damage() {
        notes.warn(&damage);
    }
    Ok(Exit::Success)
}

/// `FILE`, `KIND FILE`, `KIND/NAME FILE`, `KIND NAME FILE`.
fn target(words: &[String]) -> Result<(Option<&str>, Option<&str>, &str), Failure> {
    match words {
        [file] => Ok((None, None, file)),
        [kind, file] => match kind.split_once('/') {
            None => Ok((Some(kind), None, file)),
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok((Some(kind), Some(name), file)),
            Some(_) => Err(Failure::error(format!(
                "{kind:?} names no kind: write pods, pods NAME, or pod/NAME"
            ))),
        },
        [kind, name, file] => Ok((Some(kind), Some(name), file)),
        _ => Err(Failure::error("write history [KIND [NAME]] FILE")),
    }
}

/// A step that is not a change of an object, as one line of JSON.
#[derive(Serialize)]
struct NoteLine<'a> {
    time: jiff::Timestamp,
    event: &'static str,
    message: &'a str,
}

struct Printer<'a, W: Write> {
    out: W,
    texts: Texts,
    args: &'a HistoryArgs,
    show_noise: bool,
    date: Option<Date>,
}

impl<W: Write> Printer<'_, W> {
    fn change(&mut self, change: &Change) -> Result<(), Failure> {
        // The initial objects are no changes.
        if change.event.is_initial() {
            return Ok(());
        }
        let noise =
            matches!(change.event, What::Updated { .. }) && change.diff.is_empty() && !self.show_noise;
        let line = match self.args.output {
            Format::Json => json::line(change, self.args.changes.with_object),
            _ if noise => return Ok(()),
            Format::Brief => self.texts.brief(change),
            Format::Text | Format::Wide => self.texts.change(change),
        };
        self.print(change.when, &line)
    }

    /// Interruptions, their ends, and the starts of sessions.
    fn other(&mut self, step: &Step) -> Result<(), Failure> {
        let when = timestamp(step.time());
        let (event, message) = match step {
            Step::Change { .. } => return Ok(()),
            Step::Note { kind, text, .. } => (
                match kind {
                    RecordKind::Interrupted => "interrupted",
                    RecordKind::Recovered => "recovered",
                    _ => "remark",
                },
                // The type of the event says it.
                text.strip_prefix("interrupted: ").unwrap_or(text).to_owned(),
            ),
            Step::Began { previous: None, .. } => ("began", "the recording begins".to_owned()),
            Step::Began {
                previous: Some((end, clean)),
                ..
            } => {
                let how = if *clean { "stopped" } else { "was killed" };
                let end = timestamp(*end);
                let text = format!(
                    "the recorder {how} at {end} and starts again: what changed in between is merged"
                );
                ("began", text)
            }
        };
        let line = match self.args.output {
            Format::Json => SafeText::json(&NoteLine {
                time: when,
                event,
                message: &message,
            }),
            _ => {
                let mut line = time(when);
                line.push(SafeText::line(format!(" {} {message}", event.to_uppercase())));
                self.texts.colours.paint(DIM, line)
            }
        };
        self.print(when, &line)
    }

    /// Lines of text show the time of day, so the date stands above the first line of each day.
    fn print(&mut self, when: jiff::Timestamp, line: &SafeText) -> Result<(), Failure> {
        let date = when.to_zoned(TimeZone::system()).date();
        if self.args.output != Format::Json && self.date.replace(date) != Some(date) {
            let head = SafeText::line(date.to_string());
            writeln!(self.out, "{}", self.texts.colours.paint(HEAD, head))?;
        }
        writeln!(self.out, "{line}")?;
        Ok(())
    }
}
