//! Requests to chromedriver: JSON over HTTP, one connection each.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Loading a page under load takes its time; nothing waits for this to pass.
const DEADLINE: Duration = Duration::from_secs(120);

/// Sends a command; gives what it answered, or what went wrong in the words of the driver.
pub async fn call(
    driver: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, String> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {driver}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let exchange = async {
        let mut socket = BufReader::new(TcpStream::connect(driver).await?);
        socket.write_all(request.as_bytes()).await?;
        // The driver keeps the connection open whatever it is asked for: the length says where the answer ends.
        let (mut length, mut line) = (0, String::new());
        while socket.read_line(&mut line).await? > 2 {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
            line.clear();
        }
        let mut bytes = vec![0; length];
        socket.read_exact(&mut bytes).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let body = match timeout(DEADLINE, exchange).await {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err(format!("no answer to {method} {path} within {DEADLINE:?}")),
    };
    let mut answer: Value = serde_json::from_str(&body).map_err(|error| format!("{error}: {body}"))?;
    let value = answer["value"].take();
    match value["error"].as_str() {
        Some(error) => Err(format!(
            "{error}: {}",
            value["message"].as_str().unwrap_or_default()
        )),
        None => Ok(value),
    }
}
