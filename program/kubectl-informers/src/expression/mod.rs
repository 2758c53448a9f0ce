//! Conditions in CEL, the expression language of Kubernetes: `--where` and `--until`.
//!
//! An expression sees two variables, `old` and `new`: the object before and after a change, as the program shows it, so that
//! the values of Secrets are redacted. `old` is null for an addition, `new` for a deletion.

mod check;
mod evaluator;
mod values;

use std::str::FromStr;
use std::sync::mpsc;

use cel::Env;
use cel::common::ast::IdedExpr;

pub use evaluator::{Evaluator, Verdict};

/// The size of an expression.
const MOST_BYTES: usize = 4096;
/// How deep an expression may be nested in parentheses, and how many operators it may have. The parser and the interpreter
/// are recursive in both.
const MOST_DEPTH: u16 = 24;
const MOST_OPERATORS: usize = 250;
/// The stack of threads that parse and evaluate. Without optimisation an operator takes up to 60 kB of it.
const STACK: usize = 64 << 20;

/// An expression that was parsed and checked.
#[derive(Clone, Debug)]
pub struct Expression {
    source: String,
    tree: IdedExpr,
    uses_old: bool,
    uses_new: bool,
}

/// The functions an expression can use: those of CEL, and its library of strings.
///
/// # Panics
///
/// Never: the library does not redefine a standard function.
fn environment() -> Env {
    let mut env = Env::stdlib();
    env.add_extension(cel::extensions::strings)
        .expect("the library of strings redefines no standard function");
    env
}

impl FromStr for Expression {
    type Err = String;

    /// The error shows the expression and points at the column.
    fn from_str(source: &str) -> Result<Self, String> {
        if source.trim().is_empty() {
            return Err("the expression is empty".to_owned());
        }
        if source.len() > MOST_BYTES {
            let bytes = source.len();
            return Err(format!(
                "an expression has at most {MOST_BYTES} bytes, not {bytes}"
            ));
        }
        check_complexity(source)?;
        let (text, (result, parsed)) = (source.to_owned(), mpsc::channel());
        kube_informers_core::tasks::spawn_thread_with_stack("parser", STACK, move || {
            let _ = result.send(Self::parse(&text));
        })
        .map_err(|error| format!("cannot start a thread: {error}"))?;
        parsed
            .recv()
            .unwrap_or_else(|_| Err("the parser of expressions failed".to_owned()))
    }
}

impl Expression {
    fn parse(source: &str) -> Result<Self, String> {
        let parser = environment().parser().max_recursion_depth(MOST_DEPTH);
        let (tree, positions) = parser.parse_with_source_info(source).map_err(|errors| {
            let first = errors.errors.first();
            let (line, column) = first.map_or((0, 0), |error| error.pos);
            let text = first.map_or("it cannot be parsed", |error| error.msg.as_str());
            let position = (
                usize::try_from(line).unwrap_or(0),
                usize::try_from(column).unwrap_or(0),
            );
            check::pointing_at(source, position, text)
        })?;
        let found = check::check(&tree).map_err(|fault| {
            let offset = fault.node.and_then(|node| positions.offset_for(node));
            let position = offset.map_or((0, 0), |(start, _)| check::position(source, start as usize));
            check::pointing_at(source, position, &fault.text)
        })?;
        Ok(Self {
            source: source.to_owned(),
            tree,
            uses_old: found.uses_old,
            uses_new: found.uses_new,
        })
    }
}

/// Rejects what could exhaust the stack, before it is parsed. Operators within texts count as well: the limits are far from
/// what expressions need.
fn check_complexity(source: &str) -> Result<(), String> {
    let operators = source.chars().filter(|c| ".+-*/%!?<>=&|".contains(*c)).count();
    if operators > MOST_OPERATORS {
        return Err(format!(
            "an expression has at most {MOST_OPERATORS} operators and dots, not {operators}"
        ));
    }
    let (mut depth, mut deepest) = (0i64, 0);
    for c in source.chars() {
        depth += match c {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn error(source: &str) -> String {
        Expression::from_str(source).unwrap_err()
    }

    #[test]
    fn a_syntax_error_points_at_its_column() {
        let text = error("new.status.phase == = 'Running'");
        assert!(text.contains("column 21"), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "  new.status.phase == = 'Running'");
        assert_eq!(lines[2], "                      ^", "{text}");
    }

    #[test]
    fn unknown_names_are_found_before_anything_is_evaluated() {
        let text = error("new.status.phase == 'a' && pod.status.phase == 'b'");
        assert!(text.contains("unknown variable \"pod\""), "{text}");
        assert!(text.contains("column 28"), "{text}");
        let text = error("true || frobnicate(new)");
        assert!(text.contains("unknown function \"frobnicate\""), "{text}");
        let text = error("true || new.metadata.name.beginsWith('a')");
        assert!(text.contains("unknown function \"beginsWith\""), "{text}");
    }

    #[test]
    fn expressions_of_everyday_use_are_accepted() {
        for source in [
            "new.status.phase == 'Running'",
            "has(new.spec.replicas) && new.spec.replicas > 3",
            "old != null && old.spec != new.spec",
            "new.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
            "new.spec.containers.all(c, c.image.startsWith('shop/') || c.image.matches('^a+$'))",
            "size(new.spec.containers.filter(c, c.name == 'web').map(c, c.image)) == 1",
            "new.?spec.?replicas.orValue(0) == 0",
            "'app' in new.metadata.labels && int(new.metadata.labels['count']) % 2 == 0",
            "type(new.spec) == map && new.metadata.name.lowerAscii().contains('x') ? true : false",
            "new.status.phase in ['Failed', \"Unknown\"]",
        ] {
            Expression::from_str(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        }
    }

    #[test]
    fn size_depth_and_nesting_are_limited() {
        assert!(error(&format!("'{}' == ''", "x".repeat(5000))).contains("4096 bytes"));
        assert!(error(&format!("{}true{}", "(".repeat(200), ")".repeat(200))).contains("24 deep"));
        assert!(error(&format!("{}true", "!".repeat(4000))).contains("250 operators"));
        // What is within the limits does not exhaust the stack of a thread.
        let deep = format!("{}true{}", "(".repeat(24), ")".repeat(24));
        for source in [
            deep,
            format!("1{} == 1", "+1".repeat(248)),
            format!("new{}", ".a".repeat(250)),
        ] {
            let expression: Expression = source.parse().unwrap();
            let evaluator = Evaluator::start("--where", expression).unwrap();
            evaluator.evaluate(None, None).unwrap();
        }
        let nested = "new.a.all(w, new.a.all(x, new.a.all(y, new.a.all(z, true))))";
        assert!(error(nested).contains("nested"), "{}", error(nested));
        let many = vec!["[1].all(x, true)"; 20].join(" && ");
        assert!(error(&many).contains("at most 16"), "{}", error(&many));
        assert!(error(" ").contains("empty"));
    }
}
