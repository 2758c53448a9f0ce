//! The command line.

use std::path::PathBuf;

const HELP: &str = "usage: sample_controller [--kubeconfig PATH [--install]] [--workers N]

  --kubeconfig PATH  work for the current context of this file; without it, for the embedded server
  --install          create the definition of Foo there, if it is missing
  --workers N        how many Foos are worked on at a time (2)";

/// The parsed arguments.
#[derive(Debug)]
pub struct Flags {
    pub kubeconfig: Option<PathBuf>,
    pub install: bool,
    pub workers: usize,
}

impl Flags {
    /// Parses the arguments; the error is a message for the user.
    pub fn from_arguments(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut flags = Flags {
            kubeconfig: None,
            install: false,
            workers: 2,
        };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .ok_or(format!("{argument} needs a value\n\n{HELP}"))
            };
            match argument.as_str() {
                "--kubeconfig" => flags.kubeconfig = Some(value()?.into()),
                "--install" => flags.install = true,
                "--workers" => {
                    let text = value()?;
                    let number = text.parse().ok().filter(|number| *number > 0);
                    flags.workers =
                        number.ok_or(format!("--workers takes a number above 0, not {text:?}"))?;
                }
                "--help" | "-h" => return Err(HELP.to_owned()),
                other => return Err(format!("unknown argument {other:?}\n\n{HELP}")),
            }
        }
        Ok(flags)
    }
}
