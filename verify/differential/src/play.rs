//! Plays a tape at a server with both informers running, and checks the events they delivered.

use std::path::Path;
use std::time::Duration;

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube_informers_e2e::{Proxy, Server, TIMEOUT};
use serde_json::json;
use tempfile::TempDir;

use crate::check::{Rules, Verdict, check, compare_causes};
use crate::history::History;
use crate::informer_process::{InformerProcess, InformerProgram};
use crate::line::{Event, Line};
use crate::tape::{Op, Tape, Who};

const FINALIZER: &str = "example.org/hold";

/// client-go waits up to a minute before it connects again.
const THEIR_TIMEOUT: Duration = Duration::from_secs(180);

/// The result of a tape.
#[derive(Debug)]
pub struct Outcome {
    /// The tape.
    pub tape: Tape,
    /// The true history.
    pub history: History,
    /// The events our informer delivered, and the result of the check.
    pub ours: (Vec<Line>, Verdict),
    /// The same for client-go's informer.
    pub theirs: (Vec<Line>, Verdict),
}

impl Outcome {
    /// Whether there are no violations.
    pub fn is_good(&self) -> bool {
        self.ours.1.offences.is_empty() && self.theirs.1.offences.is_empty()
    }
}

/// Plays a tape in its own namespace. `ours` and `theirs` are the programs of the two informers.
///
/// # Errors
///
/// The tape could not be played completely.
pub async fn run(server: &Server, tape: Tape, ours: &Path, theirs: &Path) -> Result<Outcome, String> {
    let directory = TempDir::new().map_err(|error| error.to_string())?;
    // Unique even on a cluster that was used before.
    let namespace = format!("e2e-tape-{}-{}", tape.seed, std::process::id());
    let mut player = Player::new(server, &tape, &namespace).await?;
    for &op in &tape.before {
        player.play(op, None).await?;
    }
    player.history.begin();

    let proxies = Proxies {
        ours: server.proxy().await.map_err(|error| error.to_string())?,
        theirs: server.proxy().await.map_err(|error| error.to_string())?,
    };
    let start = |program: InformerProgram<'_>, proxy| {
        InformerProcess::start(&program, server, proxy, &namespace, &tape, directory.path())
            .map_err(|error| error.to_string())
    };
    let program = InformerProgram {
        name: "ours",
        path: ours,
        options: vec![format!("--encoding={}", tape.encoding())],
    };
    let mut our_informer = start(program, &proxies.ours)?;
    let program = InformerProgram {
        name: "client-go",
        path: theirs,
        options: vec!["--print-lists".into()],
    };
    let mut their_informer = start(program, &proxies.theirs)?;
    let synced = |lines: &[Line]| lines.iter().any(|line| line.event == Event::Synced);
    our_informer.wait_for("initial list", TIMEOUT, synced).await?;
    their_informer.wait_for("initial list", TIMEOUT, synced).await?;

    for &op in &tape.ops {
        if op == Op::Settle {
            let arrived = |lines: &[Line]| all_delivered(lines, &player.history);
            our_informer
                .wait_for("delivery of all changes so far", TIMEOUT, arrived)
                .await?;
            their_informer
                .wait_for("delivery of all changes so far", THEIR_TIMEOUT, arrived)
                .await?;
        }
        player.play(op, Some(&proxies)).await?;
    }
    // The last write: an informer that has delivered it has delivered everything its watch sends.
    player.create("the-end", true, false).await?;

    let arrived = |lines: &[Line]| all_delivered(lines, &player.history);
    // An informer that does not get there is checked by the events it delivered.
    let timeouts: Vec<String> = [
        our_informer
            .wait_for("delivery of the final state", TIMEOUT, arrived)
            .await
            .err(),
        their_informer
            .wait_for("delivery of the final state", THEIR_TIMEOUT, arrived)
            .await
            .err(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut ours = our_informer.stop(TIMEOUT).await?;
    let mut theirs = their_informer.stop(TIMEOUT).await?;
    // The controllers of a full cluster create objects in every namespace.
    let of_the_tape = |line: &Line| line.name.is_empty() || player.history.wrote_about(&line.name);
    ours.retain(of_the_tape);
    theirs.retain(of_the_tape);
    player.clean_up().await?;
    let mut outcome = judge(tape, player.history, ours, theirs);
    for timeout in timeouts {
        outcome.ours.1.offences.push((String::new(), timeout));
    }
    Ok(outcome)
}

fn judge(tape: Tape, history: History, ours: Vec<Line>, theirs: Vec<Line>) -> Outcome {
    let ours_relists = tape.relists();
    let theirs_relists = ours_relists || lists_after_sync(&theirs) > 0;
    let rules = |client_go, relists| Rules { client_go, relists };
    let mut our_verdict = check(rules(false, ours_relists), &history, &ours);
    let their_verdict = check(rules(true, theirs_relists), &history, &theirs);
    compare_causes(theirs_relists, &ours, &theirs, &mut our_verdict);
    Outcome {
        tape,
        history,
        ours: (ours, our_verdict),
        theirs: (theirs, their_verdict),
    }
}

/// The number of lists that an informer requested after the initial one.
fn lists_after_sync(lines: &[Line]) -> usize {
    let after_sync = lines.iter().skip_while(|line| line.event != Event::Synced);
    after_sync.filter(|line| line.event == Event::Listing).count()
}

/// Whether the last delivered state of every object is its current state.
fn all_delivered(lines: &[Line], history: &History) -> bool {
    history
        .names()
        .all(|name| last_delivered(lines, name) == history.now(name))
}

/// The last delivered state of an object.
fn last_delivered<'a>(lines: &'a [Line], name: &str) -> Option<(&'a str, u64)> {
    let last = lines.iter().rev().find(|line| line.name == name)?;
    (last.event != Event::Deleted).then_some((last.uid.as_str(), last.version()))
}

struct Proxies {
    ours: Proxy,
    theirs: Proxy,
}

impl Proxies {
    fn of(&self, who: Who) -> impl Iterator<Item = &Proxy> {
        let ours = (who != Who::Theirs).then_some(&self.ours);
        let theirs = (who != Who::Ours).then_some(&self.theirs);
        ours.into_iter().chain(theirs)
    }
}

fn namespaces() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Namespace"), "namespaces")
}

/// Performs the writes of a tape and records the responses.
struct Player<'a> {
    server: &'a Server,
    namespace: String,
    resource: ApiResource,
    api: Api<DynamicObject>,
    selective: bool,
    history: History,
    steps: u64,
    /// Whether an object is in the selection, by name.
    selected: std::collections::BTreeMap<String, bool>,
    /// The pause after each operation.
    pause: Duration,
}

impl<'a> Player<'a> {
    async fn new(server: &'a Server, tape: &Tape, namespace: &str) -> Result<Player<'a>, String> {
        let [group, version, plural, kind] = tape.resource;
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        let client = server.client().map_err(|error| error.to_string())?;
        Api::<DynamicObject>::all_with(client.clone(), &namespaces())
            .create(
                &PostParams::default(),
                &DynamicObject::new(namespace, &namespaces()),
            )
            .await
            .map_err(|error| format!("namespace {namespace}: {error}"))?;
        Ok(Player {
            server,
            namespace: namespace.to_owned(),
            api: Api::namespaced_with(client, namespace, &resource),
            resource,
            selective: tape.selector.is_some(),
            history: History::default(),
            steps: 0,
            selected: Default::default(),
            pause: Duration::from_millis(2),
        })
    }

    async fn play(&mut self, op: Op, proxies: Option<&Proxies>) -> Result<(), String> {
        let of = |who: Who| proxies.into_iter().flat_map(move |proxies| proxies.of(who));
        let name = |object: usize| format!("object-{object:02}");
        match op {
            Op::Create {
                object,
                selected,
                held,
            } => self.create(&name(object), selected, held).await?,
            Op::Update(object) => self.patch(&name(object), json!({})).await?,
            Op::Flip(object) => {
                let name = name(object);
                let selected = !self.selected.get(&name).copied().unwrap_or_default();
                self.selected.insert(name.clone(), selected);
                let show = if selected { "yes" } else { "no" };
                self.patch(&name, json!({ "labels": { "show": show } })).await?;
            }
            Op::Hold(object) => {
                self.patch(&name(object), json!({ "finalizers": [FINALIZER] }))
                    .await?
            }
            Op::Release(object) => self.patch(&name(object), json!({ "finalizers": null })).await?,
            Op::Delete(object) => self.delete(&name(object)).await?,
            Op::Recreate(object) => {
                let name = name(object);
                let selected = self.selected.get(&name).copied().unwrap_or_default();
                self.delete(&name).await?;
                self.create(&name, selected, false).await?;
            }
            Op::Cut(who) => of(who).for_each(Proxy::cut),
            Op::Close(who) => of(who).for_each(Proxy::close),
            Op::Open(who) => of(who).for_each(Proxy::open),
            Op::Clog(who) => of(who).for_each(Proxy::clog),
            Op::Unclog(who) => of(who).for_each(Proxy::unclog),
            Op::Forget => {
                self.server.compact().await.map_err(|error| error.to_string())?;
                self.restart().await?;
            }
            Op::Restart => self.restart().await?,
            Op::Settle => {}
        }
        // Give both informers time to read; otherwise a whole tape would fit between two reads.
        tokio::time::sleep(self.pause).await;
        Ok(())
    }

    /// Deletes the namespace. Without controllers it stays until the cluster is removed.
    async fn clean_up(&self) -> Result<(), String> {
        let client = self.server.client().map_err(|error| error.to_string())?;
        let deleted = Api::<DynamicObject>::all_with(client, &namespaces())
            .delete(&self.namespace, &DeleteParams::default())
            .await;
        deleted
            .map(drop)
            .map_err(|error| format!("namespace {}: {error}", self.namespace))
    }

    async fn restart(&mut self) -> Result<(), String> {
        self.server
            .kill_and_restart()
            .await
            .map_err(|error| error.to_string())?;
        // The old client's connections are broken and would fail at the next write.
        let client = self.server.client().map_err(|error| error.to_string())?;
        self.api = Api::namespaced_with(client, &self.namespace, &self.resource);
        Ok(())
    }

    async fn create(&mut self, name: &str, selected: bool, held: bool) -> Result<(), String> {
        let mut object = DynamicObject::new(name, &self.resource);
        let show = if selected { "yes" } else { "no" };
        object.metadata.labels = Some([("show".to_owned(), show.to_owned())].into());
        object.metadata.finalizers = held.then(|| vec![FINALIZER.to_owned()]);
        if self.resource.kind == "Lease" {
            object.data = json!({ "spec": { "holderIdentity": "nobody" } });
        }
        let made = self.api.create(&PostParams::default(), &object).await;
        let made = made.map_err(|error| format!("creating {name}: {error}"))?;
        self.selected.insert(name.to_owned(), selected);
        self.wrote(&made)
    }

    async fn patch(&mut self, name: &str, mut metadata: serde_json::Value) -> Result<(), String> {
        self.steps += 1;
        metadata["annotations"] = json!({ "step": self.steps.to_string() });
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let patched = self.api.patch(name, &PatchParams::default(), &patch).await;
        let patched = patched.map_err(|error| format!("patching {name}: {error}"))?;
        let metadata = &patched.metadata;
        if metadata.deletion_timestamp.is_some() && metadata.finalizers.as_ref().is_none_or(Vec::is_empty) {
            self.history
                .removed(name, metadata.uid.as_deref().unwrap_or_default());
            return Ok(());
        }
        self.wrote(&patched)
    }

    async fn delete(&mut self, name: &str) -> Result<(), String> {
        let before = self.history.now(name).map(|(uid, _)| uid.to_owned());
        let deleted = self.api.delete(name, &DeleteParams::default()).await;
        let deleted = deleted.map_err(|error| format!("deleting {name}: {error}"))?;
        match deleted.left() {
            // It waits for its finalizer. Without one, the response for some kinds is the last state.
            Some(object)
                if object
                    .metadata
                    .finalizers
                    .as_ref()
                    .is_some_and(|held| !held.is_empty()) =>
            {
                self.wrote(&object)
            }
            _ => {
                self.history.removed(name, &before.unwrap_or_default());
                Ok(())
            }
        }
    }

    fn wrote(&mut self, object: &DynamicObject) -> Result<(), String> {
        let metadata = &object.metadata;
        let name = metadata.name.as_deref().unwrap_or_default();
        let version = metadata.resource_version.as_deref().unwrap_or_default();
        let version = version
            .parse()
            .map_err(|_| format!("{name} has the version {version:?}, which is not a number"))?;
        let labels = metadata.labels.as_ref();
        let shown = labels
            .and_then(|labels| labels.get("show"))
            .is_some_and(|show| show == "yes");
        let uid = metadata.uid.as_deref().unwrap_or_default();
        self.history.wrote(name, uid, version, shown || !self.selective);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One object: in the initial list at version 1, then updated twice.
    fn outcome(ours: &[&str], theirs: &[&str]) -> Outcome {
        let mut history = History::default();
        history.wrote("a", "u", 1, true);
        history.begin();
        history.wrote("a", "u", 2, true);
        history.wrote("a", "u", 3, true);
        let lines = |texts: &[&str]| -> Vec<Line> {
            let parsed = texts.iter().map(|text| serde_json::from_str(text).unwrap());
            parsed.collect()
        };
        judge(Tape::new(0, false), history, lines(ours), lines(theirs))
    }

    const INITIAL: &str = r#"{"event":"added","initial":true,"name":"a","uid":"u","resourceVersion":"1"}"#;
    const SYNCED: &str = r#"{"event":"synced"}"#;
    const LISTING: &str = r#"{"event":"listing"}"#;
    const SECOND: &str =
        r#"{"event":"updated","name":"a","uid":"u","resourceVersion":"2","oldResourceVersion":"1"}"#;
    const THIRD: &str =
        r#"{"event":"updated","name":"a","uid":"u","resourceVersion":"3","oldResourceVersion":"2"}"#;
    const SKIPPED: &str =
        r#"{"event":"updated","name":"a","uid":"u","resourceVersion":"3","oldResourceVersion":"1"}"#;
    const STORED: &str = r#"{"event":"stored","name":"a","uid":"u","resourceVersion":"3"}"#;

    const COMPLETE: [&str; 5] = [INITIAL, SYNCED, SECOND, THIRD, STORED];

    #[test]
    fn client_go_may_skip_states_only_if_it_listed_again() {
        let without = outcome(&COMPLETE, &[LISTING, INITIAL, SYNCED, SKIPPED, STORED]);
        assert!(!without.is_good(), "the initial list does not count");

        let with = outcome(&COMPLETE, &[LISTING, INITIAL, SYNCED, LISTING, SKIPPED, STORED]);
        assert!(with.is_good(), "{:?}", with.theirs.1.offences);
    }

    #[test]
    fn our_informer_delivers_every_state_though_client_go_listed_again() {
        let theirs = [INITIAL, SYNCED, LISTING, SKIPPED, STORED];
        assert!(!outcome(&[INITIAL, SYNCED, SKIPPED, STORED], &theirs).is_good());
    }
}
