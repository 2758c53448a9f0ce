//! A hostile API server: what a broken proxy, a compromised server or a hostile tenant can send.
//!
//! Each [`Scenario`] has a name, a sentence about what the server does and one about what a client must do. The same
//! scenarios run against the library (`tests/it/library.rs`, in process and on the paused clock) and can be served on a
//! socket for programs. `docs/evidence/security.md` holds the table of all scenarios; `tests/it/page.rs` keeps it current.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use kube_hostile::{HostileServer, Scenario};
//!
//! let server = HostileServer::new(Scenario::named("html").unwrap());
//! let client = server.client();
//! assert!(client.request_text(http::Request::get("/api/v1/pods").body(Vec::new()).unwrap()).await.is_ok());
//! assert_eq!(server.requests(), 1);
//! # }
//! ```
//!
//! An [`Endpoint`] is a socket that no client can use, such as one with an expired certificate (`tests/it/transport.rs`).
//!
//! To add a scenario, add an entry to the table in `scenarios.rs` and its expected outcome to the suite that runs it.
//! The suite of the program runs all scenarios, and those of [`Audience::Program`] run there only.

#![warn(missing_debug_implementations)]

mod body;
mod endpoint;
mod reply;
mod scenarios;
mod server;

pub use body::HostileBody;
pub use endpoint::{Endpoint, OpenEndpoint};
pub use scenarios::{Audience, ProgramEnd, Scenario};
pub use server::{HostileServer, HostileService, Serving};

/// The table of all scenarios, as Markdown.
pub fn table() -> String {
    let mut table = "| Scenario | The server | The client | The program |\n|---|---|---|---|\n".to_owned();
    for scenario in Scenario::all() {
        let Scenario {
            name,
            server,
            client,
            program,
            ..
        } = scenario;
        let program = program.describe();
        table.push_str(&format!("| `{name}` | {server} | {client} | {program} |\n"));
    }
    table
}
