//! The ledger of a soak: what was run, so that no seed runs twice and volumes add up over days.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use k8s_openapi::jiff::Timestamp;

/// The first seed of a ledger. Lower ones are those of CI.
pub const FIRST_SEED: u64 = 1_000_000;

const HEADER: &str = "\
# What soaks have run, one line per day, commit and part: see docs/evidence/simulation.md. The next soak continues after the last seed.
# date       commit   part            first seed      seeds       done  findings
";

/// What was run of one part on one day at one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// Year, month and day.
    pub date: String,
    /// The commit of the code under test.
    pub commit: String,
    /// What was run.
    pub part: String,
    /// The first seed.
    pub first: u64,
    /// The number of seeds, which follow the first one.
    pub seeds: u64,
    /// The number of schedules or executions.
    pub done: u64,
    /// How many violated something.
    pub findings: u64,
}

impl LedgerEntry {
    /// An entry of today.
    pub fn today(commit: &str, part: &str, first: u64, seeds: u64, done: u64, findings: u64) -> Self {
        Self {
            date: Timestamp::now().strftime("%Y-%m-%d").to_string(),
            commit: commit.to_owned(),
            part: part.to_owned(),
            first,
            seeds,
            done,
            findings,
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [date, commit, part, first, seeds, done, findings] = words[..] else {
            return None;
        };
        Some(Self {
            date: date.to_owned(),
            commit: commit.to_owned(),
            part: part.to_owned(),
            first: first.parse().ok()?,
            seeds: seeds.parse().ok()?,
            done: done.parse().ok()?,
            findings: findings.parse().ok()?,
        })
    }

    fn end(&self) -> u64 {
        self.first.saturating_add(self.seeds)
    }

    fn is_continued_by(&self, next: &Self) -> bool {
        (&self.date, &self.commit, &self.part, self.end())
            == (&next.date, &next.commit, &next.part, next.first)
    }
}

impl fmt::Display for LedgerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            date,
            commit,
            part,
            first,
            seeds,
            done,
            findings,
        } = self;
        write!(
            f,
            "{date:<12} {commit:<8} {part:<12} {first:>13} {seeds:>10} {done:>10} {findings:>9}"
        )
    }
}

/// What was done in total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Schedules or executions.
    pub done: u64,
    /// How many violated something.
    pub findings: u64,
}

/// All entries of a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volumes {
    entries: Vec<LedgerEntry>,
}

impl Volumes {
    /// Reads the text of a ledger.
    ///
    /// # Errors
    ///
    /// A line is not an entry.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate();
        let entries = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let entries = entries.map(|(number, line)| {
            LedgerEntry::parse(line).ok_or_else(|| {
                format!(
                    "line {}: expected DATE COMMIT PART FIRST SEEDS DONE FINDINGS, got {line:?}",
                    number + 1
                )
            })
        });
        Ok(Self {
            entries: entries.collect::<Result<_, _>>()?,
        })
    }

    /// The first seed of a part that no run had.
    pub fn next_seed(&self, part: &str) -> u64 {
        let ends = self.entries.iter().filter(|entry| entry.part == part);
        ends.map(LedgerEntry::end).max().unwrap_or(FIRST_SEED)
    }

    /// Adds an entry, or extends the one that it continues.
    pub fn add(&mut self, entry: LedgerEntry) {
        match (self.entries.iter_mut()).find(|before| before.is_continued_by(&entry)) {
            Some(before) => {
                before.seeds += entry.seeds;
                before.done += entry.done;
                before.findings += entry.findings;
            }
            None => self.entries.push(entry),
        }
    }

    /// The sums by part.
    pub fn totals(&self) -> BTreeMap<&str, Total> {
        let mut totals: BTreeMap<&str, Total> = BTreeMap::new();
        for entry in &self.entries {
            let total = totals.entry(&entry.part).or_default();
            total.done += entry.done;
            total.findings += entry.findings;
        }
        totals
    }
}

impl fmt::Display for Volumes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEADER)?;
        self.entries.iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}

/// The sums as a person reads them.
pub fn table(volumes: &Volumes) -> String {
    let mut table = format!("{:<14} {:>14} {:>9}\n", "part", "done", "findings");
    for (part, Total { done, findings }) in volumes.totals() {
        table.push_str(&format!("{part:<14} {done:>14} {findings:>9}\n"));
    }
    table
}

/// A ledger that one process writes.
#[derive(Debug)]
pub struct Ledger {
    file: File,
    volumes: Volumes,
}

impl Ledger {
    /// Opens the file for writing, or creates it.
    ///
    /// # Errors
    ///
    /// The file cannot be read, has a line that is no entry, or another process has it open.
    pub fn open(path: &Path) -> Result<Self, String> {
        let named = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(|error| named(&error))?;
        if file.try_lock().is_err() {
            return Err(named(
                &"another soak writes it; let it end, or give --ledger another file",
            ));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| named(&error))?;
        let volumes = Volumes::parse(&text).map_err(|error| named(&error))?;
        Ok(Self { file, volumes })
    }

    /// What the ledger says.
    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Adds an entry and writes the file.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn add(&mut self, entry: LedgerEntry) -> io::Result<()> {
        self.volumes.add(entry);
        let text = self.volumes.to_string();
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())?;
        self.file.set_len(text.len() as u64)?;
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(part: &str, commit: &str, first: u64, seeds: u64) -> LedgerEntry {
        LedgerEntry {
            date: "2026-11-17".to_owned(),
            commit: commit.to_owned(),
            part: part.to_owned(),
            first,
            seeds,
            done: 2 * seeds,
            findings: 1,
        }
    }

    #[test]
    fn an_entry_that_continues_another_extends_it_and_seeds_never_repeat() {
        let mut volumes = Volumes::default();
        assert_eq!(volumes.next_seed("informers"), FIRST_SEED);

        volumes.add(entry("informers", "abc", FIRST_SEED, 10));
        volumes.add(entry("elections", "abc", FIRST_SEED, 5));
        volumes.add(entry("informers", "abc", FIRST_SEED + 10, 20));
        volumes.add(entry("informers", "def", FIRST_SEED + 30, 1));

        assert_eq!(volumes.next_seed("informers"), FIRST_SEED + 31);
        assert_eq!(volumes.entries.len(), 3);
        let total = volumes.totals()["informers"];
        assert_eq!((total.done, total.findings), (62, 3));
    }

    #[test]
    fn a_ledger_survives_being_written_and_read() {
        let mut volumes = Volumes::default();
        volumes.add(entry("informers", "abc", FIRST_SEED, 10));
        volumes.add(entry("informers", "def", FIRST_SEED + 10, 10));

        assert_eq!(Volumes::parse(&volumes.to_string()), Ok(volumes));
    }

    #[test]
    fn a_line_that_is_no_entry_is_named() {
        let error = Volumes::parse("# comment\n\n2026-11-17 abc informers x 1 1 0").unwrap_err();
        assert!(error.starts_with("line 3: expected DATE"), "{error}");
    }

    #[test]
    fn a_ledger_is_written_by_one_process_at_a_time() {
        let path = std::env::temp_dir().join(format!("volumes-{}.txt", std::process::id()));
        let mut first = Ledger::open(&path).expect("a new file");
        assert!(Ledger::open(&path).unwrap_err().contains("another soak"));
        first
            .add(entry("informers", "abc", FIRST_SEED, 10))
            .expect("written");
        drop(first);

        let again = Ledger::open(&path).expect("the same file");
        assert_eq!(again.volumes().next_seed("informers"), FIRST_SEED + 10);
        std::fs::remove_file(&path).expect("removed");
    }
}
