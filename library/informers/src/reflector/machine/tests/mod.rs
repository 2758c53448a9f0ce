//! Tests of the machine: inputs in, actions out, as text.

mod doubt;
mod list;
mod pacing;
mod shards;
mod watch;
mod watch_list;

use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::reflector::config::{InitialList, ReflectorConfig};
use crate::source::VersionMatch;
use crate::wire::StatusCause;

/// A machine with a manual clock and without jitter.
struct Harness {
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
            } else if request.version_match == Some(VersionMatch::Exact) {
                text.push('=');
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
        Action::Gather => "gather".to_owned(),
        Action::Forward => "forward".to_owned(),
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

impl Harness {
    fn new(config: ReflectorConfig) -> Self {
        Self {
            machine: Machine::new(config, true),
            now: Instant::now(),
        }
    }

    fn step(&mut self, input: Input<'_>) -> Vec<String> {
        let mut context = Context::new(self.now, 0.0);
        self.machine.step(input, &mut context);
        let is_commit = |action: &Action| matches!(action, Action::Commit { .. });
        if context.actions.iter().any(is_commit) {
            self.machine
                .step(Input::Committed, &mut Context::new(self.now, 0.0));
        }
        context.actions.iter().map(text).collect()
    }

    /// Advances the clock to the end of the pause and wakes the machine.
    fn wake(&mut self) -> Vec<String> {
        match self.machine.next(self.now) {
            Next::Sleep { until } => self.now = self.now.max(until),
            next => panic!("expected a pause, not {next:?}"),
        }
        self.step(Input::Woken)
    }

    /// Handles an input and waits for the request that follows.
    fn request_after(&mut self, input: Input<'_>) -> String {
        let mut actions = self.step(input);
        loop {
            let is_request = |action: &String| action.contains("rv=");
            match actions.into_iter().find(is_request) {
                Some(request) => return request,
                None => actions = self.wake(),
            }
        }
    }

    /// A page with one object, which is new.
    fn page_with_object(&mut self, version: &str, token: &str) -> Vec<String> {
        self.step(Input::ListedObject {
            first_key: Some(fastrand::u64(..)),
        });
        self.step(Input::PageEnd(&page(version, token)))
    }

    fn advance(&mut self, time: Duration) {
        self.now += time;
    }

    /// The time until the deadline of the open stream.
    fn timeout(&self) -> Duration {
        match self.machine.next(self.now) {
            Next::Read { deadline } => deadline - self.now,
            next => panic!("expected an open stream, not {next:?}"),
        }
    }

    /// Creates a machine that watches at this version.
    fn watching(config: ReflectorConfig, version: &str) -> Self {
        let mut harness = Self::new(ReflectorConfig {
            watch_list: false,
            ..config
        });
        harness.step(Input::Start);
        let actions = harness.step(Input::PageEnd(&page(version, "")));
        assert_eq!(
            actions,
            [format!("commit {version}"), format!("watch rv={version}")]
        );
        harness.machine.watch_list = harness.machine.config.watch_list;
        harness
    }

    fn event(&mut self, kind: EventKind, version: &str) -> Vec<String> {
        self.step(Input::Event {
            kind,
            version: Some(version),
        })
    }
}
