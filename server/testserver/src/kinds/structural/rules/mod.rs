//! The rules of a schema, `x-kubernetes-validations`: compiled once, then evaluated for every write.

mod bounds;
mod compile;
mod definition;
mod paths;
mod run;
mod types;

use std::collections::BTreeMap;

use kube_api_protocol::field_error::{FieldError, FieldErrorKind};
use serde_json::{Map, Value};

use kube_cel::Expression;

pub(crate) use definition::invalid_rules;

/// The compiled rules of a schema.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// The root of the schema; `None` if there are no rules.
    root: Option<Level>,
    /// The compiled expressions, or why they are invalid.
    programs: Vec<Result<Expression, String>>,
}

/// The rules of a part of the schema, and of the parts below it.
#[derive(Debug)]
struct Level {
    /// The path of the schema, for errors about the definition.
    path: String,
    rules: Vec<Rule>,
    /// How many values of this part an object can have.
    cardinality: u64,
    /// The list or map within which old and new values cannot be compared; `None` if they can.
    uncorrelated: Option<String>,
    items: Option<Box<Level>>,
    values: Option<Box<Level>>,
    properties: BTreeMap<String, Level>,
}

/// One rule.
#[derive(Debug)]
struct Rule {
    rule: String,
    message: String,
    reason: Option<String>,
    field_path: String,
    /// Set if the rule says whether `oldSelf` is an optional value.
    optional_old: Option<bool>,
    message_expression: String,
    /// The position of the compiled expressions; `None` if there is none.
    program: Option<usize>,
    message_program: Option<usize>,
}

/// What is wrong with an object.
#[derive(Debug, Default)]
pub(crate) struct Violations {
    pub(crate) errors: Vec<FieldError>,
    /// Rules that a value breaks which was stored before and has not changed: they are newer than the value, and not enforced.
    pub(crate) kept: Vec<FieldError>,
}

impl Rules {
    /// The errors of an object that satisfies its schema otherwise. `old` is the object that it replaces; `found` are the
    /// errors of its schema, some of which make rules meaningless.
    pub(crate) fn check(
        &self,
        schema: &Value,
        object: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        found: &[FieldError],
    ) -> Violations {
        let Some(root) = &self.root else {
            return Violations::default();
        };
        let is_blocking = |error: &FieldError| {
            matches!(
                error.kind,
                FieldErrorKind::NotSupported
                    | FieldErrorKind::Required
                    | FieldErrorKind::TooLong
                    | FieldErrorKind::TooMany
                    | FieldErrorKind::TypeInvalid
            )
        };
        if found.iter().any(is_blocking) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing \
                       errors to complete validation";
            return Violations {
                errors: vec![FieldError::invalid("<nil>", Value::Null, why)],
                kept: Vec::new(),
            };
        }
        run::run(self, root, schema, object, old)
    }

    fn program(&self, position: Option<usize>) -> Option<&Result<Expression, String>> {
        self.programs.get(position?)
    }
}
