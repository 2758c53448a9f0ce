//! Shards: the part of a collection whose uid or namespace hashes into a range.
//! Takes the text of `shardSelector`, gives a test on one object. A server knows it only if told so.

use crate::field_error::quote;
use crate::storage::Stored;

/// The field that is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Uid,
    Namespace,
}

/// A union of ranges over the hash of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardSelector {
    text: String,
    field: Field,
    /// Start inclusive, end exclusive; wide enough for an end of 2⁶⁴.
    ranges: Vec<(u128, u128)>,
}

impl ShardSelector {
    /// Reads `shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000') || …`.
    pub(crate) fn parse(text: &str) -> Result<ShardSelector, String> {
        let mut selector = ShardSelector {
            text: text.to_owned(),
            field: Field::Uid,
            ranges: Vec::new(),
        };
        for (position, part) in text.split("||").enumerate() {
            let (field, range) =
                parse_range(part.trim()).map_err(|why| format!("invalid shard selector: {why}"))?;
            if position > 0 && field != selector.field {
                return Err("invalid shard selector: all ranges must be over the same field".to_owned());
            }
            selector.field = field;
            selector.ranges.push(range);
        }
        Ok(selector)
    }

    /// The selector as it was given; a list says it back.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn matches(&self, object: &Stored) -> bool {
        let value = match self.field {
            Field::Uid => object.meta.uid.as_str(),
            Field::Namespace => object.meta.namespace.as_deref().unwrap_or_default(),
        };
        let hash = u128::from(fnv1a(value.as_bytes()));
        self.ranges
            .iter()
            .any(|(start, end)| (*start..*end).contains(&hash))
    }
}

fn parse_range(text: &str) -> Result<(Field, (u128, u128)), String> {
    let arguments = text
        .strip_prefix("shardRange(")
        .and_then(|rest| rest.strip_suffix(')'));
    let Some(arguments) = arguments else {
        return Err(format!("unexpected expression kind: {}", quote(text)));
    };
    let arguments: Vec<&str> = arguments.split(',').map(str::trim).collect();
    let [field, start, end] = arguments.as_slice() else {
        return Err(format!("shardRange takes 3 arguments, got {}", arguments.len()));
    };
    let field = match *field {
        "object.metadata.uid" => Field::Uid,
        "object.metadata.namespace" => Field::Namespace,
        other => return Err(format!("unsupported field path {}", quote(other))),
    };
    Ok((field, (bound("hexStart", start)?, bound("hexEnd", end)?)))
}

fn bound(name: &str, text: &str) -> Result<u128, String> {
    let value = text
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''))
        .unwrap_or(text);
    let wrong = || {
        format!(
            "{name} must be a 0x-prefixed 16-digit hex value, got {}",
            quote(value)
        )
    };
    let digits = value.strip_prefix("0x").ok_or_else(wrong)?;
    let plain = digits
        .bytes()
        .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let whole = name == "hexEnd" && digits == "10000000000000000";
    if !plain || (digits.len() != 16 && !whole) {
        return Err(wrong());
    }
    u128::from_str_radix(digits, 16).map_err(|_| wrong())
}

/// The 64-bit FNV-1a hash, which clients compute for themselves, too.
fn fnv1a(bytes: &[u8]) -> u64 {
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
    fn the_hash_is_the_well_known_one() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn ranges_are_read_and_joined() {
        let both = ShardSelector::parse(&format!("{LOW} || {HIGH}")).expect("two ranges");
        assert_eq!(both.ranges, [(0, 1 << 63), (1 << 63, 1 << 64)]);
    }

    #[test]
    fn bad_selectors_say_what_is_wrong() {
        let error = |text: &str| ShardSelector::parse(text).expect_err("a bad selector");

        assert!(error("x").starts_with("invalid shard selector: unexpected expression kind"));
        assert!(error(&LOW.replace("uid", "name")).contains("unsupported field path"));
        assert!(error(&LOW.replace("0x0000000000000000", "0x0")).contains("hexStart must be a 0x-prefixed"));
        assert!(error(&LOW.replace("0x8000000000000000", "0xF000000000000000")).contains("hexEnd"));
        assert!(error(&format!("{LOW}||{}", HIGH.replace("uid", "namespace"))).contains("the same field"));
    }
}
