//! The server on a socket: accepts connections and serves each with hyper.
//! Dropping the returned handle closes all connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use kube_informers_core::tasks::{Task, TaskSet};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs, lookup_host};
use tokio_util::sync::CancellationToken;

use crate::state::ServerState;
use crate::transport::service::TestService;

/// Timeout for a client to send the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// A server that listens; dropping the last handle closes the socket and every connection.
#[derive(Debug)]
pub(crate) struct Listening {
    address: SocketAddr,
    stop: CancellationToken,
    stopped: CancellationToken,
}

impl Listening {
    /// Binds and starts serving. Addresses other than loopback are rejected unless `remote`.
    pub(crate) async fn start(
        state: Arc<ServerState>,
        address: impl ToSocketAddrs,
        remote: bool,
    ) -> io::Result<Listening> {
        let addresses: Vec<SocketAddr> = lookup_host(address).await?.collect();
        if let Some(outside) = addresses
            .iter()
            .find(|address| !remote && !address.ip().is_loopback())
        {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("{outside} can be reached by others; say allow_remote() if that is meant"),
            ));
        }
        let listener = TcpListener::bind(addresses.as_slice()).await.map_err(|error| {
            let wanted: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            io::Error::new(
                error.kind(),
                format!("cannot listen on {}: {error}", wanted.join(", ")),
            )
        })?;
        let listening = Listening {
            address: listener.local_addr()?,
            stop: CancellationToken::new(),
            stopped: CancellationToken::new(),
        };
        let (stop, stopped) = (listening.stop.clone(), listening.stopped.clone());
        let accepting = Task::spawn("accept", async move {
            // Also after a panic of the accept loop, so that shutdown never hangs.
            let _stopped = stopped.drop_guard();
            accept(state, listener, stop).await;
        });
        // Stopped by the token rather than by a dropped handle, so that connections are closed first.
        accepting.detach();
        Ok(listening)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the socket and every connection, and waits until both are closed.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.stopped.cancelled().await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Accepts connections until stopped. Dropping the set closes them.
async fn accept(state: Arc<ServerState>, listener: TcpListener, stop: CancellationToken) {
    let mut connections = TaskSet::new();
    loop {
        // Both branches are cancel-safe: a connection not accepted now is accepted by the next call.
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) if state.refuses_connections() => refuse(&stream),
            Ok((stream, _)) => connections.spawn("connection", serve(state.clone(), stream)),
            Err(error) => {
                // Probably out of file descriptors: retrying at once would fail again.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    connections.shutdown().await;
}

fn refuse(stream: &TcpStream) {
    // Without lingering the close is a reset. If the option cannot be set, the close is a normal one.
    let _ = stream.set_zero_linger();
}

async fn serve(state: Arc<ServerState>, stream: TcpStream) {
    // Small frames should not be delayed; without the option they only arrive later.
    let _ = stream.set_nodelay(true);
    // A connection stays at its replica.
    let replica = state.replicas.chosen();
    let service = TestService::new(state.clone(), Some(replica));
    #[cfg(feature = "tls")]
    if let Some(tls) = &state.tls {
        return match tokio::time::timeout(HEADER_TIMEOUT, tls.accept(stream)).await {
            Ok(Ok((stream, Some(user)))) => serve_http(stream, service.acting_as(user)).await,
            Ok(Ok((stream, None))) => serve_http(stream, service).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        };
    }
    serve_http(stream, service).await;
}

async fn serve_http<S>(stream: S, service: TestService)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .await;
    if let Err(error) = served {
        // The client disconnected, or a fault broke the connection.
        tracing::debug!(%error, "a connection ended");
    }
}
