//! What is written is what is read, whatever happens to the file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use kube_informers::{Cause, Event};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::cursor::{Cursor, Happened, Step};
use super::reader::Recording;
use super::record::{RecordKind, SessionHead};
use super::writer::{Found, Rotation, Writer, numbered};
use crate::changes::Change;
use crate::objects::item::{Item, received};
use crate::objects::kinds::Kind;

const NO_ROTATION: Rotation = Rotation {
    max_size: u64::MAX,
    max_age: None,
    keep: 3,
};

fn kind() -> Arc<Kind> {
    Arc::new(Kind::for_tests("", "v1", "Pod", "pods"))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn micros(second: i64) -> i64 {
    at(second).as_microsecond()
}

fn session(began: i64) -> SessionHead {
    SessionHead {
        program: "test".to_owned(),
        kinds: vec![Kind::clone(&kind())],
        masked: true,
        began,
        ..SessionHead::default()
    }
}

fn pod(name: &str, uid: &str, version: i64) -> Arc<Item> {
    let object = json!({
        "metadata": { "name": name, "namespace": "shop", "uid": uid, "resourceVersion": version.to_string() },
        "status": { "phase": format!("phase {version}") },
    });
    Arc::new(received(&kind(), object))
}

fn change(event: &Event<Item>, second: i64) -> Change {
    let mut change = Change::of(event, &kind(), None);
    change.when = at(second);
    change
}

fn added(name: &str, version: i64, initial: bool) -> Change {
    let object = pod(name, name, version);
    change(&Event::Added { object, initial }, version)
}

fn updated(name: &str, version: i64) -> Change {
    let (old, new) = (pod(name, name, version - 1), pod(name, name, version));
    change(
        &Event::Updated {
            old,
            new,
            resync: false,
        },
        version,
    )
}

fn deleted(name: &str, version: i64) -> Change {
    let object = pod(name, name, version);
    let cause = Cause::Observed;
    change(&Event::Deleted { object, cause }, version)
}

fn open(path: &Path, rotation: Rotation, second: i64) -> (Writer, Found) {
    Writer::open(path, session(micros(second)), rotation, at(second)).unwrap()
}

/// Two objects, changes of one of them, each in a block, with keyframes in between.
fn write(path: &Path, rotation: Rotation) {
    let (mut writer, _) = open(path, rotation, 0);
    writer.change(&added("a", 1, true)).unwrap();
    writer.change(&added("b", 2, true)).unwrap();
    writer.change(&Change::synced(&kind(), 2, None)).unwrap();
    writer.keyframe_after(400);
    for version in 3..12 {
        writer.change(&updated("a", version)).unwrap();
        writer.flush().unwrap();
    }
    writer
        .note(RecordKind::Interrupted, at(12), "interrupted")
        .unwrap();
    writer.change(&deleted("b", 13)).unwrap();
    writer.change(&added("b", 14, false)).unwrap();
    writer.finish(at(15)).unwrap();
}

/// A step in one line, with the complete states.
fn line(step: &Step) -> String {
    let text = |held: &Arc<super::state::Held>| String::from_utf8(held.object.to_vec()).unwrap();
    let time = step.time() / 1_000_000 - 1_800_000_000;
    match step {
        Step::Began { previous, .. } => format!("{time} began {previous:?}"),
        Step::Note { kind, text, .. } => format!("{time} {kind:?} {text}"),
        Step::Change { key, happened, .. } => match happened {
            Happened::Added { new, initial } => format!("{time} added {key} {initial} {}", text(new)),
            Happened::Updated { old, new } => format!("{time} updated {key} {} {}", text(old), text(new)),
            Happened::Deleted { old, cause } => format!("{time} deleted {key} {cause:?} {}", text(old)),
        },
    }
}

fn all() -> super::cursor::Keep {
    Box::new(|_, _| true)
}

fn rest(cursor: &mut Cursor) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(step) = cursor.next().unwrap() {
        lines.push(line(&step));
    }
    lines
}

fn read(path: &Path) -> (Vec<String>, Vec<String>) {
    let mut cursor = Cursor::new(Recording::open(path).unwrap(), all());
    let lines = rest(&mut cursor);
    (lines, cursor.recording().take_damage())
}

fn state(cursor: &mut Cursor) -> Vec<(String, String)> {
    let (objects, unusable) = cursor.state().objects();
    assert_eq!(unusable, 0);
    let phase = |object: &[u8]| -> String {
        let object: Value = serde_json::from_slice(object).unwrap();
        object["status"]["phase"].as_str().unwrap().to_owned()
    };
    let objects = objects.into_iter();
    objects
        .map(|(_, key, held)| (key.as_str().to_owned(), phase(&held.object)))
        .collect()
}

fn file() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.rec");
    (directory, path)
}

#[test]
fn steps_are_read_as_they_were_written() {
    let (_directory, path) = file();
    write(&path, NO_ROTATION);

    let (lines, damage) = read(&path);

    assert_eq!(damage, Vec::<String>::new());
    assert_eq!(lines.len(), 15, "{lines:#?}");
    assert!(lines[0].starts_with("0 began None"));
    assert!(lines[1].starts_with("1 added shop/a true"));
    assert!(
        lines[3].starts_with("3 updated shop/a")
            && lines[3].contains("phase 1")
            && lines[3].contains("phase 3")
    );
    assert_eq!(lines[12], "12 Interrupted interrupted");
    assert!(lines[13].starts_with("13 deleted shop/b Observed") && lines[13].contains("phase 2"));
    assert!(lines[14].starts_with("14 added shop/b false"));
}

#[test]
fn a_seek_gives_the_state_at_every_moment_and_what_follows() {
    let (_directory, path) = file();
    write(&path, NO_ROTATION);
    let (lines, _) = read(&path);
    let blocks = Recording::open(&path).unwrap();
    assert!(blocks.blocks().iter().filter(|block| block.is_start()).count() > 2);

    for second in 2..16 {
        let mut cursor = Cursor::seek(Recording::open(&path).unwrap(), all(), micros(second)).unwrap();
        let a = (
            "shop/a".to_owned(),
            format!("phase {}", second.clamp(1, 11).max(1)),
        );
        let b = match second {
            2..13 => Some(("shop/b".to_owned(), "phase 2".to_owned())),
            13 => None,
            _ => Some(("shop/b".to_owned(), "phase 14".to_owned())),
        };
        let mut expected: Vec<_> = [Some(a), b].into_iter().flatten().collect();
        if second == 2 {
            expected[0].1 = "phase 1".to_owned();
        }
        assert_eq!(state(&mut cursor), expected, "at {second}");
        let after: Vec<&String> = lines
            .iter()
            .filter(|line| line.split(' ').next().unwrap().parse::<i64>().unwrap() > second)
            .collect();
        assert_eq!(
            rest(&mut cursor).iter().collect::<Vec<_>>(),
            after,
            "after {second}"
        );
    }
}

#[test]
fn objects_that_are_not_asked_for_are_not_read() {
    let (_directory, path) = file();
    write(&path, NO_ROTATION);
    let keep: super::cursor::Keep = Box::new(|_, key| key.name() == "b");
    let mut cursor = Cursor::seek(Recording::open(&path).unwrap(), keep, micros(5)).unwrap();
    assert_eq!(state(&mut cursor).len(), 1);
    assert!(rest(&mut cursor).iter().all(|line| !line.contains("shop/a")));
}

/// A kill leaves a file that ends anywhere.
#[test]
fn a_file_cut_at_any_byte_is_readable_up_to_there() {
    let (_directory, path) = file();
    write(&path, NO_ROTATION);
    let bytes = std::fs::read(&path).unwrap();
    let (whole, _) = read(&path);
    let mut readable = 0;
    for end in 0..bytes.len() {
        std::fs::write(&path, &bytes[..end]).unwrap();
        let recording = match Recording::open(&path) {
            Ok(recording) => recording,
            Err(failure) => {
                let text = failure.to_string();
                assert!(text.contains("test.rec") && readable == 0, "{end}: {text}");
                continue;
            }
        };
        let complete = recording.blocks().last().is_some_and(|_| {
            let mut scanned = std::fs::File::open(&path).unwrap();
            let scan = super::scan::scan(&mut scanned, end as u64).unwrap().unwrap();
            scan.torn == 0
        });
        let (lines, damage) = read(&path);
        assert_eq!(lines, whole[..lines.len()], "cut at {end}");
        assert!(lines.len() >= readable, "cut at {end}");
        readable = lines.len();
        assert_eq!(damage.is_empty(), complete, "cut at {end}: {damage:?}");

        // The next session removes the incomplete block and goes on.
        let (writer, found) = open(&path, NO_ROTATION, 100);
        assert_eq!(matches!(found, Found::Continued { removed: 0 }), complete);
        drop(writer);
        let (continued, damage) = read(&path);
        assert_eq!(damage, Vec::<String>::new(), "cut at {end}");
        assert_eq!(continued[..lines.len()], lines[..]);
        assert!(continued[lines.len()].starts_with("100 began Some"));
    }
    assert_eq!(readable, whole.len() - 3, "the last block is incomplete");
}

#[test]
fn any_damaged_byte_costs_only_what_follows_up_to_the_next_keyframe() {
    let (_directory, path) = file();
    write(&path, NO_ROTATION);
    let bytes = std::fs::read(&path).unwrap();
    let (whole, _) = read(&path);
    let (mut recovered, mut restored) = (0, 0);
    for index in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[index] ^= 0x20;
        std::fs::write(&path, &damaged).unwrap();
        let Ok(_) = Recording::open(&path) else {
            assert!(index < 16, "{index}");
            continue;
        };
        let (lines, damage) = read(&path);
        let mut expected = whole.iter();
        for line in &lines {
            assert!(
                expected.any(|known| known == line),
                "byte {index}: {line} is wrong or out of order"
            );
        }
        if lines != whole {
            assert_ne!(damage, Vec::<String>::new(), "byte {index}");
            recovered += usize::from(lines.last() == whole.last());
        }
        // A seek uses an earlier keyframe if the last one is damaged, and ends before the damage if the changes are.
        let mut cursor = Cursor::seek(Recording::open(&path).unwrap(), all(), micros(11)).unwrap();
        assert!(cursor.is_complete() || !damage.is_empty(), "byte {index}");
        restored += usize::from(cursor.damaged_after().is_some() && !state(&mut cursor).is_empty());
        for (key, phase) in state(&mut cursor) {
            assert!(
                key == "shop/b" || phase.starts_with("phase "),
                "byte {index}: {key} {phase}"
            );
        }
    }
    assert!(recovered > 100, "{recovered}");
    assert!(restored > 100, "{restored}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn damage_of_any_kind_is_survived(damage in prop::collection::vec((0.0f64..1.0, any::<u8>()), 1..20), cut in 0.0f64..1.0) {
        static WRITTEN: OnceLock<Vec<u8>> = OnceLock::new();
        let (_directory, path) = file();
        let mut bytes = WRITTEN
            .get_or_init(|| {
                write(&path, NO_ROTATION);
                std::fs::read(&path).unwrap()
            })
            .clone();
        for (at, byte) in damage {
            let index = (at * bytes.len() as f64) as usize;
            bytes[index] = byte;
        }
        bytes.truncate((cut * bytes.len() as f64) as usize);
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(recording) = Recording::open(&path) {
            let mut cursor = Cursor::new(recording, all());
            rest(&mut cursor);
            let mut cursor = Cursor::seek(Recording::open(&path).unwrap(), all(), micros(9)).unwrap();
            cursor.state().objects();
        }
    }
}

#[test]
fn a_later_session_tells_what_changed_in_between() {
    let (_directory, path) = file();
    let (mut writer, found) = open(&path, NO_ROTATION, 0);
    assert_eq!(found, Found::New);
    for name in ["same", "changed", "gone", "replaced"] {
        writer.change(&added(name, 1, true)).unwrap();
    }
    writer.change(&Change::synced(&kind(), 4, None)).unwrap();
    writer.finish(at(5)).unwrap();

    let (mut writer, _) = open(&path, NO_ROTATION, 10);
    let initial = |object, second| {
        change(
            &Event::Added {
                object,
                initial: true,
            },
            second,
        )
    };
    writer.change(&initial(pod("same", "same", 1), 11)).unwrap();
    writer.change(&initial(pod("changed", "changed", 7), 11)).unwrap();
    writer
        .change(&initial(pod("replaced", "another", 8), 11))
        .unwrap();
    writer.change(&initial(pod("new", "new", 9), 11)).unwrap();
    writer.change(&Change::synced(&kind(), 4, None)).unwrap();
    writer.finish(at(12)).unwrap();

    let (lines, _) = read(&path);
    let start = lines
        .iter()
        .position(|line| line.starts_with("10 began"))
        .unwrap();
    let events: Vec<String> = lines[start..]
        .iter()
        .map(|line| line.split(' ').take(4).collect::<Vec<_>>().join(" "))
        .map(|line| line.split('{').next().unwrap().trim().to_owned())
        .collect();
    let now = events[5].split(' ').next().unwrap();
    assert_eq!(
        events,
        [
            format!("10 began Some(({}, true))", micros(5)),
            "11 updated shop/changed".to_owned(),
            "11 deleted shop/replaced Missed".to_owned(),
            "11 added shop/replaced false".to_owned(),
            "11 added shop/new false".to_owned(),
            format!("{now} deleted shop/gone Missed"),
        ]
    );
}

#[test]
fn files_are_rotated_by_size_and_read_as_one() {
    let (_directory, path) = file();
    write(&path, NO_ROTATION);
    let (whole, _) = read(&path);
    std::fs::remove_file(&path).unwrap();
    let rotation = Rotation {
        max_size: 600,
        max_age: None,
        keep: 50,
    };
    write(&path, rotation);
    assert!(numbered(&path, 3).exists());

    assert_eq!(read(&path), (whole.clone(), Vec::new()));
    let mut cursor = Cursor::seek(Recording::open(&path).unwrap(), all(), micros(7)).unwrap();
    assert_eq!(state(&mut cursor)[0].1, "phase 7");

    // Without the oldest files the rest begins with a keyframe.
    let oldest = (1..)
        .take_while(|number| numbered(&path, *number).exists())
        .last()
        .unwrap();
    std::fs::remove_file(numbered(&path, oldest)).unwrap();
    let (lines, damage) = read(&path);
    assert_eq!(damage, Vec::<String>::new());
    assert_eq!(lines[..], whole[whole.len() - lines.len()..]);
    assert!(lines.len() > 5 && lines.len() < whole.len());
}

#[test]
fn only_the_newest_files_are_kept_and_age_rotates_too() {
    let (_directory, path) = file();
    let rotation = Rotation {
        max_size: u64::MAX,
        max_age: Some(Duration::from_secs(2)),
        keep: 2,
    };
    write(&path, rotation);
    assert!(numbered(&path, 2).exists() && !numbered(&path, 3).exists());
    assert_eq!(read(&path).1, Vec::<String>::new());
}

#[test]
fn two_processes_cannot_write_one_file_and_other_files_are_not_touched() {
    let (_directory, path) = file();
    let (_writer, _) = open(&path, NO_ROTATION, 0);
    let second = Writer::open(&path, session(1), NO_ROTATION, at(1)).map(drop);
    assert!(
        second
            .unwrap_err()
            .to_string()
            .contains("another process is writing it")
    );

    let other = path.with_file_name("notes.txt");
    std::fs::write(&other, "my notes").unwrap();
    let refused = Writer::open(&other, session(1), NO_ROTATION, at(1)).map(drop);
    assert!(refused.unwrap_err().to_string().contains("it is not a recording"));
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "my notes");
}

#[test]
fn the_clock_may_go_back_and_recorded_times_do_not() {
    let (_directory, path) = file();
    let (mut writer, _) = open(&path, NO_ROTATION, 100);
    writer.change(&added("a", 1, false)).unwrap();
    writer.finish(at(2)).unwrap();
    let (lines, _) = read(&path);
    assert!(lines[1].starts_with("100 added"), "{lines:?}");
}
