//! The driver of the benchmark; `verify/bench/run` builds everything and starts it in the root of the repository.

mod book;
mod cluster;
mod controller;
mod forms;
mod kinds;
mod opponent;
mod proc;
mod real;
mod replayed;
mod report;
mod results;
mod workqueue;

use std::path::{Path, PathBuf};

use book::Book;
use cluster::Cluster;
use kube_informers_bench::kind::Kind;
use kube_informers_bench::replay::recording;
use opponent::{Job, Opponent, Peer, Programs, Server};
use replayed::{Amount, Replay};
use tokio::signal::unix::{SignalKind, signal};

/// Errors end the benchmark with a message.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const USAGE: &str = "usage: verify/bench/run [--quick] [--objects N] [--runs N]
                        [--only real,updates,replay,packed,kinds,controller,queue]
                        [--peers ours,ours-jemalloc,client-go,client-go-json,
                         kube-runtime,packed,packed-on-arrival,compressed,projected,metadata]
                        [--generated]
                        [--write FILE] [--results FILE]
  --quick      1,000 objects, one run: shows that everything works, measures nothing
  --objects    how many pods (20,000)
  --runs       of how many runs the median is taken (5)
  --only       which parts
  --peers      which peers; the last five, which are forms of our cache, for the part packed
  --generated  skips the real server, and replays generated pods instead of recorded ones
  --write      puts the tables into this document; with --only packed or kinds, into the part for these
  --results    writes the medians into this file, as JSON";

struct Options {
    quick: bool,
    objects: usize,
    runs: usize,
    only: Option<String>,
    /// All, if not given.
    peers: Option<Vec<Peer>>,
    generated: bool,
    write: Option<PathBuf>,
    results: Option<PathBuf>,
    client_go: Option<PathBuf>,
    jemalloc: Option<PathBuf>,
}

impl Options {
    fn from_arguments() -> Result<Self> {
        let mut options = Self {
            quick: false,
            objects: 20_000,
            runs: 5,
            only: None,
            peers: None,
            generated: false,
            write: None,
            results: None,
            client_go: None,
            jemalloc: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .ok_or_else(|| format!("{argument} needs a value\n{USAGE}"))
            };
            match argument.as_str() {
                "--quick" => (options.quick, options.objects, options.runs) = (true, 1_000, 1),
                "--objects" => options.objects = value()?.parse()?,
                "--runs" => options.runs = value()?.parse()?,
                "--only" => options.only = Some(value()?),
                "--peers" => options.peers = Some(peers(&value()?)?),
                "--generated" => options.generated = true,
                "--write" => options.write = Some(value()?.into()),
                "--results" => options.results = Some(value()?.into()),
                "--client-go" => options.client_go = Some(value()?.into()),
                "--jemalloc" => options.jemalloc = Some(value()?.into()),
                _ => return Err(USAGE.into()),
            }
        }
        Ok(options)
    }

    fn wants(&self, part: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| only.split(',').any(|wanted| wanted == part))
    }

    fn amount(&self) -> Amount {
        Amount {
            objects: self.objects,
            storm: if self.quick { 2_000 } else { 40_000 },
            per_second: 2_000,
            seconds: if self.quick { 1 } else { 3 },
        }
    }
}

fn peers(names: &str) -> Result<Vec<Peer>> {
    let peer = |name: &str| {
        let found = (Peer::ALL.into_iter().chain(Peer::FORMS)).find(|peer| peer.argument() == name);
        found.ok_or_else(|| format!("there is no peer {name:?}\n{USAGE}").into())
    };
    names.split(',').map(peer).collect()
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::from_arguments()?;
    let repository = std::env::current_dir()?;
    let directory = std::env::current_exe()?
        .parent()
        .map(Path::to_owned)
        .unwrap_or_default();
    let programs = Programs {
        directory,
        client_go: options.client_go.clone(),
        jemalloc: options.jemalloc.clone(),
        wanted: options.peers.clone(),
    };
    let load = load_average();
    let work = std::env::temp_dir().join(format!("kube-informers-bench-{}", std::process::id()));
    std::fs::create_dir_all(&work)?;
    let mut book = Book::default();
    // All processes are ended on drop.
    let result = tokio::select! {
        result = run(&options, &programs, (&repository, &work), &mut book) => result,
        () = interrupted() => Err("interrupted".into()),
    };
    std::fs::remove_dir_all(&work)?;
    let heading = heading(&options, &repository, &load);
    let text = match result {
        Ok(queue) => format!("{heading}{}{queue}", report::tables(&book)),
        Err(error) => {
            println!("Measurements before the failure:\n\n{}", report::tables(&book));
            return Err(error);
        }
    };
    println!("{text}");
    if let Some(path) = &options.write {
        let document = std::fs::read_to_string(path)?;
        let part = match options.only.as_deref() {
            Some("packed") => report::PACKED,
            Some("kinds") => report::KINDS,
            _ => report::EVERYTHING,
        };
        std::fs::write(path, report::insert(&document, part, &text)?)?;
    }
    if let Some(path) = &options.results {
        std::fs::write(path, results::json(&book, options.objects, heading.trim()))?;
    }
    Ok(())
}

fn report_progress(text: &str) {
    eprintln!("bench: {text}");
}

async fn interrupted() {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            // Without a signal handler, Ctrl-C kills the program.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated => {}
    }
}

/// Runs all selected parts. Returns the tables of the work queue.
async fn run(
    options: &Options,
    programs: &Programs,
    (repository, work): (&Path, &Path),
    book: &mut Book,
) -> Result<String> {
    let mut recorded = None;
    let compares = ["real", "updates", "replay", "packed", "kinds"]
        .into_iter()
        .any(|part| options.wants(part));
    if options.generated {
        report_progress("SKIPPED: the real server, as requested");
    } else if compares && options.client_go.is_some() {
        report_progress("starting a real server");
        match Cluster::start(repository, &work.join("cluster")).await? {
            Some(cluster) => {
                let result = on_real_server(options, programs, &cluster, work, book).await;
                drop(cluster);
                result?;
                recorded = Some(work);
            }
            None => report_progress("SKIPPED: the real server, which needs a Go toolchain to be built"),
        }
    } else if compares {
        report_progress("SKIPPED: client-go and the real server, because there is no Go toolchain");
    }
    if options.wants("replay") || options.wants("packed") {
        let replay = Replay::start(programs, recorded, options.objects).await?;
        for round in 1..=options.runs {
            for peer in programs
                .peers(round)
                .into_iter()
                .filter(|_| options.wants("replay"))
            {
                report_progress(&format!("replay server, run {round}: {}", peer.name()));
                replayed::run(programs, peer, &replay, options.amount(), book).await?;
            }
            for peer in programs.forms().into_iter().filter(|_| options.wants("packed")) {
                report_progress(&format!(
                    "forms, replay server, run {round}: {}",
                    peer.form_name()
                ));
                forms::replayed(programs, peer, &replay, options.amount(), book).await?;
            }
        }
    }
    if options.wants("controller") {
        for round in 1..=options.runs {
            report_progress(&format!("controllers, run {round}"));
            controller::run(programs, options.quick, work, book).await?;
        }
    }
    if options.wants("queue") && !options.quick {
        report_progress("the work queue");
        return Ok(format!(
            "### The work queue\n\n{}",
            workqueue::run(repository).await?
        ));
    }
    Ok(String::new())
}

async fn on_real_server(
    options: &Options,
    programs: &Programs,
    cluster: &Cluster,
    work: &Path,
    book: &mut Book,
) -> Result<()> {
    let kubeconfig = cluster.kubeconfig();
    let server = Server::Kubeconfig(&kubeconfig);
    cluster.create_namespaces().await?;
    if options.wants("kinds") {
        for kind in Kind::OTHERS {
            report_progress(&format!("loading {} {kind}", options.objects));
            let objects = cluster.load(kind, options.objects).await?;
            for round in 1..=options.runs {
                report_progress(&format!("real server, run {round}: {kind}"));
                kinds::run(programs, server, (kind, objects), book).await?;
            }
        }
    }
    if !["real", "updates", "replay", "packed"]
        .into_iter()
        .any(|part| options.wants(part))
    {
        return Ok(());
    }
    report_progress(&format!("loading {} pods", options.objects));
    cluster.load(Kind::Pods, options.objects).await?;
    let client = cluster.client().await?;
    report_progress("recording");
    recording::record(&client, work).await?;
    if options.wants("packed") {
        for round in 1..=options.runs {
            for peer in programs.forms() {
                report_progress(&format!("forms, real server, run {round}: {}", peer.form_name()));
                forms::real(programs, peer, server, options.objects, book).await?;
            }
        }
    }
    let pods = Job::pods(server, options.objects);
    if options.wants("real") {
        for round in 1..=options.runs {
            for peer in programs.peers(round) {
                report_progress(&format!("real server, run {round}: {}", peer.name()));
                let kept = real::sync(programs, peer, pods.keep_managed_fields(), &real::KEPT, book).await?;
                kept.stop().await?;
                let dropped = real::sync(programs, peer, pods, &real::DROPPED, book).await?;
                dropped.stop().await?;
            }
        }
    }
    if options.wants("updates") {
        let (count, per_second) = (if options.quick { 250 } else { 1_250 }, 250);
        for round in 1..=options.runs {
            report_progress(&format!("updates through the real server, run {round}"));
            let mut opponents = Vec::new();
            for peer in programs.peers(round) {
                let mut opponent = Opponent::start(programs, peer, pods)?;
                opponent.synced(options.objects).await?;
                opponents.push(opponent);
            }
            let load = (u16::try_from(round)?, options.objects, count, per_second);
            real::updates(&mut opponents, &client, load, book).await?;
            for opponent in opponents {
                opponent.stop().await?;
            }
        }
    }
    Ok(())
}

/// The load averages of one, five and fifteen minutes: how busy the machine is with other work.
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(", ")
}

/// The command, date and versions of the run, and the load before it.
fn heading(options: &Options, repository: &Path, load: &str) -> String {
    let version = |program: &str, argument: &str| {
        let output = std::process::Command::new(program).arg(argument).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let find = |file: &str, before: &str| {
        let text = std::fs::read_to_string(repository.join(file)).ok()?;
        let rest = text.split_once(before)?.1;
        Some(rest.split(['"', '\n', ' ']).next().unwrap_or_default().to_owned())
    };
    let parts = [
        find("verify/go/go.mod", "k8s.io/client-go ").map(|version| format!("client-go {version}")),
        find("Cargo.lock", "name = \"kube-runtime\"\nversion = \"")
            .map(|version| format!("kube-runtime {version}")),
        find("verify/scenarios/go.mod", "k8s.io/kubernetes ")
            .map(|version| format!("kube-apiserver {version}")),
        version("rustc", "--version"),
        version("go", "version"),
    ];
    let mut only = options
        .only
        .as_ref()
        .map_or(String::new(), |only| format!(" --only {only}"));
    if let Some(peers) = &options.peers {
        let names: Vec<&str> = peers.iter().map(|peer| peer.argument()).collect();
        only.push_str(&format!(" --peers {}", names.join(",")));
    }
    if options.generated {
        only.push_str(" --generated");
    }
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let quick = if options.quick {
        "A smoke run: its figures mean nothing. "
    } else {
        ""
    };
    format!(
        "{quick}`verify/bench/run --objects {} --runs {}{only}` on {}: medians of {} runs, {} objects, {cores} cores, load average \
         before the run {load}; {}.\n\n",
        options.objects,
        options.runs,
        jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC"),
        options.runs,
        options.objects,
        parts.into_iter().flatten().collect::<Vec<_>>().join(", "),
    )
}
