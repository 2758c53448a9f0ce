//! The page of `serve` in a real browser: headless Chromium, driven by chromedriver over plain HTTP.
//!
//! Where there is no chromedriver the tests say so, loudly, and pass. Screenshots are left in `target/screenshots`.

mod browser;
#[allow(dead_code)] // Shared with the other suite, which uses more of it.
#[path = "../it/http.rs"]
mod http;
mod pictures;
#[allow(dead_code)]
#[path = "../it/program.rs"]
mod program;
mod tests;
mod wire;
