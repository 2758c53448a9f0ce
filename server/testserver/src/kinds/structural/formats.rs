//! The formats of strings that a real server checks in objects of custom kinds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{Timestamp, civil};
use kube_api_protocol::names;

/// Whether a text has a format. Unknown formats are not checked.
pub(crate) fn fits(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.parse::<Timestamp>().is_ok(),
        "date" => text.len() == 10 && text.parse::<civil::Date>().is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "uri" => is_uri(text),
        "byte" => STANDARD.decode(text).is_ok(),
        "duration" => is_duration(text),
        "hexcolor" => is_hex_color(text),
        "rgbcolor" => is_rgb_color(text),
        "bsonobjectid" => text.len() == 24 && is_hexadecimal(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => is_social_security_number(text),
        "k8s-short-name" => names::dns_1123_label(text).is_empty(),
        "k8s-long-name" => names::dns_1123_subdomain(text).is_empty(),
        _ => true,
    }
}

/// Why a text does not have one of the formats that expressions name, such as `format.dns1123Label()`.
pub(crate) fn errors(format: &str, text: &str) -> Vec<String> {
    let message = match format {
        "dns1123Label" => return names::dns_1123_label(text),
        "dns1123Subdomain" => return names::dns_1123_subdomain(text),
        "dns1035Label" => return names::dns_1035_label(text),
        "qualifiedName" => return names::label_key(text),
        "labelValue" => return names::label_value(text),
        "uri" => "invalid URI for request",
        "uuid" => "does not match the UUID format",
        "byte" => "invalid base64",
        "date" => "invalid date",
        _ => "invalid datetime",
    };
    if fits(format, text) {
        Vec::new()
    } else {
        vec![message.to_owned()]
    }
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    digits && length.parse::<u8>().is_ok_and(|length| length <= most)
}

/// Groups of two hexadecimal digits with colons or dashes, or of four with dots: 6, 8 or 20 bytes.
fn is_mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize| {
        let groups: Vec<&str> = text.split(separator).collect();
        let fit = groups
            .iter()
            .all(|group| group.len() == digits && is_hexadecimal(group));
        fit && matches!(groups.len() * digits / 2, 6 | 8 | 20)
    };
    groups(':', 2) || groups('-', 2) || groups('.', 4)
}

/// The dashes are optional. The version is the first digit of the third group; versions 4 and 5 limit the fourth, too.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    let digits: String = text.chars().filter(|letter| *letter != '-').collect();
    // Groups of 8, 4, 4, 4 and 12 digits: a dash comes after one of them.
    let mut dashes = text.match_indices('-').enumerate();
    let in_place = dashes.all(|(index, (at, _))| matches!(at - index, 8 | 12 | 16 | 20));
    let versioned = version.is_none_or(|version| {
        let variant = digits.chars().nth(16).unwrap_or_default().to_ascii_lowercase();
        digits.chars().nth(12) == Some(version)
            && (version == '3' || matches!(variant, '8' | '9' | 'a' | 'b'))
    });
    digits.len() == 32 && is_hexadecimal(&digits) && in_place && !text.contains("--") && versioned
}

fn is_email(text: &str) -> bool {
    // An address may have a name before it: `Jane <jane@example.com>`.
    let address = match text
        .trim()
        .strip_suffix('>')
        .and_then(|text| text.split_once('<'))
    {
        Some((_, address)) => address,
        None => text.trim(),
    };
    let allowed = |letter: char| !letter.is_whitespace() && !"()<>[]:;\\,\"@".contains(letter);
    address.split_once('@').is_some_and(|(local, domain)| {
        let part = |part: &str| {
            !part.is_empty()
                && part
                    .split('.')
                    .all(|atom| !atom.is_empty() && atom.chars().all(allowed))
        };
        part(local) && part(domain)
    })
}

/// One label, or several of which the last has at least two letters and nothing else.
fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        let inner = |letter: char| letter.is_alphanumeric() || letter == '-';
        label.len() <= 63
            && label.starts_with(char::is_alphanumeric)
            && label.ends_with(char::is_alphanumeric)
            && label.chars().all(inner)
    };
    if text.len() > 255 {
        return false;
    }
    match text.rsplit_once('.') {
        None => label(text),
        Some((rest, last)) => {
            last.chars().count() >= 2 && last.chars().all(char::is_alphabetic) && rest.split('.').all(label)
        }
    }
}

/// An absolute URI or an absolute path.
fn is_uri(text: &str) -> bool {
    let scheme = text.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
    });
    (scheme || text.starts_with('/')) && !text.chars().any(char::is_control)
}

/// Numbers with units, as in Go (`1h30m`, `-1.5s`) or in words (`3 days`).
fn is_duration(text: &str) -> bool {
    const UNITS: &[&str] = &[
        "ns", "nano", "us", "µs", "μs", "micro", "ms", "milli", "s", "sec", "second", "m", "min", "minute",
        "h", "hr", "hour", "d", "day", "w", "wk", "week",
    ];
    let mut rest = text.trim_start_matches(['+', '-']);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest.len()
            - rest
                .trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.')
                .len();
        let after = rest[number..].trim_start();
        let unit = after.len() - after.trim_start_matches(char::is_alphabetic).len();
        let name = after[..unit].to_lowercase();
        let singular = name
            .strip_suffix('s')
            .filter(|name| !name.is_empty())
            .unwrap_or(&name);
        if rest[..number].parse::<f64>().is_err()
            || !(UNITS.contains(&name.as_str()) || UNITS.contains(&singular))
        {
            return false;
        }
        rest = after[unit..].trim_start();
    }
    true
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && is_hexadecimal(digits)
}

fn is_rgb_color(text: &str) -> bool {
    let inner = text.strip_prefix("rgb(").and_then(|text| text.strip_suffix(')'));
    inner.is_some_and(|inner| {
        let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
        let byte = |part: &&str| {
            let canonical = *part == "0" || !part.starts_with('0');
            canonical && part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<u8>().is_ok()
        };
        parts.len() == 3 && parts.iter().all(byte)
    })
}

/// Digits without the separators of people.
fn digits_of(text: &str) -> String {
    text.chars()
        .filter(|letter| !matches!(letter, '-' | ' '))
        .collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = digits_of(text);
    let value = |(place, letter): (usize, char)| match letter {
        'X' if place == 9 => Some(10),
        letter => letter.to_digit(10),
    };
    let values: Option<Vec<u32>> = digits.chars().enumerate().map(value).collect();
    values.is_some_and(|values| {
        let sum: u32 = values.iter().zip(1..).map(|(value, weight)| value * weight).sum();
        values.len() == 10 && sum.is_multiple_of(11)
    })
}

fn is_isbn13(text: &str) -> bool {
    let values: Option<Vec<u32>> = digits_of(text)
        .chars()
        .map(|letter| letter.to_digit(10))
        .collect();
    values.is_some_and(|values| {
        let sum: u32 = values
            .iter()
            .zip([1, 3].into_iter().cycle())
            .map(|(value, weight)| value * weight)
            .sum();
        values.len() == 13 && sum.is_multiple_of(10)
    })
}

/// 12 to 19 digits with a valid Luhn sum.
fn is_credit_card(text: &str) -> bool {
    let values: Option<Vec<u32>> = digits_of(text)
        .chars()
        .rev()
        .map(|letter| letter.to_digit(10))
        .collect();
    values.is_some_and(|values| {
        let luhn = |(place, value): (usize, &u32)| match (place % 2, value * 2) {
            (0, _) => *value,
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        };
        let sum: u32 = values.iter().enumerate().map(luhn).sum();
        (12..=19).contains(&values.len()) && sum.is_multiple_of(10)
    })
}

fn is_social_security_number(text: &str) -> bool {
    let digits = digits_of(text);
    digits.len() == 9 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decisions of kube-apiserver 1.37.1 where it was asked, otherwise of the formats' definitions.
    #[test]
    fn formats_accept_and_reject_what_a_real_server_does() {
        for (format, valid, invalid) in [
            ("ipv4", &["1.2.3.4"][..], &["a", "1.2.3", "::1"][..]),
            ("ipv6", &["::1"], &["1.1.1.1"]),
            (
                "cidr",
                &["10.0.0.0/8", "1::/64"],
                &["10.0.0.0", "10.0.0.0/33", "a/8"],
            ),
            (
                "mac",
                &["00:11:22:33:44:55", "00-11-22-33-44-55", "0011.2233.4455"],
                &["x", "00:11:22"],
            ),
            (
                "uuid",
                &["123e4567-e89b-12d3-a456-426614174000"],
                &["a", "123e4567-e89b-12d3-a456-42661417400"],
            ),
            (
                "uuid4",
                &["123e4567-e89b-42d3-a456-426614174000"],
                &["123e4567-e89b-12d3-a456-426614174000"],
            ),
            ("uuid3", &["123e4567-e89b-32d3-7456-426614174000"], &["x"]),
            ("uuid5", &["123e4567-e89b-52d3-a456-426614174000"], &["x"]),
            (
                "email",
                &["a@b.c", "Jane <jane@example.com>"],
                &["a", "a@", "@b", "a b@c"],
            ),
            ("date", &["2026-01-31"], &["a", "2026-02-31", "2026-1-1"]),
            ("date-time", &["2026-01-31T00:00:00Z"], &["2026-01-31"]),
            (
                "hostname",
                &["a", "www.example.com", "a-b"],
                &["-a_", "a.b", "1.2.3.4", ""],
            ),
            ("uri", &["http://a/b", "/a"], &["a b", "a", ""]),
            ("byte", &["YQ==", ""], &["%%", "YQ"]),
            (
                "duration",
                &["3s", "1 day", "3 hours", "1h30m", "0"],
                &["x", "", "3", "3 parsecs"],
            ),
            ("hexcolor", &["#ff00ff", "abc"], &["zz", "#ff"]),
            (
                "rgbcolor",
                &["rgb(1,2,3)", "rgb(0, 255, 10)"],
                &["x", "rgb(1,2)", "rgb(1,2,256)"],
            ),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["x"]),
            (
                "isbn",
                &["0-306-40615-2", "978-0-306-40615-7"],
                &["1", "0-306-40615-3"],
            ),
            (
                "creditcard",
                &["4111 1111 1111 1111"],
                &["1", "4111 1111 1111 1112"],
            ),
            ("ssn", &["111-22-3333"], &["1"]),
            ("k8s-short-name", &["a-b"], &["A_", "a.b"]),
            ("k8s-long-name", &["a.b"], &["A_"]),
            ("password", &["anything"], &[]),
            ("unknownformat", &["x"], &[]),
        ] {
            for text in valid {
                assert!(fits(format, text), "{format} must accept {text:?}");
            }
            for text in invalid {
                assert!(!fits(format, text), "{format} must reject {text:?}");
            }
        }
    }
}
