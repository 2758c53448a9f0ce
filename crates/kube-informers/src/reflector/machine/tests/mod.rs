//! The machine, table by table: inputs in, actions out, as text.

mod list;
mod shards;
mod watch;
mod watch_list;

use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::reflector::config::{InitialList, ReflectorConfig};
use crate::source::{StatusCause, VersionMatch};

/// A machine on a clock of its own, without jitter.
struct Bench {
    machine: Machine,
    now: Instant,
}

fn list_only() -> ReflectorConfig {
    ReflectorConfig {
        watch_list: false,
        ..ReflectorConfig::default()
    }
}

fn api(code: u16, reason: &str) -> SourceError {
    SourceError::Api(ApiError::new(code, reason, ""))
}

fn refused() -> SourceError {
    SourceError::Transport {
        context: "cannot connect".into(),
        refused: true,
        source: "refused".into(),
    }
}

fn broken() -> SourceError {
    SourceError::Transport {
        context: "connection lost".into(),
        refused: false,
        source: "reset".into(),
    }
}

fn page(version: &str, token: &str) -> ListMeta {
    ListMeta {
        resource_version: Some(version.to_owned()),
        continue_token: Some(token.to_owned()),
        ..ListMeta::default()
    }
}

fn text(action: &Action) -> String {
    match action {
        Action::List(request) => {
            let mut text = format!("list rv={}", request.resource_version.as_deref().unwrap_or("-"));
            if request.version_match == Some(VersionMatch::NotOlderThan) {
                text.push('+');
            }
            if let Some(token) = &request.continue_token {
                text.push_str(&format!(" token={token}"));
            }
            if let Some(limit) = request.limit {
                text.push_str(&format!(" limit={limit}"));
            }
            text
        }
        Action::Watch(request) => format!(
            "{} rv={}",
            if request.initial_events {
                "watch-list"
            } else {
                "watch"
            },
            request.resource_version.as_deref().unwrap_or("-")
        ),
        Action::Commit { resource_version, .. } => {
            format!("commit {}", resource_version.as_deref().unwrap_or("-"))
        }
        Action::Discard => "discard".to_owned(),
        Action::Bookmark { resource_version } => format!("bookmark {resource_version}"),
        Action::Report(report) => {
            let mut text = format!("{} ended, {}", report.operation, report.resume);
            if !report.pause.is_zero() {
                text.push_str(&format!(" in {:.1} s", report.pause.as_secs_f64()));
            }
            text
        }
    }
}

impl Bench {
    fn new(config: ReflectorConfig) -> Self {
        Self {
            machine: Machine::new(config, true),
            now: Instant::now(),
        }
    }

    fn tell(&mut self, input: Input<'_>) -> Vec<String> {
        let actions = self.machine.step(self.now, 0.0, input);
        if actions
            .iter()
            .any(|action| matches!(action, Action::Commit { .. }))
        {
            self.machine.commit_taken();
        }
        actions.iter().map(text).collect()
    }

    /// Lets time pass until the machine wants to be woken, and wakes it.
    fn wake(&mut self) -> Vec<String> {
        match self.machine.next(self.now) {
            Next::Sleep { until } => self.now = self.now.max(until),
            next => panic!("it does not sleep but waits for {next:?}"),
        }
        self.tell(Input::Woken)
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// How long it would wait for the open stream.
    fn timeout(&self) -> Duration {
        match self.machine.next(self.now) {
            Next::Read { deadline } => deadline - self.now,
            next => panic!("it does not read but waits for {next:?}"),
        }
    }

    /// A machine that watches at this version.
    fn watching(config: ReflectorConfig, version: &str) -> Self {
        let mut bench = Self::new(ReflectorConfig {
            watch_list: false,
            ..config
        });
        bench.tell(Input::Start);
        let actions = bench.tell(Input::PageEnd(&page(version, "")));
        assert_eq!(
            actions,
            [format!("commit {version}"), format!("watch rv={version}")]
        );
        bench.machine.watch_list = bench.machine.config.watch_list;
        bench
    }

    fn event(&mut self, kind: EventKind, version: &str) -> Disposition {
        self.machine.event(self.now, kind, Some(version))
    }
}
