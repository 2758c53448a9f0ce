//! Completion scripts and the manual page.

pub mod complete;

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::process::failure::{Exit, Failure};

/// The file name of the program.
const FILE: &str = "kubectl-informers";

/// Prints the completion script of a shell.
///
/// # Errors
///
/// The output is closed.
pub fn completion(shell: Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), FILE, &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(Exit::Success)
}

/// Prints the manual page, all commands included.
///
/// # Errors
///
/// The output is closed.
pub fn man() -> Result<Exit, Failure> {
    let mut page = Vec::new();
    let mut command = command();
    command.build();
    let man = clap_mangen::Man::new(command.clone());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let title = format!("kubectl informers {}", sub.get_name());
        writeln!(page, ".SH \"{}\"", title.to_uppercase())?;
        // Global options are listed once, further down.
        let own = sub.clone().bin_name(title).mut_args(|arg| {
            let everywhere = arg.is_global_set() || matches!(arg.get_id().as_str(), "help" | "version");
            arg.hide(everywhere)
        });
        let man = clap_mangen::Man::new(own);
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
    }
    man.render_options_section(&mut page)?;
    man.render_extra_section(&mut page)?;
    man.render_version_section(&mut page)?;
    io::stdout().lock().write_all(&page)?;
    Ok(Exit::Success)
}

/// Named after the file: shells and man find completions and pages by it.
fn command() -> clap::Command {
    Cli::command().bin_name(FILE)
}
