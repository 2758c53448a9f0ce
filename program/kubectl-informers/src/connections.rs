//! Accepts connections, and serves each until it ends or the program stops. For `serve` and `replay`.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use kube_informers_core::tasks::TaskSet;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

use crate::cli::limits::Timeout;
use crate::process::failure::Failure;

/// The maximum number of concurrent connections; further ones wait.
const CONNECTIONS: usize = 256;
/// The time to send the header of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long responses in flight may delay the exit of the program.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause after a failed accept. Usually file handles are exhausted, and retrying at once would fail again.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Accepts connections until `stop`, then lets responses finish briefly. Connections whose client does not read for
/// `write_timeout` are closed and counted.
pub async fn accept(
    listener: TcpListener,
    router: Router,
    write_timeout: Timeout,
    write_timeouts: Arc<AtomicU64>,
    stop: CancellationToken,
) {
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
        let (timeouts, stop) = (write_timeouts.clone(), stop.clone());
        let connection = serve(socket, router.clone(), write_timeout, timeouts, stop);
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
    write_timeout: Timeout,
    write_timeouts: Arc<AtomicU64>,
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
            write_timeouts.fetch_add(1, Ordering::Relaxed);
        }
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Why an address cannot be listened on, and what to do.
pub fn refused(wanted: SocketAddr, error: &io::Error) -> Failure {
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
