//! The page of `serve` in a real browser: headless Chromium, driven by chromedriver over plain HTTP.
//!
//! Where there is no chromedriver the tests say so, loudly, and pass. Screenshots are left in `target/screenshots`.

mod browser;
mod pictures;
mod tests;
mod wire;
