//! URLs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Result;
use crate::value::{Key, Value};

/// The parts of an absolute URL, or of a URL that is an absolute path.
#[derive(Debug, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    host: String,
    path: String,
    query: String,
}

pub(super) fn call(function: &str, arguments: &[Value]) -> Option<Result> {
    Some(match (function, arguments) {
        ("url", [Value::String(text)]) => match Url::parse(text) {
            Ok(url) => Ok(Value::Url(Arc::new(url))),
            Err(reason) => Err(format!(
                "URL parse error during conversion from string: parse {text:?}: {reason}"
            )),
        },
        ("isURL", [Value::String(text)]) => Ok(Value::Bool(Url::parse(text).is_ok())),
        ("getScheme", [Value::Url(url)]) => Ok(url.scheme.as_str().into()),
        ("getHost", [Value::Url(url)]) => Ok(url.host.as_str().into()),
        ("getHostname", [Value::Url(url)]) => Ok(url.name_and_port().0.into()),
        ("getPort", [Value::Url(url)]) => Ok(url.name_and_port().1.into()),
        ("getEscapedPath", [Value::Url(url)]) => Ok(url.path.as_str().into()),
        ("getQuery", [Value::Url(url)]) => Ok(url.parameters()),
        _ => return None,
    })
}

impl Url {
    fn parse(text: &str) -> std::result::Result<Url, &'static str> {
        if text.is_empty() {
            return Err("empty url");
        }
        if text.chars().any(char::is_control) {
            return Err("net/url: invalid control character in URL");
        }
        let text = text.split_once('#').map_or(text, |(text, _)| text);
        let is_scheme = |scheme: &str| {
            scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
                && scheme
                    .chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
        };
        let (scheme, rest) = match text.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
            Some(("", _)) => return Err("missing protocol scheme"),
            _ if text.starts_with('/') => (String::new(), text),
            _ => return Err("invalid URI for request"),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, path) = match rest.strip_prefix("//") {
            Some(rest) if !(scheme.is_empty() && rest.starts_with('/')) => {
                let end = rest.find('/').unwrap_or(rest.len());
                let authority = &rest[..end];
                let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
                if host.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '|', '}']) {
                    return Err("invalid character in host name");
                }
                (host, &rest[end..])
            }
            _ => ("", rest),
        };
        let port = host
            .rsplit_once(':')
            .map(|(_, port)| port)
            .filter(|port| !port.ends_with(']'));
        if port.is_some_and(|port| !port.bytes().all(|byte| byte.is_ascii_digit())) {
            return Err("invalid port after host");
        }
        if !has_valid_escapes(path) {
            return Err("invalid URL escape");
        }
        let escaped: String = percent_encoding::utf8_percent_encode(path, PATH).to_string();
        Ok(Url {
            scheme,
            host: host.to_owned(),
            path: escaped,
            query: query.to_owned(),
        })
    }

    fn name_and_port(&self) -> (&str, &str) {
        let (name, port) = match self.host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, port),
            _ => (self.host.as_str(), ""),
        };
        (name.trim_start_matches('[').trim_end_matches(']'), port)
    }

    fn parameters(&self) -> Value {
        let mut lists: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(self.query.as_bytes()) {
            let values = lists.entry(Key::String(name.as_ref().into())).or_default();
            values.push(value.as_ref().into());
        }
        let lists = lists
            .into_iter()
            .map(|(name, values)| (name, Value::from(values)));
        Value::Map(Arc::new(lists.collect()))
    }
}

/// What is escaped in a path that was written without escapes.
const PATH: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

fn has_valid_escapes(text: &str) -> bool {
    text.split('%').skip(1).all(|part| {
        let digits = part.as_bytes();
        digits.len() >= 2 && digits[..2].iter().all(u8::is_ascii_hexdigit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_parts() {
        let url = Url::parse("HTTPS://user@example.com:80/a%20b/c d?k=1&k=2#part").unwrap();
        assert_eq!(
            (url.scheme.as_str(), url.host.as_str()),
            ("https", "example.com:80")
        );
        assert_eq!(url.name_and_port(), ("example.com", "80"));
        assert_eq!(url.path, "/a%20b/c%20d");
        assert_eq!(
            Url::parse("https://[::1]:80/").unwrap().name_and_port(),
            ("::1", "80")
        );
        assert_eq!(Url::parse("/path").unwrap().host, "");
        for bad in [
            "",
            "a",
            "../relative",
            ":foo",
            "https://a b/",
            "https://a:x/",
            "/%zz",
        ] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }
}
