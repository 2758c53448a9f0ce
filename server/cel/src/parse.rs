//! Parses expressions, within limits.

use cel::Env;
use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr};

/// The depth of the tree that is evaluated on the caller's stack. Chains of `&&` and `||` are balanced; those of other
/// operators are as deep as they are long.
const DEEPEST: usize = 260;

/// How large expressions may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The length of the text.
    pub bytes: usize,
    /// How deep parentheses may be nested. The parser is recursive in them, and in operators.
    pub depth: u16,
    /// How many operators and dots there may be.
    pub operators: usize,
    /// How many macros there may be, such as `all` and `map`.
    pub macros: usize,
    /// How deep macros may be nested.
    pub nested_macros: usize,
}

/// The limits of the embedded API server. The cost of macros is limited when they are evaluated.
impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 16 << 10,
            depth: 48,
            operators: 1500,
            macros: usize::MAX,
            nested_macros: usize::MAX,
        }
    }
}

/// An error at a position of the expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 0.
    pub column: usize,
    /// As an API server words it.
    pub message: String,
    /// The name, if the error is that it is not known.
    pub undeclared: Option<Undeclared>,
}

/// A name that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undeclared {
    /// Of a variable.
    Variable(String),
    /// Of a function.
    Function(String),
}

impl Issue {
    /// An error at an offset, counted in characters.
    pub(super) fn at(source: &str, offset: usize, message: String) -> Issue {
        let before: Vec<char> = source.chars().take(offset).collect();
        Issue {
            line: before.iter().filter(|letter| **letter == '\n').count() + 1,
            column: before.iter().rev().take_while(|letter| **letter != '\n').count(),
            message,
            undeclared: None,
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
            ..
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

/// Parses an expression. Needs a large stack.
pub(super) fn parse(env: &Env, source: &str, limits: &Limits) -> Result<Parsed, Vec<Issue>> {
    if let Err(message) = limits.check(source) {
        return Err(vec![Issue::at(source, 0, message)]);
    }
    let parser = env.parser().max_recursion_depth(limits.depth);
    let (tree, positions) = parser.parse_with_source_info(source).map_err(|errors| {
        let issue = |error: cel::ParseError| Issue {
            line: usize::try_from(error.pos.0).unwrap_or(1).max(1),
            column: usize::try_from(error.pos.1 - 1).unwrap_or(0),
            message: error.msg,
            undeclared: None,
        };
        errors.errors.into_iter().map(issue).collect::<Vec<_>>()
    })?;
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

impl Limits {
    /// Rejects what could exhaust the stack of the parser. Operators within texts count as well: the limits are far from
    /// what expressions need.
    ///
    /// # Errors
    ///
    /// Says which limit is exceeded.
    pub fn check(&self, source: &str) -> Result<(), String> {
        let (most, bytes) = (self.bytes, source.len());
        if bytes > most {
            return Err(format!("an expression has at most {most} bytes, not {bytes}"));
        }
        let is_operator = |letter: &char| ".+-*/%!?<>=&|".contains(*letter);
        let (most, operators) = (self.operators, source.chars().filter(is_operator).count());
        if operators > most {
            return Err(format!(
                "an expression has at most {most} operators and dots, not {operators}"
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
        let most = self.depth;
        if deepest > i64::from(most) {
            return Err(format!(
                "an expression is nested at most {most} deep, not {deepest}"
            ));
        }
        Ok(())
    }
}
