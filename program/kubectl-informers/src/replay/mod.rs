//! `replay`: an API server with the objects of a recording, at a moment and onwards.

mod front;
pub mod reports;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use kube_testserver::kinds::Kind as ServedKind;
use kube_testserver::{TestServer, TestServerBuilder};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use crate::cli::Global;
use crate::cli::recording::{Pace, ReplayArgs};
use crate::objects::kinds::Kind;
use crate::output::notes::Notes;
use crate::output::writer::Output;
use crate::process::failure::{Exit, Failure};
use crate::process::signals;
use crate::recording::cursor::{Cursor, Happened, Step};
use crate::recording::reader::{Recording, timestamp};
use crate::recording::record::RecordKind;
use crate::recording::state::Held;
use front::Front;
use reports::{Report, Reports};

/// A recording that is being played.
pub struct Player {
    server: TestServer,
    cursor: Cursor,
    /// The first moment, in microseconds since 1970.
    start: i64,
    speed: f64,
    reports: Reports,
}

impl Player {
    /// The settings of a server that knows the kinds of a recording.
    ///
    /// # Errors
    ///
    /// The recording cannot be read.
    pub fn builder(recording: &mut Recording) -> Result<TestServerBuilder, Failure> {
        let builtin = TestServer::new().kinds();
        let mut builder = TestServer::builder();
        for kind in recording.kinds()? {
            if builtin
                .resource(&kind.group, &kind.version, &kind.plural)
                .is_none()
            {
                builder = builder.kind(served(&kind));
            }
        }
        Ok(builder)
    }

    /// Fills the server with the objects of the first moment.
    ///
    /// # Errors
    ///
    /// The recording cannot be read, or does not cover the moment.
    pub fn new(server: TestServer, recording: Recording, pace: &Pace) -> Result<Self, Failure> {
        let (begins, ends) = recording.times();
        let all: crate::recording::cursor::Keep = Box::new(|_, _| true);
        let mut cursor = match &pace.from {
            Some(text) => {
                let from = recording.moment(text)?;
                if !(begins.as_microsecond()..=ends.as_microsecond()).contains(&from) {
                    return Err(Failure::error(format!(
                        "{} is outside the recording: it covers {begins} to {ends}",
                        timestamp(from)
                    )));
                }
                Cursor::seek(recording, all, from)?
            }
            None => {
                let mut cursor = Cursor::new(recording, all);
                cursor.skip_initial()?;
                cursor
            }
        };
        let start = cursor.time().max(begins.as_microsecond());
        let reports = Reports::default();
        let (objects, _) = cursor.state().objects();
        for (kind, key, held) in objects {
            if let Err(error) = store(&server, &kind, &held) {
                let text = format!("{} {key} cannot be replayed: {error}", kind.label());
                reports.say(Report::about(text));
            }
        }
        Ok(Self {
            server,
            cursor,
            start,
            speed: pace.speed.0,
            reports,
        })
    }

    /// What it reports.
    pub fn reports(&self) -> &Reports {
        &self.reports
    }

    /// The first moment.
    pub fn start(&self) -> Timestamp {
        timestamp(self.start)
    }

    /// Plays the recording to its end. The server then keeps the last state.
    ///
    /// # Errors
    ///
    /// The recording cannot be read.
    pub async fn play(mut self) -> Result<(), Failure> {
        self.report_damage();
        if self.speed <= 0.0 {
            return Ok(());
        }
        let began = Instant::now();
        while let Some(step) = self.cursor.next()? {
            if let Step::Began {
                previous: Some((end, clean)),
                ..
            } = step
            {
                sleep_until(self.moment(began, end)).await;
                let how = if clean { "stopped" } else { "was killed" };
                self.reports
                    .interrupted(timestamp(end), format!("the recorder {how}"));
            }
            sleep_until(self.moment(began, step.time())).await;
            self.apply(&step);
            self.report_damage();
        }
        // That of the last blocks.
        self.report_damage();
        self.reports.say(Report::about(
            "The recording ends here; the objects stay as they are",
        ));
        Ok(())
    }

    /// When a moment of the recording is played.
    fn moment(&self, began: Instant, time: i64) -> Instant {
        let recorded = time.saturating_sub(self.start).max(0) as f64 / 1e6;
        let after = Duration::try_from_secs_f64(recorded / self.speed);
        began + after.unwrap_or(FAR).min(FAR)
    }

    fn report_damage(&mut self) {
        for damage in self.cursor.recording().take_damage() {
            self.reports.say(Report::about(damage));
        }
    }

    fn apply(&self, step: &Step) {
        let applied = match step {
            Step::Change {
                kind, key, happened, ..
            } => match happened {
                Happened::Added { new, .. } | Happened::Updated { new, .. } => store(&self.server, kind, new),
                Happened::Deleted { .. } => self
                    .server
                    .mirror_deletion(&kind.full_name(), key.as_str())
                    .map(drop)
                    .map_err(|error| error.to_string()),
            },
            Step::Note { time, kind, text } => {
                let (when, text) = (timestamp(*time), text.clone());
                match kind {
                    RecordKind::Interrupted => self.reports.interrupted(when, text),
                    RecordKind::Recovered => self.reports.recovered(when, text),
                    _ => self.reports.say(Report {
                        when: Some(when),
                        ..Report::about(text)
                    }),
                }
                Ok(())
            }
            Step::Began { time, previous } => {
                if previous.is_some() {
                    let text = "the recorder starts again: what changed in between is merged";
                    self.reports.recovered(timestamp(*time), text.to_owned());
                }
                Ok(())
            }
        };
        if let (Err(error), Step::Change { kind, key, .. }) = (applied, step) {
            let text = format!("{} {key} cannot be replayed: {error}", kind.label());
            self.reports.say(Report::about(text));
        }
    }
}

/// A century. Longer times would overflow the clock.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A kind that is not built in.
fn served(kind: &Kind) -> ServedKind {
    let mut served = ServedKind::new(&kind.group, &kind.version, &kind.kind).plural(&kind.plural);
    if !kind.namespaced {
        served = served.cluster_scoped();
    }
    for name in &kind.short_names {
        served = served.short_name(name);
    }
    for category in &kind.categories {
        served = served.category(category);
    }
    served.with_status()
}

fn store(server: &TestServer, kind: &Kind, held: &Held) -> Result<(), String> {
    let mut object: Value = serde_json::from_slice(&held.object).map_err(|_| "it is not JSON".to_owned())?;
    if kind.is_secret() {
        encode_placeholders(&mut object);
    }
    server.mirror(object).map_err(|error| error.to_string())
}

/// Masked values are no base64, which clients expect of Secrets, and no list of managed fields.
fn encode_placeholders(object: &mut Value) {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    if let Some(Value::Object(data)) = object.get_mut("data") {
        for value in data.values_mut() {
            if let Value::String(text) = value
                && text.starts_with('<')
            {
                *text = STANDARD.encode(text.as_bytes());
            }
        }
    }
    if let Some(Value::Object(metadata)) = object.get_mut("metadata")
        && metadata
            .get("managedFields")
            .is_some_and(|fields| !fields.is_array())
    {
        metadata.remove("managedFields");
    }
}

/// Serves the recording until it is stopped.
///
/// # Errors
///
/// The recording cannot be read, or the address cannot be listened on.
pub async fn run(args: ReplayArgs, global: &Global) -> Result<Exit, Failure> {
    let stopped = signals::stopped();
    let notes = Notes::new(&global.showing);
    let mut recording = Recording::open(&args.file)?;
    let address = SocketAddr::new(args.bind, args.port);
    if !address.ip().is_loopback() {
        return Err(Failure::error(format!(
            "--bind {} is not a loopback address: a replay has no access control",
            args.bind
        )));
    }
    // Versions of an earlier replay are too old for this one.
    let version = u64::try_from(Timestamp::now().as_microsecond()).unwrap_or(1);
    let server = Player::builder(&mut recording)?.first_version(version).build();
    let front = Front::start(address, &server).await?;
    let (_, ends) = recording.times();
    let player = Player::new(server.clone(), recording, &args.pace)?;
    let (past, mut reports) = player.reports().subscribe();
    let kubeconfig = Kubeconfig::write(&front, args.write_kubeconfig.as_deref())?;
    let speed = match player.speed <= 0.0 {
        true => "and stays there".to_owned(),
        false => format!("and goes on to {ends} at {} times the speed", args.pace.speed),
    };
    let url = front.url();
    let path = kubeconfig.path.display();
    let text = format!(
        "Replaying {} on {url}: it begins at {} {speed}\n\n  kubectl --kubeconfig {path} get pods -A\n\nCtrl-C stops it.\n",
        args.file.display(),
        player.start(),
    );
    {
        let mut out = io::stdout().lock();
        // A closed standard output does not stop the server.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
    let mut out = Output::start()?;
    for report in &past {
        notes.warn_to(&mut out, &said(report));
    }
    out.submit();
    let playing = player.play();
    tokio::pin!(stopped, playing);
    let mut plays = true;
    let exit = loop {
        // All are cancel-safe: the signal is waited for once, the playing future is kept, a message is returned or kept.
        tokio::select! {
            biased;
            exit = &mut stopped => break exit,
            written = out.written(), if out.is_busy() => written?,
            // A reader that was too slow misses the oldest.
            Ok(report) = reports.recv(), if !out.is_busy() => {
                notes.warn_to(&mut out, &said(&report));
                out.submit();
            }
            played = &mut playing, if plays => {
                played?;
                plays = false;
            }
        }
    };
    front.stop(&server).await;
    Ok(exit)
}

/// A report with its moment in front.
fn said(report: &Report) -> String {
    match report.when {
        Some(when) => format!("{when} {}", report.text),
        None => report.text.clone(),
    }
}

/// The kubeconfig of a replay. A temporary one is removed at the end.
struct Kubeconfig {
    path: PathBuf,
    temporary: bool,
}

impl Kubeconfig {
    fn write(front: &Front, path: Option<&Path>) -> Result<Self, Failure> {
        let text = front.kubeconfig()?;
        let (path, temporary) = match path {
            Some(path) => (path.to_owned(), false),
            None => {
                let port = front.url();
                let port = port.rsplit(':').next().unwrap_or_default().to_owned();
                let name = format!("kubectl-informers-replay-{}-{port}.yaml", std::process::id());
                (std::env::temp_dir().join(name), true)
            }
        };
        let mut options = std::fs::OpenOptions::new();
        options.write(true);
        // A temporary file must not be one that somebody else has prepared.
        match temporary {
            true => options.create_new(true),
            false => options.create(true).truncate(true),
        };
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| {
                Failure::error(format!("cannot write the kubeconfig {}: {error}", path.display()))
            })?;
        Ok(Self { path, temporary })
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        if self.temporary {
            // Best effort: leftovers are in the temporary directory.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn masked_secrets_are_valid_secrets() {
        let mut object = json!({
            "metadata": { "name": "db", "managedFields": "<40 bytes>" },
            "data": { "masked": "<12 bytes>", "plain": "YWFhYQ==" },
        });
        encode_placeholders(&mut object);
        assert_eq!(
            object,
            json!({ "metadata": { "name": "db" }, "data": { "masked": "PDEyIGJ5dGVzPg==", "plain": "YWFhYQ==" } })
        );
    }
}
