//! Runs the command given on the command line and returns its exit code.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::cli::{Cli, Command, DASHBOARD_KINDS, Global, TopArgs};
use crate::cluster::Cluster;
use crate::output::notes::Notes;
use crate::process::failure::{Exit, Failure};
use crate::session::{Reach, Session};
use crate::{bench, history, output, record, replay, serve, shell, top, trouble, watch};

/// How long a blocked standard error may delay the exit of the program.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the program with these arguments; the first is the program's name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(words) = completing(&arguments) {
        shell::complete::run(&words);
        return ExitCode::SUCCESS;
    }
    let mut cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe is not an error.
            let _ = error.print();
            // Invalid arguments exit with code 1, as kubectl does; help and version are not errors.
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    if let Some(token) = cli.token() {
        cli.global.connection.api_token = Some(token);
    }
    let command = cli.command.unwrap_or(Command::Top(TopArgs {
        every: 5,
        ..TopArgs::default()
    }));
    let _logging = output::logging::init(cli.global.showing.log_format, draws(&command));
    match dispatch(command, &cli.global) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            report(&failure);
            ExitCode::from(failure.code())
        }
    }
}

/// The words to complete, if that is what the program was started for.
fn completing(arguments: &[OsString]) -> Option<Vec<String>> {
    let (program, words) = arguments.split_first()?;
    let words = match Path::new(program).file_stem() {
        Some(name) if name == shell::complete::FILE => words,
        _ => match words.split_first() {
            Some((first, words)) if first == shell::complete::WORD => words,
            _ => return None,
        },
    };
    Some(
        words
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
    )
}

/// Prints why the program ends, but does not wait for ever: a pipe that nobody reads blocks the writer, and no signal is
/// handled any more.
fn report(failure: &Failure) {
    if failure.text().is_empty() {
        return;
    }
    let (text, (done, written)) = (failure.to_string(), std::sync::mpsc::channel());
    let writer = kube_informers_core::tasks::spawn_thread("last words", move || {
        let _ = writeln!(io::stderr().lock(), "{text}");
        let _ = done.send(());
    });
    if writer.is_ok() {
        let _ = written.recv_timeout(REPORT_TIMEOUT);
    }
}

/// Whether the command draws on the terminal.
fn draws(command: &Command) -> bool {
    matches!(command, Command::Top(args) if !args.plain) && io::stdout().is_terminal()
}

fn dispatch(command: Command, global: &Global) -> Result<Exit, Failure> {
    // Commands without a server need no runtime.
    match &command {
        Command::Completion { shell } => return shell::completion(*shell),
        Command::Man => return shell::man(),
        Command::History(args) => return history::run(args, global),
        Command::At(args) => return history::at::run(args, global),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::error(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(serve_command(command, global));
    // Does not wait for threads that may never end, such as one that reads a credential plugin.
    runtime.shutdown_background();
    outcome
}

async fn serve_command(command: Command, global: &Global) -> Result<Exit, Failure> {
    match command {
        Command::Watch(args) => watch::run(args, global).await,
        Command::Top(args) => {
            let kinds = args.kinds.clone().unwrap_or_else(|| DASHBOARD_KINDS.to_owned());
            let (session, feed) = open(&kinds, global).await?;
            top::run(args, global, session, feed).await
        }
        Command::Serve(args) => {
            if global.showing.show_secrets {
                return Err(Failure::error(
                    "--show-secrets cannot be used with serve: a web page never shows the values of Secrets",
                ));
            }
            let kinds = args.kinds.clone().unwrap_or_else(|| DASHBOARD_KINDS.to_owned());
            let (session, feed) = open(&kinds, global).await?;
            serve::run(args, global, session, feed).await
        }
        Command::Testserver(arguments) => kube_testserver::program::run(arguments)
            .await
            .map(|()| Exit::Success)
            .map_err(Failure::error),
        Command::Bench(args) => bench::run(args, global).await,
        Command::Record(args) => record::run(args, global).await,
        Command::Replay(args) => replay::run(args, global).await,
        Command::History(args) => history::run(&args, global),
        Command::At(args) => history::at::run(&args, global),
        Command::Trouble(args) => {
            let (session, feed) = open(&args.kinds, global).await?;
            trouble::run(args, global, session, feed).await
        }
        Command::Completion { shell } => shell::completion(shell),
        Command::Man => shell::man(),
    }
}

/// A session of a dashboard: all namespaces by default.
async fn open(kinds: &str, global: &Global) -> Result<(Session, crate::session::Feed), Failure> {
    let notes = Notes::new(&global.showing);
    let cluster = Cluster::connect(&global.connection, &notes).await?;
    Session::open(cluster, kinds, global, Reach::Everywhere).await
}
