//! The field paths of rules: `.spec.size` or `.labels['app']`.

use serde_json::Value;

/// The path in the form that errors use, such as `spec.labels[app]`; `None` if the schema has no such field.
#[doc(alias = "ValidFieldPath")]
pub(super) fn normalize(path: &str, schema: &Value) -> Option<String> {
    let (mut rest, mut schema, mut shown) = (path, schema, String::new());
    while !rest.is_empty() {
        let (name, after) = next(rest)?;
        rest = after;
        let own = schema
            .get("properties")
            .filter(|properties| properties.is_object());
        match (
            own,
            schema
                .get("additionalProperties")
                .filter(|values| values.is_object()),
        ) {
            (Some(properties), _) => {
                schema = properties.get(&name)?;
                if !shown.is_empty() {
                    shown.push('.');
                }
                shown.push_str(&name);
            }
            (None, Some(values)) => {
                schema = values;
                shown.push_str(&format!("[{name}]"));
            }
            (None, None) => return None,
        }
    }
    Some(shown)
}

/// The first field of a path, and the rest.
fn next(path: &str) -> Option<(String, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        return (end > 0).then(|| (rest[..end].to_owned(), &rest[end..]));
    }
    let rest = path.strip_prefix("['")?;
    let mut name = String::new();
    let mut letters = rest.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' => return Some((name, rest[at + 1..].strip_prefix(']')?)),
            '\\' => name.push(match letters.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                letter @ ('\'' | '\\') => letter,
                _ => return None,
            }),
            letter => name.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_follow_the_schema() {
        let schema = json!({ "properties": { "spec": { "properties": {
            "size": { "type": "integer" }, "a.b": { "type": "string" },
            "labels": { "additionalProperties": { "type": "string" } },
        } } } });
        for (path, shown) in [
            (".spec.size", Some("spec.size")),
            (".spec['a.b']", Some("spec.a.b")),
            (".spec.labels['x']", Some("spec.labels[x]")),
            (".spec.labels.x", Some("spec.labels[x]")),
            (".spec.color", None),
            ("spec.size", None),
            (".spec.", None),
            (".spec['a", None),
            (".spec.size.x", None),
        ] {
            assert_eq!(normalize(path, &schema).as_deref(), shown, "{path}");
        }
    }
}
