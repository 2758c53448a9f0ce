//! Conditions in CEL, the expression language of Kubernetes: `--where` and `--until`.
//!
//! An expression sees two variables, `old` and `new`: the object before and after a change, as the program shows it, so that
//! the values of Secrets are redacted. `old` is null for an addition, `new` for a deletion.

use std::str::FromStr;

use kube_cel::{Declarations, Issue, Limits, Type, Undeclared, Value};

use crate::objects::item::{Contents, Item};
use crate::process::failure::Failure;

const LIMITS: Limits = Limits {
    bytes: 4096,
    depth: 24,
    operators: 250,
    macros: 16,
    // The steps of an evaluation grow with the length of the lists to this power.
    nested_macros: 3,
};
/// Steps of the evaluation for one object: what an API server spends on all rules of an object. They take about a second
/// without optimisation. An expression takes a few dozen as a rule; one that takes more than this would fall behind the
/// changes of any cluster.
const MOST_STEPS: u64 = 10_000_000;

/// An expression that was parsed and checked.
#[derive(Clone, Debug)]
pub struct Expression(kube_cel::Expression);

/// The result for one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The expression is true.
    Holds,
    /// It is false.
    Fails,
    /// It cannot be evaluated for this object; why, without values of the object.
    Unknown(String),
}

impl FromStr for Expression {
    type Err = String;

    /// The error shows the expression and points at the column.
    fn from_str(source: &str) -> Result<Self, String> {
        if source.trim().is_empty() {
            return Err("the expression is empty".to_owned());
        }
        LIMITS.check(source)?;
        let declared = Declarations::default()
            .with("old", Type::Dyn)
            .with("new", Type::Dyn)
            .limited(LIMITS);
        kube_cel::Expression::compile(source, declared)
            .map(Self)
            .map_err(|issues| {
                let first = issues.first();
                first.map_or_else(|| "it cannot be parsed".to_owned(), |issue| shown(source, issue))
            })
    }
}

/// The error with the line of the expression and a mark below the column.
fn shown(source: &str, issue: &Issue) -> String {
    let text = match &issue.undeclared {
        Some(Undeclared::Variable(name)) => {
            format!("unknown variable {name:?}: an expression can use old and new")
        }
        Some(Undeclared::Function(name)) => format!("unknown function {name:?}"),
        None => issue.message.clone(),
    };
    let line = source.lines().nth(issue.line.saturating_sub(1)).unwrap_or(source);
    let place = match issue.line {
        0 | 1 => String::new(),
        number => format!("line {number}, "),
    };
    let mark = " ".repeat(issue.column);
    format!(
        "{text} at {place}column {}\n  {line}\n  {mark}^",
        issue.column + 1
    )
}

impl Expression {
    /// Whether it holds for a change, as the value of an option.
    ///
    /// # Errors
    ///
    /// The evaluation takes too long.
    pub fn evaluate(&self, option: &str, old: Option<&Item>, new: Option<&Item>) -> Result<Verdict, Failure> {
        let mut is_absent = false;
        let mut variables = Vec::with_capacity(2);
        for (name, item) in [("old", old), ("new", new)] {
            if self.0.uses(name) {
                is_absent |= item.is_none();
                variables.push((name, item.map_or(Value::Null, |item| Value::from(&item.tree().0))));
            }
        }
        match self.0.evaluate(&variables, MOST_STEPS).0 {
            Ok(Value::Bool(true)) => Ok(Verdict::Holds),
            Ok(Value::Bool(false)) => Ok(Verdict::Fails),
            Ok(other) => Ok(Verdict::Unknown(format!(
                "the result is a {}, not true or false",
                other.type_name()
            ))),
            Err(kube_cel::Failure::OutOfBudget) => Err(Failure::error(format!(
                "evaluating {option} takes too long, more than {MOST_STEPS} steps for one object: simplify the expression"
            ))),
            // It reads a field of a state that does not exist: it is about another kind of change.
            Err(_) if is_absent => Ok(Verdict::Fails),
            Err(kube_cel::Failure::Error { redacted, .. }) => Ok(Verdict::Unknown(redacted.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::objects::item::received;
    use crate::objects::kinds::Kind;

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
            evaluate(&source, None, None).unwrap();
        }
        let nested = "new.a.all(w, new.a.all(x, new.a.all(y, new.a.all(z, true))))";
        assert!(error(nested).contains("nested"), "{}", error(nested));
        let many = vec!["[1].all(x, true)"; 20].join(" && ");
        assert!(error(&many).contains("at most 16"), "{}", error(&many));
        assert!(error(" ").contains("empty"));
    }
    fn evaluate(source: &str, old: Option<Arc<Item>>, new: Option<Arc<Item>>) -> Result<Verdict, Failure> {
        let expression: Expression = source.parse().unwrap_or_else(|error| panic!("{error}"));
        expression.evaluate("--where", old.as_deref(), new.as_deref())
    }

    fn pod(replicas: i64) -> Arc<Item> {
        let object = json!({
            "metadata": { "name": "cart", "namespace": "shop", "labels": { "app": "cart" } },
            "spec": { "replicas": replicas, "ratio": 0.5, "ports": [80, 443], "note": "correct-horse" },
        });
        Arc::new(received(&Kind::for_tests("", "v1", "Pod", "pods"), object))
    }

    fn of(source: &str) -> Verdict {
        evaluate(source, Some(pod(1)), Some(pod(2))).unwrap()
    }

    #[test]
    fn both_states_can_be_compared() {
        assert_eq!(of("old.spec.replicas + 1 == new.spec.replicas"), Verdict::Holds);
        assert_eq!(of("new.spec.replicas > 2"), Verdict::Fails);
        assert_eq!(
            of("new.spec.ratio < 1.0 && 443 in new.spec.ports"),
            Verdict::Holds
        );
        assert_eq!(of("new.metadata.labels['app'].startsWith('ca')"), Verdict::Holds);
        assert_eq!(of("has(new.status)"), Verdict::Fails);
        assert_eq!(of("new.?status.?phase.orValue('none') == 'none'"), Verdict::Holds);
    }

    #[test]
    fn an_absent_state_is_null_and_its_fields_are_not_errors() {
        let changed = "old.spec.replicas != new.spec.replicas";
        assert_eq!(evaluate(changed, None, Some(pod(1))).unwrap(), Verdict::Fails);
        assert_eq!(evaluate(changed, Some(pod(1)), None).unwrap(), Verdict::Fails);
        let gone = "new == null && old.spec.replicas == 1";
        assert_eq!(evaluate(gone, Some(pod(1)), None).unwrap(), Verdict::Holds);
        assert_eq!(evaluate("new == null", None, None).unwrap(), Verdict::Holds);
    }

    #[test]
    fn errors_name_fields_and_no_values() {
        for (source, part) in [
            ("new.status.phase == 'a'", "no field \"status\""),
            ("new.spec.note > 3", "no matching overload"),
            ("new.spec.note", "the result is a string"),
            ("1 / (new.spec.replicas - 2) == 0", "division by zero"),
            ("new.spec.ports[7] == 1", "out of bounds"),
            ("int(new.spec.note) == 1", "int() failed"),
            ("{'a': 1}[new.spec.note] == 1", "does not exist"),
            ("'x'.matches(new.spec.note + '(')", "matches() failed"),
        ] {
            let Verdict::Unknown(text) = of(source) else {
                panic!("{source}")
            };
            assert!(text.contains(part), "{source}: {text}");
            assert!(!text.contains("correct-horse"), "{source}: {text}");
        }
    }

    #[test]
    fn an_expression_that_takes_too_long_is_an_error() {
        let object = json!({ "metadata": { "name": "cart" }, "list": vec![0; 2000] });
        let large = Arc::new(received(&Kind::for_tests("", "v1", "Pod", "pods"), object));
        let slow = "new.list.all(x, new.list.all(y, new.list.all(z, z == 0)))";
        let failure = evaluate(slow, None, Some(large)).unwrap_err();
        assert!(
            failure.text().contains("evaluating --where takes too long"),
            "{failure}"
        );
    }
}
