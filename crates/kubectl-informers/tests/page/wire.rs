//! Requests to chromedriver: JSON over HTTP, one connection each.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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
        let mut socket = TcpStream::connect(driver).await?;
        socket.write_all(request.as_bytes()).await?;
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = match timeout(DEADLINE, exchange).await {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err(format!("no answer to {method} {path} within {DEADLINE:?}")),
    };
    let (_, body) = text.split_once("\r\n\r\n").ok_or("no answer")?;
    let mut answer: Value = serde_json::from_str(body).map_err(|error| format!("{error}: {body}"))?;
    let value = answer["value"].take();
    match value["error"].as_str() {
        Some(error) => Err(format!(
            "{error}: {}",
            value["message"].as_str().unwrap_or_default()
        )),
        None => Ok(value),
    }
}
