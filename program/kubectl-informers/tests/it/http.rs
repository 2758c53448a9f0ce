//! HTTP by hand: what is sent is exactly what the test says.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;

use crate::program::within;

/// An answer.
pub struct Answer {
    pub code: u16,
    /// The head, in lower case.
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let start = format!("{name}: ");
        self.head
            .lines()
            .find_map(|line| line.strip_prefix(start.as_str()))
    }
}

/// Sends these bytes and reads until the other side closes.
pub async fn raw(address: SocketAddr, request: &str) -> Answer {
    let answered = async {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).await.unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let text = within("the answer", answered).await;
    let (head, body) = text
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no answer: {text:?}"));
    Answer {
        code: head
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .unwrap_or(0),
        head: head.to_lowercase(),
        body: body.to_owned(),
    }
}

/// GET with these headers besides the host. HTTP/1.0, so that the body comes in one piece.
pub async fn get_with(address: SocketAddr, path: &str, headers: &str) -> Answer {
    raw(
        address,
        &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n{headers}\r\n"),
    )
    .await
}

pub async fn get(address: SocketAddr, path: &str) -> Answer {
    get_with(address, path, "").await
}

/// A stream of server-sent events.
pub struct Events {
    lines: Lines<BufReader<TcpStream>>,
}

/// One of them.
#[derive(Debug)]
pub struct Sent {
    pub event: String,
    pub id: Option<String>,
    pub data: Value,
}

impl Events {
    pub async fn open(address: SocketAddr, path: &str, headers: &str) -> Self {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n{headers}\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut lines = BufReader::new(socket).lines();
        let status = within("the head of the stream", lines.next_line())
            .await
            .unwrap()
            .unwrap();
        assert!(status.contains(" 200 "), "{status}");
        while within("the end of the head", lines.next_line())
            .await
            .unwrap()
            .is_some_and(|line| !line.is_empty())
        {}
        Self { lines }
    }

    /// The next event; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<Sent> {
        let (mut event, mut id, mut data) = (String::new(), None, Value::Null);
        loop {
            let line = within("an event", self.lines.next_line()).await.ok()??;
            match line.split_once(": ") {
                Some(("event", name)) => event = name.to_owned(),
                Some(("id", text)) => id = Some(text.to_owned()),
                Some(("data", text)) => data = serde_json::from_str(text).unwrap(),
                _ if line.is_empty() && !event.is_empty() => return Some(Sent { event, id, data }),
                _ => {}
            }
        }
    }

    /// The next event of this name.
    pub async fn next_of(&mut self, name: &str) -> Sent {
        loop {
            let sent = self
                .next()
                .await
                .unwrap_or_else(|| panic!("the stream ended before {name}"));
            if sent.event == name {
                return sent;
            }
        }
    }
}
