//! Evaluates an expression for one object after the other, each within a limited time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use cel::{Context, Env, ExecutionError, Value};

use super::{Expression, STACK, environment, values};
use crate::objects::item::{Contents, Item};
use crate::process::failure::Failure;

/// How long the evaluation for one object may take. It takes microseconds as a rule; an expression that takes longer would
/// fall behind the changes of any cluster.
const TIME_LIMIT: Duration = Duration::from_secs(2);

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

/// An expression and the thread that evaluates it. CEL cannot be interrupted, so that a thread which takes too long is
/// abandoned.
pub struct Evaluator {
    option: &'static str,
    requests: Sender<States>,
    verdicts: Receiver<Verdict>,
}

/// The states before and after a change.
struct States {
    old: Option<Arc<Item>>,
    new: Option<Arc<Item>>,
}

impl Evaluator {
    /// Evaluates the expression of this option.
    ///
    /// # Errors
    ///
    /// There are no more threads.
    pub fn start(option: &'static str, expression: Expression) -> Result<Self, Failure> {
        let (requests, states) = mpsc::channel::<States>();
        let (answer, verdicts) = mpsc::channel();
        let run = move || {
            let env = Arc::new(environment());
            for states in states {
                let verdict = catch_unwind(AssertUnwindSafe(|| expression.verdict(&env, &states)))
                    .unwrap_or_else(|_| Verdict::Unknown("the interpreter failed".to_owned()));
                if answer.send(verdict).is_err() {
                    return;
                }
            }
        };
        kube_informers_core::tasks::spawn_thread_with_stack("expression", STACK, run)
            .map_err(|error| Failure::error(format!("cannot start a thread for {option}: {error}")))?;
        Ok(Self {
            option,
            requests,
            verdicts,
        })
    }

    /// Whether the expression holds for a change.
    ///
    /// # Errors
    ///
    /// The evaluation takes too long.
    pub fn evaluate(&self, old: Option<Arc<Item>>, new: Option<Arc<Item>>) -> Result<Verdict, Failure> {
        let ended = || Failure::error(format!("the evaluation of {} ended", self.option));
        self.requests.send(States { old, new }).map_err(|_| ended())?;
        match self.verdicts.recv_timeout(TIME_LIMIT) {
            Ok(verdict) => Ok(verdict),
            Err(RecvTimeoutError::Disconnected) => Err(ended()),
            Err(RecvTimeoutError::Timeout) => Err(Failure::error(format!(
                "evaluating {} takes more than {} s for one object: simplify the expression",
                self.option,
                TIME_LIMIT.as_secs()
            ))),
        }
    }
}

impl Expression {
    fn verdict(&self, env: &Arc<Env>, states: &States) -> Verdict {
        let mut context = Context::with_env(env.clone());
        let value = |item: &Option<Arc<Item>>| match item {
            Some(item) => values::value(item.tree().0),
            None => Value::Null,
        };
        if self.uses_old {
            context.add_variable_from_value("old", value(&states.old));
        }
        if self.uses_new {
            context.add_variable_from_value("new", value(&states.new));
        }
        let is_absent = self.uses_old && states.old.is_none() || self.uses_new && states.new.is_none();
        match Value::resolve(&self.tree, &context) {
            Ok(Value::Bool(true)) => Verdict::Holds,
            Ok(Value::Bool(false)) => Verdict::Fails,
            Ok(other) => Verdict::Unknown(format!("the result is a {}, not true or false", other.type_of())),
            // It reads a field of a state that does not exist: it is about another kind of change.
            Err(_) if is_absent => Verdict::Fails,
            Err(error) => Verdict::Unknown(self.reason(&error)),
        }
    }

    /// The error without values, which may be those of the object.
    fn reason(&self, error: &ExecutionError) -> String {
        match error {
            ExecutionError::NoSuchKey(name) if self.source.contains(name.as_str()) => {
                format!("it has no field {name:?}; test with has() if a field can be absent")
            }
            ExecutionError::NoSuchKey(_) => "a key of a map does not exist".to_owned(),
            ExecutionError::NoSuchOverload(error) => error.to_string(),
            ExecutionError::UndeclaredReference(name) if self.source.contains(name.as_str()) => {
                format!("unknown name {name:?}")
            }
            ExecutionError::InvalidArgumentCount { .. } => {
                "a function has the wrong number of arguments".to_owned()
            }
            ExecutionError::FunctionError { function, .. } => format!("{function}() failed"),
            ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
                "division by zero".to_owned()
            }
            ExecutionError::Overflow(..) => "a number is too large".to_owned(),
            ExecutionError::IndexOutOfBounds(_) => "an index is out of bounds".to_owned(),
            ExecutionError::ValuesNotComparable(..) => "values of these types cannot be compared".to_owned(),
            _ => "a value has the wrong type".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::objects::item::received;
    use crate::objects::kinds::Kind;

    fn evaluator(source: &str) -> Evaluator {
        Evaluator::start("--where", source.parse().unwrap()).unwrap()
    }

    fn pod(replicas: i64) -> Arc<Item> {
        let object = json!({
            "metadata": { "name": "cart", "namespace": "shop", "labels": { "app": "cart" } },
            "spec": { "replicas": replicas, "ratio": 0.5, "ports": [80, 443], "note": "correct-horse" },
        });
        Arc::new(received(&Kind::for_tests("", "v1", "Pod", "pods"), object))
    }

    fn of(source: &str) -> Verdict {
        evaluator(source).evaluate(Some(pod(1)), Some(pod(2))).unwrap()
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
        let changed = evaluator("old.spec.replicas != new.spec.replicas");
        assert_eq!(changed.evaluate(None, Some(pod(1))).unwrap(), Verdict::Fails);
        assert_eq!(changed.evaluate(Some(pod(1)), None).unwrap(), Verdict::Fails);
        let gone = evaluator("new == null && old.spec.replicas == 1");
        assert_eq!(gone.evaluate(Some(pod(1)), None).unwrap(), Verdict::Holds);
        let none = evaluator("new == null");
        assert_eq!(none.evaluate(None, None).unwrap(), Verdict::Holds);
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
        let slow = evaluator("new.list.all(x, new.list.all(y, new.list.all(z, z == 0)))");
        let failure = slow.evaluate(None, Some(large)).unwrap_err();
        assert!(
            failure.text().contains("evaluating --where takes more than 2 s"),
            "{failure}"
        );
    }
}
