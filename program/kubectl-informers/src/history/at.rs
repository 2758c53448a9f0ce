//! `at`: the objects of a recording as they were.

use std::io::{self, BufWriter, Write};

use crate::cli::Global;
use crate::cli::recording::{AtArgs, ObjectOutput};
use crate::history::shown::{Shown, keep};
use crate::objects::item::Contents;
use crate::output::notes::Notes;
use crate::process::failure::{Exit, Failure};
use crate::recording::cursor::Cursor;
use crate::recording::reader::{Recording, timestamp};
use crate::text::safe::SafeText;

/// Prints the objects at a moment.
///
/// # Errors
///
/// The recording cannot be read, it does not cover the moment, or it has no such object.
pub fn run(args: &AtArgs, global: &Global) -> Result<Exit, Failure> {
    let shown = Shown::new(global, &[])?;
    let notes = Notes::new(&global.showing);
    let mut recording = Recording::open(&args.file)?;
    let time = recording.moment(&args.time)?;
    let (begins, ends) = recording.times();
    if time < begins.as_microsecond() {
        return Err(Failure::error(format!(
            "{} is before the recording: it covers {begins} to {ends}",
            timestamp(time)
        )));
    }
    if time > ends.as_microsecond() {
        notes.warn(&format!(
            "The recording ends at {ends}: these are the objects at that time"
        ));
    }
    let (kinds, name) = match (args.kinds.as_deref(), &args.name) {
        (Some(kinds), None) => match kinds.split_once('/') {
            Some((kind, name)) => (Some(kind), Some(name)),
            None => (Some(kinds), None),
        },
        (kinds, name) => (kinds, name.as_deref()),
    };
    let keep = keep(&mut recording, kinds, name, global)?;
    let mut cursor = Cursor::seek(recording, keep, time)?;
    for damage in cursor.recording().take_damage() {
        notes.warn(&damage);
    }
    if !cursor.is_complete() {
        return Err(Failure::error(format!(
            "the objects at {} cannot be restored: the recording is damaged before that moment",
            timestamp(time)
        )));
    }
    if let Some(known) = cursor.damaged_after() {
        notes.warn(&format!(
            "These are the objects at {}: what was recorded after that is damaged",
            timestamp(known)
        ));
    }
    let (objects, mut unusable) = cursor.state().objects();
    let masked = cursor.is_masked();
    let mut out = BufWriter::new(io::stdout().lock());
    let mut printed = 0;
    for (kind, key, held) in objects {
        let Some(item) = shown.item(&kind, &held, masked) else {
            unusable += 1;
            continue;
        };
        if !shown.selects(&item) {
            continue;
        }
        let text = match args.output {
            ObjectOutput::Name => SafeText::line(format!("{}/{key}", kind.label())),
            ObjectOutput::Json => SafeText::json(&item.tree().0),
            ObjectOutput::Yaml => {
                let text = serde_saphyr::to_string(&item.tree().0).map_err(|error| {
                    Failure::error(format!("{} {key} cannot be printed: {error}", kind.label()))
                })?;
                let separator = if printed > 0 { "---\n" } else { "" };
                SafeText::lines(format!("{separator}{}", text.trim_end()))
            }
        };
        writeln!(out, "{text}")?;
        printed += 1;
    }
    out.flush()?;
    for damage in cursor.recording().take_damage() {
        notes.warn(&damage);
    }
    if unusable > 0 {
        notes.warn(&format!("{unusable} objects cannot be restored and are left out"));
    }
    let listing = cursor.listing();
    if !listing.is_empty() {
        notes.warn(&format!(
            "At that time the recorder was still listing {}: objects may be missing",
            listing.join(", ")
        ));
    }
    match (printed, name) {
        (0, Some(name)) => Err(Failure::error(format!(
            "{:?} did not exist at {}",
            name,
            timestamp(time)
        ))),
        _ => Ok(Exit::Success),
    }
}
