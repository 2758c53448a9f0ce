//! `top` on a pseudo-terminal: it exits when the terminal is gone, and can be suspended.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_testserver::builders::pod;
use kube_testserver::{Fault, RequestMatcher};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::process::Child;
use tokio::task::JoinSet;

use crate::program::{Cluster, within};
use crate::screen;

pub struct Terminal {
    /// The only handle of this side: the terminal is gone when it is closed.
    main: Arc<File>,
    reader: JoinSet<()>,
    seen: Arc<Mutex<String>>,
    child: Child,
    size: (u16, u16),
}

impl Terminal {
    fn start(cluster: &Cluster, arguments: &[&str]) -> Self {
        Self::sized(cluster, arguments, (80, 24))
    }

    /// On a terminal with this many columns and lines.
    pub fn sized(cluster: &Cluster, arguments: &[&str], size: (u16, u16)) -> Self {
        Self::with(cluster, arguments, size, &[])
    }

    /// With these variables in its environment.
    pub fn with(
        cluster: &Cluster,
        arguments: &[&str],
        size: (u16, u16),
        environment: &[(&str, &str)],
    ) -> Self {
        let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&main).unwrap();
        unlockpt(&main).unwrap();
        let of_system = Winsize {
            ws_row: size.1,
            ws_col: size.0,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&main, of_system).unwrap();
        let name = ptsname(&main, Vec::new()).unwrap();
        let side = || {
            let path = std::path::Path::new(std::str::from_utf8(name.to_bytes()).unwrap());
            OwnedFd::from(File::options().read(true).write(true).open(path).unwrap())
        };
        let mut command = cluster.home().command(arguments);
        command
            .env("TERM", "xterm-256color")
            .envs(environment.iter().copied())
            .stdin(Stdio::from(side()))
            .stdout(Stdio::from(side()))
            .stderr(Stdio::from(side()));
        let child = command.spawn().unwrap();
        rustix::io::ioctl_fionbio(&main, true).unwrap();
        let main = Arc::new(File::from(main));
        let seen = Arc::new(Mutex::new(String::new()));
        let mut reader = JoinSet::new();
        let (from, into) = (main.clone(), seen.clone());
        reader.spawn(async move {
            let mut buffer = [0; 4096];
            let mut look = tokio::time::interval(Duration::from_millis(10));
            loop {
                match (&*from).read(&mut buffer) {
                    Ok(count @ 1..) => {
                        let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
                        into.lock().unwrap().push_str(&text);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => drop(look.tick().await),
                    // The other side is closed.
                    _ => return,
                }
            }
        });
        Self {
            main,
            reader,
            seen,
            child,
            size,
        }
    }

    pub fn press(&self, keys: &str) {
        (&*self.main).write_all(keys.as_bytes()).unwrap();
    }

    /// Closes the terminal; gives the process that ran on it.
    async fn close(mut self) -> Child {
        self.reader.shutdown().await;
        self.child
    }

    /// Waits until the screen has all these texts and none of those. Gives the screen.
    pub async fn shows(&self, texts: &[&str], others: &[&str]) -> String {
        let what = format!("a screen with {texts:?} and without {others:?}");
        within(&what, async {
            let mut look = tokio::time::interval(Duration::from_millis(50));
            loop {
                let shown = screen::drawn(&self.seen.lock().unwrap(), self.size);
                if texts.iter().all(|text| shown.contains(text))
                    && !others.iter().any(|text| shown.contains(text))
                {
                    return shown;
                }
                look.tick().await;
            }
        })
        .await
    }

    /// Quits with `q`.
    pub async fn quit(mut self) {
        self.press("q");
        let status = within("the end", self.child.wait()).await.unwrap();
        assert_eq!(status.code(), Some(0));
    }

    async fn until(&self, what: &str, is: impl Fn(&str) -> bool) {
        within(what, async {
            let mut look = tokio::time::interval(Duration::from_millis(20));
            while !is(&self.seen.lock().unwrap()) {
                look.tick().await;
            }
        })
        .await;
    }

    /// The state of the process as the kernel names it: `S` for sleeping, `T` for stopped.
    fn state(&self) -> String {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id().unwrap())).unwrap();
        stat.rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .next()
            .unwrap()
            .to_owned()
    }
}

const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

#[tokio::test(flavor = "multi_thread")]
async fn control_z_gives_the_terminal_back_and_the_screen_returns() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("shop", "cart"));
    let mut terminal = Terminal::start(&cluster, &["top", "pods"]);
    terminal
        .until("the screen", |seen| seen.contains(ENTER) && seen.contains("live"))
        .await;
    terminal.press("\u{1a}");
    terminal
        .until("the terminal given back", |seen| seen.contains(LEAVE))
        .await;
    within("a stopped process", async {
        let mut look = tokio::time::interval(Duration::from_millis(20));
        while terminal.state() != "T" {
            look.tick().await;
        }
    })
    .await;
    let id = terminal.child.id().unwrap().to_string();
    std::process::Command::new("kill")
        .args(["-CONT", &id])
        .status()
        .unwrap();
    terminal
        .until("the screen again", |seen| {
            let after = seen.split(LEAVE).nth(1).unwrap_or_default();
            after.contains(ENTER) && after.contains("live")
        })
        .await;
    terminal.press("q");
    let status = within("the end", terminal.child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn r_ends_the_pauses_after_failures() {
    let cluster = Cluster::new().await;
    let busy = cluster.server.fault(
        RequestMatcher::resource("pods").forever(),
        Fault::status(429).retry_after(3600),
    );
    let mut terminal = Terminal::start(&cluster, &["top", "pods"]);
    terminal
        .until("the failure", |seen| {
            seen.contains("! pods") && !seen.contains("live")
        })
        .await;
    busy.clear();
    terminal.press("r");
    terminal.until("contact", |seen| seen.contains("live")).await;
    terminal.press("q");
    let status = within("the end", terminal.child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_exits_when_its_terminal_is_gone() {
    let cluster = Cluster::new().await;
    let terminal = Terminal::start(&cluster, &["top", "pods"]);
    terminal.until("the screen", |seen| seen.contains("live")).await;
    // It is not the controlling terminal of the process: there is no SIGHUP, and reading keys only fails.
    let mut child = terminal.close().await;
    let status = within("the end", child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(129));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_ends_it_and_gives_the_terminal_back() {
    let cluster = Cluster::new().await;
    let mut terminal = Terminal::start(&cluster, &["top", "pods"]);
    terminal.until("the screen", |seen| seen.contains("live")).await;
    let id = terminal.child.id().unwrap().to_string();
    std::process::Command::new("kill")
        .args(["-HUP", &id])
        .status()
        .unwrap();
    let status = within("the end", terminal.child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(129));
    terminal
        .until("the terminal given back", |seen| seen.contains(LEAVE))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn enter_opens_an_object_with_its_secrets_masked() {
    let cluster = Cluster::new().await;
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
        kube::Api::namespaced(cluster.server.client(), "shop");
    let mut terminal = Terminal::start(&cluster, &["top", "secrets"]);
    terminal
        .until("the end of the list", |seen| seen.contains("live"))
        .await;
    cluster
        .server
        .create(kube_testserver::builders::secret("shop", "db"));
    let patch = serde_json::json!({ "stringData": { "password": "correct-horse" } });
    let patch = kube::api::Patch::Merge(patch);
    secrets.patch("db", &Default::default(), &patch).await.unwrap();
    terminal
        .until("the change", |seen| seen.contains("<13 bytes>"))
        .await;
    terminal.press("\r");
    // Only cells that differ from the last frame are written: any of these words is enough.
    let words = ["apiVersion:", "metadata:", "namespace:", "resourceVersion:"];
    terminal
        .until("the YAML", |seen| words.iter().any(|word| seen.contains(word)))
        .await;
    assert!(!terminal.seen.lock().unwrap().contains("Y29y"));
    terminal.press("\u{1b}");
    terminal.press("q");
    let code = within("the end", terminal.child.wait()).await.unwrap();
    assert_eq!(code.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_colon_changes_what_is_watched() {
    let cluster = Cluster::new().await;
    cluster.server.create(pod("shop", "cart"));
    cluster.server.create(kube_testserver::builders::node("node-1"));
    let mut terminal = Terminal::start(&cluster, &["top", "pods"]);
    terminal
        .until("the end of the list", |seen| seen.contains("live"))
        .await;
    let label = |round: &mut u32| {
        *round += 1;
        serde_json::json!({ "metadata": { "labels": { "round": round.to_string() } } })
    };
    let (mut round, client) = (0, cluster.server.client());
    terminal.press(":nodes\r");
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(client.clone());
    within("a change of a node", async {
        while !terminal.seen.lock().unwrap().contains("node-1") {
            let patch = kube::api::Patch::Merge(label(&mut round));
            nodes.patch("node-1", &Default::default(), &patch).await.unwrap();
        }
    })
    .await;
    terminal.press(":gadgets\r");
    terminal
        .until("an error", |seen| {
            seen.contains("resource") && seen.contains("gadgets\"")
        })
        .await;
    terminal.press(":pods\r");
    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::namespaced(client, "shop");
    within("a change of a pod", async {
        while !terminal.seen.lock().unwrap().contains("cart") {
            let patch = kube::api::Patch::Merge(label(&mut round));
            pods.patch("cart", &Default::default(), &patch).await.unwrap();
        }
    })
    .await;
    terminal.press("q");
    let code = within("the end", terminal.child.wait()).await.unwrap();
    assert_eq!(code.code(), Some(0));
}
