//! Shards: the part of a collection whose uid or namespace hashes into a range.
//! Parses `shardSelector` into a predicate on objects. Only supported if the server is configured so.

use crate::field_error::quote;

/// The field that is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Uid,
    Namespace,
}

impl Field {
    fn path(self) -> &'static str {
        match self {
            Field::Uid => "object.metadata.uid",
            Field::Namespace => "object.metadata.namespace",
        }
    }
}

/// A union of ranges over the hash of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSelector {
    text: String,
    field: Field,
    /// Start inclusive, end exclusive; wide enough for an end of 2⁶⁴.
    ranges: Vec<(u128, u128)>,
}

impl ShardSelector {
    /// Parses `shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000') || …`.
    pub fn parse(text: &str) -> Result<ShardSelector, String> {
        let invalid = |why: String| format!("invalid shard selector: {why}");
        let mut parsed: Vec<(Field, (u128, u128))> = Vec::new();
        for part in text.split("||") {
            parsed.push(parse_range(unwrapped(part)).map_err(invalid)?);
        }
        let field = parsed.first().map_or(Field::Uid, |(field, _)| *field);
        if let Some((other, _)) = parsed.iter().find(|(other, _)| *other != field) {
            return Err(invalid(format!(
                "all shard ranges must use the same field, got {} and {}",
                quote(field.path()),
                quote(other.path())
            )));
        }
        let ranges: Vec<(u128, u128)> = parsed.into_iter().map(|(_, range)| range).collect();
        let one = |(start, end): &(u128, u128)| {
            format!("shardRange({}, '{start:#018x}', '{end:#018x}')", field.path())
        };
        Ok(ShardSelector {
            text: ranges.iter().map(one).collect::<Vec<_>>().join(" || "),
            field,
            ranges,
        })
    }

    /// The normalized selector, as repeated in list metadata.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the object with this uid, in this namespace, is in the shard.
    pub fn matches(&self, uid: &str, namespace: Option<&str>) -> bool {
        let value = match self.field {
            Field::Uid => uid,
            Field::Namespace => namespace.unwrap_or_default(),
        };
        let hash = u128::from(fnv1a(value.as_bytes()));
        self.ranges
            .iter()
            .any(|(start, end)| (*start..*end).contains(&hash))
    }
}

/// Without surrounding blanks and parentheses.
fn unwrapped(text: &str) -> &str {
    let text = text.trim();
    match text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => unwrapped(inner),
        None => text,
    }
}

fn parse_range(text: &str) -> Result<(Field, (u128, u128)), String> {
    let arguments = text
        .strip_prefix("shardRange(")
        .and_then(|rest| rest.strip_suffix(')'))
        .filter(|arguments| !arguments.contains(['(', ')']));
    let Some(arguments) = arguments else {
        return Err(other_expression(text));
    };
    let arguments: Vec<&str> = arguments.split(',').map(str::trim).collect();
    let [path, start, end] = arguments.as_slice() else {
        return Err(format!(
            "shardRange() requires exactly 3 arguments, got {}",
            arguments.len()
        ));
    };
    let field = match *path {
        "object.metadata.uid" => Field::Uid,
        "object.metadata.namespace" => Field::Namespace,
        literal if is_literal(literal) => {
            return Err(
                "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 5"
                    .to_owned(),
            );
        }
        other => {
            return Err(format!(
                "unsupported field path {}; supported: object.metadata.uid, object.metadata.namespace",
                quote(other)
            ));
        }
    };
    let (start, end) = (bound("hexStart", start)?, bound("hexEnd", end)?);
    if start >= end {
        return Err(format!(
            "shard range start {start:#018x} must be less than end {end:#018x}"
        ));
    }
    Ok((field, (start, end)))
}

fn is_literal(text: &str) -> bool {
    text.starts_with(['\'', '"']) || text.starts_with(|first: char| first.is_ascii_digit())
}

/// The error of a real server for other expressions, as far as it can be determined without parsing CEL.
fn other_expression(text: &str) -> String {
    let kind =
        |kind: u8| format!("unexpected expression kind {kind}; expected shardRange() call or || operator");
    let function = |name: &str| {
        format!(
            "unsupported function {}; only shardRange() and || are allowed",
            quote(name)
        )
    };
    if let Some(operator) = ["&&", "==", "!="]
        .into_iter()
        .find(|operator| text.contains(operator))
    {
        return function(&format!("_{operator}_"));
    }
    let is_name =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match text.split_once('(') {
        Some((name, rest)) if is_name(name) && rest.ends_with(')') => function(name),
        None if is_literal(text) => kind(5),
        None if is_name(text) => kind(3),
        None if text.split('.').all(is_name) => kind(7),
        _ => format!(
            "CEL parse error: Syntax error: {} is not an expression",
            quote(text)
        ),
    }
}

fn bound(name: &str, text: &str) -> Result<u128, String> {
    let quoted = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    let Some(value) = quoted('\'').or_else(|| quoted('"')) else {
        return Err(match is_literal(text) {
            true => format!("{name} must be a string literal, got int64"),
            false => format!("{name} must be a string literal (e.g. '0xff'), got expression kind 3"),
        });
    };
    let Some(digits) = value.strip_prefix("0x") else {
        return Err(format!("{name} must have '0x' prefix, got {}", quote(value)));
    };
    let is_hex = |c: &char| c.is_ascii_digit() || ('a'..='f').contains(c);
    if let Some(wrong) = digits.chars().find(|c| !is_hex(c)) {
        let wrong = quote(&wrong.to_string());
        return Err(format!(
            "{name}: invalid hex character {wrong} in {}",
            quote(value)
        ));
    }
    match digits.len() {
        0 => Err(format!("{name}: hex value is required after '0x'")),
        17 if digits != "10000000000000000" => Err(format!(
            "{name}: 17-digit hex value must be '0x10000000000000000' (2^64), got {}",
            quote(value)
        )),
        16 | 17 => u128::from_str_radix(digits, 16).map_err(|error| format!("{name}: {error}")),
        length => {
            let mut message = format!(
                "{name} must be a 0x-prefixed 16-digit hex value, got {}",
                quote(value)
            );
            if length < 16 {
                message.push_str(&format!(" (did you mean \"0x{digits:0>16}\"?)"));
            }
            Err(message)
        }
    }
}

/// The 64-bit FNV-1a hash, which clients compute too.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: &str = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
    const HIGH: &str = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')";

    #[test]
    fn hash_is_fnv_1a() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn ranges_are_parsed_and_merged() {
        let both = ShardSelector::parse(&format!("{LOW} || {HIGH}")).expect("two ranges");
        assert_eq!(both.ranges, [(0, 1 << 63), (1 << 63, 1 << 64)]);
    }

    #[test]
    fn selector_is_normalized() {
        let double = LOW.replace('\'', "\"").replace(", ", " ,");
        for other in [format!(" ( {LOW} ) "), double] {
            assert_eq!(ShardSelector::parse(&other).expect("a range").text(), LOW);
        }
        let both = format!("({LOW})||{HIGH}");
        assert_eq!(
            ShardSelector::parse(&both).expect("two ranges").text(),
            format!("{LOW} || {HIGH}")
        );
    }

    /// Messages of kube-apiserver 1.37.1.
    #[test]
    fn invalid_selectors_are_rejected_as_by_a_real_server() {
        let only = "only shardRange() and || are allowed";
        let kind = "expected shardRange() call or || operator";
        let cases = [
            ("x".to_owned(), format!("unexpected expression kind 3; {kind}")),
            ("'x'".to_owned(), format!("unexpected expression kind 5; {kind}")),
            ("object.metadata.uid".to_owned(), format!("unexpected expression kind 7; {kind}")),
            (LOW.replace("shardRange", "foo"), format!("unsupported function \"foo\"; {only}")),
            (format!("{LOW} && {HIGH}"), format!("unsupported function \"_&&_\"; {only}")),
            ("object.metadata.uid == 'x'".to_owned(), format!("unsupported function \"_==_\"; {only}")),
            (
                LOW.replace(", '0x8000000000000000'", ""),
                "shardRange() requires exactly 3 arguments, got 2".to_owned(),
            ),
            (
                LOW.replace("uid", "name"),
                "unsupported field path \"object.metadata.name\"; supported: object.metadata.uid, \
                 object.metadata.namespace"
                    .to_owned(),
            ),
            (
                LOW.replace("'0x0000000000000000'", "0"),
                "hexStart must be a string literal, got int64".to_owned(),
            ),
            (
                LOW.replace("0x0000000000000000", ""),
                "hexStart must have '0x' prefix, got \"\"".to_owned(),
            ),
            (
                LOW.replace("0x0000000000000000", "0x"),
                "hexStart: hex value is required after '0x'".to_owned(),
            ),
            (
                LOW.replace("0x0000000000000000", "0x0"),
                "hexStart must be a 0x-prefixed 16-digit hex value, got \"0x0\" (did you mean \
                 \"0x0000000000000000\"?)"
                    .to_owned(),
            ),
            (
                LOW.replace("0x8000000000000000", "0xF000000000000000"),
                "hexEnd: invalid hex character \"F\" in \"0xF000000000000000\"".to_owned(),
            ),
            (
                HIGH.replace("0x10000000000000000", "0x20000000000000000"),
                "hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x20000000000000000\""
                    .to_owned(),
            ),
            (
                LOW.replace("0x0000000000000000", "0x10000000000000000"),
                "shard range start 0x10000000000000000 must be less than end 0x8000000000000000".to_owned(),
            ),
            (
                format!("{LOW} || {}", HIGH.replace("uid", "namespace")),
                "all shard ranges must use the same field, got \"object.metadata.uid\" and \
                 \"object.metadata.namespace\""
                    .to_owned(),
            ),
        ];
        for (selector, why) in cases {
            let error = ShardSelector::parse(&selector).expect_err("a bad selector");
            assert_eq!(error, format!("invalid shard selector: {why}"), "{selector}");
        }
        assert!(ShardSelector::parse("nonsense(").is_err());
        assert!(ShardSelector::parse(&format!("{LOW} ||")).is_err());
    }
}
