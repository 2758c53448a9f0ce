//! The hostile server against the library, and the page about it.

mod library;
mod page;
mod transport;
