//! Completion for `kubectl informers <TAB>`: kubectl runs `kubectl_complete-informers` with the words typed so far, and reads
//! one candidate per line, with a description after a tab, and a directive in the last line.

use std::io::{self, Write};
use std::time::Duration;

use clap::builder::ValueHint;
use clap::{Arg, CommandFactory, Parser};
use kube::api::{Api, DynamicObject, ListParams};

use crate::cli::{Cli, Global};
use crate::cluster::discovery::Discovery;
use crate::cluster::{self, Cluster};
use crate::objects::kinds::{Catalogue, Kind};
use crate::output::notes::Notes;
use crate::text::safe::SafeText;

/// The word that selects completion, instead of a command.
pub const WORD: &str = "__complete";
/// The name of the program that kubectl runs.
pub const FILE: &str = "kubectl_complete-informers";

/// How long the user waits for candidates from the server.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Names that are requested.
const MOST_NAMES: u32 = 500;

/// What the shell does with the candidates, as cobra numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Directive {
    /// Completes file names if there are none.
    Files = 0,
    /// Adds no space: the word goes on. Completes no file names.
    NoSpace = 6,
    /// Completes no file names.
    NoFiles = 4,
}

/// The candidates and what is done with them.
type Candidates = (Vec<String>, Directive);

/// What is to be completed.
enum Wanted<'a> {
    /// These words.
    Words(Vec<String>),
    /// The value of an option.
    Value(&'a Arg),
    /// Kinds, or an object as in `pod/cart` if it may be named.
    Kinds { names: bool },
    /// The names of objects of this kind.
    Names(String),
    /// Nothing is known about it.
    Nothing,
}

/// Prints the candidates for the last of these words. Whatever goes wrong, there are just no candidates: a message would end up
/// in the middle of the command that the user types.
pub fn run(words: &[String]) {
    let (candidates, directive) = complete(words);
    let mut text = String::new();
    for candidate in candidates {
        let parts = candidate.split('\t').map(|part| SafeText::line(part).to_string());
        text.push_str(&parts.collect::<Vec<_>>().join("\t"));
        text.push('\n');
    }
    let _ = writeln!(io::stdout().lock(), "{text}:{}", directive as u8);
}

fn complete(words: &[String]) -> Candidates {
    let mut command = Cli::command();
    command.build();
    let (last, before) = match words.split_last() {
        Some((last, before)) => (last.as_str(), before),
        None => ("", words),
    };
    let line = Line::read(&command, before);
    // `--namespace=sh` is an option and the beginning of its value.
    let (prefix, last, wanted) = match (last.split_once('='), line.wanted(last)) {
        (Some((option, value)), _) if last.starts_with("--") => {
            let wanted = line.option(option).map_or(Wanted::Nothing, Wanted::Value);
            (format!("{option}="), value, wanted)
        }
        (_, wanted) => (String::new(), last, wanted),
    };
    let (candidates, directive) = line.candidates(wanted, last);
    let fitting = candidates
        .into_iter()
        .filter(|candidate| candidate.starts_with(last));
    let mut fitting: Vec<String> = fitting.map(|candidate| format!("{prefix}{candidate}")).collect();
    fitting.sort_unstable();
    fitting.dedup();
    (fitting, directive)
}

/// The words in front of the one that is completed.
struct Line<'a> {
    command: &'a clap::Command,
    /// The last word is an option that needs a value.
    pending: Option<&'a Arg>,
    positional: Vec<&'a str>,
    /// Options of every command, as they can be parsed again.
    global: Vec<String>,
    has_command: bool,
}

impl<'a> Line<'a> {
    fn read(root: &'a clap::Command, words: &'a [String]) -> Self {
        let mut line = Self {
            command: root,
            pending: None,
            positional: Vec::new(),
            global: Vec::new(),
            has_command: false,
        };
        for word in words {
            if let Some(option) = line.pending.take() {
                line.remember(option, Some(word));
            } else if word.len() > 1 && word.starts_with('-') {
                let (name, value) = match word.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None => (word.as_str(), None),
                };
                match line.option(name) {
                    Some(option) if takes_value(option) && value.is_none() => line.pending = Some(option),
                    Some(option) => line.remember(option, value),
                    None => {}
                }
            } else if let Some(command) = root.find_subcommand(word).filter(|_| !line.has_command) {
                line.command = command;
                line.has_command = true;
            } else {
                line.positional.push(word);
            }
        }
        line
    }

    fn remember(&mut self, option: &Arg, value: Option<&str>) {
        if let Some(name) = option.get_long().filter(|_| option.is_global_set()) {
            self.global.push(match value {
                Some(value) => format!("--{name}={value}"),
                None => format!("--{name}"),
            });
        }
    }

    /// The option of this name, with its dashes.
    fn option(&self, name: &str) -> Option<&'a Arg> {
        let is_called = |arg: &&Arg| match name.strip_prefix("--") {
            Some(long) => {
                let aliases = arg.get_visible_aliases().unwrap_or_default();
                arg.get_long() == Some(long) || aliases.contains(&long)
            }
            None => arg
                .get_short()
                .is_some_and(|short| name.strip_prefix('-') == Some(short.to_string().as_str())),
        };
        self.command.get_arguments().find(is_called)
    }

    fn wanted(&self, last: &str) -> Wanted<'a> {
        if let Some(option) = self.pending {
            return Wanted::Value(option);
        }
        if last.starts_with('-') {
            return Wanted::Words(self.options());
        }
        if !self.has_command {
            return Wanted::Words(self.commands());
        }
        match (self.command.get_name(), self.positional.as_slice()) {
            ("watch", []) => Wanted::Kinds { names: true },
            ("watch", [kind]) if !kind.contains(['/', ',']) => Wanted::Names((*kind).to_owned()),
            ("top" | "serve" | "bench" | "trouble", []) => Wanted::Kinds { names: false },
            (_, before) => match self.command.get_positionals().nth(before.len()) {
                Some(argument) => Wanted::Value(argument),
                None => Wanted::Nothing,
            },
        }
    }

    fn commands(&self) -> Vec<String> {
        let commands = self
            .command
            .get_subcommands()
            .filter(|command| !command.is_hide_set());
        commands
            .map(|command| described(command.get_name(), command.get_about()))
            .collect()
    }

    fn options(&self) -> Vec<String> {
        let options = self.command.get_arguments().filter(|arg| !arg.is_hide_set());
        options
            .filter_map(|arg| Some(described(&format!("--{}", arg.get_long()?), arg.get_help())))
            .collect()
    }

    fn candidates(&self, wanted: Wanted<'_>, last: &str) -> Candidates {
        match wanted {
            Wanted::Words(words) => (words, Directive::NoFiles),
            Wanted::Nothing => (Vec::new(), Directive::NoFiles),
            Wanted::Value(option) => match option.get_id().as_str() {
                "context" | "cluster" | "user" => {
                    let words = self.parsed().and_then(|global| {
                        cluster::configured(&global.connection, option.get_id().as_str()).ok()
                    });
                    (words.unwrap_or_default(), Directive::NoFiles)
                }
                "namespace" => {
                    let names = self.ask(async |server| server.namespaces().await);
                    (in_list(names.unwrap_or_default(), last), Directive::NoFiles)
                }
                _ => {
                    let values = option.get_possible_values();
                    let words: Vec<String> = values.iter().map(|value| value.get_name().to_owned()).collect();
                    let is_file = matches!(option.get_value_hint(), ValueHint::FilePath | ValueHint::DirPath)
                        || option.get_value_names().is_some_and(|names| {
                            names.iter().any(|name| matches!(name.as_str(), "FILE" | "DIR"))
                        });
                    match is_file {
                        true => (Vec::new(), Directive::Files),
                        false => (words, Directive::NoFiles),
                    }
                }
            },
            Wanted::Kinds { names: true } if last.contains('/') => {
                let kind = last.split('/').next().unwrap_or_default().to_owned();
                let names = self
                    .ask(async |server| server.names(&kind).await)
                    .unwrap_or_default();
                let names = names.into_iter().map(|name| format!("{kind}/{name}"));
                (names.collect(), Directive::NoFiles)
            }
            Wanted::Kinds { .. } => {
                let kinds = self.ask(async |server| server.kinds().await).unwrap_or_default();
                // A comma or a name may follow.
                (in_list(kinds, last), Directive::NoSpace)
            }
            Wanted::Names(kind) => {
                let names = self.ask(async |server| server.names(&kind).await);
                (names.unwrap_or_default(), Directive::NoFiles)
            }
        }
    }

    /// The options of every command.
    fn parsed(&self) -> Option<Global> {
        let words = ["kubectl-informers", "top"].map(str::to_owned).into_iter();
        Cli::try_parse_from(words.chain(self.global.iter().cloned()))
            .ok()
            .map(|cli| cli.global)
    }

    /// Asks the server that the options name; `None` if there is none or it does not answer in time.
    fn ask(&self, question: impl AsyncFnOnce(Server) -> Option<Vec<String>>) -> Option<Vec<String>> {
        let global = self.parsed()?;
        // Nobody wants to complete the names of an embedded cluster that is about to be started.
        if !Cluster::is_configured(&global.connection).ok()? {
            return None;
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .ok()?;
        let answer = runtime.block_on(async {
            tokio::time::timeout(TIMEOUT, async {
                let cluster = Cluster::connect(&global.connection, &Notes::silent())
                    .await
                    .ok()?;
                question(Server { global, cluster }).await
            })
            .await
        });
        runtime.shutdown_background();
        answer.ok()?
    }
}

/// The server that is asked.
struct Server {
    global: Global,
    cluster: Cluster,
}

impl Server {
    async fn catalogue(&self) -> Option<Catalogue> {
        let cluster = &self.cluster;
        Discovery::new(cluster.client.clone(), &cluster.server, cluster.cache_dir.clone())
            .limits(self.global.limits)
            .catalogue()
            .await
            .ok()
    }

    async fn kinds(&self) -> Option<Vec<String>> {
        let catalogue = self.catalogue().await?;
        let kinds = catalogue.preferred().filter(|kind| kind.is_watchable());
        Some(kinds.map(Kind::full_name).collect())
    }

    async fn namespaces(&self) -> Option<Vec<String>> {
        self.names("namespaces").await
    }

    async fn names(&self, kind: &str) -> Option<Vec<String>> {
        let kind = self.catalogue().await?.find_all(kind).ok()?.into_iter().next()?;
        let client = self.cluster.client.clone();
        let resource = kube::api::ApiResource {
            group: kind.group.clone(),
            version: kind.version.clone(),
            api_version: kind.api_version(),
            kind: kind.kind.clone(),
            plural: kind.plural.clone(),
        };
        let selection = &self.global.selection;
        let api: Api<DynamicObject> = match kind.namespaced && !selection.all_namespaces {
            true => {
                let namespace = selection.namespace.first().unwrap_or(&self.cluster.namespace);
                Api::namespaced_with(client, namespace, &resource)
            }
            false => Api::all_with(client, &resource),
        };
        let list = api
            .list_metadata(&ListParams::default().limit(MOST_NAMES))
            .await
            .ok()?;
        Some(
            list.items
                .into_iter()
                .filter_map(|item| item.metadata.name)
                .collect(),
        )
    }
}

/// A word with its description.
fn described(word: &str, about: Option<&clap::builder::StyledStr>) -> String {
    let about = about.map(ToString::to_string).unwrap_or_default();
    match about.lines().next() {
        Some(about) => format!("{word}\t{about}"),
        None => word.to_owned(),
    }
}

fn takes_value(option: &Arg) -> bool {
    option.get_action().takes_values()
}

/// The words after those that the last one already holds: `pods,dep` is followed by the rest of `deployments`.
fn in_list(words: Vec<String>, last: &str) -> Vec<String> {
    match last.rsplit_once(',') {
        Some((before, _)) => words.iter().map(|word| format!("{before},{word}")).collect(),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(typed: &str) -> (Vec<String>, Directive) {
        let typed: Vec<String> = typed.split(' ').map(str::to_owned).collect();
        let (candidates, directive) = complete(&typed);
        let names = candidates
            .iter()
            .map(|one| one.split('\t').next().unwrap_or_default().to_owned());
        (names.collect(), directive)
    }

    #[test]
    fn commands_and_options_are_completed() {
        assert_eq!(words("t").0, ["testserver", "top", "trouble"]);
        assert_eq!(words("watch --since").0, ["--since-sync"]);
        assert_eq!(words("watch -n shop pods x --until a --timeou").0, ["--timeout"]);
        assert_eq!(words("watch pods -o b").0, ["brief"]);
        assert_eq!(words("watch pods --output=w").0, ["--output=wide"]);
        assert_eq!(words("completion z").0, ["zsh"]);
        assert!(complete(&["wat".to_owned()]).0[0].starts_with("watch\tShow objects"));
    }

    #[test]
    fn files_are_left_to_the_shell() {
        assert_eq!(words("--kubeconfig "), (Vec::new(), Directive::Files));
        assert_eq!(words("watch pods --only "), (Vec::new(), Directive::NoFiles));
    }

    #[test]
    fn lists_are_continued() {
        let kinds = vec!["pods".to_owned(), "nodes".to_owned()];
        assert_eq!(in_list(kinds, "deploy,po"), ["deploy,pods", "deploy,nodes"]);
    }
}
