//! CEL, the expression language of Kubernetes: compiles expressions against declared variables, and evaluates them at a
//! bounded cost. Independent of schemas and requests.
//!
//! The syntax is parsed by the crate `cel`. The type checker, whose errors are those of an API server, the interpreter,
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
use std::sync::Arc;

pub use check::RESERVED;
pub use failure::Failure;
pub use functions::{parse_duration_in_words, parse_timestamp};
pub use size::Bounds;
pub use types::{ObjectType, Type};
pub use value::{Identity, Key, List, Value};

use evaluate::Evaluator;
use node::Node;

/// The variables that an expression may use, with their types.
#[derive(Clone, Debug, Default)]
pub struct Declarations {
    variables: Vec<(&'static str, Type)>,
    /// The sizes of the variables; without them, the cost of an expression is not estimated.
    bounds: Option<Arc<Bounds>>,
    formats: Option<FormatErrors>,
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
    /// Compiles expressions, each with the variables declared for it. Parsing starts a thread, so compile those of one
    /// schema together, and keep them. The error shows the expression and points at the columns.
    pub fn compile_all(sources: &[(String, Declarations)]) -> Vec<Result<Expression, String>> {
        if sources.is_empty() {
            return Vec::new();
        }
        let texts: Vec<String> = sources.iter().map(|(text, _)| text.clone()).collect();
        let compile = |(parsed, (source, declared)): (_, &(String, Declarations))| {
            let checked = match parsed {
                Ok(parsed) => check::check(source, &parsed, declared),
                Err(issues) => Err(issues),
            };
            checked
                .map(|checked| Expression {
                    node: checked.node,
                    output: checked.output,
                    variables: checked.variables,
                    cost: checked.cost,
                    formats: declared.formats,
                })
                .map_err(|issues| parse::report(source, &issues))
        };
        parse::parse_all(&texts)
            .into_iter()
            .zip(sources)
            .map(compile)
            .collect()
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
