//! Listens on the address of the options.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use kube_informers_core::tasks::Task;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::app::App;
use super::gate::Gate;
use super::metrics::Exporter;
use super::routes;
use crate::cli::ServeArgs;
use crate::connections::{accept, refused};
use crate::process::failure::Failure;

pub(super) struct Listening {
    address: SocketAddr,
    needs_token: bool,
    stop: CancellationToken,
    accept: Task,
}

impl Listening {
    /// Listens and serves.
    ///
    /// # Errors
    ///
    /// The address cannot be bound.
    pub async fn start(
        args: &ServeArgs,
        gate: Gate,
        app: Arc<App>,
        exporter: Exporter,
    ) -> Result<Self, Failure> {
        let wanted = SocketAddr::new(args.bind, args.port);
        let listener = TcpListener::bind(wanted)
            .await
            .map_err(|error| refused(wanted, &error))?;
        let address = listener.local_addr().map_err(|error| refused(wanted, &error))?;
        let stop = app.stop.clone();
        let needs_token = gate.needs_token();
        let gate = Arc::new(gate.on_port(address.port()));
        let router = routes::router(app.clone(), Arc::new(exporter), gate);
        Ok(Self {
            address,
            needs_token,
            accept: Task::spawn(
                "accept",
                accept(
                    listener,
                    router,
                    args.write_timeout,
                    app.write_timeouts.clone(),
                    stop.clone(),
                ),
            ),
            stop,
        })
    }

    /// The URL to open.
    pub fn invitation(&self) -> String {
        let host = match self.address.ip() {
            address if address.is_unspecified() => "localhost".to_owned(),
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        let token = if self.needs_token {
            "?token=TOKEN (the one you gave)"
        } else {
            ""
        };
        format!("http://{host}:{}/{token}", self.address.port())
    }

    /// Ends all streams, lets responses finish briefly, and returns when all connections are closed.
    pub async fn stop(self) {
        self.stop.cancel();
        // It ends with the last connection; a panic was reported where it happened.
        self.accept.wait().await;
    }
}
