//! Executes a reader with one input after the other.

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use fastrand::Rng;
use rustix::time::{ClockId, clock_gettime};

use crate::ALLOCATOR;
use crate::mutate::{MAX_LENGTH, mutate};
use crate::outcome::Outcome;
use crate::readers::Reader;

/// The most processor time that an execution may take.
const SLOW: Duration = Duration::from_secs(1);
/// The largest corpus of a fuzzer. Beyond it, new inputs replace random ones.
const MAX_CORPUS: usize = 2048;

/// An input that a reader did not survive.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The name of the reader.
    pub reader: &'static str,
    /// What happened.
    pub what: String,
    /// The input.
    pub input: Vec<u8>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}, with {} bytes",
            self.reader,
            self.what,
            self.input.len()
        )
    }
}

/// Executes a reader once and returns the signature of the outcome.
///
/// # Errors
///
/// The reader panicked, took too long or allocated too much.
pub fn execute(reader: &mut Reader, input: &[u8]) -> Result<u64, Finding> {
    let finding = |reader: &Reader, what: String| Finding {
        reader: reader.name,
        what,
        input: input.to_vec(),
    };
    let limit = reader.memory_base + reader.memory_per_byte * input.len();
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let began = processor_time();
    let mut outcome = Outcome::default();
    let result = catch_unwind(AssertUnwindSafe(|| (reader.read)(input, &mut outcome)));
    let took = processor_time().saturating_sub(began);
    let allocated = ALLOCATOR.peak_usage().saturating_sub(before);
    if let Err(panic) = result {
        return Err(finding(reader, format!("panicked: {}", message(&*panic))));
    }
    if allocated > limit {
        return Err(finding(
            reader,
            format!("allocated {allocated} bytes, more than its limit of {limit}"),
        ));
    }
    if took >= SLOW {
        return Err(finding(reader, format!("took {took:?} of processor time")));
    }
    Ok(outcome.signature())
}

/// The time that this thread has run. Unlike a clock on the wall, it stands still while the machine is busy with something
/// else.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

/// A fuzzer of one reader. The same seed gives the same inputs.
#[derive(Debug)]
pub struct Fuzzer {
    reader: Reader,
    corpus: Vec<Vec<u8>>,
    seen: HashSet<u64>,
    rng: Rng,
    executions: u64,
    input: Vec<u8>,
}

impl Fuzzer {
    /// Starts with the seeds of the reader and a corpus.
    ///
    /// # Errors
    ///
    /// The reader does not survive one of them.
    pub fn new(mut reader: Reader, corpus: Vec<Vec<u8>>, seed: u64) -> Result<Self, Finding> {
        let mut seen = HashSet::new();
        let mut kept = Vec::new();
        let seeds = std::mem::take(&mut reader.seeds);
        for mut input in seeds.into_iter().chain(corpus) {
            input.truncate(MAX_LENGTH);
            seen.insert(execute(&mut reader, &input)?);
            kept.push(input);
        }
        assert!(!kept.is_empty(), "{} has no seeds", reader.name);
        Ok(Self {
            reader,
            corpus: kept,
            seen,
            rng: Rng::with_seed(seed),
            executions: 0,
            input: Vec::new(),
        })
    }

    /// Executes the reader with one new input, which `before` receives first.
    ///
    /// # Errors
    ///
    /// The reader does not survive it.
    pub fn step(&mut self, before: impl FnOnce(&[u8])) -> Result<(), Finding> {
        let base = self.rng.usize(0..self.corpus.len());
        let other = self.rng.usize(0..self.corpus.len());
        self.input.clear();
        self.input.extend_from_slice(&self.corpus[base]);
        mutate(
            &mut self.input,
            &self.corpus[other],
            self.reader.words,
            &mut self.rng,
        );
        before(&self.input);
        let signature = execute(&mut self.reader, &self.input)?;
        self.executions += 1;
        if self.seen.insert(signature) {
            if self.corpus.len() < MAX_CORPUS {
                self.corpus.push(self.input.clone());
            } else {
                self.corpus[other].clone_from(&self.input);
            }
        }
        Ok(())
    }

    /// The name of the reader.
    pub fn name(&self) -> &'static str {
        self.reader.name
    }

    /// The number of executions so far.
    pub fn executions(&self) -> u64 {
        self.executions
    }

    /// The number of different outcomes so far.
    pub fn outcomes(&self) -> usize {
        self.seen.len()
    }

    /// The shortest input of each outcome in the corpus.
    pub fn distinct(mut self) -> Vec<Vec<u8>> {
        self.corpus.sort_by_key(Vec::len);
        let mut seen = HashSet::new();
        let mut kept = Vec::new();
        for input in std::mem::take(&mut self.corpus) {
            if execute(&mut self.reader, &input).is_ok_and(|signature| seen.insert(signature)) {
                kept.push(input);
            }
        }
        kept
    }
}
