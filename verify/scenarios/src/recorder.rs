//! The command line of the commands that record what a real server does, or check that their recordings are still current.

use std::process::ExitCode;

use crate::NoServer;

/// What to do with the recordings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorder {
    /// Whether to save what the server does, or to compare it.
    pub write: bool,
    wanted: Vec<String>,
}

impl Recorder {
    /// Reads `write|check [NAME ...]`; `None` if the arguments are something else.
    fn parse(arguments: &[String]) -> Option<Recorder> {
        let (mode, wanted) = arguments.split_first()?;
        let write = match mode.as_str() {
            "write" => true,
            "check" => false,
            _ => return None,
        };
        Some(Recorder {
            write,
            wanted: wanted.to_vec(),
        })
    }

    /// Whether a recording was asked for. Without names all are.
    pub fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|wanted| wanted == name)
    }
}

/// Runs a command of this kind: `run` returns the number of differences, and any fails. `item` is what the arguments name, `subject` what
/// is skipped where no server can be started.
pub async fn main(
    program: &str,
    item: &str,
    subject: &str,
    arguments: &[String],
    run: impl AsyncFnOnce(&Recorder) -> Result<usize, NoServer>,
) -> ExitCode {
    let outcome = match Recorder::parse(arguments) {
        Some(recorder) => run(&recorder).await,
        None => Err(NoServer::Failed(format!(
            "usage: {program} write|check [{item} ...]"
        ))),
    };
    match outcome.or_else(|error| error.skip_loudly(subject).map(|()| 0)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Recorder> {
        let arguments: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Recorder::parse(&arguments)
    }

    #[test]
    fn names_select_recordings_and_no_name_selects_all() {
        let all = parse("check").unwrap();
        assert!(!all.write && all.wants("objects"));
        let one = parse("write objects").unwrap();
        assert!(one.write && one.wants("objects") && !one.wants("lists"));
        assert_eq!(parse(""), None);
        assert_eq!(parse("objects write"), None);
    }
}
