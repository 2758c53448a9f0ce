//! A TCP proxy whose connections can be cut, refused and stalled. It copies bytes unchanged, so TLS passes through.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube_informers_core::tasks::{Task, TaskSet};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A proxy on a free loopback port. Dropping it closes the port and all connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    way: Arc<watch::Sender<ProxyState>>,
    counts: Arc<Counts>,
    _accept: Task,
}

/// The state of the proxy.
#[derive(Clone, Copy, Debug, Default)]
struct ProxyState {
    /// Connections of earlier generations have been cut.
    generation: u64,
    closed: bool,
    clogged: bool,
}

#[derive(Debug, Default)]
struct Counts {
    open: AtomicUsize,
    made: AtomicUsize,
}

impl Proxy {
    /// Starts a proxy for the server at `upstream`.
    ///
    /// # Errors
    ///
    /// No port is available.
    pub async fn start(upstream: SocketAddr) -> io::Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let way = Arc::new(watch::Sender::new(ProxyState::default()));
        let counts = Arc::new(Counts::default());
        let accept = Task::spawn(
            "proxy",
            accept(listener, upstream, way.subscribe(), counts.clone()),
        );
        Ok(Proxy {
            address,
            way,
            counts,
            _accept: accept,
        })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resets all connections. New ones are accepted.
    pub fn cut(&self) {
        self.way.send_modify(|way| way.generation += 1);
    }

    /// Resets all connections, including new ones, until [`open`](Self::open).
    pub fn close(&self) {
        self.way.send_modify(|way| {
            way.generation += 1;
            way.closed = true;
        });
    }

    /// Accepts new connections again.
    pub fn open(&self) {
        self.way.send_modify(|way| way.closed = false);
    }

    /// Stops reading from the server, like a slow client; connections stay open, and the server's buffers fill.
    pub fn clog(&self) {
        self.way.send_modify(|way| way.clogged = true);
    }

    /// Resumes reading.
    pub fn unclog(&self) {
        self.way.send_modify(|way| way.clogged = false);
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.counts.open.load(Ordering::Acquire)
    }

    /// The number of connections so far.
    pub fn connections_made(&self) -> usize {
        self.counts.made.load(Ordering::Acquire)
    }
}

async fn accept(
    listener: TcpListener,
    upstream: SocketAddr,
    way: watch::Receiver<ProxyState>,
    counts: Arc<Counts>,
) {
    let mut connections = TaskSet::new();
    // Accepting usually fails because of too many open files; then the proxy stops, and the test fails.
    while let Ok((client, _)) = listener.accept().await {
        counts.made.fetch_add(1, Ordering::AcqRel);
        if way.borrow().closed {
            reset(&client);
            continue;
        }
        let open = Open::new(counts.clone());
        let way = way.clone();
        connections.spawn("connection", async move {
            let _open = open;
            pass(client, upstream, way).await;
        });
    }
}

/// A counted connection.
struct Open(Arc<Counts>);

impl Open {
    fn new(counts: Arc<Counts>) -> Open {
        counts.open.fetch_add(1, Ordering::AcqRel);
        Open(counts)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Without lingering the close is a reset: unread data is lost, as when a machine crashes.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

async fn pass(client: TcpStream, upstream: SocketAddr, mut way: watch::Receiver<ProxyState>) {
    let generation = way.borrow_and_update().generation;
    let Ok(server) = TcpStream::connect(upstream).await else {
        return reset(&client);
    };
    // Small frames should not be delayed; without the option they only arrive later.
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    reset(&client);
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let clogged = way.clone();
    tokio::select! {
        _ = way.wait_for(|way| way.generation != generation) => {}
        () = copy(from_client, to_server, None) => {}
        () = copy(from_server, to_client, Some(clogged)) => {}
    }
}

/// Copies bytes until one side is done; waits while the proxy is clogged.
async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, way: Option<watch::Receiver<ProxyState>>) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        if let Some(mut way) = way.clone()
            && way.wait_for(|way| !way.clogged).await.is_err()
        {
            return;
        }
        let Ok(read @ 1..) = from.read(&mut buffer).await else {
            return;
        };
        let Some(bytes) = buffer.get(..read) else { return };
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn echo() -> (SocketAddr, Task) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let echo = Task::spawn("echo", async move {
            let mut connections = TaskSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (from, to) = stream.into_split();
                connections.spawn("connection", copy(from, to, None));
            }
        });
        (address, echo)
    }

    async fn echoed(stream: &mut TcpStream, word: &str) -> io::Result<String> {
        stream.write_all(word.as_bytes()).await?;
        let mut response = vec![0; word.len()];
        stream.read_exact(&mut response).await?;
        Ok(String::from_utf8_lossy(&response).into_owned())
    }

    #[tokio::test]
    async fn cut_breaks_connections_and_new_ones_work() {
        let (upstream, _echo) = echo().await;
        let proxy = Proxy::start(upstream).await.unwrap();

        let mut first = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(echoed(&mut first, "one").await.unwrap(), "one");
        proxy.cut();
        assert!(first.read_u8().await.is_err());

        let mut second = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(echoed(&mut second, "two").await.unwrap(), "two");
        assert_eq!(proxy.connections_made(), 2);
    }

    #[tokio::test]
    async fn closed_proxy_refuses_connections_until_opened() {
        let (upstream, _echo) = echo().await;
        let proxy = Proxy::start(upstream).await.unwrap();

        proxy.close();
        let mut refused = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(echoed(&mut refused, "one").await.is_err());

        proxy.open();
        let mut accepted = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(echoed(&mut accepted, "two").await.unwrap(), "two");
    }

    #[tokio::test]
    async fn clogged_proxy_delays_bytes() {
        let (upstream, _echo) = echo().await;
        let proxy = Proxy::start(upstream).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(echoed(&mut stream, "one").await.unwrap(), "one");

        proxy.clog();
        // The copy may already be reading, and then forwards the result of that read.
        stream.write_all(b"two").await.unwrap();
        stream.write_all(b"three").await.unwrap();
        proxy.unclog();

        let mut response = [0; 8];
        stream.read_exact(&mut response).await.unwrap();
        assert_eq!(&response, b"twothree");
    }
}
