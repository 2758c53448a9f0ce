//! The server: in process as a tower service, or on a loopback socket.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use http::{HeaderValue, Request, Response, StatusCode};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use kube_informers_core::tasks::{Task, TaskSet};
use tokio::net::TcpListener;

use crate::body::HostileBody;
use crate::reply::Call;
use crate::scenarios::Scenario;

/// A server that plays one scenario. Clones are handles to the same server.
#[derive(Clone, Debug)]
pub struct HostileServer {
    service: HostileService,
}

impl HostileServer {
    /// Creates a server.
    pub fn new(scenario: &'static Scenario) -> Self {
        Self {
            service: HostileService {
                scenario,
                requests: Arc::default(),
                sent: Arc::default(),
            },
        }
    }

    /// A client in the same process. It works on a paused clock.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service.clone(), "default")
    }

    /// Serves on a loopback socket until the result is dropped.
    ///
    /// # Errors
    ///
    /// The socket cannot be opened.
    pub async fn serve(&self) -> io::Result<Serving> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let service = self.service.clone();
        let task = Task::spawn("accept hostile", async move {
            let mut connections = TaskSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let service = TowerToHyperService::new(service.clone());
                connections.spawn("hostile connection", async move {
                    // The client is expected to break the connection.
                    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                    served.await.ok();
                });
            }
        });
        Ok(Serving { address, _task: task })
    }

    /// The number of requests so far.
    pub fn requests(&self) -> u64 {
        self.service.requests.load(Ordering::Relaxed)
    }

    /// The number of bytes that clients have read of all bodies.
    pub fn sent(&self) -> u64 {
        self.service.sent.load(Ordering::Relaxed)
    }
}

/// A server on a socket. Dropping it closes the socket and all connections.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    _task: Task,
}

impl Serving {
    /// Its address: `http://127.0.0.1:41234`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// The server as a tower service.
#[derive(Clone, Debug)]
pub struct HostileService {
    scenario: &'static Scenario,
    requests: Arc<AtomicU64>,
    sent: Arc<AtomicU64>,
}

type Responding = Pin<Box<dyn Future<Output = Result<Response<HostileBody>, io::Error>> + Send>>;

impl<B> tower_service::Service<Request<B>> for HostileService {
    type Response = Response<HostileBody>;
    type Error = io::Error;
    type Future = Responding;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Responding {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let call = Call::parse(request.uri().path(), request.uri().query().unwrap_or_default());
        let reply = self.scenario.reply(&call);
        let sent = self.sent.clone();
        Box::pin(async move {
            if !reply.starts {
                std::future::pending::<()>().await;
            }
            let mut response = Response::new(HostileBody::new(reply.steps, sent));
            *response.status_mut() =
                StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            for (name, value) in reply.headers {
                response
                    .headers_mut()
                    .insert(name, HeaderValue::from_static(value));
            }
            Ok(response)
        })
    }
}
