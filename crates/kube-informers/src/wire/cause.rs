//! The text of a transport error: the operation, the innermost cause and the usual fix.

use std::error::Error;
use std::io;

/// Longer texts of causes are cut.
const MAX_CAUSE: usize = 300;

/// Words of an innermost cause, in lower case, and the usual fix. They are matched by text because the application chooses
/// the TLS library. The first match counts.
const FIXES: &[(&[&str], &str)] = &[
    (
        &["connection refused"],
        "is the server running, and is its address right?",
    ),
    (
        &[
            "dns error",
            "failed to lookup address",
            "name or service not known",
            "nodename nor servname",
            "no such host",
            "temporary failure in name resolution",
        ],
        "the host name cannot be resolved: check the server address and the DNS of this machine",
    ),
    (
        &[
            "invalidcontenttype",
            "corrupt message",
            "wrong version number",
            "packet length too long",
            "record layer failure",
        ],
        "the server does not speak TLS on this port: use http:// in the server address, or the TLS port",
    ),
    (
        &["invalid http version"],
        "the server does not speak HTTP on this port: use https:// in the server address if it is a TLS port",
    ),
    (
        &["notvalidyet", "not valid yet", "not yet valid"],
        "the certificate of the server is not valid yet: is the clock of this machine right?",
    ),
    (
        &["expired"],
        "a certificate has expired: renew it, or set the clock of this machine",
    ),
    (
        &[
            "notvalidforname",
            "not valid for name",
            "hostname mismatch",
            "ip address mismatch",
        ],
        "the certificate of the server is for another name: check the server address, or set tls-server-name",
    ),
    (
        &[
            "unknownissuer",
            "unknown issuer",
            "unable to get local issuer",
            "self-signed",
            "self signed",
            "unable to verify",
            "unknownca",
            "unknown ca",
        ],
        "the certificate of the server is not signed by a known authority: set certificate-authority in the kubeconfig",
    ),
    (
        &[
            "certificaterequired",
            "certificate required",
            "bad certificate",
            "badcertificate",
        ],
        "the server rejects the client certificate: check client-certificate and client-key in the kubeconfig",
    ),
    (
        &["timed out", "deadline has elapsed"],
        "does a firewall or a proxy drop the packets?",
    ),
    (
        &["unreachable", "no route to host"],
        "is this machine connected to the network of the server?",
    ),
];

/// `cannot list pods in shop: connection refused (os error 111); is the server running, and is its address right?`
pub(super) fn describe(context: &str, error: &(dyn Error + 'static)) -> String {
    let causes = causes(error);
    let innermost = causes.last().map(String::as_str).unwrap_or_default();
    let mut text = context.to_owned();
    if !innermost.is_empty() && !context.ends_with(innermost) {
        text.push_str(": ");
        text.push_str(innermost);
    }
    if let Some(fix) = fix(&causes) {
        text.push_str("; ");
        text.push_str(fix);
    }
    text
}

/// The fix for the innermost cause that has one.
fn fix(causes: &[String]) -> Option<&'static str> {
    causes.iter().rev().find_map(|cause| {
        let cause = cause.to_ascii_lowercase();
        FIXES
            .iter()
            .find(|(words, _)| words.iter().any(|word| cause.contains(word)))
            .map(|(_, fix)| *fix)
    })
}

/// The texts of an error and of its sources, outermost first.
fn causes(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut causes = Vec::new();
    let mut next = Some(error);
    // More than any library nests; a chain that leads back to itself must not hang.
    while let (Some(error), true) = (next, causes.len() < 32) {
        causes.push(clean(&error.to_string()));
        // `source` of an I/O error skips the error it wraps.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    causes
}

/// One line of bounded length: parts of the text may come from the server.
fn clean(text: &str) -> String {
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    printable.take(MAX_CAUSE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Outer(#[source] io::Error);

    fn text(cause: &str) -> String {
        describe("cannot list pods", &Outer(io::Error::other(cause.to_owned())))
    }

    #[test]
    fn the_innermost_cause_and_the_usual_fix_are_named() {
        for (cause, fix) in [
            ("Connection refused (os error 111)", "is the server running"),
            (
                "failed to lookup address information: Name or service not known",
                "cannot be resolved",
            ),
            (
                "received corrupt message of type InvalidContentType",
                "does not speak TLS on this port",
            ),
            ("invalid HTTP version parsed", "use https://"),
            (
                "invalid peer certificate: UnknownIssuer",
                "not signed by a known authority",
            ),
            (
                "invalid peer certificate: certificate expired: verification time 1790000000 (UNIX)",
                "has expired",
            ),
            (
                "invalid peer certificate: certificate not valid for name \"a\"; certificate is only valid for b",
                "is for another name",
            ),
            ("operation timed out", "firewall"),
            ("Network is unreachable (os error 101)", "network of the server"),
        ] {
            let text = text(cause);
            assert!(
                text.starts_with(&format!("cannot list pods: {cause}; ")) && text.contains(fix),
                "{text}"
            );
        }
        assert_eq!(text("something new"), "cannot list pods: something new");
    }

    #[test]
    fn a_fix_may_follow_from_an_outer_cause() {
        #[derive(Debug, thiserror::Error)]
        #[error("dns error")]
        struct Dns(#[source] io::Error);

        let text = describe("cannot list pods", &Dns(io::Error::other("code 8")));
        assert!(
            text.starts_with("cannot list pods: code 8; the host name cannot be resolved"),
            "{text}"
        );
    }

    #[test]
    fn control_characters_and_long_texts_do_not_reach_the_message() {
        let text = text(&format!("a\u{1b}]52;c;\u{7}\nb{}", "x".repeat(10_000)));
        assert!(!text.contains(char::is_control) && text.len() < 400, "{text}");
    }
}
