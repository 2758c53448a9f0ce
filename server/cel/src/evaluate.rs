//! Evaluates checked expressions, at a bounded cost.
//!
//! Every step has a cost, that of an API server as far as it is documented, and the evaluation ends when a limit is
//! reached. There is no other way to stop an expression: it runs on the caller's thread.

use std::cell::Cell;
use std::sync::Arc;

use super::failure::Failure;
use super::node::{Call, Comprehension, Element, How, MapEntry, Node, Select};
use super::value::{Key, Outcome, Value};
use super::{FormatErrors, functions};

const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;

/// The elements of a loop.
type Items<'a> = Box<dyn Iterator<Item = Value> + 'a>;

/// The variables of comprehensions, innermost first, then those of the expression.
struct Scope<'a> {
    name: &'a str,
    value: &'a Outcome,
    outer: Option<&'a Scope<'a>>,
}

pub(super) struct Evaluator<'a> {
    variables: &'a [(&'a str, Value)],
    /// What is left to spend.
    budget: Cell<u64>,
    formats: Option<FormatErrors>,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(variables: &'a [(&'a str, Value)], limit: u64, formats: Option<FormatErrors>) -> Self {
        Self {
            variables,
            budget: Cell::new(limit),
            formats,
        }
    }

    /// What is left of the limit.
    pub(super) fn left(&self) -> u64 {
        self.budget.get()
    }

    pub(super) fn evaluate(&self, node: &Node) -> Outcome {
        self.value(node, None)
    }

    fn charge(&self, cost: u64) -> Result<(), Failure> {
        match self.budget.get().checked_sub(cost) {
            Some(left) => {
                self.budget.set(left);
                Ok(())
            }
            None => {
                self.budget.set(0);
                Err(Failure::OutOfBudget)
            }
        }
    }

    /// Only calls other functions, so that a level of nesting takes little of the stack.
    fn value(&self, node: &Node, scope: Option<&Scope<'_>>) -> Outcome {
        match node {
            Node::Literal(value) => Ok(value.clone()),
            Node::Variable(name) => self.variable(name, scope),
            Node::Select(select) => self.select(select, scope),
            Node::And(terms) => self.logic(terms, scope, false),
            Node::Or(terms) => self.logic(terms, scope, true),
            Node::Conditional(parts) => self.conditional(parts, scope),
            Node::NotStrictlyFalse(inner) => self.not_strictly_false(inner, scope),
            Node::Call(call) => self.call(call, scope),
            Node::List(elements) => self.list(elements, scope),
            Node::Map(entries) => self.map(entries, scope),
            Node::Comprehension(comprehension) => self.comprehension(comprehension, scope),
        }
    }

    fn variable(&self, name: &str, scope: Option<&Scope<'_>>) -> Outcome {
        self.charge(1)?;
        let mut next = scope;
        while let Some(scope) = next {
            if scope.name == name {
                return scope.value.clone();
            }
            next = scope.outer;
        }
        let found = self.variables.iter().find(|(known, _)| *known == name);
        let missing = || Failure::new(format!("no such attribute(s): {name}"));
        found.map(|(_, value)| value.clone()).ok_or_else(missing)
    }

    fn select(&self, select: &Select, scope: Option<&Scope<'_>>) -> Outcome {
        let operand = self.value(&select.operand, scope)?;
        if select.how != How::Test {
            self.charge(1)?;
        }
        let (operand, is_optional) = match operand {
            Value::Optional(None) if select.how == How::Test => return Ok(Value::Bool(false)),
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(value)) => ((*value).clone(), true),
            value => (value, false),
        };
        let Value::Map(map) = &operand else {
            return Err(Failure::no_overload());
        };
        let found = map.get(&Key::String(select.field.as_str().into()));
        match select.how {
            How::Test => Ok(Value::Bool(found.is_some())),
            How::Optional => Ok(Value::optional(found.cloned())),
            How::Value if is_optional => Ok(Value::optional(found.cloned())),
            How::Value => found.cloned().ok_or_else(|| Failure::no_such_key(&select.field)),
        }
    }

    /// `||` if `decisive` is true, `&&` if it is false. One decisive term is enough, even if another one fails.
    fn logic(&self, terms: &[Node], scope: Option<&Scope<'_>>, decisive: bool) -> Outcome {
        let mut failure = None;
        for term in terms {
            match self.value(term, scope) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Err(Failure::OutOfBudget) => return Err(Failure::OutOfBudget),
                Ok(_) => failure = failure.or(Some(Failure::no_overload())),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn conditional(&self, [condition, yes, no]: &[Node; 3], scope: Option<&Scope<'_>>) -> Outcome {
        match self.value(condition, scope)? {
            Value::Bool(true) => self.value(yes, scope),
            Value::Bool(false) => self.value(no, scope),
            _ => Err(Failure::no_overload()),
        }
    }

    fn not_strictly_false(&self, inner: &Node, scope: Option<&Scope<'_>>) -> Outcome {
        match self.value(inner, scope) {
            Err(Failure::OutOfBudget) => Err(Failure::OutOfBudget),
            result => Ok(Value::Bool(!matches!(result, Ok(Value::Bool(false))))),
        }
    }

    fn call(&self, call: &Call, scope: Option<&Scope<'_>>) -> Outcome {
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            arguments.push(self.value(argument, scope)?);
        }
        self.charge(functions::cost(&call.function, &arguments, self.left()))?;
        if call.pattern.is_none() && matches!(call.function.as_str(), "matches" | "find" | "findAll") {
            self.charge(functions::COMPILE_COST)?;
        }
        if let (Some(errors), "validate", [Value::Format(format), Value::String(text)]) =
            (self.formats, call.function.as_str(), arguments.as_slice())
        {
            return Ok(functions::validated(errors(format, text)));
        }
        let result = functions::call(&call.function, &arguments, call.pattern.as_ref());
        match (call.function.as_str(), call.arguments.as_slice(), &arguments[..]) {
            // The key can be named: it is in the expression.
            ("_[_]", [_, Node::Literal(Value::String(key))], [Value::Map(_), _]) => {
                result.map_err(|_| Failure::no_such_key(key))
            }
            _ => result,
        }
    }

    fn list(&self, elements: &[Element], scope: Option<&Scope<'_>>) -> Outcome {
        self.charge(LIST_COST)?;
        let mut items = Vec::with_capacity(elements.len());
        for element in elements {
            match self.value(&element.value, scope)? {
                value if !element.is_optional => items.push(value),
                Value::Optional(Some(value)) => items.push((*value).clone()),
                Value::Optional(None) => {}
                _ => {
                    let message = "cannot initialize optional list element from non-optional value";
                    return Err(Failure::new(message));
                }
            }
        }
        Ok(Value::from(items))
    }

    fn map(&self, entries: &[MapEntry], scope: Option<&Scope<'_>>) -> Outcome {
        self.charge(MAP_COST)?;
        let mut map = std::collections::BTreeMap::new();
        for entry in entries {
            let key = self.value(&entry.key, scope)?;
            let key = Key::of(&key).ok_or_else(|| Failure::new("unsupported key type"))?;
            let value = match self.value(&entry.value, scope)? {
                value if !entry.is_optional => value,
                Value::Optional(Some(value)) => (*value).clone(),
                Value::Optional(None) => continue,
                _ => {
                    let message = "cannot initialize optional entry from non-optional value";
                    return Err(Failure::new(message));
                }
            };
            map.insert(key, value);
        }
        Ok(Value::Map(Arc::new(map)))
    }

    fn comprehension(&self, of: &Comprehension, scope: Option<&Scope<'_>>) -> Outcome {
        let range = self.value(&of.range, scope)?;
        let range: Items<'_> = match &range {
            Value::List(list) => Box::new(list.items.iter().cloned()),
            Value::Map(map) => Box::new(map.keys().map(Key::value)),
            _ => return Err(Failure::no_overload()),
        };
        let accumulated = match of.appended() {
            Some((filter, element)) => self.append(of, (filter, element), range, scope),
            None => self.fold(of, range, scope),
        };
        if accumulated == Err(Failure::OutOfBudget) {
            return accumulated;
        }
        let scope = Scope {
            name: &of.accumulator,
            value: &accumulated,
            outer: scope,
        };
        self.value(&of.result, Some(&scope))
    }

    fn fold(&self, of: &Comprehension, range: Items<'_>, scope: Option<&Scope<'_>>) -> Outcome {
        let mut accumulated = self.value(&of.start, scope);
        for item in range {
            let item = Ok(item);
            let outer = Scope {
                name: &of.accumulator,
                value: &accumulated,
                outer: scope,
            };
            let inner = Scope {
                name: &of.variable,
                value: &item,
                outer: Some(&outer),
            };
            if self.value(&of.condition, Some(&inner))? != Value::Bool(true) {
                break;
            }
            let next = self.value(&of.step, Some(&inner));
            if next == Err(Failure::OutOfBudget) {
                return next;
            }
            accumulated = next;
        }
        accumulated
    }

    /// A loop that appends to a list: `map` and `filter`. Folding would copy the list for every element.
    fn append(
        &self,
        of: &Comprehension,
        (filter, element): (Option<&Node>, &Node),
        range: Items<'_>,
        scope: Option<&Scope<'_>>,
    ) -> Outcome {
        let mut items = Vec::new();
        for item in range {
            let item = Ok(item);
            let inner = Scope {
                name: &of.variable,
                value: &item,
                outer: scope,
            };
            let is_selected = match filter {
                Some(filter) => self.value(filter, Some(&inner))?,
                None => Value::Bool(true),
            };
            match is_selected {
                Value::Bool(true) => {
                    self.charge(LIST_COST + 2)?;
                    items.push(self.value(element, Some(&inner))?);
                }
                Value::Bool(false) => {}
                _ => return Err(Failure::no_overload()),
            }
        }
        Ok(Value::from(items))
    }
}

impl Comprehension {
    /// The filter and the element, if the loop appends one element to the list it accumulates.
    fn appended(&self) -> Option<(Option<&Node>, &Node)> {
        let is_accumulator = |node: &Node| matches!(node, Node::Variable(name) if *name == self.accumulator);
        let unconditional = matches!(self.condition, Node::Literal(Value::Bool(true)));
        if !unconditional || !matches!(&self.start, Node::List(start) if start.is_empty()) {
            return None;
        }
        match &self.step {
            Node::Conditional(parts) if is_accumulator(&parts[2]) => {
                Some((Some(&parts[0]), self.added(&parts[1])?))
            }
            step => Some((None, self.added(step)?)),
        }
    }

    /// The element that is added to the accumulated list.
    fn added<'a>(&self, node: &'a Node) -> Option<&'a Node> {
        let Node::Call(call) = node else { return None };
        match (call.function.as_str(), call.arguments.as_slice()) {
            ("_+_", [Node::Variable(name), Node::List(added)]) if *name == self.accumulator => {
                match added.as_slice() {
                    [element] if !element.is_optional => Some(&element.value),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
