//! The `Warning` headers of a response.

use std::collections::HashSet;

use http::HeaderValue;

/// From this number of characters on, long warnings are cut.
const TOTAL: usize = 4096;
/// The characters of a warning that is cut.
const CUT: usize = 256;

/// The headers for these warnings, each text once. If they are too long together, all long ones are cut, and the last ones dropped.
#[doc(alias = "AddWarning")]
pub fn headers<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<HeaderValue> {
    let (mut known, mut ordered) = (HashSet::new(), Vec::new());
    let (mut written, mut cuts) = (0, false);
    let mut headers = Vec::new();
    for text in texts {
        if written >= TOTAL && cuts {
            break;
        }
        if text.is_empty() || !known.insert(text) {
            continue;
        }
        ordered.push(text);
        let shown = if cuts { cut(text) } else { text };
        let Some(added) = header(shown) else { continue };
        let length = shown.chars().count();
        if written + length <= TOTAL || cuts {
            written += length;
            headers.push(added);
            continue;
        }
        // From here on, with those before.
        cuts = true;
        let shown = ordered.iter().map(|text| cut(text));
        let replayed: Vec<_> = shown.filter_map(|text| Some((text, header(text)?))).collect();
        written = replayed.iter().map(|(text, _)| text.chars().count()).sum();
        headers = replayed.into_iter().map(|(_, header)| header).collect();
    }
    headers
}

fn cut(text: &str) -> &str {
    let end = text.char_indices().nth(CUT).map(|(end, _)| end);
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

/// A warning without an agent; `None` if it has control characters, which a header cannot have.
#[doc(alias = "NewWarningHeader")]
fn header(text: &str) -> Option<HeaderValue> {
    if text.chars().any(char::is_control) {
        return None;
    }
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(texts: &[&str]) -> Vec<String> {
        let headers = headers(texts.iter().copied());
        let text = |header: &HeaderValue| String::from_utf8(header.as_bytes().to_vec()).unwrap();
        headers.iter().map(text).collect()
    }

    #[test]
    fn each_text_is_sent_once_and_quoted() {
        assert_eq!(
            sent(&["old", "a \"b\" \\", "", "old", "größer"]),
            ["299 - \"old\"", "299 - \"a \\\"b\\\" \\\\\"", "299 - \"größer\""]
        );
    }

    #[test]
    fn texts_with_control_characters_are_dropped() {
        assert_eq!(sent(&["a\nb", "a\tb", "a\u{85}b", "c"]), ["299 - \"c\""]);
    }

    #[test]
    fn long_texts_are_cut_if_all_together_are_too_long() {
        let long = "ä".repeat(3000);
        assert_eq!(sent(&[&long])[0].chars().count(), 3000 + 8);
        let other = "b".repeat(3000);
        let cut = sent(&[&long, &other, "short"]);
        assert_eq!(cut.len(), 3);
        assert_eq!(cut[0], format!("299 - \"{}\"", "ä".repeat(256)));
        assert_eq!(cut[1], format!("299 - \"{}\"", "b".repeat(256)));
        assert_eq!(cut[2], "299 - \"short\"");
    }

    #[test]
    fn warnings_beyond_the_limit_are_dropped() {
        let texts: Vec<String> = (0..100).map(|n| format!("{n:0300}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_eq!(sent(&texts).len(), 4096 / 256);

        // What was sent before the limit was reached is cut, and not dropped.
        let texts: Vec<String> = (0..100).map(|n| format!("{n:0200}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_eq!(sent(&texts).len(), 21);
    }
}
