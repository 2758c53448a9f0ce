//! CEL, the expression language of Kubernetes: compiles expressions against declared variables, and evaluates them at a
//! bounded cost. Independent of schemas and requests.
//!
//! The syntax is parsed by the crate `cel`, which nothing else in the workspace names. The type checker, whose errors are those of an API server, the interpreter,
//! which counts its steps, and Kubernetes' functions (`functions.txt`) are ours.
//!
//! Not supported, and therefore unknown to the checker: `semver`, macros with two variables (`transformList`,
//! `all(k, v, ...)`), `sortBy`, and time zones other than UTC. The `authorizer` of match conditions can be checked, but not
//! evaluated.

mod check;
mod estimate;
mod evaluate;
mod failure;
mod functions;
mod node;
mod parse;
mod signatures;
mod size;
mod types;
mod value;

use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};

pub use check::RESERVED;
pub use failure::Failure;
pub use functions::{parse_duration_in_words, parse_timestamp};
pub use parse::{Issue, Limits, Undeclared};
pub use size::Bounds;
pub use types::{ObjectType, Type};
pub use value::{Identity, Key, List, Value};

use evaluate::Evaluator;
use node::Node;

/// The stack of the thread that compiles. Without optimisation an operator takes up to 60 kB of it. The memory is reserved,
/// but only used as far as an expression needs it.
const STACK: usize = 128 << 20;
/// The message if that thread panicked.
const FAILED: &str = "the parser of expressions failed";

/// The variables that an expression may use, with their types.
#[derive(Clone, Debug, Default)]
pub struct Declarations {
    variables: Vec<(&'static str, Type)>,
    /// The sizes of the variables; without them, the cost of an expression is not estimated.
    bounds: Option<Arc<Bounds>>,
    formats: Option<FormatErrors>,
    limits: Limits,
}

/// Returns the reasons why a text does not have a format, such as `dns1123Label`; none if it has.
pub type FormatErrors = fn(format: &str, text: &str) -> Vec<String>;

impl Declarations {
    /// Declares a variable.
    #[must_use]
    pub fn with(mut self, name: &'static str, kind: Type) -> Self {
        self.variables.push((name, kind));
        self
    }

    /// Declares the sizes of all variables, which are states of one object.
    #[must_use]
    pub fn bounded(mut self, bounds: Arc<Bounds>) -> Self {
        self.bounds = Some(bounds);
        self
    }

    /// Declares what the named formats accept. Without it, `validate` fails.
    #[must_use]
    pub fn with_formats(mut self, errors: FormatErrors) -> Self {
        self.formats = Some(errors);
        self
    }

    /// Limits the size of the expression.
    #[must_use]
    pub fn limited(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    fn variable(&self, name: &str) -> Option<&Type> {
        let found = self.variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| kind)
    }
}

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Expression {
    node: Node,
    output: Type,
    variables: BTreeSet<String>,
    cost: u64,
    formats: Option<FormatErrors>,
}

impl Expression {
    /// Compiles expressions, each with the variables declared for it. Starts a thread, so compile those of one schema
    /// together, and keep them. The error shows the expression and points at the columns.
    pub fn compile_all(sources: &[(String, Declarations)]) -> Vec<Result<Expression, String>> {
        let compiled = Self::compile_on_thread(sources.to_vec()).into_iter().zip(sources);
        compiled
            .map(|(result, (source, _))| result.map_err(|issues| parse::report(source, &issues)))
            .collect()
    }

    /// Compiles one expression.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in the order of the text.
    pub fn compile(source: &str, declared: Declarations) -> Result<Expression, Vec<Issue>> {
        let failed = || Err(vec![Issue::at(source, 0, FAILED.to_owned())]);
        let mut compiled = Self::compile_on_thread(vec![(source.to_owned(), declared)]);
        let mut result = compiled.pop().unwrap_or_else(failed);
        if let Err(issues) = &mut result {
            issues.sort_by_key(|issue| (issue.line, issue.column));
        }
        result
    }

    /// The parser and the checker need a large stack, so they run on a thread of their own.
    fn compile_on_thread(sources: Vec<(String, Declarations)>) -> Vec<Result<Expression, Vec<Issue>>> {
        if sources.is_empty() {
            return Vec::new();
        }
        let texts: Vec<String> = sources.iter().map(|(text, _)| text.clone()).collect();
        let (send, receive) = mpsc::channel();
        let started = kube_informers_core::tasks::spawn_thread_with_stack("cel", STACK, move || {
            let env = cel::Env::stdlib();
            for (source, declared) in &sources {
                if send.send(Self::compile_here(&env, source, declared)).is_err() {
                    return;
                }
            }
        });
        let message = match &started {
            Ok(_) => FAILED.to_owned(),
            Err(error) => format!("cannot start a thread that compiles the expression: {error}"),
        };
        let next = |text: &String| {
            let failed = |_| Err(vec![Issue::at(text, 0, message.clone())]);
            receive.recv().unwrap_or_else(failed)
        };
        texts.iter().map(next).collect()
    }

    fn compile_here(env: &cel::Env, source: &str, declared: &Declarations) -> Result<Expression, Vec<Issue>> {
        let parsed = parse::parse(env, source, &declared.limits)?;
        let checked = check::check(source, &parsed, declared)?;
        Ok(Expression {
            node: checked.node,
            output: checked.output,
            variables: checked.variables,
            cost: checked.cost,
            formats: declared.formats,
        })
    }

    /// The type of its value.
    pub fn output(&self) -> &Type {
        &self.output
    }

    /// What evaluating it costs at most, estimated from the declared sizes of its variables.
    pub fn estimated_cost(&self) -> u64 {
        self.cost
    }

    /// Whether it uses a variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.variables.contains(variable)
    }

    /// Its value, and the cost of evaluating it, which does not exceed the limit.
    pub fn evaluate(&self, variables: &[(&str, Value)], limit: u64) -> (Result<Value, Failure>, u64) {
        let evaluator = Evaluator::new(variables, limit, self.formats);
        let value = evaluator.evaluate(&self.node);
        (value, limit - evaluator.left())
    }
}

#[cfg(test)]
mod tests;
