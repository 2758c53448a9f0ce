//! Warnings about objects of built-in kinds that are valid, but not as they should be.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{items, text};
use crate::kinds::Kind;

/// The warnings about a valid object that a client writes.
#[doc(alias = "WarningsOnCreate")]
#[doc(alias = "WarningsOnUpdate")]
pub(crate) fn warnings(kind: &Kind, object: &Map<String, Value>) -> Vec<String> {
    let check = match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Service") => of_service,
        ("", "Secret") => of_secret,
        _ => return Vec::new(),
    };
    check(&Value::Object(object.clone()))
}

fn of_service(service: &Value) -> Vec<String> {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    const MODE: &str = "service.kubernetes.io/topology-mode";
    let mut warnings = Vec::new();
    let annotations = service.pointer("/metadata/annotations");
    if annotations.is_some_and(|annotations| annotations.get(HINTS).is_some()) {
        warnings.push(format!(
            "annotation {HINTS} is deprecated, please use {MODE} instead"
        ));
    }
    let kind = text(service, "/spec/type");
    let headless = kind == "ClusterIP" && text(service, "/spec/clusterIP") == "None";
    let external = items(service, "/spec/externalIPs").next().is_some();
    let mut ignored = |field: &str| warnings.push(format!("spec.{field} is ignored for headless services"));
    if headless && !text(service, "/spec/loadBalancerIP").is_empty() {
        ignored("loadBalancerIP");
    }
    if headless && external {
        ignored("externalIPs");
    }
    if headless && text(service, "/spec/sessionAffinity") != "None" {
        ignored("SessionAffinity");
    }
    if external && !headless && kind != "ExternalName" {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    if external && kind == "ExternalName" {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && !text(service, "/spec/externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if text(service, "/spec/trafficDistribution") == "PreferClose" {
        warnings.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned(),
        );
    }
    warnings
}

/// The certificate and the key of a TLS secret must be PEM. What is inside is not checked.
fn of_secret(secret: &Value) -> Vec<String> {
    if text(secret, "/type") != "kubernetes.io/tls" {
        return Vec::new();
    }
    let blocks = |name: &str| {
        let data = secret.get("data").and_then(|data| data.get(name)?.as_str());
        let data = STANDARD.decode(data.unwrap_or_default()).unwrap_or_default();
        pem_blocks(&String::from_utf8_lossy(&data))
    };
    key_pair_error(&blocks("tls.crt"), &blocks("tls.key"))
        .into_iter()
        .collect()
}

/// What is wrong with a certificate and a key, given the types of their blocks.
#[doc(alias = "X509KeyPair")]
fn key_pair_error(certificate: &[String], key: &[String]) -> Option<String> {
    let is_key = |kind: &str| kind.ends_with("PRIVATE KEY");
    if !certificate.iter().any(|kind| kind == "CERTIFICATE") {
        return Some(match certificate {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [one] if is_key(one) => {
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs \
                 may have been switched"
                    .to_owned()
            }
            others => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the \
                 following types: [{}]",
                others.join(" ")
            ),
        });
    }
    if key
        .iter()
        .any(|kind| kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY"))
    {
        return None;
    }
    Some(match key {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [one] if one == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        others => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of \
             the following types: [{}]",
            others.join(" ")
        ),
    })
}

/// The types of the PEM blocks in a text.
fn pem_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(&str, String)> = None;
    for line in text.lines().map(str::trim_end) {
        let begin = line
            .strip_prefix("-----BEGIN ")
            .and_then(|line| line.strip_suffix("-----"));
        let end = line
            .strip_prefix("-----END ")
            .and_then(|line| line.strip_suffix("-----"));
        match (begin, end, &mut open) {
            (Some(kind), _, _) => open = Some((kind, String::new())),
            (_, Some(kind), Some((opened, body))) => {
                if *opened == kind && STANDARD.decode(body.as_bytes()).is_ok() {
                    blocks.push(kind.to_owned());
                }
                open = None;
            }
            // Headers are not part of the body.
            (_, _, Some((_, body))) if !line.contains(':') => body.push_str(line),
            _ => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::Registry;

    fn warned(kind: &str, object: Value) -> Vec<String> {
        let kind = Registry::builtin().kind("", "v1", kind).unwrap();
        warnings(&kind, object.as_object().unwrap())
    }

    #[test]
    fn services_are_warned_about_what_is_ignored_or_deprecated() {
        let headless = json!({ "spec": {
            "type": "ClusterIP", "clusterIP": "None", "externalIPs": ["192.0.2.1"], "sessionAffinity": "ClientIP",
        } });
        assert_eq!(
            warned("Service", headless),
            [
                "spec.externalIPs is ignored for headless services",
                "spec.SessionAffinity is ignored for headless services",
            ]
        );
        let plain =
            json!({ "spec": { "type": "ClusterIP", "clusterIP": "10.0.0.2", "sessionAffinity": "None" } });
        assert!(warned("Service", plain).is_empty());
    }

    #[test]
    fn certificates_and_keys_must_be_pem() {
        let block = |kind: &str| format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n");
        let secret = |certificate: &str, key: &str| {
            let encode = |text: &str| STANDARD.encode(text);
            let data = json!({ "tls.crt": encode(certificate), "tls.key": encode(key) });
            warned("Secret", json!({ "type": "kubernetes.io/tls", "data": data }))
        };
        let (certificate, key) = (block("CERTIFICATE"), block("RSA PRIVATE KEY"));

        assert!(secret(&certificate, &key).is_empty());
        assert_eq!(
            secret("a", &key),
            ["tls: failed to find any PEM data in certificate input"]
        );
        assert!(secret(&key, &certificate)[0].ends_with("PEM inputs may have been switched"));
        assert_eq!(
            secret(&certificate, ""),
            ["tls: failed to find any PEM data in key input"]
        );
        assert!(
            secret(&certificate, &certificate)[0].starts_with("tls: found a certificate rather than a key")
        );
        assert!(secret(&certificate, &block("X"))[0].ends_with("types: [X]"));
        assert!(warned("Secret", json!({ "type": "Opaque" })).is_empty());
    }
}
