//! The effects of a fault: on the connection, the response, a list, a watch, single objects, the bytes.
//! Plain data with builders; the affected parts of the server read it.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use kube_api_protocol::status::ApiError;

use super::list::ListFault;
use super::poison::Poison;
use super::shape::Shape;
use super::watch::WatchFault;

/// The effect of a fault. Combine several effects with [`Fault::and`].
///
/// ```
/// use std::time::Duration;
/// use kube_testserver::Fault;
///
/// Fault::status(503).text("busy").retry_after(2);
/// Fault::delay(Duration::from_secs(3)).and(Fault::close_after_events(2));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Fault {
    pub(crate) delay: Option<Duration>,
    pub(crate) answer: Option<Answer>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) shape: Shape,
    pub(crate) list: ListFault,
    pub(crate) watch: WatchFault,
    pub(crate) poison: Vec<(String, Poison)>,
}

/// What replaces the real response.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// The connection fails.
    Refuse,
    /// No response, ever.
    Hang,
    /// A fixed response.
    Reply {
        status: StatusCode,
        content_type: Option<HeaderValue>,
        body: Bytes,
    },
}

fn answer(answer: Answer) -> Fault {
    Fault {
        answer: Some(answer),
        ..Fault::default()
    }
}

fn on_bytes(shape: Shape) -> Fault {
    Fault {
        shape,
        ..Fault::default()
    }
}

/// Faults of the connection and of the whole response.
impl Fault {
    /// The connection fails before any response.
    pub fn refuse() -> Fault {
        answer(Answer::Refuse)
    }

    /// The headers are never sent.
    pub fn hang() -> Fault {
        answer(Answer::Hang)
    }

    /// The response is delayed.
    pub fn delay(by: Duration) -> Fault {
        Fault {
            delay: Some(by),
            ..Fault::default()
        }
    }

    /// An HTTP status with the `Status` object a server sends with it. [`Fault::text`] and the like change the body.
    pub fn status(code: u16) -> Fault {
        let error = match code {
            400 => ApiError::bad_request("the request is refused on purpose"),
            401 => ApiError::unauthorized(),
            403 => ApiError::new(403, "Forbidden", "forbidden on purpose"),
            404 => ApiError::no_such_resource(),
            405 => ApiError::method_not_allowed(),
            409 => ApiError::new(409, "Conflict", "conflict on purpose"),
            410 => ApiError::expired("too old resource version: 0 (0)"),
            422 => ApiError::new(422, "Invalid", "invalid on purpose"),
            429 => ApiError::new(429, "TooManyRequests", "too many requests on purpose"),
            500 => ApiError::internal("failed on purpose"),
            503 => ApiError::unavailable("unavailable on purpose"),
            504 => ApiError::new(504, "Timeout", "timed out on purpose"),
            other => ApiError::new(other, "", "failed on purpose"),
        };
        Fault::error(error)
    }

    /// Exactly this error.
    pub fn error(error: ApiError) -> Fault {
        let mut fault = answer(Answer::Reply {
            status: error.http_status(),
            content_type: Some(HeaderValue::from_static("application/json")),
            body: error.to_bytes(),
        });
        if let Some(seconds) = error.retry_after_seconds() {
            fault = fault.retry_after(seconds);
        }
        fault
    }

    /// The 422 of a server that does not know `sendInitialEvents`.
    pub fn refuse_watch_list() -> Fault {
        let detail = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        let broken = [kube_api_protocol::field_error::FieldError::forbidden(
            "sendInitialEvents",
            detail,
        )];
        Fault::error(ApiError::invalid("meta.k8s.io", "ListOptions", "", &broken))
    }

    /// Sets a plain-text body.
    #[must_use]
    pub fn text(self, body: impl Into<String>) -> Fault {
        self.body("text/plain; charset=utf-8", body.into())
    }

    /// Sets an HTML body, as proxies do.
    #[must_use]
    pub fn html(self, body: impl Into<String>) -> Fault {
        self.body("text/html", body.into())
    }

    /// Sets any body; the status is 200 unless set before.
    ///
    /// # Panics
    ///
    /// If `content_type` is not a header value.
    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl Into<Bytes>) -> Fault {
        let status = match self.answer {
            Some(Answer::Reply { status, .. }) => status,
            _ => StatusCode::OK,
        };
        let content_type = match HeaderValue::from_str(content_type) {
            Ok(value) => (!content_type.is_empty()).then_some(value),
            Err(_) => panic!("{content_type:?} is no content type"),
        };
        self.answer = Some(Answer::Reply {
            status,
            content_type,
            body: body.into(),
        });
        self
    }

    /// Adds a `Retry-After` header.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Fault {
        self.headers
            .push((http::header::RETRY_AFTER, HeaderValue::from(seconds)));
        self
    }

    /// Adds a header to the response.
    ///
    /// # Panics
    ///
    /// If the name or value is not valid in a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Fault {
        match (HeaderName::try_from(name), HeaderValue::from_str(value)) {
            (Ok(name), Ok(value)) => self.headers.push((name, value)),
            _ => panic!("{name:?}: {value:?} is no header"),
        }
        self
    }

    /// Combines two faults: both apply. Where they conflict, the first one wins.
    #[must_use]
    pub fn and(mut self, other: Fault) -> Fault {
        self.delay = match (self.delay, other.delay) {
            (Some(one), Some(two)) => Some(one + two),
            (one, two) => one.or(two),
        };
        self.answer = self.answer.or(other.answer);
        self.headers.extend(other.headers);
        self.shape = self.shape.and(other.shape);
        self.list = self.list.and(other.list);
        self.watch = self.watch.and(other.watch);
        self.poison.extend(other.poison);
        self
    }
}

/// Faults on the bytes of the body.
impl Fault {
    /// The connection breaks after this number of body bytes.
    pub fn cut(after_bytes: u64) -> Fault {
        on_bytes(Shape {
            cut: Some(after_bytes),
            ..Shape::default()
        })
    }

    /// The body ends after this number of bytes, as if it were complete.
    pub fn truncate(after_bytes: u64) -> Fault {
        on_bytes(Shape {
            cut: Some(after_bytes),
            clean_cut: true,
            ..Shape::default()
        })
    }

    /// The body stalls forever after this number of bytes.
    pub fn stall(after_bytes: u64) -> Fault {
        on_bytes(Shape {
            stall: Some((after_bytes, None)),
            ..Shape::default()
        })
    }

    /// The body pauses after this number of bytes.
    pub fn pause(after_bytes: u64, length: Duration) -> Fault {
        on_bytes(Shape {
            stall: Some((after_bytes, Some(length))),
            ..Shape::default()
        })
    }

    /// The body is sent in chunks of these sizes, repeated cyclically.
    pub fn split(sizes: impl Into<Vec<usize>>) -> Fault {
        on_bytes(Shape {
            split: sizes.into(),
            ..Shape::default()
        })
    }

    /// The body is sent in chunks of at least this size; only the last may be smaller.
    pub fn glue(bytes: usize) -> Fault {
        on_bytes(Shape {
            glue: bytes,
            ..Shape::default()
        })
    }

    /// The body is sent in chunks of at most `bytes`, with a pause before each.
    pub fn trickle(bytes: usize, pause: Duration) -> Fault {
        on_bytes(Shape {
            split: vec![bytes.max(1)],
            pause: Some(pause),
            ..Shape::default()
        })
    }

    /// Appends these bytes to the body.
    pub fn append(bytes: impl Into<Bytes>) -> Fault {
        on_bytes(Shape {
            append: bytes.into(),
            ..Shape::default()
        })
    }
}

/// Faults of single objects.
impl Fault {
    /// One object (`namespace/name`, or `name`) is corrupted wherever it appears in the response.
    pub fn poison(object: &str, poison: Poison) -> Fault {
        Fault {
            poison: vec![(object.to_owned(), poison)],
            ..Fault::default()
        }
    }
}
