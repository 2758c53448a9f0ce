//! A browser: opens pages, looks at them, types, takes pictures.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::wire::call;

const DEADLINE: Duration = Duration::from_secs(60);
/// Between two looks at a condition: the browser cannot tell us, it has to be asked.
const LOOK: Duration = Duration::from_millis(50);

const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
];

pub struct Browser {
    driver: SocketAddr,
    session: String,
    _process: Child,
    _profile: TempDir,
}

impl Browser {
    /// A browser with an empty profile; `None`, said loudly, where there is none.
    pub async fn start() -> Option<Self> {
        // A free port: chromedriver takes a number, not a socket. Should somebody else take it in between, it says so.
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let profile = tempfile::tempdir().unwrap();
        let spawned = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let Ok(process) = spawned else {
            eprintln!("=== the page in a browser: SKIPPED, there is no chromedriver on the PATH");
            return None;
        };
        let driver = SocketAddr::from(([127, 0, 0, 1], port));
        let began = Instant::now();
        while call(driver, "GET", "/status", None).await.is_err() {
            assert!(began.elapsed() < DEADLINE, "chromedriver does not answer");
            sleep(LOOK).await;
        }
        let mut flags: Vec<String> = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
        flags.push(format!("--user-data-dir={}", profile.path().display()));
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "args": flags },
        } } });
        let session = call(driver, "POST", "/session", Some(&capabilities)).await;
        let session = session.unwrap_or_else(|error| panic!("the browser does not start: {error}"));
        Some(Self {
            driver,
            session: session["sessionId"].as_str().unwrap().to_owned(),
            _process: process,
            _profile: profile,
        })
    }

    async fn post(&self, command: &str, body: Value) -> Value {
        let path = format!("/session/{}/{command}", self.session);
        let answer = call(self.driver, "POST", &path, Some(&body)).await;
        answer.unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    async fn devtools(&self, command: &str, params: Value) {
        self.post("goog/cdp/execute", json!({ "cmd": command, "params": params }))
            .await;
    }

    /// The size of the window, in pixels of the page; `sharp` doubles those of the picture.
    pub async fn size(&self, width: u32, height: u32, sharp: bool) {
        let params = json!({
            "width": width, "height": height, "deviceScaleFactor": if sharp { 2 } else { 1 }, "mobile": false,
        });
        self.devtools("Emulation.setDeviceMetricsOverride", params).await;
    }

    /// What the system prefers: `light` or `dark`.
    pub async fn prefers(&self, scheme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }

    pub async fn open(&self, address: &str) {
        self.post("url", json!({ "url": address })).await;
    }

    /// The value of a script, which says `return`.
    pub async fn run(&self, script: &str) -> Value {
        self.post("execute/sync", json!({ "script": script, "args": [] }))
            .await
    }

    /// The text of the element.
    pub async fn text(&self, selector: &str) -> String {
        let script = format!("return document.querySelector({}).innerText", json!(selector));
        self.run(&script).await.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a script gives something true.
    pub async fn wait_for(&self, what: &str, script: &str) {
        let began = Instant::now();
        loop {
            let found = self.run(script).await;
            if found.as_bool() == Some(true) {
                return;
            }
            if began.elapsed() > DEADLINE {
                let name: String = what
                    .chars()
                    .filter(|c| c.is_alphanumeric() || *c == ' ')
                    .collect();
                let name = format!("failed-{}", name.replace(' ', "-"));
                self.picture(&name).await;
                panic!(
                    "{what} did not happen; the script gives {found}; the console says {:?}",
                    self.console().await
                );
            }
            sleep(LOOK).await;
        }
    }

    /// Waits until the text of the element has these words.
    pub async fn until_text(&self, selector: &str, words: &str) {
        let (selector, words) = (json!(selector), json!(words));
        let script =
            format!("return (document.querySelector({selector})?.innerText ?? '').includes({words})");
        self.wait_for(&format!("{words} in {selector}"), &script).await;
    }

    async fn element(&self, selector: &str) -> String {
        let found = self
            .post("element", json!({ "using": "css selector", "value": selector }))
            .await;
        let id = found
            .as_object()
            .and_then(|found| found.values().next()?.as_str());
        id.unwrap_or_else(|| panic!("there is no {selector}")).to_owned()
    }

    /// Clicks as a person does.
    pub async fn click(&self, selector: &str) {
        let element = self.element(selector).await;
        self.post(&format!("element/{element}/click"), json!({})).await;
    }

    /// Types into an element.
    pub async fn write(&self, selector: &str, text: &str) {
        let element = self.element(selector).await;
        self.post(&format!("element/{element}/value"), json!({ "text": text }))
            .await;
    }

    /// Presses a key, wherever the focus is.
    pub async fn press(&self, key: &str) {
        let actions = json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": [
            { "type": "keyDown", "value": key }, { "type": "keyUp", "value": key },
        ] }] });
        self.post("actions", actions).await;
    }

    /// Errors and warnings of the page since the last look.
    pub async fn console(&self) -> Vec<String> {
        let entries = self.post("se/log", json!({ "type": "browser" })).await;
        let entries = entries.as_array().cloned().unwrap_or_default();
        entries
            .iter()
            .filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING")
            .filter_map(|entry| entry["message"].as_str().map(str::to_owned))
            .collect()
    }

    /// A picture of the window.
    pub async fn shoot(&self) -> Vec<u8> {
        let path = format!("/session/{}/screenshot", self.session);
        let picture = call(self.driver, "GET", &path, None).await.unwrap();
        STANDARD.decode(picture.as_str().unwrap()).unwrap()
    }

    /// A picture in `target/screenshots`.
    pub async fn picture(&self, name: &str) {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../screenshots");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("{name}.png")), self.shoot().await).unwrap();
    }

    /// Closes the browser. Dropping it ends the driver, but leaves the browser to find out by itself.
    pub async fn close(self) {
        let path = format!("/session/{}", self.session);
        let _ = call(self.driver, "DELETE", &path, None).await;
    }
}
