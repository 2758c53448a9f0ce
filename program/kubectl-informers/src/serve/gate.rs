//! Access control: host name, origin, token, and read-only methods.
//!
//! A foreign page can make a browser send requests to loopback. It cannot read the responses, unless its own host
//! name resolves to this address (DNS rebinding): so the Host header must be one of ours.

use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderName};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};

use super::answer::{self, Answer, Refused};
use super::query::bad;
use crate::cli::ServeArgs;
use crate::process::failure::Failure;

/// Shorter tokens can be guessed.
const SHORTEST: usize = 16;

pub(super) struct Gate {
    bind: IpAddr,
    port: u16,
    names: Vec<String>,
    token: Option<String>,
}

impl Gate {
    /// Configured by the options.
    ///
    /// # Errors
    ///
    /// The address is not loopback and there is no token, or the token is invalid.
    pub fn new(args: &ServeArgs) -> Result<Self, Failure> {
        let bind = args.bind;
        if let Some(token) = &args.token {
            if token.len() < SHORTEST {
                return Err(Failure::error(format!(
                    "the token is too short: it needs at least {SHORTEST} characters, as from `openssl rand -hex 16`"
                )));
            }
            if !token
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
            {
                return Err(Failure::error(
                    "the token may only hold letters, digits and - . _ ~",
                ));
            }
        } else if !bind.is_loopback() {
            return Err(Failure::error(format!(
                "listening on {bind} lets others read this cluster: give them a token with --token, as in \
                 --token \"$(openssl rand -hex 16)\", or leave out --bind"
            )));
        }
        Ok(Self {
            bind,
            port: args.port,
            names: args.allow_host.iter().map(|name| name.to_lowercase()).collect(),
            token: args.token.clone(),
        })
    }

    /// Sets the port that was bound.
    pub fn on_port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Whether a token is required.
    pub fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// Admits a request, or rejects it with a response.
    pub fn admit(&self, request: &Parts) -> Result<(), Refused> {
        let host = self.host(&request.headers)?;
        self.origin(&request.headers, host)?;
        if request.method != Method::GET {
            let mut refused = answer::failure(
                StatusCode::METHOD_NOT_ALLOWED,
                "this server only answers GET: it shows a cluster and changes nothing",
            );
            refused
                .headers_mut()
                .insert(header::ALLOW, HeaderValue::from_static("GET"));
            return Err(Box::new(refused));
        }
        self.token(request)
    }

    fn host<'a>(&self, headers: &'a HeaderMap) -> Result<&'a str, Refused> {
        let host = only(headers, header::HOST).ok_or_else(|| bad("the request needs one Host header"))?;
        match self.is_ours(host) {
            true => Ok(host),
            false => Err(Box::new(answer::failure(
                StatusCode::FORBIDDEN,
                "this server does not go by the name in the Host header; if it should, start it with --allow-host",
            ))),
        }
    }

    /// Whether a host, with or without a port, is one of ours. Tunnels change the port, so it is ignored.
    fn is_ours(&self, host: &str) -> bool {
        let Some(name) = name_of(host).map(str::to_lowercase) else {
            return false;
        };
        if name == "localhost" || self.names.contains(&name) {
            return true;
        }
        // An IP address cannot be rebound.
        match name.parse::<IpAddr>() {
            Ok(address) => address.is_loopback() || address == self.bind || self.bind.is_unspecified(),
            Err(_) => false,
        }
    }

    fn origin(&self, headers: &HeaderMap, host: &str) -> Result<(), Refused> {
        let foreign = || {
            answer::failure(
                StatusCode::FORBIDDEN,
                "pages of other origins may not ask this server",
            )
        };
        if headers.contains_key(header::ORIGIN) {
            let origin = only(headers, header::ORIGIN).unwrap_or_default();
            let name = origin
                .strip_prefix("http://")
                .or_else(|| origin.strip_prefix("https://"));
            if !name.is_some_and(|name| name.eq_ignore_ascii_case(host)) {
                return Err(Box::new(foreign()));
            }
        }
        // Navigation is allowed: the linking page cannot read the response.
        let text = |name: &'static str| only(headers, HeaderName::from_static(name)).unwrap_or_default();
        let site = text("sec-fetch-site");
        let foreign_site = matches!(site, "cross-site" | "same-site") && text("sec-fetch-mode") != "navigate";
        match foreign_site {
            true => Err(Box::new(foreign())),
            false => Ok(()),
        }
    }

    fn token(&self, request: &Parts) -> Result<(), Refused> {
        let Some(token) = &self.token else { return Ok(()) };
        // Probes have no token, and learn nothing but names of kinds.
        if matches!(request.uri.path(), "/healthz" | "/livez" | "/readyz") {
            return Ok(());
        }
        let bearer =
            only(&request.headers, header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let cookie = self.cookie(&request.headers);
        if [bearer, cookie]
            .into_iter()
            .flatten()
            .any(|given| equal(given, token))
        {
            return Ok(());
        }
        if request.uri.path() == "/"
            && let Some(given) = request.uri.query().and_then(token_of)
            && equal(given, token)
        {
            return Err(Box::new(self.welcome(token)));
        }
        let mut refused = answer::text(
            StatusCode::UNAUTHORIZED,
            "This page needs the token it was started with: open /?token=TOKEN once, or send it as a bearer token.\n",
        );
        refused
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Err(Box::new(refused))
    }

    /// The cookie of this server. Cookies are shared among ports, so its name contains the port.
    fn cookie<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let name = self.cookie_name();
        headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    fn cookie_name(&self) -> String {
        format!("informers-{}", self.port)
    }

    /// The token came in the URL: sets a cookie and redirects to the URL without it.
    fn welcome(&self, token: &str) -> Answer {
        let mut answer = answer::text(StatusCode::SEE_OTHER, "");
        let cookie = format!(
            "{}={token}; Path=/; HttpOnly; SameSite=Strict",
            self.cookie_name()
        );
        answer
            .headers_mut()
            .insert(header::LOCATION, HeaderValue::from_static("/"));
        if let Ok(value) = HeaderValue::from_str(&cookie) {
            answer.headers_mut().insert(header::SET_COOKIE, value);
        }
        answer
    }
}

/// The value of a header that occurs exactly once.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// `localhost:8090` and `[::1]:8090` without the port and the brackets; `None` if anything but a port follows the name.
fn name_of(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port = rest.strip_prefix(':');
    let valid = rest.is_empty() || port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    valid.then_some(name)
}

fn token_of(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// Compares in constant time.
fn equal(given: &str, token: &str) -> bool {
    let (given, token) = (given.as_bytes(), token.as_bytes());
    let differences = given.iter().zip(token).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == token.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn args(bind: &str, token: Option<&str>) -> ServeArgs {
        ServeArgs {
            bind: bind.parse().unwrap(),
            port: 8090,
            token: token.map(str::to_owned),
            ..ServeArgs::default()
        }
    }

    fn gate(bind: &str, token: Option<&str>) -> Gate {
        Gate::new(&args(bind, token)).unwrap_or_else(|failure| panic!("{failure}"))
    }

    fn code(gate: &Gate, path: &str, headers: &[(&str, &str)]) -> u16 {
        let request = headers.iter().fold(Request::get(path), |request, (name, value)| {
            request.header(*name, *value)
        });
        let (parts, ()) = request.body(()).unwrap().into_parts();
        gate.admit(&parts)
            .map_or_else(|answer| answer.status().as_u16(), |()| 200)
    }

    #[test]
    fn only_our_own_host_names_are_accepted() {
        let gate = gate("127.0.0.1", None);
        for host in ["localhost:8090", "LOCALHOST", "127.0.0.1:9", "[::1]:8090"] {
            assert_eq!(code(&gate, "/", &[("host", host)]), 200, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8090",
            "localhost.evil.example",
            "10.0.0.1",
            "127.0.0.1.evil.example",
            "[::1]evil.com",
            "[::1].evil.com:8090",
            "[::1]:8090.evil.com",
            "[::1",
            "localhost:80:evil.com",
            "localhost:evil.com",
            "",
        ] {
            assert_eq!(code(&gate, "/", &[("host", host)]), 403, "{host}");
        }
        assert_eq!(code(&gate, "/", &[]), 400);
        assert_eq!(
            code(&gate, "/", &[("host", "localhost"), ("host", "evil.example")]),
            400
        );
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let gate = gate("127.0.0.1", None);
        let ask = |origin| {
            code(
                &gate,
                "/api/v1/status",
                &[("host", "localhost:8090"), ("origin", origin)],
            )
        };
        assert_eq!(ask("http://localhost:8090"), 200);
        for origin in [
            "http://localhost:3000",
            "null",
            "https://evil.example",
            "http://localhost:8090.evil.example",
        ] {
            assert_eq!(ask(origin), 403, "{origin}");
        }
        let from = |site, mode| {
            code(
                &gate,
                "/",
                &[
                    ("host", "localhost"),
                    ("sec-fetch-site", site),
                    ("sec-fetch-mode", mode),
                ],
            )
        };
        assert_eq!(from("same-origin", "cors"), 200);
        assert_eq!(from("cross-site", "navigate"), 200, "a link may lead here");
        assert_eq!(from("cross-site", "no-cors"), 403);
        assert_eq!(
            from("same-site", "cors"),
            403,
            "another port of localhost is another page"
        );
    }

    #[test]
    fn addresses_beyond_loopback_require_a_token() {
        let refused = |bind, token| {
            Gate::new(&args(bind, token))
                .err()
                .map(|failure| failure.to_string())
        };
        assert!(refused("0.0.0.0", None).unwrap().contains("--token"));
        assert!(
            refused("192.168.1.4", Some("short"))
                .unwrap()
                .contains("too short")
        );
        assert!(
            refused("127.0.0.1", Some("0123456789 abcdef"))
                .unwrap()
                .contains("letters")
        );
        assert_eq!(refused("0.0.0.0", Some(TOKEN)), None);
        assert_eq!(refused("::1", None), None);
    }

    #[test]
    fn the_token_is_accepted_as_bearer_cookie_or_once_in_the_url() {
        let gate = gate("0.0.0.0", Some(TOKEN));
        let host = ("host", "192.168.1.4:8090");
        assert_eq!(code(&gate, "/", &[host]), 401);
        assert_eq!(code(&gate, "/metrics", &[host]), 401);
        assert_eq!(code(&gate, "/healthz", &[host]), 200);
        assert_eq!(
            code(
                &gate,
                "/api/v1/status",
                &[host, ("authorization", &format!("Bearer {TOKEN}"))]
            ),
            200
        );
        assert_eq!(
            code(
                &gate,
                "/",
                &[host, ("cookie", &format!("a=b; informers-8090={TOKEN}"))]
            ),
            200
        );
        assert_eq!(
            code(&gate, "/", &[host, ("cookie", &format!("informers-1={TOKEN}"))]),
            401
        );
        assert_eq!(code(&gate, &format!("/?token={TOKEN}"), &[host]), 303);
        assert_eq!(code(&gate, "/?token=0123456789abcdeX", &[host]), 401);
        assert_eq!(
            code(&gate, &format!("/api/v1/status?token={TOKEN}"), &[host]),
            401
        );
        assert_eq!(
            code(
                &gate,
                "/",
                &[
                    ("host", "evil.example"),
                    ("authorization", &format!("Bearer {TOKEN}"))
                ]
            ),
            403
        );
    }

    #[test]
    fn names_can_be_allowed() {
        let mut args = args("0.0.0.0", Some(TOKEN));
        args.allow_host = vec!["Dash.Example".to_owned()];
        let gate = Gate::new(&args).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(code(&gate, "/healthz", &[("host", "dash.example:80")]), 200);
        assert_eq!(code(&gate, "/healthz", &[("host", "other.example")]), 403);
    }
}
