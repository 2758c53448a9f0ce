//! Reading one object.

use std::time::Duration;

use tokio::time::timeout;

use super::options::CONNECT_TIMEOUT;
use super::resource::ResourceType;
use super::response::send;
use crate::key::ObjectKey;
use crate::wire::SourceError;

/// How long a request for one object may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Larger objects are not read. etcd rejects requests over 1.5 MiB by default.
const MAX_SIZE: usize = 32 << 20;

/// Requests one object, as JSON. The answer is the newest state.
pub(crate) async fn get(
    client: &kube::Client,
    resource: &ResourceType,
    key: &ObjectKey,
) -> Result<Vec<u8>, SourceError> {
    let what = format!("get {resource} {key}");
    let name = key.name();
    // Names are checked by the server; these characters would change the meaning of the address.
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '%', '?', '#']) {
        return Err(SourceError::Request(format!(
            "{name:?} is not the name of an object"
        )));
    }
    let collection = resource.path(key.namespace()).map_err(SourceError::Request)?;
    let request = http::Request::get(format!("{collection}/{name}"))
        .header(http::header::ACCEPT, "application/json")
        .body(())
        .map_err(|_| SourceError::Request(format!("{name:?} is not the name of an object")))?;
    let read = async {
        let mut response = send(client, request, what.clone(), CONNECT_TIMEOUT).await?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_SIZE {
                return Err(SourceError::Malformed(format!(
                    "cannot {what}: the response is larger than {MAX_SIZE} bytes"
                )));
            }
        }
        Ok(body)
    };
    match timeout(TIMEOUT, read).await {
        Ok(result) => result,
        Err(_) => Err(SourceError::Deadline {
            what: "complete response",
            after: TIMEOUT,
        }),
    }
}
