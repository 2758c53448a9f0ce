//! The checked form of an expression, which is evaluated.

use regex::Regex;

use super::value::Value;

/// A part of an expression.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Literal(Value),
    Variable(String),
    /// `operand.field`, or `has(operand.field)`.
    Select(Box<Select>),
    And(Vec<Node>),
    Or(Vec<Node>),
    /// Condition, value if it holds, value if it does not.
    Conditional(Box<[Node; 3]>),
    /// True unless the value is false; errors are true.
    NotStrictlyFalse(Box<Node>),
    Call(Box<Call>),
    List(Vec<Element>),
    Map(Vec<MapEntry>),
    Comprehension(Box<Comprehension>),
}

#[derive(Clone, Debug)]
pub(super) struct Select {
    pub(super) operand: Node,
    pub(super) field: String,
    pub(super) how: How,
}

/// What a selection returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The value.
    Value,
    /// Whether there is one.
    Test,
    /// The value, if there is one.
    Optional,
}

/// A function or operator with its arguments; the receiver of a method comes first.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) function: String,
    pub(super) arguments: Vec<Node>,
    /// The compiled pattern, if the function has one that is a literal.
    pub(super) pattern: Option<Regex>,
}

#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) value: Node,
    pub(super) is_optional: bool,
}

#[derive(Clone, Debug)]
pub(super) struct MapEntry {
    pub(super) key: Node,
    pub(super) value: Node,
    pub(super) is_optional: bool,
}

/// A loop over a list, or over the keys of a map: what the macros `all`, `exists`, `map` ... become.
#[derive(Clone, Debug)]
pub(super) struct Comprehension {
    pub(super) range: Node,
    pub(super) variable: String,
    pub(super) accumulator: String,
    pub(super) start: Node,
    pub(super) condition: Node,
    pub(super) step: Node,
    pub(super) result: Node,
}
