//! The rules for names, label keys and label values, with the server's wording.
//!
//! Each function returns the list of violated rules; an empty list means the string is valid.

const LABEL_LENGTH: usize = 63;
const SUBDOMAIN_LENGTH: usize = 253;

const DNS_1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS_1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

const LABEL_KEY_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                              with an alphanumeric character";

/// A lower-case label such as a namespace name: letters, digits and inner dashes, at most 63 bytes.
#[doc(alias = "IsDNS1123Label")]
pub fn dns_1123_label(value: &str) -> Vec<String> {
    let mut broken = too_long(value, LABEL_LENGTH);
    if !is_dns_1123_label(value) {
        if is_dns_1123_subdomain(value) {
            broken.push("must not contain dots".to_owned());
        } else {
            broken.push(rule(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                 start and end with an alphanumeric character",
                &["my-name", "123-abc"],
                DNS_1123_LABEL,
            ));
        }
    }
    broken
}

/// Labels joined by dots, such as most object names: at most 253 bytes.
#[doc(alias = "IsDNS1123Subdomain")]
pub fn dns_1123_subdomain(value: &str) -> Vec<String> {
    let mut broken = too_long(value, SUBDOMAIN_LENGTH);
    if !is_dns_1123_subdomain(value) {
        broken.push(rule(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
             must start and end with an alphanumeric character",
            &["example.com"],
            DNS_1123_SUBDOMAIN,
        ));
    }
    broken
}

/// A label that starts with a letter, such as the name of a Service or the plural of a custom kind.
#[doc(alias = "IsDNS1035Label")]
pub fn dns_1035_label(value: &str) -> Vec<String> {
    let mut broken = too_long(value, LABEL_LENGTH);
    let starts_with_letter = value.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    if !(starts_with_letter && is_dns_1123_label(value)) {
        broken.push(rule(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            &["my-name", "abc-123"],
            DNS_1035_LABEL,
        ));
    }
    broken
}

/// A name that only has to fit into one segment of a URL, such as that of a Role.
#[doc(alias = "IsValidPathSegmentName")]
pub fn path_segment(value: &str) -> Vec<String> {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|part| value.contains(**part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// A label or annotation key: an optional DNS prefix with a slash, then a name of at most 63 bytes.
#[doc(alias = "IsQualifiedName")]
pub fn label_key(value: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let parts: Vec<&str> = value.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                broken.push("prefix part must be non-empty".to_owned());
            } else {
                broken.extend(
                    dns_1123_subdomain(prefix)
                        .into_iter()
                        .map(|text| format!("prefix part {text}")),
                );
            }
            *name
        }
        _ => {
            let text = rule(LABEL_KEY_RULE, &["MyName", "my.name", "123-abc"], LABEL_KEY);
            return vec![format!(
                "a valid label key {text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        broken.push("name part must be non-empty".to_owned());
    } else {
        broken.extend(
            too_long(name, LABEL_LENGTH)
                .into_iter()
                .map(|text| format!("name part {text}")),
        );
    }
    if !is_label_text(name) {
        broken.push(format!(
            "name part {}",
            rule(LABEL_KEY_RULE, &["MyName", "my.name", "123-abc"], LABEL_KEY)
        ));
    }
    broken
}

/// A label's value: empty, or at most 63 bytes of letters, digits and inner `-`, `_`, `.`.
#[doc(alias = "IsValidLabelValue")]
pub fn label_value(value: &str) -> Vec<String> {
    let mut broken = too_long(value, LABEL_LENGTH);
    if !value.is_empty() && !is_label_text(value) {
        broken.push(rule(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
             must start and end with an alphanumeric character",
            &["MyValue", "my_value", "12345"],
            LABEL_VALUE,
        ));
    }
    broken
}

fn too_long(value: &str, max: usize) -> Vec<String> {
    if value.len() > max {
        vec![format!("must be no more than {max} characters")]
    } else {
        Vec::new()
    }
}

fn rule(words: &str, examples: &[&str], regex: &str) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!(
        "{words} (e.g. {}regex used for validation is '{regex}')",
        examples.join(" or ")
    )
}

fn is_dns_1123_label(value: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    starts_ends_and_holds(value, alphanumeric, |byte| alphanumeric(byte) || byte == b'-')
}

fn is_dns_1123_subdomain(value: &str) -> bool {
    value.split('.').all(is_dns_1123_label)
}

fn is_label_text(value: &str) -> bool {
    starts_ends_and_holds(
        value,
        |byte| byte.is_ascii_alphanumeric(),
        |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'),
    )
}

fn starts_ends_and_holds(value: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = value.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(&first), Some(&last)) => edge(first) && edge(last) && bytes.iter().all(|&byte| inner(byte)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_are_accepted() {
        for name in ["a", "my-pod", "1-2", "a.b-c.d"] {
            assert_eq!(dns_1123_subdomain(name), Vec::<String>::new(), "{name}");
        }
        assert!(dns_1123_label("kube-system").is_empty());
        assert!(dns_1035_label("a-1").is_empty());
        assert!(path_segment("system:node").is_empty());
        assert!(label_key("app.kubernetes.io/name").is_empty());
        assert!(label_value("").is_empty() && label_value("A_b.9").is_empty());
    }

    #[test]
    fn invalid_names_are_rejected_as_by_a_real_server() {
        assert_eq!(dns_1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(
            dns_1123_label("My_Pod"),
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
              and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
              '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
        for name in ["", "-a", "a-", "a..b", ".a", "A", "a b", "ü"] {
            assert_eq!(dns_1123_subdomain(name).len(), 1, "{name}");
        }
        assert_eq!(
            dns_1123_label(&"x".repeat(64)),
            ["must be no more than 63 characters"]
        );
        assert_eq!(dns_1035_label("1a").len(), 1);
        assert_eq!(path_segment("a/b%c").len(), 2);
        assert_eq!(path_segment(".."), ["may not be '..'"]);
        assert_eq!(label_key("/x"), ["prefix part must be non-empty"]);
        assert_eq!(label_key("a/b/c").len(), 1);
        assert_eq!(label_key("").len(), 2);
        assert_eq!(label_value("-").len(), 1);
    }
}
