//! Parses expressions, within limits.

use std::sync::mpsc;

use cel::Env;
use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr};

/// The size of an expression.
const MOST_BYTES: usize = 16 << 10;
/// How deep an expression may be nested in parentheses, and how many operators it may have. The parser is recursive in
/// both, and the interpreter in the depth of the tree.
const MOST_DEPTH: u16 = 48;
const MOST_OPERATORS: usize = 1500;
/// The depth of the tree that is checked and evaluated on the caller's stack. Chains of `&&` and `||` are balanced.
const DEEPEST: usize = 120;
/// The stack of the thread that parses. Without optimisation an operator takes up to 60 kB of it. The memory is reserved,
/// but only used as far as an expression needs it.
const STACK: usize = 128 << 20;

/// An error at a position of the expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Issue {
    /// The line, from 1.
    line: usize,
    /// The column, from 0.
    column: usize,
    message: String,
}

impl Issue {
    /// An error at an offset, counted in characters.
    pub(super) fn at(source: &str, offset: usize, message: String) -> Issue {
        let before: Vec<char> = source.chars().take(offset).collect();
        Issue {
            line: before.iter().filter(|letter| **letter == '\n').count() + 1,
            column: before.iter().rev().take_while(|letter| **letter != '\n').count(),
            message,
        }
    }
}

/// The errors as an API server prints them: each with its line of the expression and a mark below the column.
pub(super) fn report(source: &str, issues: &[Issue]) -> String {
    let mut issues: Vec<&Issue> = issues.iter().collect();
    issues.sort_by_key(|issue| (issue.line, issue.column));
    let shown = issues.into_iter().map(|issue| {
        let Issue {
            line,
            column,
            message,
        } = issue;
        let mut text = format!("ERROR: <input>:{line}:{}: {message}", column + 1);
        if let Some(snippet) = source.split('\n').nth(line.saturating_sub(1)) {
            let snippet = snippet.replace('\t', " ");
            let wide = |letter: char| !letter.is_ascii();
            let dot = |letter: char| if wide(letter) { '\u{ff0e}' } else { '.' };
            let dots: String = snippet.chars().take(*column).map(dot).collect();
            let mark = if snippet.chars().nth(*column).is_some_and(wide) {
                '\u{ff3e}'
            } else {
                '^'
            };
            text.push_str(&format!("\n | {snippet}\n | {dots}{mark}"));
        }
        text
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// A parsed expression: its tree, and the offset of each of its parts.
pub(super) struct Parsed {
    pub(super) tree: IdedExpr,
    positions: cel::common::ast::SourceInfo,
}

impl Parsed {
    /// The offset of a part, in characters.
    pub(super) fn offset(&self, id: u64) -> usize {
        self.positions
            .offset_for(id)
            .map_or(0, |(start, _)| start as usize)
    }
}

/// Parses several expressions. The parser needs a large stack, so they are parsed on a thread of their own.
pub(super) fn parse_all(sources: &[String]) -> Vec<Result<Parsed, Vec<Issue>>> {
    let failed = |source: &String, message: &str| Err(vec![Issue::at(source, 0, message.to_owned())]);
    let (send, receive) = mpsc::channel();
    let texts = sources.to_vec();
    let started = kube_informers_core::tasks::spawn_thread_with_stack("cel-parser", STACK, move || {
        let env = Env::stdlib();
        for text in &texts {
            if send.send(parse(&env, text)).is_err() {
                return;
            }
        }
    });
    if let Err(error) = started {
        let message = format!("cannot start a thread that parses the expression: {error}");
        return sources.iter().map(|source| failed(source, &message)).collect();
    }
    let next = |source| {
        let result = receive.recv();
        result.unwrap_or_else(|_| failed(source, "the parser of expressions failed"))
    };
    sources.iter().map(next).collect()
}

fn parse(env: &Env, source: &str) -> Result<Parsed, Vec<Issue>> {
    if let Err(message) = check_complexity(source) {
        return Err(vec![Issue::at(source, 0, message)]);
    }
    let parser = env.parser().max_recursion_depth(MOST_DEPTH);
    let (tree, positions) = parser.parse_with_source_info(source).map_err(|errors| {
        let issue = |error: cel::ParseError| Issue {
            line: usize::try_from(error.pos.0).unwrap_or(1).max(1),
            column: usize::try_from(error.pos.1 - 1).unwrap_or(0),
            message: error.msg,
        };
        errors.errors.into_iter().map(issue).collect::<Vec<_>>()
    })?;
    // Must be decided here: elsewhere the stack may be too small to drop the tree.
    if depth(&tree) > DEEPEST {
        return Err(vec![Issue::at(
            source,
            0,
            "the expression is nested too deep".to_owned(),
        )]);
    }
    Ok(Parsed { tree, positions })
}

fn depth(tree: &IdedExpr) -> usize {
    let entry = |entry: &IdedEntryExpr| match &entry.expr {
        EntryExpr::StructField(field) => depth(&field.value),
        EntryExpr::MapEntry(entry) => depth(&entry.key).max(depth(&entry.value)),
    };
    let deepest = match &tree.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => None,
        Expr::Select(select) => Some(depth(&select.operand)),
        Expr::Call(call) => call.args.iter().chain(call.target.as_deref()).map(depth).max(),
        Expr::List(list) => list.elements.iter().map(depth).max(),
        Expr::Map(map) => map.entries.iter().map(entry).max(),
        Expr::Struct(literal) => literal.entries.iter().map(entry).max(),
        Expr::Comprehension(parts) => {
            let parts = [
                &parts.iter_range,
                &parts.accu_init,
                &parts.loop_cond,
                &parts.loop_step,
                &parts.result,
            ];
            parts.into_iter().map(depth).max()
        }
    };
    deepest.unwrap_or(0) + 1
}

/// Rejects what could exhaust the stack, before it is parsed. Operators within texts count as well: the limits are far
/// from what expressions need.
fn check_complexity(source: &str) -> Result<(), String> {
    if source.len() > MOST_BYTES {
        let bytes = source.len();
        return Err(format!(
            "an expression has at most {MOST_BYTES} bytes, not {bytes}"
        ));
    }
    let operators = source
        .chars()
        .filter(|letter| ".+-*/%!?<>=&|".contains(*letter))
        .count();
    if operators > MOST_OPERATORS {
        return Err(format!(
            "an expression has at most {MOST_OPERATORS} operators and dots, not {operators}"
        ));
    }
    let (mut depth, mut deepest) = (0_i64, 0);
    for letter in source.chars() {
        depth += match letter {
            '(' | '[' | '{' => 1,
            ')' | ']' | '}' => -1,
            _ => 0,
        };
        deepest = deepest.max(depth);
    }
    if deepest > i64::from(MOST_DEPTH) {
        return Err(format!(
            "an expression is nested at most {MOST_DEPTH} deep, not {deepest}"
        ));
    }
    Ok(())
}
