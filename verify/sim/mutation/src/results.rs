//! The file with the results: one line per mutant of the sample, kept in the repository.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not tried yet.
    Open,
    /// A test failed, or did not end.
    Caught,
    /// All tests passed.
    Missed,
    /// Behaves like the original. Written by hand, with the reason.
    Equivalent,
    /// Does not compile.
    Unviable,
    /// The mutated code does not exist any more.
    Gone,
}

const VERDICTS: [(Verdict, &str); 6] = [
    (Verdict::Open, "open"),
    (Verdict::Caught, "caught"),
    (Verdict::Missed, "missed"),
    (Verdict::Equivalent, "equivalent"),
    (Verdict::Unviable, "unviable"),
    (Verdict::Gone, "gone"),
];

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            VERDICTS
                .iter()
                .find(|(verdict, _)| verdict == self)
                .map_or("", |(_, word)| word),
        )
    }
}

/// What happened to one mutant.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub verdict: Verdict,
    /// The suite and the test that failed, or why the mutant is equivalent.
    pub detail: String,
    pub name: String,
}

pub struct Results {
    path: PathBuf,
    header: String,
    pub lines: Vec<Line>,
}

impl Results {
    pub fn new(path: &Path, title: &str, names: Vec<String>) -> Self {
        let line = |name| Line {
            verdict: Verdict::Open,
            detail: String::new(),
            name,
        };
        Self {
            path: path.to_owned(),
            header: format!("# {title}\n# result\tmutant\tfirst test that failed, or the reason\n"),
            lines: names.into_iter().map(line).collect(),
        }
    }

    pub fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let (header, lines): (Vec<&str>, Vec<&str>) =
            text.split_inclusive('\n').partition(|line| line.starts_with('#'));
        let lines = lines.into_iter().map(|line| {
            parse(line.trim_end()).ok_or_else(|| {
                io::Error::other(format!(
                    "{}: expected `RESULT<tab>MUTANT<tab>DETAIL`: {line}",
                    path.display()
                ))
            })
        });
        Ok(Self {
            path: path.to_owned(),
            header: header.concat(),
            lines: lines.collect::<io::Result<_>>()?,
        })
    }

    /// Replaces the file, so that an interrupted run leaves a whole one.
    pub fn write(&self) -> io::Result<()> {
        let mut text = self.header.clone();
        for Line {
            verdict,
            detail,
            name,
        } in &self.lines
        {
            text.push_str(format!("{verdict}\t{name}\t{detail}").trim_end());
            text.push('\n');
        }
        let new = self.path.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(new, &self.path)
    }

    pub fn set(&mut self, name: &str, verdict: Verdict, detail: &str) {
        for line in self.lines.iter_mut().filter(|line| line.name == name) {
            line.verdict = verdict;
            line.detail = detail.to_owned();
        }
    }

    pub fn summary(&self) -> String {
        let count = |verdict| self.lines.iter().filter(|line| line.verdict == verdict).count();
        let by = |suite| {
            let caught = self.lines.iter().filter(|line| line.verdict == Verdict::Caught);
            caught.filter(|line| line.detail.starts_with(suite)).count()
        };
        let caught = count(Verdict::Caught);
        let compiled = caught + count(Verdict::Missed) + count(Verdict::Equivalent);
        let mut text = format!(
            "{} of {} tried:",
            self.lines.len() - count(Verdict::Open),
            self.lines.len()
        );
        for (verdict, word) in &VERDICTS[1..] {
            text.push_str(&format!(" {} {word},", count(*verdict)));
        }
        text.pop();
        if compiled > 0 {
            text.push_str(&format!(
                "\ncaught: {:.1} % of the {compiled} that compile (unit tests {}, simulator {}, integration tests {})",
                100.0 * caught as f64 / compiled as f64,
                by("unit"),
                by("simulator"),
                by("integration"),
            ));
        }
        text
    }
}

fn parse(line: &str) -> Option<Line> {
    let mut columns = line.splitn(3, '\t');
    let word = columns.next()?;
    let (verdict, _) = VERDICTS.iter().find(|(_, known)| *known == word)?;
    let name = columns.next()?.to_owned();
    Some(Line {
        verdict: *verdict,
        name,
        detail: columns.next().unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_survive_being_written_and_read() {
        let path = std::env::temp_dir().join(format!("mutation-sample-{}.txt", std::process::id()));
        let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let mut results = Results::new(&path, "A sample.", names);
        results.set("b", Verdict::Caught, "unit queue::x");
        results.set("c", Verdict::Equivalent, "both are zero");
        results.set("d", Verdict::Unviable, "");
        results.write().unwrap();
        let read = Results::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(read.lines, results.lines);
        assert_eq!(read.header, results.header);
        assert_eq!(
            read.summary(),
            "3 of 4 tried: 1 caught, 0 missed, 1 equivalent, 1 unviable, 0 gone\n\
             caught: 50.0 % of the 2 that compile (unit tests 1, simulator 0, integration tests 0)"
        );
    }

    #[test]
    fn a_line_that_is_no_result_is_refused() {
        assert_eq!(parse("forgotten\tx"), None);
        assert_eq!(parse("caught"), None);
    }
}
