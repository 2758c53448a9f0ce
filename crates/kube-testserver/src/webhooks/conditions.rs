//! Match conditions: CEL expressions over the request that a webhook would decide on.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde_json::Value;

use super::hook::Hook;
use crate::expression::{self, Declarations, Expression, Failure, Type};

/// The limit of a real server for all conditions of a webhook together.
const BUDGET: u64 = 2_500_000;

/// How many compiled expressions are kept.
const MAX_COMPILED: usize = 256;

type Compiled = Arc<Result<Expression, String>>;

/// Compiled expressions by their text. Compiling one starts a thread.
static COMPILED: LazyLock<Mutex<HashMap<String, Compiled>>> = LazyLock::new(Mutex::default);

/// Whether all match conditions of a webhook hold for a review. `Err` if one of them cannot be evaluated and the webhook does
/// not ignore failures; if it does, it is not called.
pub(super) fn hold(hook: &Hook, review: &Value) -> Result<bool, String> {
    let request = review.get("request").unwrap_or(&Value::Null);
    let part = |name: &str| expression::Value::from(request.get(name).unwrap_or(&Value::Null));
    let variables = [
        ("object", part("object")),
        ("oldObject", part("oldObject")),
        ("request", expression::Value::from(request)),
    ];
    let mut left = BUDGET;
    let mut failed = Vec::new();
    for condition in &hook.conditions {
        match evaluate(condition, &variables, &mut left) {
            Ok(true) => {}
            // A condition that does not hold counts before one that fails.
            Ok(false) => return Ok(false),
            Err(why) => failed.push(why),
        }
    }
    match failed.as_slice() {
        [] => Ok(true),
        _ if hook.fails_open => Ok(false),
        [only] => Err(only.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

fn evaluate(
    expression: &str,
    variables: &[(&str, expression::Value)],
    left: &mut u64,
) -> Result<bool, String> {
    let compiled = compiled(expression);
    let program = compiled
        .as_ref()
        .as_ref()
        .map_err(|error| format!("compilation failed: {error}"))?;
    let (value, cost) = program.evaluate(variables, *left);
    *left -= cost.min(*left);
    let resulted = |why: &str| Err(format!("expression '{expression}' resulted in error: {why}"));
    match value {
        Ok(expression::Value::Bool(value)) => Ok(value),
        Ok(_) => resulted("it is neither true nor false"),
        Err(Failure::Error(why)) => resulted(&why),
        Err(Failure::OutOfBudget) => resulted("the cost of all conditions exceeds the budget"),
    }
}

fn compiled(expression: &str) -> Compiled {
    if let Some(known) = COMPILED.lock().get(expression) {
        return known.clone();
    }
    let declared = Declarations::default()
        .with("object", Type::Dyn)
        .with("oldObject", Type::Dyn)
        .with("request", Type::Dyn);
    let mut results = Expression::compile_all(&[(expression.to_owned(), declared)]);
    let result = results
        .pop()
        .unwrap_or_else(|| Err("there is no expression".to_owned()));
    let result: Compiled = Arc::new(result);
    let mut all = COMPILED.lock();
    if all.len() >= MAX_COMPILED {
        all.clear();
    }
    all.insert(expression.to_owned(), result.clone());
    result
}
