//! Parses a URL: path segments and query options, checked as an API server checks them.
//! Returns plain values or the error to respond with. Knows nothing of storage.

use std::time::Duration;

use http::Method;
use percent_encoding::percent_decode_str;

use crate::field_error::FieldError;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::ApiError;

/// The verb of a request, as Kubernetes names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// `GET` of one object.
    Get,
    /// `GET` of a collection.
    List,
    /// `GET` of a collection (or one object) with `watch=true`.
    Watch,
    /// `POST`.
    Create,
    /// `PUT`.
    Update,
    /// `PATCH`.
    Patch,
    /// `DELETE` of one object.
    Delete,
    /// `DELETE` of a collection.
    DeleteCollection,
    /// Anything that is not about objects: discovery, health, version, unknown paths.
    Other,
}

impl Verb {
    /// The verb as used in RBAC rules and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Other => "other",
        }
    }
}

/// The parts of a path under `/api` or `/apis`, before any lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePath {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The plural name, such as `pods`.
    pub resource: String,
    /// The namespace; `None` at cluster scope.
    pub namespace: Option<String>,
    /// The object's name; `None` for a collection.
    pub name: Option<String>,
    /// What follows the name, such as `status`.
    pub subresource: Option<String>,
    /// The legacy form of a watch: `/api/v1/watch/pods`.
    pub watch: bool,
}

impl ResourcePath {
    /// Parses `/api/v1/…` and `/apis/group/version/…` if they name a resource; `None` for everything else.
    pub fn parse(path: &str) -> Option<ResourcePath> {
        let mut segments = Vec::new();
        for segment in path.strip_prefix('/')?.split('/') {
            segments.push(percent_decode_str(segment).decode_utf8().ok()?.into_owned());
        }
        if segments.last().is_some_and(String::is_empty) {
            segments.pop();
        }
        if segments.iter().any(String::is_empty) {
            return None;
        }
        let mut rest = segments.into_iter();
        let (group, version) = match rest.next()?.as_str() {
            "api" => (String::new(), rest.next()?),
            "apis" => (rest.next()?, rest.next()?),
            _ => return None,
        };
        let mut rest: Vec<String> = rest.collect();
        let watch = rest.len() > 1 && rest.first().is_some_and(|first| first == "watch");
        if watch {
            rest.remove(0);
        }
        // `namespaces/x/pods/…` is inside a namespace; `namespaces/x` and its subresources are about the namespace.
        let inside = rest.len() > 2
            && rest.first().is_some_and(|first| first == "namespaces")
            && !(rest.len() == 3 && matches!(rest.get(2).map(String::as_str), Some("status" | "finalize")));
        let mut rest = rest.into_iter();
        let namespace = if inside {
            rest.next();
            rest.next()
        } else {
            None
        };
        let resource = rest.next()?;
        let name = rest.next();
        let subresource = rest.collect::<Vec<_>>().join("/");
        let subresource = (!subresource.is_empty()).then_some(subresource);
        Some(ResourcePath {
            group,
            version,
            resource,
            namespace,
            name,
            subresource,
            watch,
        })
    }

    /// The verb of the request. A `GET` of one object with `watch=true` is a watch, too.
    pub fn verb(&self, method: &Method, query: &Query) -> Option<Verb> {
        let named = self.name.is_some();
        let watch = (self.watch || query.flag("watch")) && self.subresource.is_none();
        Some(match *method {
            Method::GET | Method::HEAD if self.watch && watch => Verb::Watch,
            // The parameter has no effect on a get.
            Method::GET | Method::HEAD if named => Verb::Get,
            Method::GET | Method::HEAD if watch => Verb::Watch,
            Method::GET | Method::HEAD => Verb::List,
            Method::POST => Verb::Create,
            Method::PUT if named => Verb::Update,
            Method::PATCH if named => Verb::Patch,
            Method::DELETE if named => Verb::Delete,
            Method::DELETE => Verb::DeleteCollection,
            _ => return None,
        })
    }
}

/// The decoded pairs of a query string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Decodes a query string. Never fails: invalid bytes become replacement characters.
    pub fn parse(query: &str) -> Query {
        Query {
            pairs: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        }
    }

    /// The first value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// A boolean by the server's rule: present, and neither `0` nor `false`.
    pub fn flag(&self, key: &str) -> bool {
        self.optional_flag(key).unwrap_or(false)
    }

    /// All pairs, in order.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }

    /// A boolean by the same rule; `None` if the key is absent.
    pub fn optional_flag(&self, key: &str) -> Option<bool> {
        self.get(key)
            .map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    fn number(&self, key: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.get(key).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let number = text.parse().map_err(|_| {
            ApiError::bad_request(format!(
                "strconv.ParseInt: parsing {}: invalid syntax",
                crate::field_error::quote(text)
            ))
        })?;
        Ok(Some(number))
    }
}

/// The match rule of a list's resource version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// The state at this version.
    Exact,
    /// Any state at or after it.
    NotOlderThan,
}

/// The options of a list or a watch, decoded, defaulted and checked.
#[derive(Clone, Debug)]
pub struct ListOptions {
    /// `labelSelector`.
    pub labels: LabelSelector,
    /// `fieldSelector`, not yet checked against the fields of a kind.
    pub fields: FieldSelector,
    /// The size of a page; 0 means no limit.
    pub limit: usize,
    /// The token of the page before; see [`ContinueToken`](crate::list::ContinueToken).
    pub continue_token: Option<String>,
    /// `resourceVersion` as the client wrote it; see [`parse_version`].
    pub resource_version: String,
    /// `resourceVersionMatch`.
    pub version_match: Option<VersionMatch>,
    /// Whether a watch may send bookmarks.
    pub bookmarks: bool,
    /// Whether a watch starts with the existing objects.
    pub initial_events: bool,
    /// When a watch ends; `None` leaves it to the server.
    pub timeout: Option<Duration>,
}

impl ListOptions {
    /// Decodes and validates in the server's order: format, rules (422), selectors (400).
    pub fn parse(query: &Query, watch: bool) -> Result<ListOptions, ApiError> {
        let limit = query.number("limit")?.unwrap_or(0);
        let timeout = query.number("timeoutSeconds")?.filter(|&seconds| seconds > 0);
        let continue_token = query
            .get("continue")
            .filter(|token| !token.is_empty())
            .map(str::to_owned);
        let resource_version = query.get("resourceVersion").unwrap_or_default().to_owned();
        let mut asked_match = query.get("resourceVersionMatch").unwrap_or_default();
        let mut initial_events = query.optional_flag("sendInitialEvents");

        let legacy = matches!(resource_version.as_str(), "" | "0");
        if watch && legacy && initial_events.is_none() && asked_match.is_empty() {
            initial_events = Some(true);
            asked_match = "NotOlderThan";
        }
        let broken = if watch {
            watch_rules(asked_match, initial_events, continue_token.is_some())
        } else {
            list_rules(
                asked_match,
                initial_events,
                &resource_version,
                continue_token.is_some(),
            )
        };
        if !broken.is_empty() {
            return Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", &broken));
        }
        let selector = |key: &str| query.get(key).unwrap_or_default().to_owned();
        Ok(ListOptions {
            labels: LabelSelector::parse(&selector("labelSelector"))
                .map_err(|error| ApiError::bad_request(error.to_string()))?,
            fields: FieldSelector::parse(&selector("fieldSelector"))
                .map_err(|error| ApiError::bad_request(error.to_string()))?,
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token,
            resource_version,
            version_match: match asked_match {
                "Exact" => Some(VersionMatch::Exact),
                "NotOlderThan" => Some(VersionMatch::NotOlderThan),
                _ => None,
            },
            bookmarks: query.flag("allowWatchBookmarks"),
            initial_events: initial_events.unwrap_or(false),
            timeout: timeout
                .and_then(|seconds| u64::try_from(seconds).ok())
                .map(Duration::from_secs),
        })
    }

    /// Narrows the options to the object of one name.
    pub fn select_name(&mut self, name: &str) -> Result<(), ApiError> {
        let mut selector = format!("metadata.name={}", escape(name));
        for term in self.fields.terms() {
            let operator = if term.equal { "=" } else { "!=" };
            selector.push_str(&format!(",{}{operator}{}", term.field, escape(&term.value)));
        }
        self.fields =
            FieldSelector::parse(&selector).map_err(|error| ApiError::bad_request(error.to_string()))?;
        Ok(())
    }
}

/// Escapes a value for a field selector.
fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace(',', "\\,")
        .replace('=', "\\=")
}

/// Parses a resource version; the error is that of Go's number parser.
pub fn parse_version(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let quoted = crate::field_error::quote(text);
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("strconv.ParseUint: parsing {quoted}: invalid syntax"));
    }
    text.parse()
        .map_err(|_| format!("strconv.ParseUint: parsing {quoted}: value out of range"))
}

const MATCH: &str = "resourceVersionMatch";

fn list_rules(asked: &str, initial_events: Option<bool>, version: &str, continues: bool) -> Vec<FieldError> {
    let mut broken = Vec::new();
    if !asked.is_empty() {
        if version.is_empty() {
            broken.push(FieldError::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if continues {
            broken.push(FieldError::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if !matches!(asked, "Exact" | "NotOlderThan") {
            broken.push(FieldError::not_supported(
                MATCH,
                asked,
                &["Exact", "NotOlderThan", ""],
            ));
        }
        if asked == "Exact" && version == "0" {
            broken.push(FieldError::forbidden(
                MATCH,
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
    }
    if initial_events.is_some() {
        broken.push(FieldError::forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        ));
    }
    broken
}

fn watch_rules(asked: &str, initial_events: Option<bool>, continues: bool) -> Vec<FieldError> {
    let mut broken = Vec::new();
    if initial_events.is_some() && asked != "NotOlderThan" {
        broken.push(FieldError::forbidden(
            MATCH,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    if !asked.is_empty() {
        if initial_events.is_none() {
            broken.push(FieldError::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        if asked != "NotOlderThan" {
            broken.push(FieldError::not_supported(MATCH, asked, &["NotOlderThan"]));
        }
        if continues {
            broken.push(FieldError::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> ResourcePath {
        ResourcePath::parse(path).expect("a resource path")
    }

    #[test]
    fn paths_are_parsed() {
        let pods = path("/api/v1/namespaces/shop/pods/cart/status");
        assert_eq!(pods.namespace.as_deref(), Some("shop"));
        assert_eq!(
            (pods.resource.as_str(), pods.name.as_deref()),
            ("pods", Some("cart"))
        );
        assert_eq!(pods.subresource.as_deref(), Some("status"));

        let namespace = path("/api/v1/namespaces/shop");
        assert_eq!(
            (namespace.resource.as_str(), namespace.name.as_deref()),
            ("namespaces", Some("shop"))
        );
        assert_eq!(namespace.namespace, None);
        let finalize = path("/api/v1/namespaces/shop/finalize");
        assert_eq!(
            (finalize.name.as_deref(), finalize.subresource.as_deref()),
            (Some("shop"), Some("finalize"))
        );

        let widgets = path("/apis/example.com/v1/widgets/");
        assert_eq!(
            (widgets.group.as_str(), widgets.version.as_str()),
            ("example.com", "v1")
        );
        assert!(path("/api/v1/watch/pods").watch);
    }

    #[test]
    fn other_paths_are_not_resource_paths() {
        for other in [
            "",
            "/",
            "/api",
            "/api/v1",
            "/apis/apps",
            "/apis/apps/v1",
            "/version",
            "/api//pods",
            "/api/v1/%ff",
        ] {
            assert_eq!(ResourcePath::parse(other), None, "{other}");
        }
    }

    #[test]
    fn version_rules_match_a_real_server() {
        let check = |query: &str, watch| {
            ListOptions::parse(&Query::parse(query), watch)
                .map(|_| ())
                .map_err(|error| error.code())
        };

        assert_eq!(
            check("resourceVersion=5&resourceVersionMatch=Exact", false),
            Ok(())
        );
        assert_eq!(check("resourceVersionMatch=Exact", false), Err(422));
        assert_eq!(
            check("resourceVersion=0&resourceVersionMatch=Exact", false),
            Err(422)
        );
        assert_eq!(
            check("resourceVersion=5&resourceVersionMatch=Odd", false),
            Err(422)
        );
        assert_eq!(check("sendInitialEvents=true", false), Err(422));
        assert_eq!(check("limit=x", false), Err(400));
        assert_eq!(
            check("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", true),
            Ok(())
        );
        assert_eq!(check("sendInitialEvents=true", true), Err(422));
        assert_eq!(
            check("resourceVersion=5&resourceVersionMatch=NotOlderThan", true),
            Err(422)
        );
        assert_eq!(check("labelSelector=a=b=c", true), Err(400));
    }

    #[test]
    fn watch_without_a_version_starts_with_initial_events() {
        let begins = |query: &str| {
            ListOptions::parse(&Query::parse(query), true)
                .expect("valid options")
                .initial_events
        };

        assert!(begins(""));
        assert!(begins("resourceVersion=0"));
        assert!(!begins("resourceVersion=5"));
        assert!(!begins(
            "sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
        ));
    }

    #[test]
    fn versions_are_plain_decimal_numbers() {
        assert_eq!(parse_version(""), Ok(0));
        assert_eq!(parse_version("42"), Ok(42));
        for bad in ["x", "-1", "+1", "1 ", "99999999999999999999"] {
            assert!(parse_version(bad).is_err(), "{bad}");
        }
    }
}
