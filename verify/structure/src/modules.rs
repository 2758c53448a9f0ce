//! The modules of a crate and the paths they name. A scan of the text: exact enough for formatted sources without macros
//! that write imports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::{read, rust_files};

/// The path of a module: empty for the root of the crate.
pub type Module = Vec<String>;

/// The modules of a crate with what each imports, without tests.
#[derive(Default)]
pub struct Modules {
    code: BTreeMap<Module, String>,
    /// The names that a module imports, and where they come from.
    names: BTreeMap<Module, BTreeMap<String, Vec<String>>>,
}

/// The code of a file: without comments, and without the unit tests at its end.
pub fn code(text: &str) -> String {
    let end = test_modules(text).find(|(_, rest)| rest.starts_with('{'));
    let text = end.map_or(text, |(at, _)| &text[..at]);
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Where `#[cfg(test)] mod name` begins, and what follows the name.
fn test_modules(text: &str) -> impl Iterator<Item = (usize, &str)> {
    const TEST: &str = "#[cfg(test)]";
    text.match_indices(TEST).filter_map(|(at, _)| {
        let rest = without_visibility(text[at + TEST.len()..].trim_start());
        let rest = rest.strip_prefix("mod ")?;
        let name = ident(rest);
        Some((at, rest[name.len()..].trim_start()))
    })
}

fn without_visibility(text: &str) -> &str {
    match text.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ").map_or(text, |(_, rest)| rest),
        None => text.strip_prefix("pub ").unwrap_or(text),
    }
}

fn ident(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    &text[..end.unwrap_or(text.len())]
}

impl Modules {
    /// The modules of the crate with these sources.
    pub fn of(src: &Path) -> Self {
        let mut modules = Self::default();
        let mut tests = BTreeSet::new();
        for file in rust_files(src) {
            let relative = file.strip_prefix(src).unwrap_or(&file).with_extension("");
            let mut module: Module = relative
                .iter()
                .map(|part| part.to_string_lossy().into_owned())
                .collect();
            if module.iter().any(|part| part == "tests") {
                continue;
            }
            if module.last().is_some_and(|last| last == "mod")
                || ["lib", "main"].iter().any(|root| module == [*root])
            {
                module.pop();
            }
            let text = read(&file);
            for (at, _) in test_modules(&text).filter(|(_, rest)| rest.starts_with(';')) {
                let declaration = text[at..].split("mod ").nth(1).unwrap_or_default();
                tests.insert([module.as_slice(), &[ident(declaration).to_owned()]].concat());
            }
            modules.code.entry(module).or_default().push_str(&code(&text));
        }
        modules
            .code
            .retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        let names = modules
            .code
            .iter()
            .map(|(module, code)| (module.clone(), names(code)));
        modules.names = names.collect();
        modules
    }

    /// All modules.
    pub fn all(&self) -> impl Iterator<Item = &Module> {
        self.code.keys()
    }

    /// Who names whom, each pair once.
    pub fn imports(&self) -> BTreeSet<(Module, Module)> {
        let mut found = BTreeSet::new();
        for (from, code) in &self.code {
            for path in used(code).into_iter().map(|(_, path)| path).chain(named(code)) {
                if let Some(to) = self.resolve(from, &path, 0) {
                    found.insert((from.clone(), to));
                }
            }
        }
        found
    }

    /// The module that a path leads to; where a module imports the name, the module that it imports it from.
    fn resolve(&self, from: &Module, path: &[String], depth: usize) -> Option<Module> {
        let (first, mut rest) = path.split_first()?;
        let mut module = match first.as_str() {
            "crate" => Module::new(),
            "self" => from.clone(),
            "super" => from.split_last()?.1.to_vec(),
            child if self.code.contains_key(&joined(from, child)) => joined(from, child),
            _ => return None,
        };
        while let Some((next, after)) = rest.split_first() {
            if next == "super" {
                module.pop();
            } else if self.code.contains_key(&joined(&module, next)) {
                module = joined(&module, next);
            } else {
                break;
            }
            rest = after;
        }
        // The root of the crate is its public face: names are taken from it where the crate reads like a user's.
        if let (Some(name), false, true) = (rest.first(), module.is_empty(), depth < 8)
            && let Some(origin) = self.names.get(&module).and_then(|names| names.get(name))
            && let Some(found) = self.resolve(&module, origin, depth + 1)
        {
            return Some(found);
        }
        Some(module)
    }
}

fn joined(module: &[String], child: &str) -> Module {
    [module, &[child.to_owned()]].concat()
}

fn names(code: &str) -> BTreeMap<String, Vec<String>> {
    used(code).into_iter().collect()
}

/// The paths of `use` declarations, each with the name it gets.
fn used(code: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let mut at = 0;
    for line in code.split_inclusive('\n') {
        let start = at;
        at += line.len();
        if without_visibility(line.trim_start()).starts_with("use ")
            && let Some((_, declaration)) = code[start..].split_once("use ")
            && let Some((tree, _)) = declaration.split_once(';')
        {
            expand(&[], tree.trim(), &mut found);
        }
    }
    found
}

/// `a::{b, c::d as e}` as `a::b` and `a::c::d`.
fn expand(before: &[String], tree: &str, found: &mut Vec<(String, Vec<String>)>) {
    let split = |text: &str| {
        text.split("::")
            .map(|part| part.trim().to_owned())
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
    };
    let Some((head, rest)) = tree.split_once('{') else {
        let (path, name) = tree
            .split_once(" as ")
            .map_or((tree, None), |(path, name)| (path, Some(name.trim())));
        let path = [before, &split(path)].concat();
        if let Some(last) = path.last() {
            found.push((name.unwrap_or(last).to_owned(), path.clone()));
        }
        return;
    };
    let before = [before, &split(head)].concat();
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inner[start..at].trim().is_empty() {
                    expand(&before, &inner[start..at], found);
                }
                start = (at + 1).min(inner.len());
            }
            _ => {}
        }
    }
}

/// The paths from `crate`, `super` and `self` in the code.
fn named(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            // `kube_crate::x` is another crate, and the middle of a path is read with its beginning.
            if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let end = code[at..].find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
            let path = &code[at..end.map_or(code.len(), |end| at + end)];
            found.push(
                path.split("::")
                    .filter(|part| !part.is_empty())
                    .map(str::to_owned)
                    .collect(),
            );
        }
    }
    found
}
