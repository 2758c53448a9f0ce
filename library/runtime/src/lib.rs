#![doc = include_str!("docs/crate.md")]

mod controller;
mod main_stream;
mod reader;
mod touched;

pub use controller::ControllerExt;
pub use main_stream::{reflected, reflected_with};
pub use reader::Reader;
pub use touched::{touched, touched_lazy, touched_when};

/// The snippets of the guide and of the README are compiled with the tests.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../README.md")]
    struct Readme;
}
