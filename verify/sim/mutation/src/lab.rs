//! Tries mutants. Most are compiled at once, each behind its condition; those that cannot be are compiled one at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::mutants::Mutant;
use crate::results::Verdict;
use crate::schema::{self, Rewritten};
use crate::suites::{self, Diagnostic, Programs, Suite};

/// The crate whose sources are changed.
const LIBRARY: &str = "library/informers/src";

const CONDITION: &str = r#"//! Which mutant is active in this process.

use std::sync::LazyLock;

static ACTIVE: LazyLock<Option<usize>> = LazyLock::new(|| std::env::var("ACTIVE_MUTANT").ok()?.parse().ok());

pub(crate) fn is(number: usize) -> bool {
    *ACTIVE == Some(number)
}
"#;

/// A test program that takes longer with a mutant, by this factor and this much, hangs.
const SLOWER: u32 = 5;
const AT_LEAST: Duration = Duration::from_secs(20);
/// The limit of a suite that has not been timed as a whole.
const UNTIMED: Duration = Duration::from_secs(300);

/// Which tests of a suite are run.
#[derive(Clone, Copy)]
enum Selection {
    All,
    /// Those of the stage of the mutant.
    Stage,
    Others,
}

/// The unit tests, which take seconds. The other programs are built for the mutants that pass them.
const FIRST: [(Suite, Selection); 2] = [(Suite::Unit, Selection::Stage), (Suite::Unit, Selection::Others)];
/// The other tests that most likely notice a mutant.
const SECOND: [(Suite, Selection); 2] = [
    (Suite::Integration, Selection::Stage),
    (Suite::Simulator, Selection::All),
];
/// All others, for the mutants that are left.
const THIRD: [(Suite, Selection); 1] = [(Suite::Integration, Selection::Others)];

/// Words in the names of the tests of a stage, besides the name of the stage.
const TESTS: [(&str, &[&str]); 5] = [
    (
        "reflector",
        &[
            "faults::",
            "limits::",
            "list_trace::",
            "low_level::",
            "recovery::",
        ],
    ),
    ("store", &["limits::", "lister::", "low_level::"]),
    ("queue", &["fifo::"]),
    ("dispatcher", &["handlers::", "shutdown::"]),
    ("codec", &["bad_input::", "bodies::", "lazy::"]),
];

/// The arguments of a test program that select tests.
fn arguments(selection: Selection, stage: &str) -> Vec<&str> {
    let more = TESTS.iter().find(|(name, _)| *name == stage);
    let words = std::iter::once(stage).chain(more.into_iter().flat_map(|(_, words)| words.iter().copied()));
    match selection {
        Selection::All => vec![],
        Selection::Stage => words.collect(),
        Selection::Others => words.flat_map(|word| ["--skip", word]).collect(),
    }
}

/// Tests that are run without a mutant first: those of a suite, or of a stage in it.
type Timed<'a> = (Suite, Option<&'a str>);
type Limits<'a> = HashMap<Timed<'a>, Duration>;

/// What is run without a mutant before these steps. The integration tests take long, so that only those of the stages are run before
/// all of them are needed.
fn timed<'a>(steps: &[(Suite, Selection)], stages: &BTreeSet<&'a str>) -> Vec<Timed<'a>> {
    let of_step = |(suite, selection): &(Suite, Selection)| match (suite, selection) {
        (Suite::Integration, Selection::Stage) => stages.iter().map(|stage| (*suite, Some(*stage))).collect(),
        (Suite::Unit, Selection::Others) => vec![],
        _ => vec![(*suite, None)],
    };
    steps.iter().flat_map(of_step).collect()
}

pub struct Lab {
    /// The committed files.
    pristine: PathBuf,
    /// The same with mutants; this one is built.
    tree: PathBuf,
    target: PathBuf,
    /// Names of mutants that the compiler refuses behind a condition, so that the next run need not find out again.
    alone_file: PathBuf,
    mutants: Vec<Mutant>,
}

/// Receives each mutant with what happened to it.
pub type Report<'a> = dyn Fn(&Mutant, Verdict, &str) -> io::Result<()> + Sync + 'a;

impl Lab {
    /// A laboratory for these mutants in `folder`, which has the committed tree.
    pub fn new(folder: &Path, mutants: Vec<Mutant>) -> Self {
        Self {
            pristine: folder.join("tree"),
            tree: folder.join("mutated"),
            target: folder.join("build"),
            alone_file: folder.join("alone.txt"),
            mutants,
        }
    }

    /// Tries the mutants with these numbers, several at the same time.
    pub fn try_all(&self, numbers: &BTreeSet<usize>, jobs: usize, report: &Report) -> io::Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        let (mut programs, alone, unviable) = self.build_schema()?;
        for number in numbers.intersection(&unviable) {
            report(&self.mutants[*number], Verdict::Unviable, "")?;
        }
        let mut left: BTreeSet<usize> = numbers - &(&alone | &unviable);
        let mut limits = Limits::new();
        for steps in [&FIRST[..], &SECOND, &THIRD] {
            if left.is_empty() {
                break;
            }
            if steps.iter().any(|(suite, _)| !programs.contains_key(suite)) {
                println!("building the other tests");
                programs = suites::build(&self.tree, &self.target, &Suite::ALL)?.map_err(all_errors)?;
            }
            let stages: BTreeSet<&str> = left.iter().map(|number| self.mutants[*number].part()).collect();
            for timed in timed(steps, &stages) {
                self.baseline(&programs, timed, &mut limits)?;
            }
            left = self.try_together(&left, jobs, |number| {
                let failed = self.run(&programs, number, &limits, Some(number), steps)?;
                match &failed {
                    Some(test) => report(&self.mutants[number], Verdict::Caught, test)?,
                    None => println!("not caught yet: {}", self.mutants[number].name),
                }
                Ok(failed.is_some())
            })?;
        }
        for number in &left {
            report(&self.mutants[*number], Verdict::Missed, "")?;
        }
        for number in numbers.intersection(&alone) {
            self.try_alone(*number, &limits, report)?;
        }
        Ok(())
    }

    /// Calls a function with each number, several at the same time, and returns those for which it is false.
    fn try_together(
        &self,
        numbers: &BTreeSet<usize>,
        jobs: usize,
        is_caught: impl Fn(usize) -> io::Result<bool> + Sync,
    ) -> io::Result<BTreeSet<usize>> {
        let queue = Mutex::new(numbers.iter().copied());
        let next = || {
            queue
                .lock()
                .map_err(|_| io::Error::other("a worker panicked"))
                .map(|mut queue| queue.next())
        };
        thread::scope(|scope| {
            let work = || {
                let mut left = BTreeSet::new();
                while let Some(number) = next()? {
                    if !is_caught(number)? {
                        left.insert(number);
                    }
                }
                io::Result::Ok(left)
            };
            let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
            let mut left = BTreeSet::new();
            for worker in workers {
                left.extend(
                    worker
                        .join()
                        .map_err(|_| io::Error::other("a worker panicked"))??,
                );
            }
            Ok(left)
        })
    }

    /// Builds the unit tests with all mutants at once. Returns those that have to be built alone, and those that do not compile, too.
    fn build_schema(&self) -> io::Result<(Programs, BTreeSet<usize>, BTreeSet<usize>)> {
        let known = fs::read_to_string(&self.alone_file).unwrap_or_default();
        let known: BTreeSet<&str> = known.lines().collect();
        let mut alone: BTreeSet<usize> = (0..self.mutants.len())
            .filter(|number| known.contains(&*self.mutants[*number].name))
            .collect();
        let mut unviable = BTreeSet::new();
        loop {
            let files = self.rewrite(&mut alone)?;
            let texts = files
                .iter()
                .map(|(file, rewritten)| (file.clone(), rewritten.text.clone()));
            let mut texts: HashMap<String, String> = texts.collect();
            let library = texts.remove(&format!("{LIBRARY}/lib.rs"));
            let library = library.map_or_else(
                || fs::read_to_string(self.pristine.join(LIBRARY).join("lib.rs")),
                Ok,
            )?;
            texts.insert(
                format!("{LIBRARY}/lib.rs"),
                format!("{library}\nmod active_mutant;\n"),
            );
            texts.insert(format!("{LIBRARY}/active_mutant.rs"), CONDITION.to_owned());
            mirror(&self.pristine, &self.tree, &texts)?;
            println!("building {} mutants at once", self.mutants.len() - alone.len());
            let errors = match suites::build(&self.tree, &self.target, &[Suite::Unit])? {
                Ok(programs) => {
                    alone.retain(|number| !unviable.contains(number));
                    return Ok((programs, alone, unviable));
                }
                Err(errors) => errors,
            };
            let mut blamed = BTreeSet::new();
            for error in &errors {
                let blame = error
                    .places
                    .iter()
                    .find_map(|(file, bytes)| files.get(file)?.blame(bytes));
                let Some(blame) = blame else { continue };
                blamed.extend(blame.mutants);
                if blame.in_mutated && error.is_about_code_alone() {
                    unviable.extend(blame.mutants);
                }
            }
            if blamed.is_empty() {
                return Err(all_errors(errors));
            }
            for number in blamed.difference(&unviable) {
                println!("to be built alone: {}", self.mutants[*number].name);
            }
            alone.extend(blamed);
            let new = alone.iter().map(|number| &*self.mutants[*number].name);
            let names: BTreeSet<&str> = known.iter().copied().chain(new).collect();
            fs::write(&self.alone_file, Vec::from_iter(names).join("\n"))?;
        }
    }

    /// The changed files with all mutants but those that are built alone, to which it adds.
    fn rewrite(&self, alone: &mut BTreeSet<usize>) -> io::Result<BTreeMap<String, Rewritten>> {
        let mut by_file: BTreeMap<&str, Vec<(usize, &Mutant)>> = BTreeMap::new();
        for (number, mutant) in self
            .mutants
            .iter()
            .enumerate()
            .filter(|(number, _)| !alone.contains(number))
        {
            by_file.entry(&mutant.file).or_default().push((number, mutant));
        }
        let mut files = BTreeMap::new();
        for (file, mutants) in by_file {
            let source = fs::read_to_string(self.pristine.join(file))?;
            let rewritten = schema::rewrite(&source, &mutants)
                .map_err(|error| io::Error::other(format!("{file} is not Rust: {error}")))?;
            alone.extend(&rewritten.excluded);
            files.insert(file.to_owned(), rewritten);
        }
        Ok(files)
    }

    /// Adds how long the tests may take. Fails if one of them fails without a mutant. The time is kept beside the program until it is
    /// built again.
    fn baseline<'a>(&self, programs: &Programs, timed: Timed<'a>, limits: &mut Limits<'a>) -> io::Result<()> {
        let (suite, stage) = timed;
        let program = &programs[&suite];
        let selected = stage.map_or_else(Vec::new, |stage| arguments(Selection::Stage, stage));
        let name = stage.map_or(String::new(), |stage| format!("{stage}."));
        let file = program.with_extension(format!("{name}seconds"));
        let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        let is_current = modified(&file) > modified(program);
        let known = fs::read_to_string(&file).ok().filter(|_| is_current);
        let what = [Some(suite.name()), stage].into_iter().flatten();
        let what = what.collect::<Vec<_>>().join(" ");
        let seconds = match known.and_then(|text| text.parse().ok()) {
            Some(seconds) => seconds,
            None => {
                let began = Instant::now();
                let limit = Duration::from_secs(3600);
                if let Some(test) = suites::run(&self.tree, suite, program, &selected, None, limit)? {
                    return Err(io::Error::other(format!(
                        "without a mutant, {what} fails: {test}"
                    )));
                }
                began.elapsed().as_secs() + 1
            }
        };
        println!("without a mutant: {what} tests in {seconds} s");
        fs::write(file, seconds.to_string())?;
        limits.insert(timed, (Duration::from_secs(seconds) * SLOWER).max(AT_LEAST));
        Ok(())
    }

    /// Runs tests until one fails.
    fn run(
        &self,
        programs: &Programs,
        number: usize,
        limits: &Limits,
        active: Option<usize>,
        steps: &[(Suite, Selection)],
    ) -> io::Result<Option<String>> {
        let stage = self.mutants[number].part();
        for (suite, selection) in steps {
            let arguments = arguments(*selection, stage);
            let of_stage = limits
                .get(&(*suite, Some(stage)))
                .filter(|_| matches!(selection, Selection::Stage));
            let limit = of_stage.or(limits.get(&(*suite, None)));
            let limit = limit.copied().unwrap_or(UNTIMED);
            let program = &programs[suite];
            if let Some(test) = suites::run(&self.tree, *suite, program, &arguments, active, limit)? {
                return Ok(Some(format!("{}: {test}", suite.name())));
            }
        }
        Ok(None)
    }

    /// Tries one mutant, without any condition.
    fn try_alone(&self, number: usize, limits: &Limits, report: &Report) -> io::Result<()> {
        let mutant = &self.mutants[number];
        let source = fs::read_to_string(self.pristine.join(&mutant.file))?;
        let mutated = mutant.applied(&source, 0..source.len());
        mirror(
            &self.pristine,
            &self.tree,
            &HashMap::from([(mutant.file.clone(), mutated)]),
        )?;
        for steps in [FIRST.to_vec(), [&SECOND[..], &THIRD].concat()] {
            let suites: Vec<Suite> = steps.iter().map(|(suite, _)| *suite).collect();
            let Ok(programs) = suites::build(&self.tree, &self.target, &suites)? else {
                return report(mutant, Verdict::Unviable, "");
            };
            if let Some(test) = self.run(&programs, number, limits, None, &steps)? {
                return report(mutant, Verdict::Caught, &test);
            }
        }
        report(mutant, Verdict::Missed, "")
    }
}

fn all_errors(errors: Vec<Diagnostic>) -> io::Error {
    let all: String = errors.iter().map(|error| &*error.rendered).collect();
    io::Error::other(format!("no mutant is to blame for these errors:\n{all}"))
}

/// Makes `to` a copy of `from`, but with other texts for some files. Files that are equal keep their times, so that little is
/// built again.
fn mirror(from: &Path, to: &Path, texts: &HashMap<String, String>) -> io::Result<()> {
    let (wanted, present) = (files(from)?, files(to)?);
    for file in present
        .iter()
        .filter(|file| !wanted.contains(*file) && !texts.contains_key(*file))
    {
        fs::remove_file(to.join(file))?;
    }
    for file in wanted.iter().filter(|file| !texts.contains_key(*file)) {
        if fs::read(to.join(file)).ok() != Some(fs::read(from.join(file))?) {
            create_parent(&to.join(file))?;
            fs::copy(from.join(file), to.join(file))?;
        }
    }
    for (file, text) in texts {
        if fs::read_to_string(to.join(file)).ok().as_ref() != Some(text) {
            create_parent(&to.join(file))?;
            fs::write(to.join(file), text)?;
        }
    }
    Ok(())
}

fn create_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// All files below a folder, relative to it.
fn files(folder: &Path) -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(below) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder.join(&below)) else {
            continue;
        };
        for entry in entries {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.to_string_lossy().into_owned());
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_has_the_other_texts_and_keeps_what_is_equal() {
        let folder = std::env::temp_dir().join(format!("mutation-sample-mirror-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to"));
        for (file, text) in [("a/same", "1"), ("a/other", "2"), ("b", "3")] {
            create_parent(&from.join(file)).unwrap();
            fs::write(from.join(file), text).unwrap();
        }
        let texts = HashMap::from([("a/other", "5"), ("new", "6")]);
        let texts = texts
            .into_iter()
            .map(|(file, text)| (file.to_owned(), text.to_owned()))
            .collect();
        mirror(&from, &to, &texts).unwrap();
        let before = fs::metadata(to.join("a/same")).unwrap().modified().unwrap();
        assert_eq!(fs::read_to_string(to.join("a/other")).unwrap(), "5");
        assert_eq!(fs::read_to_string(to.join("new")).unwrap(), "6");

        mirror(&from, &to, &HashMap::new()).unwrap();
        assert_eq!(files(&to).unwrap(), files(&from).unwrap());
        assert_eq!(fs::read_to_string(to.join("a/other")).unwrap(), "2");
        assert_eq!(
            fs::metadata(to.join("a/same")).unwrap().modified().unwrap(),
            before
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_tests_of_a_stage_and_the_others_are_all_tests() {
        assert_eq!(arguments(Selection::Stage, "queue"), ["queue", "fifo::"]);
        assert_eq!(
            arguments(Selection::Others, "queue"),
            ["--skip", "queue", "--skip", "fifo::"]
        );
        assert_eq!(arguments(Selection::Stage, "new"), ["new"]);
        assert!(arguments(Selection::All, "queue").is_empty());
    }

    #[test]
    fn everything_is_run_once_without_a_mutant() {
        let stages = BTreeSet::from(["queue", "store"]);
        assert_eq!(timed(&FIRST, &stages), [(Suite::Unit, None)]);
        assert_eq!(
            timed(&SECOND, &stages),
            [
                (Suite::Integration, Some("queue")),
                (Suite::Integration, Some("store")),
                (Suite::Simulator, None),
            ]
        );
        assert_eq!(timed(&THIRD, &stages), [(Suite::Integration, None)]);
    }

    #[test]
    fn the_condition_reads_the_variable_that_a_run_sets() {
        assert!(CONDITION.contains(&format!("{:?}", suites::VARIABLE)));
    }
}
