//! The text of a transport error: the operation, the innermost cause and the usual fix.

use std::error::Error;
use std::io;

use kube::client::AuthError;

/// Longer texts of causes are cut.
const MAX_CAUSE: usize = 300;
/// More than any library nests; a chain that leads back to itself must not hang.
const MAX_CAUSES: usize = 32;

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
    if let Some(error) = credentials(error) {
        return format!("{context}: {}", clean(&about_credentials(error)));
    }
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

/// The reason why there are no credentials, if that is what failed.
fn credentials<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a AuthError> {
    let mut next = Some(error);
    for _ in 0..MAX_CAUSES {
        let error = next?;
        if let Some(found) = error.downcast_ref::<AuthError>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// The text of kube repeats the whole output of a credential plugin, which may hold a token, and its environment.
fn about_credentials(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(cause) => format!(
            "the credential plugin cannot be started: {cause}; install it, or correct the user in the kubeconfig"
        ),
        AuthError::AuthExecRun { cmd, out } => {
            let said = String::from_utf8_lossy(&out.stderr);
            let said = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
            let said = said.map_or_else(String::new, |line| format!(": {line}"));
            let name = plugin(cmd).map_or_else(String::new, |name| format!(" {name}"));
            format!(
                "the credential plugin{name} failed ({}){said}; log in again, or run it to see why",
                out.status
            )
        }
        AuthError::ExecPluginFailed | AuthError::AuthExecParse(_) => {
            "the credential plugin has printed no ExecCredential with a status: run it to see why".to_owned()
        }
        other => format!("no credentials: {other}; log in again, or correct the user in the kubeconfig"),
    }
}

/// The program of a command in the form in which the standard library writes it: `NAME="value" "/bin/plugin" "argument"`.
fn plugin(command: &str) -> Option<String> {
    let mut word = String::new();
    let mut is_quoted = false;
    let mut characters = command.chars().chain([' ']);
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.extend(characters.next()),
            '"' => {
                is_quoted = !is_quoted;
                word.push('"');
            }
            ' ' if !is_quoted => match word.strip_prefix('"') {
                Some(name) => return Some(name.trim_end_matches('"').to_owned()),
                // A variable.
                None if word.contains('=') => word.clear(),
                // Without quotes.
                None => return Some(word).filter(|word| !word.is_empty()),
            },
            character => word.push(character),
        }
    }
    None
}

/// The texts of an error and of its sources, outermost first.
fn causes(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut causes = Vec::new();
    let mut next = Some(error);
    while let (Some(error), true) = (next, causes.len() < MAX_CAUSES) {
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

    #[cfg(unix)]
    #[test]
    fn the_output_of_a_credential_plugin_is_not_repeated_except_for_its_last_message() {
        use std::os::unix::process::ExitStatusExt;
        use std::process::{Command, ExitStatus, Output};
        let mut command = Command::new("/opt/my plugin");
        command
            .env("SECRET", "canary in \"quotes\"")
            .arg("canary-argument");
        let failed = AuthError::AuthExecRun {
            cmd: format!("{command:?}"),
            out: Box::new(Output {
                status: ExitStatus::from_raw(3 << 8),
                stdout: b"{ \"token\": \"canary-token\" }".to_vec(),
                stderr: b"warming up\nplease log in\n\n".to_vec(),
            }),
        };

        let text = describe("cannot list pods", &kube::Error::Auth(failed));

        assert_eq!(
            text,
            "cannot list pods: the credential plugin /opt/my plugin failed (exit status: 3): please log in; log in again, or \
             run it to see why"
        );
    }

    #[test]
    fn the_name_of_a_plugin_is_found_in_its_command() {
        for (command, name) in [
            ("\"aws\" \"eks\"", Some("aws")),
            ("A=\"1 2\" B=\"x\\\"y\" \"/a b/c\" \"d\"", Some("/a b/c")),
            ("gcloud config helper", Some("gcloud")),
            ("A=\"1\"", None),
            ("", None),
        ] {
            assert_eq!(plugin(command).as_deref(), name, "{command}");
        }
    }
}
