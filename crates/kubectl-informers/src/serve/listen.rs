//! Listens, and serves each connection until it ends or the program stops.

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use kube_tasks::{Task, TaskSet};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

use super::app::App;
use super::gate::Gate;
use super::routes;
use crate::cli::ServeArgs;
use crate::failure::Failure;
use crate::limits::Timeout;

/// The maximum number of concurrent connections; further ones wait.
const CONNECTIONS: usize = 256;
/// The time to send the header of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long responses in flight may delay the exit of the program.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause after a failed accept. Usually file handles are exhausted, and retrying at once would fail again.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

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
    pub async fn start(args: &ServeArgs, gate: Gate, app: Arc<App>) -> Result<Self, Failure> {
        let wanted = SocketAddr::new(args.bind, args.port);
        let listener = TcpListener::bind(wanted)
            .await
            .map_err(|error| refused(wanted, &error))?;
        let address = listener.local_addr().map_err(|error| refused(wanted, &error))?;
        let stop = app.stop.clone();
        let needs_token = gate.needs_token();
        let gate = Arc::new(gate.on_port(address.port()));
        Ok(Self {
            address,
            needs_token,
            accept: Task::spawn(
                "accept",
                accept(listener, gate, app, args.write_timeout, stop.clone()),
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

fn refused(wanted: SocketAddr, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::AddrInUse => Failure::error(format!(
            "cannot listen on {wanted}: the port is taken; choose another with --port, or --port 0 for any free one"
        )),
        io::ErrorKind::PermissionDenied => Failure::error(format!(
            "cannot listen on {wanted}: this port needs more rights; choose one above 1023 with --port"
        )),
        io::ErrorKind::AddrNotAvailable => Failure::error(format!(
            "cannot listen on {wanted}: this machine does not have that address; choose one of its own with --bind"
        )),
        _ => Failure::error(format!("cannot listen on {wanted}: {error}")),
    }
}

async fn accept(
    listener: TcpListener,
    gate: Arc<Gate>,
    app: Arc<App>,
    write_timeout: Timeout,
    stop: CancellationToken,
) {
    let router = routes::router(app.clone(), gate);
    let mut connections = TaskSet::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // All are cancel-safe: a connection is accepted or not.
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((socket, _)) = accepted else {
            sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        let place = tokio::select! {
            () = stop.cancelled() => break,
            place = places.clone().acquire_owned() => place,
        };
        let connection = serve(socket, router.clone(), app.clone(), write_timeout, stop.clone());
        connections.spawn("connection", async move {
            connection.await;
            drop(place);
        });
    }
    drop(listener);
    // Dropping the remaining tasks closes their connections.
    let _ = timeout(SHUTDOWN_TIMEOUT, connections.wait()).await;
}

async fn serve(
    socket: TcpStream,
    router: Router,
    app: Arc<App>,
    write_timeout: Timeout,
    stop: CancellationToken,
) {
    let _ = socket.set_nodelay(true);
    let mut socket = TimeoutStream::new(socket);
    // How long the client may pause reading its response.
    socket.set_write_timeout(write_timeout.duration());
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(64)
        .serve_connection(TokioIo::new(Box::pin(socket)), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        let timed_out = error
            .source()
            .and_then(|cause| cause.downcast_ref::<io::Error>())
            .is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut);
        if timed_out {
            app.write_timeouts.fetch_add(1, Ordering::Relaxed);
        }
        tracing::debug!(%error, "a connection ended early");
    }
}
