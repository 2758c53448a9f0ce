//! The pictures of the README: real screenshots of the program, made by `docs/images/screenshots`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::browser::Browser;
use crate::http::get;
use crate::program::{Home, within};

/// Seconds of data before a picture is taken: charts are made of them.
const SECONDS: usize = 200;

fn images() -> PathBuf {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    std::fs::create_dir_all(&images).unwrap();
    images
}

fn keep(name: &str, picture: &[u8]) {
    std::fs::write(images().join(name), picture).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes and writes into docs/images; docs/images/screenshots runs it"]
async fn the_web_page() {
    let home = Home::new();
    let mut program = home.start(&["serve", "--port", "0"]);
    let line = program.line_with("Serving http://").await;
    let address = line
        .trim_start_matches("Serving http://")
        .trim_end_matches('/')
        .to_owned();
    let browser = Browser::start().await.expect("pictures need a browser");
    collected(&address).await;
    for scheme in ["light", "dark"] {
        browser.size(1540, 940, false).await;
        browser.prefers(scheme).await;
        browser.open(&format!("http://{address}/")).await;
        browser.until_text("#objects", "shop").await;
        let restored = "return document.querySelectorAll('#log > li').length > 100";
        browser
            .wait_for("what happened before the page was opened", restored)
            .await;
        browser.click("#objects thead th:last-child button").await;
        // The newest change first.
        let sorted = "return /^[0-9]s ago$/.test(document.querySelector('#objects tbody tr')?.lastElementChild.innerText.trim())";
        browser.wait_for("the objects by their last change", sorted).await;
        keep(&format!("serve-{scheme}.png"), &browser.shoot().await);
    }
    browser.close().await;
}

/// Waits until there are enough seconds to draw.
async fn collected(address: &str) {
    let address = address.parse().unwrap();
    // Longer than the usual deadline, and worth it: the picture shows minutes.
    let mut tick = tokio::time::interval(std::time::Duration::from_secs(1));
    loop {
        tick.tick().await;
        let series = get(address, "/api/v1/series").await.json();
        let events = series["kinds"]["pods"]["events"].as_array().map_or(0, Vec::len);
        if events >= SECONDS {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes and writes into docs/images; docs/images/screenshots runs it"]
async fn the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("tmux");
    let home = Home::new();
    let tmux = async |arguments: &[&str]| {
        let mut command = Command::new("tmux");
        command
            .arg("-S")
            .arg(&socket)
            .args(arguments)
            .env("HOME", home.path())
            .env("TERM", "xterm-256color")
            .env_remove("KUBECONFIG")
            .env_remove("TMUX")
            .stdin(Stdio::null());
        let output = within("tmux", command.output())
            .await
            .expect("pictures need tmux");
        String::from_utf8(output.stdout).unwrap()
    };
    let program = env!("CARGO_BIN_EXE_kubectl-informers");
    tmux(&[
        "new-session",
        "-d",
        "-x",
        "128",
        "-y",
        "36",
        program,
        "--embedded",
    ])
    .await;
    let mut tick = tokio::time::interval(std::time::Duration::from_secs(1));
    let mut seconds = 0;
    let screen = loop {
        tick.tick().await;
        seconds += 1;
        let screen = tmux(&["capture-pane", "-p", "-e"]).await;
        assert!(
            seconds < SECONDS || screen.contains("live"),
            "the program does not run:\n{screen}"
        );
        if seconds >= SECONDS / 2 {
            break screen;
        }
    };
    tmux(&["kill-server"]).await;

    let browser = Browser::start().await.expect("pictures need a browser");
    let page = directory.path().join("screen.html");
    std::fs::write(&page, as_page(&screen)).unwrap();
    browser.size(1160, 760, false).await;
    browser.open(&format!("file://{}", page.display())).await;
    keep("top.png", &browser.shoot().await);
    browser.close().await;
}

const STYLE: &str = "body { margin: 0; background: #101415; padding: 14px 18px }
    pre { margin: 0; color: #dfe6e4; font: 14.4px/1.4 'JetBrains Mono', 'DejaVu Sans Mono', monospace;
          font-variant-ligatures: none }
    .b { font-weight: 700 } .d { opacity: .6 }
    .c31 { color: #ea8478 } .c32 { color: #7cc58a } .c33 { color: #d9ab5a } .c36 { color: #5fbfb2 } .c90 { color: #7b8886 }";

/// A terminal screen with its colours as a page. Knows the few sequences that tmux writes for our screen.
fn as_page(screen: &str) -> String {
    let mut page = format!("<!doctype html><meta charset=utf-8><style>{STYLE}</style><pre>");
    let (mut bold, mut dim, mut colour) = (false, false, 0u32);
    let mut parts = screen.split("\u{1b}[");
    escape(parts.next().unwrap_or_default(), &mut page);
    for part in parts {
        let Some((codes, text)) = part.split_once('m') else {
            continue;
        };
        let mut codes = codes.split(';').map(|code| code.parse::<u32>().unwrap_or(0));
        while let Some(code) = codes.next() {
            match code {
                // `38;5;N`: one of the sixteen by number.
                38 => {
                    colour = codes
                        .nth(1)
                        .map_or(0, |number| if number < 8 { 30 + number } else { 82 + number })
                }
                0 => (bold, dim, colour) = (false, false, 0),
                1 => bold = true,
                2 => dim = true,
                22 => (bold, dim) = (false, false),
                39 => colour = 0,
                30..=37 | 90..=97 => colour = code,
                _ => {}
            }
        }
        let class = |on: bool, name: &'static str| if on { name } else { "" };
        let _ = write!(
            page,
            "<span class='{} {} c{colour}'>",
            class(bold, "b"),
            class(dim, "d")
        );
        escape(text, &mut page);
        page.push_str("</span>");
    }
    page.push_str("</pre>");
    page
}

fn escape(text: &str, into: &mut String) {
    for c in text.chars() {
        match c {
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            '&' => into.push_str("&amp;"),
            c => into.push(c),
        }
    }
}
