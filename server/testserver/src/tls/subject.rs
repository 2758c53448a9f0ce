//! The user that a client certificate names: its common name is the user, its organizations are the groups.

use crate::user::User;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// The optional version at the start of a certificate.
const VERSION: u8 = 0xa0;
/// 2.5.4.3 and 2.5.4.10.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// The user of a certificate in DER, which the handshake has verified. `None` if it has no common name, as on a real server.
#[doc(alias = "CommonNameUserConversion")]
pub(super) fn user_of(certificate: &[u8]) -> Option<User> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (mut rest, _) = element(certificate, SEQUENCE)?;
    if let Some((_, after)) = element(rest, VERSION) {
        rest = after;
    }
    (_, rest) = element(rest, INTEGER)?; // the serial number
    for _ in ["signature algorithm", "issuer", "validity"] {
        (_, rest) = element(rest, SEQUENCE)?;
    }
    let (mut subject, _) = element(rest, SEQUENCE)?;
    let mut name = None;
    let mut groups = Vec::new();
    while let Some((set, after)) = element(subject, SET) {
        subject = after;
        let mut attributes = set;
        while let Some((attribute, after)) = element(attributes, SEQUENCE) {
            attributes = after;
            let (identifier, value) = element(attribute, OBJECT_IDENTIFIER)?;
            let (_, text, _) = any_element(value)?;
            let text = std::str::from_utf8(text).ok()?;
            match identifier {
                COMMON_NAME => name = Some(text),
                ORGANIZATION => groups.push(text),
                _ => {}
            }
        }
    }
    let name = name.filter(|name| !name.is_empty())?;
    Some(User::new(name, &groups))
}

/// The content of an element with this tag, and what follows it.
fn element(bytes: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = any_element(bytes)?;
    (tag == wanted).then_some((content, rest))
}

/// Tag, content and rest of the first element.
fn any_element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, bytes) = bytes.split_first()?;
    let (&first, mut bytes) = bytes.split_first()?;
    let length = match first {
        short @ 0..=0x7f => usize::from(short),
        // The length follows in so many bytes.
        0x81..=0x84 => {
            let (length, rest) = bytes.split_at_checked(usize::from(first & 0x7f))?;
            bytes = rest;
            length.iter().fold(0, |sum, &byte| (sum << 8) | usize::from(byte))
        }
        _ => return None,
    };
    let (content, rest) = bytes.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        // A long alternative name makes lengths of two bytes.
        let mut parameters = CertificateParams::new(vec!["a".repeat(60); 10]).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, name) in names {
            parameters.distinguished_name.push(kind.clone(), *name);
        }
        let key = KeyPair::generate().unwrap();
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn the_common_name_is_the_user_and_organizations_are_groups() {
        let certificate = certificate(&[
            (DnType::CountryName, "DE"),
            (DnType::OrganizationName, "system:masters"),
            (DnType::CommonName, "admin"),
        ]);
        assert_eq!(
            user_of(&certificate),
            Some(User::new("admin", &["system:masters"]))
        );
    }

    #[test]
    fn a_certificate_without_a_common_name_is_no_user() {
        let certificate = certificate(&[(DnType::OrganizationName, "system:masters")]);
        assert_eq!(user_of(&certificate), None);
    }

    #[test]
    fn damaged_certificates_are_no_user_and_no_panic() {
        let certificate = certificate(&[(DnType::CommonName, "admin")]);
        for length in 0..certificate.len() {
            assert_eq!(user_of(&certificate[..length]), None, "{length} bytes");
        }
        for at in 0..certificate.len() {
            for value in [0, 0x7f, 0x84, 0xff] {
                let mut damaged = certificate.clone();
                damaged[at] = value;
                let _ = user_of(&damaged);
            }
        }
    }
}
