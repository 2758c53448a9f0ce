//! Match conditions: CEL expressions over the request that a webhook would decide on.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use kube_cel::{self as cel, Declarations, Expression, Failure, ObjectType, Type};
use parking_lot::Mutex;
use serde_json::Value;

use super::hook::Hook;
use crate::kinds::structural::format_errors;

/// The limit of a real server for all conditions of a webhook together.
const BUDGET: u64 = 2_500_000;

/// How many compiled expressions are kept.
const MAX_COMPILED: usize = 256;

type Compiled = Arc<Result<Expression, String>>;

/// Compiled expressions by their text. Compiling one starts a thread.
static COMPILED: LazyLock<Mutex<HashMap<String, Compiled>>> = LazyLock::new(Mutex::default);

/// Whether all match conditions of a webhook hold for a review. `Err` if one of them cannot be evaluated and the webhook does
/// not ignore failures; if it does, it is not called.
pub(crate) fn hold(hook: &Hook, review: &Value) -> Result<bool, String> {
    let request = review.get("request").unwrap_or(&Value::Null);
    let part = |name: &str| cel::Value::from(request.get(name).unwrap_or(&Value::Null));
    let variables = [
        ("object", part("object")),
        ("oldObject", part("oldObject")),
        ("request", cel::Value::from(request)),
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

fn evaluate(expression: &str, variables: &[(&str, cel::Value)], left: &mut u64) -> Result<bool, String> {
    let compiled = compiled(expression);
    let program = compiled
        .as_ref()
        .as_ref()
        .map_err(|error| format!("compilation failed: {error}"))?;
    let (value, cost) = program.evaluate(variables, *left);
    *left -= cost.min(*left);
    let resulted = |why: &str| Err(format!("expression '{expression}' resulted in error: {why}"));
    match value {
        Ok(cel::Value::Bool(value)) => Ok(value),
        Ok(_) => resulted("it is neither true nor false"),
        Err(Failure::Error { message, .. }) => resulted(&message),
        Err(Failure::OutOfBudget) => resulted("the cost of all conditions exceeds the budget"),
    }
}

/// Why a condition of a configuration is invalid.
pub(crate) fn check(expression: &str) -> Result<(), String> {
    match compiled(expression).as_ref() {
        Err(error) => Err(format!("compilation failed: {error}")),
        Ok(program) if *program.output() != Type::Bool => {
            let output = program.output();
            Err(format!("must evaluate to bool but got {output}"))
        }
        Ok(_) => Ok(()),
    }
}

/// The fields of an object of a webhook's variables. A field with further fields of its own is given with those.
fn object(name: &str, fields: &[(&str, Type)]) -> Type {
    let fields = fields
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), kind.clone()));
    Type::Object(Arc::new(ObjectType {
        name: format!("kubernetes.{name}"),
        fields: fields.collect(),
    }))
}

/// The variables of conditions.
static DECLARED: LazyLock<Declarations> = LazyLock::new(|| {
    let texts = |names: &[&'static str]| -> Vec<(&'static str, Type)> {
        names.iter().map(|name| (*name, Type::String)).collect()
    };
    let strings = || Type::list(Type::String);
    let kind = object("GroupVersionKind", &texts(&["group", "version", "kind"]));
    let resource = object("GroupVersionResource", &texts(&["group", "version", "resource"]));
    let mut user = texts(&["username", "uid"]);
    user.push(("groups", strings()));
    user.push(("extra", Type::map(Type::String, strings())));
    let mut request = texts(&[
        "subResource",
        "requestSubResource",
        "name",
        "namespace",
        "operation",
    ]);
    request.extend([
        ("kind", kind.clone()),
        ("requestKind", kind),
        ("resource", resource.clone()),
        ("requestResource", resource),
        ("userInfo", object("UserInfo", &user)),
        ("dryRun", Type::Bool),
        ("options", Type::Dyn),
    ]);
    let mut metadata = texts(&["name", "generateName", "namespace", "UID", "resourceVersion"]);
    let labels = Type::map(Type::String, Type::String);
    metadata.extend([
        ("labels", labels.clone()),
        ("annotations", labels),
        ("creationTimestamp", Type::Timestamp),
        ("deletionTimestamp", Type::Timestamp),
        ("deletionGracePeriodSeconds", Type::Int),
        ("generation", Type::Int),
        ("finalizers", strings()),
    ]);
    let mut condition = texts(&["status", "type", "message", "reason"]);
    condition.push(("lastTransitionTime", Type::Timestamp));
    let conditions = Type::list(object("NamespaceCondition", &condition));
    let status = [("conditions", conditions), ("phase", Type::String)];
    let namespace = [
        ("metadata", object("NamespaceMetadata", &metadata)),
        ("spec", object("NamespaceSpec", &[("finalizers", strings())])),
        ("status", object("NamespaceStatus", &status)),
    ];
    Declarations::default()
        .with("object", Type::Dyn)
        .with("oldObject", Type::Dyn)
        .with("request", object("AdmissionRequest", &request))
        .with("namespaceObject", object("Namespace", &namespace))
        .with("authorizer", Type::Opaque("kubernetes.authorization.Authorizer"))
        .with_formats(format_errors)
});

fn compiled(expression: &str) -> Compiled {
    if let Some(known) = COMPILED.lock().get(expression) {
        return known.clone();
    }
    let mut results = Expression::compile_all(&[(expression.to_owned(), DECLARED.clone())]);
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
