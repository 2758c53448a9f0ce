//! Plants one bug after the other in a copy of the tree, and looks for each.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tokio::time::Instant;

use super::Bug;

/// A copy of the committed tree, with a build folder of its own.
#[derive(Debug)]
pub struct Lab {
    tree: PathBuf,
    build: PathBuf,
    seeds: u64,
}

/// What became of a planted bug.
#[derive(Debug)]
pub struct Hunt {
    /// What found it; `None` if nothing did.
    pub found: Option<String>,
    /// How long the build took.
    pub build: Duration,
    /// How long the search took.
    pub search: Duration,
}

impl fmt::Display for Hunt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (build, search) = (self.build.as_secs_f64(), self.search.as_secs_f64());
        let found = self.found.as_deref().unwrap_or("NOT FOUND");
        write!(f, "{found} (build {build:.0} s, search {search:.1} s)")
    }
}

impl Lab {
    /// Copies the commit that is checked out in `repository` to `folder`, or updates the copy that is there.
    ///
    /// # Errors
    ///
    /// Git fails.
    pub fn new(repository: &Path, folder: &Path, seeds: u64) -> Result<Self, Box<dyn Error>> {
        let (tree, build) = (folder.join("tree"), folder.join("build"));
        std::fs::create_dir_all(&tree)?;
        let mut git = Command::new("git");
        git.current_dir(repository)
            .env("GIT_INDEX_FILE", folder.join("index"));
        git.arg(format!("--work-tree={}", tree.display()));
        git.args(["read-tree", "--reset", "-u", "HEAD"]);
        succeed(&mut git)?;
        Ok(Self { tree, build, seeds })
    }

    /// The tree.
    #[must_use]
    pub fn tree(&self) -> &Path {
        &self.tree
    }

    /// Runs a command without a bug. Otherwise a failure would show nothing.
    ///
    /// # Errors
    ///
    /// It fails.
    pub fn check(&self, found_by: &[String]) -> Result<(), Box<dyn Error>> {
        self.compile(found_by)?;
        match self.search(found_by)? {
            Some(failure) => Err(format!("without a bug, `{}` fails: {failure}", found_by.join(" ")).into()),
            None => Ok(()),
        }
    }

    /// Plants a bug, looks for it, and removes it.
    ///
    /// # Errors
    ///
    /// The bug does not fit the tree, or does not compile.
    pub fn hunt(&self, bug: &Bug) -> Result<Hunt, Box<dyn Error>> {
        let files: Vec<PathBuf> = bug.edits.iter().map(|edit| self.tree.join(&edit.file)).collect();
        let before = files.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()?;
        let hunt = self.hunt_planted(bug);
        for (file, text) in files.iter().zip(before) {
            std::fs::write(file, text)?;
        }
        hunt
    }

    fn hunt_planted(&self, bug: &Bug) -> Result<Hunt, Box<dyn Error>> {
        bug.plant(&self.tree)?;
        let began = Instant::now();
        self.compile(&bug.found_by)
            .map_err(|error| format!("{}: {error}", bug.name))?;
        let build = began.elapsed();
        let began = Instant::now();
        let mut found = self.search(&bug.found_by)?;
        if let (Some(found), Some(most)) = (&mut found, bug.shortens_to) {
            let entries = self.shorten(found)?;
            if entries > most {
                return Err(format!("{}: shortened to {entries} entries, not to {most}", bug.name).into());
            }
            found.push_str(&format!(", shortened to {entries} entries"));
        }
        Ok(Hunt {
            found,
            build,
            search: began.elapsed(),
        })
    }

    fn cargo(&self, command: &str) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(&self.tree).arg(command).args([
            "--quiet",
            "--locked",
            "--profile",
            "sim",
            "--target-dir",
        ]);
        // A bug changes a few lines: most of a build is that of the bug before.
        cargo.arg(&self.build).env("CARGO_INCREMENTAL", "1");
        cargo
    }

    fn compile(&self, found_by: &[String]) -> Result<(), Box<dyn Error>> {
        match found_by {
            [test, rest @ ..] if test == "test" => succeed(self.cargo("test").arg("--no-run").args(rest)),
            _ => succeed(self.cargo("build").args(["-p", "kube-sim"])),
        }
    }

    /// Runs a command of the simulator, or tests. Returns what failed.
    fn search(&self, found_by: &[String]) -> Result<Option<String>, Box<dyn Error>> {
        let output = match found_by {
            [test, rest @ ..] if test == "test" => self.cargo("test").args(rest).output()?,
            _ => self
                .simulator()
                .args(found_by)
                .args(["--seeds", &self.seeds.to_string()])
                .output()?,
        };
        Ok((!output.status.success()).then(|| failure(&output)))
    }

    fn simulator(&self) -> Command {
        Command::new(self.build.join("sim/kube-sim"))
    }

    /// Shortens the tape of a failure. Returns the number of its entries.
    fn shorten(&self, found: &str) -> Result<usize, Box<dyn Error>> {
        let value = |name: &str| found.split_whitespace().find_map(|word| word.strip_prefix(name));
        let (seed, profile) = (
            value("seed=").ok_or("no seed")?,
            value("profile=").ok_or("no profile")?,
        );
        let output = self
            .simulator()
            .args([
                "shrink",
                "--name",
                "planted",
                "--seed",
                seed,
                "--profile",
                profile,
            ])
            .output()?;
        std::fs::remove_file(self.tree.join("verify/sim/regressions/planted.tape"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let entries = text.lines().last().and_then(|line| line.split_once(" entries, "));
        let (entries, _) = entries.ok_or_else(|| format!("`shrink` printed {text:?}"))?;
        Ok(entries.parse()?)
    }
}

/// What a command that failed says about it: the line with the invariant or the names of tests, or else its last line.
fn failure(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]]
        .map(String::from_utf8_lossy)
        .concat();
    let names = |line: &&str| {
        line.contains("invariant=") || line.contains("violates") || line.ends_with("... FAILED")
    };
    let line = text
        .lines()
        .find(names)
        .or(text.lines().last())
        .unwrap_or_default();
    let line = line.split("; replay:").next().unwrap_or_default();
    line.split(" hash=").next().unwrap_or_default().to_owned()
}

fn succeed(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}\n{error}", output.status).into())
}
