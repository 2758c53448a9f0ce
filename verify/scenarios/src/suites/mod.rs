//! The results of third-party test suites on two servers: read, compared with what is known, and written as a table.
//!
//! `verify/scenarios/suites` runs the suites and leaves their reports in a directory. The path of a report names server, project and suite:
//! `embedded/controller-runtime/pkg/client.json`. `e2e suites` does the rest with this module.

mod exceptions;
mod page;
mod read;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use exceptions::{Exceptions, Servers};
pub use page::{page, replace_between_markers};
pub use read::{ginkgo, go_tests, libtest};

/// The result of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It passed, perhaps not at the first attempt.
    Passed,
    /// With the first line of the message.
    Failed(String),
    /// The suite itself skips it.
    Skipped,
}

/// The outcome of each spec of a suite, by its full name.
pub type Specs = BTreeMap<String, Outcome>;

/// The name that a failure of a whole suite is reported as: a setup that failed, or a program that crashed.
pub const WHOLE_SUITE: &str = "(the suite)";

/// The results of one server: by project and suite.
pub type Results = BTreeMap<Suite, Specs>;

/// A suite, for example `pkg/client` of `controller-runtime`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suite {
    /// The project, which may have several suites.
    pub project: String,
    /// Its name within the project.
    pub name: String,
}

impl std::fmt::Display for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.project, self.name)
    }
}

/// What `verify/scenarios/suites` leaves behind.
#[derive(Debug)]
pub struct Run {
    /// `None` if the suites did not run on the real server.
    pub real: Option<Results>,
    /// The results of the embedded server.
    pub embedded: Results,
    /// The lines `name value` of the file `versions`: `kube-apiserver v1.37.1`.
    pub versions: BTreeMap<String, String>,
}

impl Run {
    /// Reads the results in a directory.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or is not the report of a suite.
    pub fn read(directory: &Path) -> io::Result<Run> {
        let real = directory.join("real");
        let versions = fs::read_to_string(directory.join("versions"))?;
        Ok(Run {
            real: real.is_dir().then(|| results(&real)).transpose()?,
            embedded: results(&directory.join("embedded"))?,
            versions: versions
                .lines()
                .filter_map(|line| line.split_once(' '))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        })
    }
}

/// All reports below a directory whose entries are the projects.
fn results(directory: &Path) -> io::Result<Results> {
    let mut results = Results::new();
    for path in files(directory)? {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let relative = path.strip_prefix(directory).unwrap_or(&path).with_extension("");
        let relative = relative.to_string_lossy().replace('\\', "/");
        let Some((project, name)) = relative.split_once('/') else {
            return Err(invalid(format!("{} belongs to no project", path.display())));
        };
        let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        let read = match path.extension().and_then(|extension| extension.to_str()) {
            Some("ginkgo") => {
                ginkgo(&text).map_err(|error| invalid(format!("{}: {error}", path.display())))?
            }
            Some("go") => go_tests(&text),
            Some("rust") => libtest(&text),
            _ => continue, // logs
        };
        let suite = Suite {
            project: project.to_owned(),
            name: name.to_owned(),
        };
        results.entry(suite).or_default().extend(read);
    }
    Ok(results)
}

fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}
