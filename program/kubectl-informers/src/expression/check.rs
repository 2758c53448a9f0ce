//! Checks an expression before it is evaluated: its names, and how much work it can cause.

use std::sync::LazyLock;

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue};
use cel::{Context, ExecutionError, Value};

use super::environment;

/// Comprehensions (`all`, `exists`, `map`, ...) of one expression.
const MOST_COMPREHENSIONS: usize = 16;
/// Comprehensions within each other. The time of an evaluation grows with the length of the lists to this power.
const MOST_NESTED: usize = 3;
/// Names that are neither variables nor functions: types, and the namespace of optional values.
const TYPES: [&str; 13] = [
    "bool",
    "bytes",
    "double",
    "dyn",
    "int",
    "list",
    "map",
    "null_type",
    "optional",
    "optional_type",
    "string",
    "type",
    "uint",
];

/// What an expression uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) uses_old: bool,
    pub(super) uses_new: bool,
    comprehensions: usize,
}

/// Why an expression is rejected.
#[derive(Debug)]
pub(super) struct Fault {
    /// The part of the expression.
    pub(super) node: Option<u64>,
    /// In words.
    pub(super) text: String,
}

/// What the expression uses, if it may be evaluated.
pub(super) fn check(tree: &IdedExpr) -> Result<Found, Fault> {
    let mut walk = Walk::default();
    walk.expression(tree, 0)?;
    Ok(walk.found)
}

#[derive(Default)]
struct Walk<'a> {
    found: Found,
    /// The variables of the comprehensions around.
    bound: Vec<&'a str>,
}

impl<'a> Walk<'a> {
    fn expression(&mut self, node: &'a IdedExpr, nested: usize) -> Result<(), Fault> {
        match &node.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.name(node, name),
            Expr::Select(select) => self.expression(&select.operand, nested),
            Expr::List(list) => list
                .elements
                .iter()
                .try_for_each(|element| self.expression(element, nested)),
            Expr::Map(map) => self.entries(&map.entries, nested),
            Expr::Struct(literal) => self.entries(&literal.entries, nested),
            Expr::Call(call) => {
                self.function(node, call)?;
                if let Some(target) = &call.target {
                    self.expression(target, nested)?;
                }
                call.args
                    .iter()
                    .try_for_each(|argument| self.expression(argument, nested))
            }
            Expr::Comprehension(comprehension) => {
                self.found.comprehensions += 1;
                if self.found.comprehensions > MOST_COMPREHENSIONS {
                    let text =
                        format!("an expression has at most {MOST_COMPREHENSIONS} macros such as all and map");
                    return Err(Fault {
                        node: Some(node.id),
                        text,
                    });
                }
                if nested == MOST_NESTED {
                    let text = format!("macros such as all and map can be nested {MOST_NESTED} deep");
                    return Err(Fault {
                        node: Some(node.id),
                        text,
                    });
                }
                self.expression(&comprehension.iter_range, nested)?;
                self.expression(&comprehension.accu_init, nested)?;
                let before = self.bound.len();
                self.bound.push(&comprehension.iter_var);
                self.bound.extend(comprehension.iter_var2.as_deref());
                self.bound.push(&comprehension.accu_var);
                for part in [
                    &comprehension.loop_cond,
                    &comprehension.loop_step,
                    &comprehension.result,
                ] {
                    self.expression(part, nested + 1)?;
                }
                self.bound.truncate(before);
                Ok(())
            }
        }
    }

    fn entries(&mut self, entries: &'a [IdedEntryExpr], nested: usize) -> Result<(), Fault> {
        for entry in entries {
            match &entry.expr {
                EntryExpr::StructField(field) => self.expression(&field.value, nested)?,
                EntryExpr::MapEntry(entry) => {
                    self.expression(&entry.key, nested)?;
                    self.expression(&entry.value, nested)?;
                }
            }
        }
        Ok(())
    }

    fn name(&mut self, node: &IdedExpr, name: &str) -> Result<(), Fault> {
        match name.trim_start_matches('.') {
            bound if self.bound.contains(&bound) => {}
            "old" => self.found.uses_old = true,
            "new" => self.found.uses_new = true,
            known if TYPES.contains(&known) => {}
            unknown => {
                let text = format!("unknown variable {unknown:?}: an expression can use old and new");
                return Err(Fault {
                    node: Some(node.id),
                    text,
                });
            }
        }
        Ok(())
    }

    fn function(&self, node: &IdedExpr, call: &CallExpr) -> Result<(), Fault> {
        let name = call.func_name.as_str();
        // The others are operators.
        let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic());
        let namespace = match call.target.as_deref().map(|target| &target.expr) {
            Some(Expr::Ident(name)) if TYPES.contains(&name.as_str()) => Some(name.as_str()),
            _ => None,
        };
        if is_name && namespace.is_none() && !is_known(name) {
            let text = format!("unknown function {name:?}");
            return Err(Fault {
                node: Some(node.id),
                text,
            });
        }
        Ok(())
    }
}

/// Whether there is a function of this name, found by calling it.
fn is_known(name: &str) -> bool {
    static CONTEXT: LazyLock<Context<'static, 'static>> =
        LazyLock::new(|| Context::with_env(std::sync::Arc::new(environment())));
    let call = |target: Option<IdedExpr>| {
        let call = CallExpr {
            func_name: name.to_owned(),
            target: target.map(Box::new),
            args: Vec::new(),
        };
        let call = IdedExpr {
            id: 1,
            expr: Expr::Call(call),
        };
        Value::resolve(&call, &CONTEXT)
    };
    let text = IdedExpr {
        id: 2,
        expr: Expr::Literal(LiteralValue::String(String::new().into())),
    };
    let is_unknown =
        |result: Result<Value, ExecutionError>| matches!(result, Err(ExecutionError::UndeclaredReference(_)));
    !(is_unknown(call(None)) && is_unknown(call(Some(text))))
}

/// The line and column of an offset, both from 1.
pub(super) fn position(source: &str, offset: usize) -> (usize, usize) {
    let before: Vec<char> = source.chars().take(offset).collect();
    let line = before.iter().filter(|c| **c == '\n').count() + 1;
    let column = before.iter().rev().take_while(|c| **c != '\n').count() + 1;
    (line, column)
}

/// The text with the line of the expression and a mark below the column; lines and columns from 1, 0 if unknown.
pub(super) fn pointing_at(source: &str, (line, column): (usize, usize), text: &str) -> String {
    let shown = source.lines().nth(line.saturating_sub(1)).unwrap_or(source);
    match (line, column) {
        (0, _) | (_, 0) => format!("{text}\n  {shown}"),
        (1, column) => format!(
            "{text} at column {column}\n  {shown}\n  {}^",
            " ".repeat(column - 1)
        ),
        (line, column) => format!(
            "{text} at line {line}, column {column}\n  {shown}\n  {}^",
            " ".repeat(column - 1)
        ),
    }
}
