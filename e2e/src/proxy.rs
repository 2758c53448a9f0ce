//! A way to a server that can be cut, closed and clogged. It passes bytes on and knows nothing of what they say, so TLS
//! goes through it as well.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube_tasks::{Task, TaskSet};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A proxy on a free loopback port. It ends with this handle, and its connections with it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    way: Arc<watch::Sender<Way>>,
    counts: Arc<Counts>,
    _accept: Task,
}

/// What may pass.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    /// Connections made under another number have been cut.
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
    /// Starts one before the server at `upstream`.
    ///
    /// # Errors
    ///
    /// There is no port to listen on.
    pub async fn start(upstream: SocketAddr) -> io::Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let way = Arc::new(watch::Sender::new(Way::default()));
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Breaks all connections, as a reset does. New ones are taken.
    pub fn cut(&self) {
        self.way.send_modify(|way| way.generation += 1);
    }

    /// Breaks all connections and resets new ones, until [`open`](Self::open).
    pub fn close(&self) {
        self.way.send_modify(|way| {
            way.generation += 1;
            way.closed = true;
        });
    }

    /// Takes new connections again.
    pub fn open(&self) {
        self.way.send_modify(|way| way.closed = false);
    }

    /// Stops reading what the server sends, as a slow client does; connections stay open, and the server's buffers fill.
    pub fn clog(&self) {
        self.way.send_modify(|way| way.clogged = true);
    }

    /// Reads on.
    pub fn unclog(&self) {
        self.way.send_modify(|way| way.clogged = false);
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.counts.open.load(Ordering::Acquire)
    }

    /// How many connections there have been.
    pub fn connections_made(&self) -> usize {
        self.counts.made.load(Ordering::Acquire)
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, way: watch::Receiver<Way>, counts: Arc<Counts>) {
    let mut connections = TaskSet::new();
    // Out of file descriptors is the usual error of accepting; the proxy is then at its end, and the test with it.
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

/// Without lingering, the close is a reset: what was sent and not read yet is lost, as when a machine dies.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

async fn pass(client: TcpStream, upstream: SocketAddr, mut way: watch::Receiver<Way>) {
    let generation = way.borrow_and_update().generation;
    let Ok(server) = TcpStream::connect(upstream).await else {
        return reset(&client);
    };
    // Small frames must not wait for each other; if it cannot be set, they only come later.
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

/// Passes bytes on until one side is done; waits while the way is clogged.
async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, way: Option<watch::Receiver<Way>>) {
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

    async fn say(stream: &mut TcpStream, word: &str) -> io::Result<String> {
        stream.write_all(word.as_bytes()).await?;
        let mut answer = vec![0; word.len()];
        stream.read_exact(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    #[tokio::test]
    async fn bytes_pass_until_the_way_is_cut_and_new_connections_pass_again() {
        let (upstream, _echo) = echo().await;
        let proxy = Proxy::start(upstream).await.unwrap();

        let mut first = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(say(&mut first, "one").await.unwrap(), "one");
        proxy.cut();
        assert!(first.read_u8().await.is_err());

        let mut second = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(say(&mut second, "two").await.unwrap(), "two");
        assert_eq!(proxy.connections_made(), 2);
    }

    #[tokio::test]
    async fn a_closed_way_takes_nobody_until_it_is_open() {
        let (upstream, _echo) = echo().await;
        let proxy = Proxy::start(upstream).await.unwrap();

        proxy.close();
        let mut refused = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(say(&mut refused, "one").await.is_err());

        proxy.open();
        let mut taken = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(say(&mut taken, "two").await.unwrap(), "two");
    }

    #[tokio::test]
    async fn a_clogged_way_keeps_the_bytes_and_passes_them_later() {
        let (upstream, _echo) = echo().await;
        let proxy = Proxy::start(upstream).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(say(&mut stream, "one").await.unwrap(), "one");

        proxy.clog();
        // The copy may already wait in its read, and then passes on what that read gives.
        stream.write_all(b"two").await.unwrap();
        stream.write_all(b"three").await.unwrap();
        proxy.unclog();

        let mut answer = [0; 8];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"twothree");
    }
}
