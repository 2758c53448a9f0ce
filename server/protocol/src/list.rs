//! Lists: the metadata and type around the items, and continue tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use kube_protobuf::TypeMeta;
use kube_protobuf::envelope::{self, to_list_body};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::negotiation::Form;
use crate::resource::Resource;
use crate::status::ApiError;
use crate::table;

/// The number of bytes of a list encoded at a time.
const CHUNK: usize = 64 * 1024;

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMeta {
    /// The version of the list.
    pub resource_version: String,
    /// The token of the next page.
    pub continue_token: Option<String>,
    /// The number of objects after this page, if it is known.
    pub remaining: Option<usize>,
    /// The requested shard, which is repeated.
    pub shard: Option<String>,
}

/// The API version and the kind of a list.
fn list_type<'a>(resource: Resource<'a>, form: Form) -> (String, &'a str) {
    match form {
        Form::Object => (resource.api_version(), resource.list_kind),
        Form::Metadata => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadataList"),
        Form::Table(_) => ("meta.k8s.io/v1".to_owned(), "Table"),
    }
}

impl ListMeta {
    /// The JSON of a list before its first item, including the bracket. [`TAIL`] ends the list.
    pub fn json_head(&self, resource: Resource<'_>, form: Form) -> String {
        let mut head = self.json_start(resource, form);
        match form {
            Form::Object | Form::Metadata => head.push_str(",\"items\":["),
            Form::Table(_) => {
                let columns = Value::from(table::column_definitions(resource));
                head.push_str(&format!(",\"columnDefinitions\":{columns},\"rows\":["));
            }
        }
        head
    }

    /// The JSON of a list up to the end of its metadata.
    pub fn json_start(&self, resource: Resource<'_>, form: Form) -> String {
        let (api_version, kind) = list_type(resource, form);
        let (kind, api_version) = (json_string(kind), json_string(&api_version));
        let version = json_string(&self.resource_version);
        let mut head = format!(
            "{{\"kind\":{kind},\"apiVersion\":{api_version},\"metadata\":{{\"resourceVersion\":{version}"
        );
        match &self.continue_token {
            Some(token) => head.push_str(&format!(",\"continue\":{}", json_string(token))),
            // Lists of custom objects have an empty continue token at their end.
            None if resource.is_custom() && form == Form::Object => head.push_str(",\"continue\":\"\""),
            None => {}
        }
        if let Some(remaining) = self.remaining {
            head.push_str(&format!(",\"remainingItemCount\":{remaining}"));
        }
        if let Some(shard) = self.shard.as_ref().filter(|_| form == Form::Object) {
            head.push_str(&format!(",\"shardInfo\":{{\"selector\":{}}}", json_string(shard)));
        }
        head.push('}');
        head
    }

    /// A list of encoded items in protobuf. It is encoded as a whole: its length precedes the items.
    pub fn protobuf<'a>(
        &self,
        resource: Resource<'_>,
        form: Form,
        items: impl IntoIterator<Item = &'a [u8], IntoIter: Clone>,
    ) -> Vec<u8> {
        let mut meta = envelope::ListMeta::new(self.resource_version.clone());
        meta.continue_token = self.continue_token.clone().unwrap_or_default();
        meta.remaining_item_count = self.remaining.and_then(|remaining| remaining.try_into().ok());
        meta.shard_selector = self.shard.clone().filter(|_| form == Form::Object);
        let (api_version, kind) = list_type(resource, form);
        let type_meta = TypeMeta {
            api_version: &api_version,
            kind,
        };
        to_list_body(type_meta, &meta, items)
    }
}

/// The end of a list in JSON.
pub const TAIL: &str = "]}\n";

/// Writes a list in JSON chunk by chunk, so that it is never in memory as a whole.
#[derive(Debug)]
pub struct ListWriter {
    head: String,
    first: bool,
    done: bool,
}

impl ListWriter {
    /// A list with this [head](ListMeta::json_head).
    pub fn new(head: String) -> ListWriter {
        ListWriter {
            head,
            first: true,
            done: false,
        }
    }

    /// The next bytes; `None` at the end. `write` appends one item.
    pub fn next_chunk<T>(
        &mut self,
        items: &mut impl Iterator<Item = T>,
        mut write: impl FnMut(T, &mut Vec<u8>),
    ) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let mut out = Vec::with_capacity(CHUNK + CHUNK / 4);
        out.extend_from_slice(std::mem::take(&mut self.head).as_bytes());
        while out.len() < CHUNK {
            let Some(item) = items.next() else {
                out.extend_from_slice(TAIL.as_bytes());
                self.done = true;
                break;
            };
            if !self.first {
                out.push(b',');
            }
            self.first = false;
            write(item, &mut out);
        }
        Some(out.into())
    }

    /// Whether everything has been written.
    pub fn is_done(&self) -> bool {
        self.done
    }
}

/// A JSON string, quotes included.
fn json_string(text: &str) -> String {
    Value::from(text).to_string()
}

/// The start of the next page and its version; opaque to clients.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContinueToken {
    #[serde(default)]
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

impl ContinueToken {
    /// The page of a list at `revision` that starts at the key `from`. `prefix` is that of every key of the list. A negative
    /// revision stands for the latest state, whatever it is then.
    pub fn new(revision: i64, prefix: &str, from: &str) -> ContinueToken {
        let start = from.strip_prefix(prefix).unwrap_or(from).to_owned();
        ContinueToken {
            v: "meta.k8s.io/v1".to_owned(),
            rv: revision,
            start,
        }
    }

    /// The token as clients see it.
    pub fn encode(&self) -> String {
        // Serializing three plain fields cannot fail.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// The version of the list; negative for the latest state.
    pub fn revision(&self) -> i64 {
        self.rv
    }

    /// The key at which the page starts, without the prefix of the list.
    pub fn start(&self) -> &str {
        &self.start
    }

    /// Decodes a token.
    ///
    /// # Errors
    ///
    /// It is not a token, or leads out of the collection: 400 as a real server words it.
    pub fn decode(token: &str) -> Result<ContinueToken, ApiError> {
        let invalid = |why: String| {
            ApiError::bad_request(format!("invalid continue token: continue key is not valid{why}"))
        };
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|error| {
            invalid(format!(
                ": illegal base64 data at input byte {}",
                offset(&error, token)
            ))
        })?;
        let mut token: ContinueToken = match serde_json::from_slice::<Option<ContinueToken>>(&bytes) {
            Ok(token) => token.unwrap_or_default(),
            Err(error) => return Err(invalid(format!(": {}", json_error(&bytes, &error)))),
        };
        if token.v != "meta.k8s.io/v1" {
            return Err(invalid(format!(
                ": server does not recognize this encoded version {}",
                token.v
            )));
        }
        if token.rv == 0 {
            return Err(invalid(
                ": incorrect encoded start resourceVersion (version meta.k8s.io/v1)".to_owned(),
            ));
        }
        if token.start.is_empty() {
            return Err(invalid(
                ": encoded start key empty (version meta.k8s.io/v1)".to_owned(),
            ));
        }
        // Reject keys that would escape into other collections.
        let rooted = token.start.strip_prefix('/').unwrap_or(&token.start).to_owned();
        if rooted
            .split('/')
            .any(|segment| matches!(segment, "" | "." | ".."))
        {
            return Err(invalid(format!(": {}", token.start)));
        }
        token.start = rooted;
        Ok(token)
    }
}

/// The offset at which a token stops being base64.
fn offset(error: &base64::DecodeError, token: &str) -> usize {
    match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => *at,
        _ => token.len(),
    }
}

/// A byte as Go quotes the character with this number.
fn quoted_byte(byte: u8) -> String {
    match byte {
        b'\n' => "\\n".to_owned(),
        b'\r' => "\\r".to_owned(),
        b'\t' => "\\t".to_owned(),
        0..b' ' | 0x7f => format!("\\x{byte:02x}"),
        0x80..=0xa0 | 0xad => format!("\\u{byte:04x}"),
        _ => char::from(byte).to_string(),
    }
}

/// The error of Go's JSON decoder for common cases: invalid from the first byte, or truncated.
fn json_error(bytes: &[u8], error: &serde_json::Error) -> String {
    match (error.classify(), bytes.first()) {
        (serde_json::error::Category::Eof, _) => "unexpected end of JSON input".to_owned(),
        (serde_json::error::Category::Syntax, Some(&first))
            if matches!((error.line(), error.column()), (1, 0 | 1)) =>
        {
            let first = quoted_byte(first);
            format!("invalid character '{first}' looking for beginning of value")
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_tokens_are_rejected_as_by_a_real_server() {
        let cases = [
            ("!!!", "illegal base64 data at input byte 0"),
            ("abc", "invalid character 'i' looking for beginning of value"),
            (
                "nonsense",
                "invalid character '\\u009e' looking for beginning of value",
            ),
            ("bnVsbA", "server does not recognize this encoded version "),
            ("e30", "server does not recognize this encoded version "),
            ("eyJ2Ig", "unexpected end of JSON input"),
        ];
        for (token, why) in cases {
            let error = ContinueToken::decode(token).expect_err("no token");
            let message = format!("invalid continue token: continue key is not valid: {why}");
            assert_eq!(
                (error.code(), error.message()),
                (400, message.as_str()),
                "{token}"
            );
        }
    }

    #[test]
    fn tokens_round_trip() {
        let token = ContinueToken::new(42, "shop/", "shop/cart\0");

        assert_eq!(token.start, "cart\0");
        assert_eq!(ContinueToken::decode(&token.encode()), Ok(token));
    }

    #[test]
    fn invalid_tokens_are_rejected() {
        let refused =
            |json: &str| ContinueToken::decode(&URL_SAFE_NO_PAD.encode(json)).map_err(|error| error.code());

        assert_eq!(
            ContinueToken::decode("%%%").map_err(|error| error.code()),
            Err(400)
        );
        assert_eq!(refused("no json"), Err(400));
        assert_eq!(refused(r#"{"v":"v9","rv":1,"start":"a"}"#), Err(400));
        assert_eq!(refused(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#), Err(400));
        assert_eq!(refused(r#"{"v":"meta.k8s.io/v1","rv":1,"start":""}"#), Err(400));
        assert_eq!(
            refused(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../secrets"}"#),
            Err(400)
        );
    }

    #[test]
    fn a_list_is_written_in_chunks() {
        let mut list = ListWriter::new("{\"items\":[".to_owned());
        let mut items = 0..20_000;
        let mut chunks = Vec::new();
        while let Some(chunk) = list.next_chunk(&mut items, |item, out| {
            out.extend_from_slice(item.to_string().as_bytes())
        }) {
            chunks.push(chunk);
        }

        assert!(chunks.len() > 1 && list.is_done());
        let list: Value = serde_json::from_slice(&chunks.concat()).unwrap();
        assert_eq!(list["items"].as_array().map(Vec::len), Some(20_000));
        assert_eq!(list["items"][19_999], 19_999);
    }
}
