//! What was found, as text or as JSON lines. Scripts depend on the names: `docs/reference/program.md` has them.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::board::{Board, Churner, Found, Writer};
use crate::cli::TroubleOutput;
use crate::objects::kinds::Kind;
use crate::output::style::{Colours, DELETED, DIM, FIELD, HEAD};
use crate::session::observe::Health;
use crate::text::safe::SafeText;
use crate::text::units::time;

/// One finding.
pub(super) enum Trouble {
    /// An object is rewritten in a loop, or managers overwrite each other.
    Loop { kind: Arc<Kind>, found: Found },
    /// A manager writes too much.
    Churn {
        when: Timestamp,
        kind: Arc<Kind>,
        manager: String,
        per_minute: f64,
    },
    /// A cache is stale.
    Stale {
        when: Timestamp,
        kind: Arc<Kind>,
        age: Duration,
        error: Option<String>,
    },
}

/// How findings are printed.
pub(super) struct Report {
    pub(super) format: TroubleOutput,
    pub(super) colours: Colours,
}

impl Report {
    /// The line of a finding.
    pub(super) fn trouble(&self, trouble: &Trouble) -> SafeText {
        match self.format {
            TroubleOutput::Json => SafeText::json(&trouble.json()),
            TroubleOutput::Text => {
                let (when, word) = (trouble.when(), trouble.word());
                let mut line = self.colours.paint(DIM, time(when));
                line.push(" ");
                line.push(self.colours.paint(DELETED, SafeText::line(format!("{word:<5}"))));
                for (style, text) in trouble.parts() {
                    line.push("  ");
                    line.push(match style {
                        Some(style) => self.colours.paint(style, SafeText::line(text)),
                        None => SafeText::line(text),
                    });
                }
                line
            }
        }
    }

    /// The end of the output: who writes most, and whether the watches are current.
    pub(super) fn summary(
        &self,
        board: &Board,
        writers: &[Churner<Writer>],
        findings: usize,
        time: Duration,
    ) -> SafeText {
        let kind = |index: usize| board.kinds.get(index).map(|known| &*known.kind);
        if self.format == TroubleOutput::Json {
            let writers: Vec<Value> = writers
                .iter()
                .filter_map(|writer| {
                    Some(json!({
                        "manager": writer.what.manager,
                        "kind": kind(writer.what.kind)?.kind,
                        "apiVersion": kind(writer.what.kind)?.api_version(),
                        "changes": writer.total,
                        "perMinute": rounded(writer.per_minute),
                    }))
                })
                .collect();
            let watches: Vec<Value> = board
                .kinds
                .iter()
                .map(|known| {
                    let health = known.view.as_ref().map_or(Health::CatchingUp, |view| view.health);
                    let age = known.view.as_ref().and_then(|view| view.version_age);
                    json!({
                        "kind": known.kind.kind,
                        "apiVersion": known.kind.api_version(),
                        "state": health.word(),
                        "ageSeconds": age.map(|age| age.as_secs()),
                    })
                })
                .collect();
            return SafeText::json(&json!({
                "type": "summary", "findings": findings, "seconds": time.as_secs(),
                "managers": writers, "watches": watches,
            }));
        }
        let mut text = SafeText::lines(match findings {
            0 => "no trouble found".to_owned(),
            1 => "1 finding".to_owned(),
            several => format!("{several} findings"),
        });
        text.push(SafeText::line(format!(" in {} s", time.as_secs())));
        if !writers.is_empty() {
            let head = format!(
                "\n{:<40} {:<28} {:>8} {:>8}",
                "MANAGER", "KIND", "CHANGES", "PER MIN"
            );
            text.push(self.colours.paint(HEAD, SafeText::lines(head)));
        }
        for writer in writers {
            let name = kind(writer.what.kind).map(Kind::full_name).unwrap_or_default();
            text.push("\n");
            text.push(SafeText::line(format!(
                "{:<40} {name:<28} {:>8} {:>8.1}",
                writer.what.manager, writer.total, writer.per_minute
            )));
        }
        for known in &board.kinds {
            let view = known.view.as_ref();
            if let Some(health) = view
                .map(|view| view.health)
                .filter(|health| *health != Health::Live)
            {
                let line = format!("the watch of {} is {}", known.kind.full_name(), health.word());
                text.push("\n");
                text.push(self.colours.paint(DELETED, SafeText::line(line)));
            }
        }
        text
    }
}

impl Trouble {
    fn when(&self) -> Timestamp {
        match self {
            Self::Loop { found, .. } => found.when,
            Self::Churn { when, .. } | Self::Stale { when, .. } => *when,
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Loop { found, .. } => found.word(),
            Self::Churn { .. } => "churn",
            Self::Stale { .. } => "stale",
        }
    }

    /// The parts of a line of text.
    fn parts(&self) -> Vec<(Option<anstyle::Style>, String)> {
        match self {
            Self::Loop { kind, found } => {
                let finding = &found.finding;
                let managers = match finding.managers.as_slice() {
                    [] => "by an unknown manager".to_owned(),
                    [one] => format!("by {one}"),
                    several => format!("by {}", several.join(" and ")),
                };
                vec![
                    (None, format!("{} {}", kind.label(), finding.key)),
                    (Some(FIELD), finding.path.clone()),
                    (None, managers),
                    (Some(DIM), format!("{} changes", finding.changes)),
                ]
            }
            Self::Churn {
                kind,
                manager,
                per_minute,
                ..
            } => vec![
                (None, kind.full_name()),
                (None, format!("by {manager}")),
                (Some(DIM), format!("{per_minute:.1} changes a minute")),
            ],
            Self::Stale { kind, age, error, .. } => {
                let age = format!("not confirmed by the server for {} s", age.as_secs());
                let error = error.iter().map(|error| (Some(DIM), error.clone()));
                [(None, kind.full_name()), (None, age)]
                    .into_iter()
                    .chain(error)
                    .collect()
            }
        }
    }

    fn json(&self) -> Value {
        let (Self::Loop { kind, .. } | Self::Churn { kind, .. } | Self::Stale { kind, .. }) = self;
        let mut line = json!({
            "time": self.when(), "type": self.word(), "kind": kind.kind, "apiVersion": kind.api_version(),
        });
        match self {
            Self::Loop { found, .. } => {
                let finding = &found.finding;
                line["namespace"] = json!(finding.key.namespace());
                line["name"] = json!(finding.key.name());
                line["field"] = json!(finding.path);
                line["managers"] = json!(finding.managers);
                line["changes"] = json!(finding.changes);
            }
            Self::Churn {
                manager, per_minute, ..
            } => {
                line["managers"] = json!([manager]);
                line["perMinute"] = json!(rounded(*per_minute));
            }
            Self::Stale { age, error, .. } => {
                line["ageSeconds"] = json!(age.as_secs());
                line["error"] = json!(error);
            }
        }
        line
    }
}

/// To one decimal.
fn rounded(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}
