//! The files of the page, embedded in the program.

use http::StatusCode;

use super::answer::{self, Answer};

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, type, text.
pub(super) const FILES: [(&str, &str, &str); 11] = [
    ("/", HTML, include_str!("assets/index.html")),
    (
        "/style.css",
        "text/css; charset=utf-8",
        include_str!("assets/style.css"),
    ),
    ("/icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
    ("/app.js", SCRIPT, include_str!("assets/app.js")),
    ("/api.js", SCRIPT, include_str!("assets/api.js")),
    ("/dom.js", SCRIPT, include_str!("assets/dom.js")),
    ("/charts.js", SCRIPT, include_str!("assets/charts.js")),
    ("/changes.js", SCRIPT, include_str!("assets/changes.js")),
    ("/overview.js", SCRIPT, include_str!("assets/overview.js")),
    ("/objects.js", SCRIPT, include_str!("assets/objects.js")),
    ("/object.js", SCRIPT, include_str!("assets/object.js")),
];

/// One file as a response.
pub(super) fn response(content_type: &'static str, text: &'static str) -> Answer {
    answer::of(StatusCode::OK, content_type, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scripts() -> impl Iterator<Item = (&'static str, &'static str)> {
        FILES
            .iter()
            .filter(|(_, kind, _)| *kind == SCRIPT)
            .map(|(path, _, text)| (*path, *text))
    }

    #[test]
    fn no_script_turns_text_into_markup() {
        for (path, text) in scripts() {
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
            ] {
                assert!(!text.contains(word), "{path} uses {word}");
            }
        }
    }

    #[test]
    fn nothing_is_loaded_from_other_origins() {
        for (path, _, text) in FILES {
            let foreign = text.match_indices("http").filter(|(at, _)| {
                let rest = &text[*at..];
                (rest.starts_with("http://") || rest.starts_with("https://"))
                    && !rest.starts_with("http://www.w3.org/")
            });
            assert_eq!(foreign.count(), 0, "{path} names another place");
        }
    }

    #[test]
    fn every_script_that_is_imported_is_served() {
        for (path, text) in scripts() {
            for import in text.lines().filter(|line| line.starts_with("import ")) {
                let name = import.split('"').nth(1).unwrap().trim_start_matches('.');
                assert!(
                    FILES.iter().any(|(known, ..)| *known == name),
                    "{path} imports {name}"
                );
            }
        }
    }
}
