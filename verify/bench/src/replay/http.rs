//! The part of HTTP/1.1 that the replay server needs: requests without a body, chunked responses.

use std::collections::HashMap;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The maximum length of a request head.
const LONGEST_HEAD: usize = 64 * 1024;

/// One request.
pub struct Request {
    /// The method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query, decoded as far as the benchmark's peers encode it.
    pub query: HashMap<String, String>,
    /// The `Accept` header.
    pub accept: String,
}

/// Reads one request; `None` if the client has disconnected.
pub async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Request>> {
    loop {
        if let Some(end) = memchr::memmem::find(buffer, b"\r\n\r\n") {
            let head: Vec<u8> = buffer.drain(..end + 4).collect();
            return Ok(parse(&String::from_utf8_lossy(&head)));
        }
        if buffer.len() > LONGEST_HEAD {
            return Err(io::Error::other("the head of a request is too long"));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

fn parse(head: &str) -> Option<Request> {
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let accept = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("accept"))
        .map_or("", |(_, value)| value.trim());
    let query = query.split('&').filter_map(|pair| pair.split_once('='));
    Some(Request {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        accept: accept.to_owned(),
    })
}

/// A response without chunks.
pub async fn respond(stream: &mut (impl AsyncWrite + Unpin), status: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(response.as_bytes()).await
}

/// The head of a chunked response.
pub async fn begin(stream: &mut (impl AsyncWrite + Unpin), content_type: &str) -> io::Result<()> {
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).await
}

/// Sends one chunk and clears the buffer, keeping its memory.
pub async fn chunk(stream: &mut (impl AsyncWrite + Unpin), bytes: &mut Vec<u8>) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let length = format!("{:x}\r\n", bytes.len());
    bytes.splice(..0, length.into_bytes());
    bytes.extend_from_slice(b"\r\n");
    stream.write_all(bytes).await?;
    bytes.clear();
    Ok(())
}

/// The end of a chunked response.
pub async fn end(stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    stream.write_all(b"0\r\n\r\n").await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn consecutive_requests_are_read() {
        let text = b"GET /api/v1/pods?limit=500&watch=1 HTTP/1.1\r\nHost: x\r\naccept: application/json\r\n\r\nPOST /x HTTP/1.1\r\n\r\n";
        let (mut stream, mut buffer) = (&text[..], Vec::new());

        let first = read_request(&mut stream, &mut buffer).await.unwrap().unwrap();
        let second = read_request(&mut stream, &mut buffer).await.unwrap().unwrap();

        assert_eq!(
            (first.path.as_str(), first.query["limit"].as_str()),
            ("/api/v1/pods", "500")
        );
        assert_eq!(first.accept, "application/json");
        assert_eq!((second.method.as_str(), second.path.as_str()), ("POST", "/x"));
        assert!(read_request(&mut stream, &mut buffer).await.unwrap().is_none());
    }
}
