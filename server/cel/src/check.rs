//! The type checker: finds unknown names and values of the wrong type before anything is evaluated. Errors are worded as
//! an API server's.

use std::collections::{BTreeSet, HashMap};

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, ListExpr, LiteralValue,
    SelectExpr, operators,
};

use super::Declarations;
use super::estimate::{Known, estimate};
use super::functions::{self, pattern};
use super::node::{Call, Comprehension, Element, How, MapEntry, Node, Select};
use super::parse::{Issue, Limits, Parsed, Undeclared};
use super::signatures::{Overload, overloads};
use super::types::{Substitutions, Type, most_general};
use super::value::Value;

/// Words that expressions cannot use as names. Fields of these names are escaped.
pub const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A checked expression.
pub(super) struct Checked {
    pub(super) node: Node,
    pub(super) output: Type,
    /// The variables that it uses.
    pub(super) variables: BTreeSet<String>,
    /// What evaluating it costs at most; 0 if the sizes of its variables are not declared.
    pub(super) cost: u64,
}

/// The function that a call was found to be.
pub(super) struct Resolved {
    pub(super) function: String,
    pub(super) is_method: bool,
    /// The overloads that fit: several if the types of arguments are not known.
    pub(super) overloads: Vec<&'static Overload>,
}

/// Checks a parsed expression.
pub(super) fn check(source: &str, parsed: &Parsed, declared: &Declarations) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        source,
        parsed,
        declared,
        scopes: Vec::new(),
        bound: Substitutions::default(),
        parameters: 0,
        macros: 0,
        formats: 0,
        used: BTreeSet::new(),
        types: HashMap::new(),
        calls: HashMap::new(),
        issues: Vec::new(),
        late: Vec::new(),
    };
    let (output, node) = checker.check(&parsed.tree);
    let issues = if checker.issues.is_empty() {
        checker.late
    } else {
        checker.issues
    };
    if !issues.is_empty() {
        return Err(issues);
    }
    let cost = declared.bounds.as_ref().map_or(0, |bounds| {
        for kind in checker.types.values_mut() {
            *kind = checker.bound.resolve(kind, true);
        }
        let known = Known {
            types: &checker.types,
            calls: &checker.calls,
        };
        estimate(&parsed.tree, known, bounds)
    });
    Ok(Checked {
        cost,
        node,
        output: checker.bound.resolve(&output, true),
        variables: checker.used,
    })
}

struct Checker<'a> {
    source: &'a str,
    parsed: &'a Parsed,
    declared: &'a Declarations,
    /// The variables of the comprehensions around, innermost last.
    scopes: Vec<(String, Type)>,
    bound: Substitutions,
    /// The number of type parameters so far.
    parameters: u32,
    /// The number of macros so far.
    macros: usize,
    /// The number of calls of `format` around, whose lists may mix types.
    formats: usize,
    used: BTreeSet<String>,
    /// The types of the parts of the expression and the functions that it calls, for its estimate.
    types: HashMap<u64, Type>,
    calls: HashMap<u64, Resolved>,
    issues: Vec<Issue>,
    /// Errors that are reported only if there are no others.
    late: Vec<Issue>,
}

type Typed = (Type, Node);

/// What stands for an expression with an error.
fn broken() -> Typed {
    (Type::Error, Node::Literal(Value::Null))
}

impl Checker<'_> {
    fn issue(&self, id: u64, message: String) -> Issue {
        Issue::at(self.source, self.parsed.offset(id), message)
    }

    fn report(&mut self, id: u64, message: String) {
        let issue = self.issue(id, message);
        self.issues.push(issue);
    }

    fn undeclared(&mut self, id: u64, name: &str, kind: fn(String) -> Undeclared) -> Typed {
        let mut issue = self.issue(id, format!("undeclared reference to '{name}' (in container '')"));
        issue.undeclared = Some(kind(name.to_owned()));
        self.issues.push(issue);
        broken()
    }

    fn mismatch(&self, id: u64, expected: &Type, actual: &Type) -> Issue {
        let (expected, actual) = (
            self.bound.resolve(expected, true),
            self.bound.resolve(actual, true),
        );
        self.issue(id, format!("expected type '{expected}' but found '{actual}'"))
    }

    fn fresh(&mut self) -> Type {
        self.parameters += 1;
        Type::Param(self.parameters)
    }

    fn check(&mut self, expression: &IdedExpr) -> Typed {
        let (kind, node) = self.check_part(expression);
        if self.declared.bounds.is_some() {
            self.types.insert(expression.id, kind.clone());
        }
        (kind, node)
    }

    fn check_part(&mut self, expression: &IdedExpr) -> Typed {
        let id = expression.id;
        match &expression.expr {
            Expr::Unspecified => broken(),
            Expr::Literal(literal) => check_literal(literal),
            Expr::Ident(name) => self.check_name(id, name),
            Expr::Select(select) => self.check_select(expression, select),
            Expr::Call(call) => self.check_call(id, call),
            Expr::List(list) => self.check_list(list),
            Expr::Map(map) => self.check_map(&map.entries),
            Expr::Struct(literal) => self.undeclared(id, &literal.type_name, Undeclared::Variable),
            Expr::Comprehension(comprehension) => self.check_comprehension(id, comprehension),
        }
    }

    fn variable(&self, name: &str) -> Option<Type> {
        let local = self.scopes.iter().rev().find(|(known, _)| known == name);
        let declared = || self.declared.variable(name).cloned();
        local.map(|(_, kind)| kind.clone()).or_else(declared)
    }

    fn check_name(&mut self, id: u64, name: &str) -> Typed {
        let plain = name.trim_start_matches('.');
        if let Some(kind) = self.variable(plain) {
            if !self.scopes.iter().any(|(local, _)| local == plain) {
                self.used.insert(plain.to_owned());
            }
            return (kind, Node::Variable(plain.to_owned()));
        }
        match type_literal(plain) {
            Some(literal) => literal,
            None => self.undeclared(id, name, Undeclared::Variable),
        }
    }

    fn check_select(&mut self, expression: &IdedExpr, select: &SelectExpr) -> Typed {
        if let Some(name) = qualified_name(expression)
            && name
                .split('.')
                .next()
                .is_some_and(|root| self.variable(root).is_none())
            && let Some(literal) = type_literal(&name)
        {
            return literal;
        }
        let how = if select.test { How::Test } else { How::Value };
        let (kind, node) = self.check_field(expression.id, &select.operand, &select.field, how);
        (if select.test { Type::Bool } else { kind }, node)
    }

    fn check_field(&mut self, id: u64, operand: &IdedExpr, field: &str, how: How) -> Typed {
        let (operand_type, operand) = self.check(operand);
        let operand_type = self.bound.resolve(&operand_type, false);
        let (target, is_optional) = match &operand_type {
            Type::Optional(inner) => ((**inner).clone(), true),
            other => (other.clone(), false),
        };
        let mut field = field.to_owned();
        let found = match &target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => {
                if !object.fields.contains_key(&field) && RESERVED.contains(&field.as_str()) {
                    field = format!("__{field}__");
                }
                match object.fields.get(&field) {
                    Some(kind) => kind.clone(),
                    None => {
                        self.report(id, format!("undefined field '{field}'"));
                        Type::Error
                    }
                }
            }
            Type::Param(_) => {
                self.bound.assign(&Type::Dyn, &target);
                Type::Dyn
            }
            other if other.is_dyn_or_error() => Type::Dyn,
            other => {
                self.report(id, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        let result = match (is_optional, how) {
            (true, _) | (_, How::Optional) => Type::optional(found),
            _ => found,
        };
        let select = Select { operand, field, how };
        (result, Node::Select(Box::new(select)))
    }

    fn check_call(&mut self, id: u64, call: &CallExpr) -> Typed {
        let name = call.func_name.as_str();
        if name == operators::OPT_SELECT {
            return match call.args.as_slice() {
                [operand, field] => match &field.expr {
                    Expr::Literal(LiteralValue::String(field)) => {
                        self.check_field(id, operand, field.inner(), How::Optional)
                    }
                    _ => broken(),
                },
                _ => broken(),
            };
        }
        let is_format = name == "format" && call.target.is_some();
        self.formats += usize::from(is_format);
        let (mut kinds, mut arguments): (Vec<Type>, Vec<Node>) =
            call.args.iter().map(|argument| self.check(argument)).unzip();
        self.formats -= usize::from(is_format);
        let Some(target) = &call.target else {
            return match overloads(name) {
                Some(found) => self.resolve(id, name, found, kinds, arguments, call),
                None if matches!(name, operators::LOGICAL_AND | operators::LOGICAL_OR) => {
                    self.check_logic(call, &kinds, arguments)
                }
                None => self.undeclared(id, name, Undeclared::Function),
            };
        };
        // `optional.of(x)` is a function of that name, unless there is a variable `optional`.
        if let Some(prefix) = qualified_name(target)
            && let full = format!("{prefix}.{name}")
            && let Some(found) = overloads(&full)
        {
            return self.resolve(id, &full, found, kinds, arguments, call);
        }
        let (kind, receiver) = self.check(target);
        let Some(found) = overloads(name) else {
            return self.undeclared(id, name, Undeclared::Function);
        };
        kinds.insert(0, kind);
        arguments.insert(0, receiver);
        self.resolve(id, name, found, kinds, arguments, call)
    }

    /// `&&` and `||`, whose errors are at their operands.
    fn check_logic(&mut self, call: &CallExpr, kinds: &[Type], arguments: Vec<Node>) -> Typed {
        for (argument, kind) in call.args.iter().zip(kinds) {
            if !self.bound.assign(kind, &Type::Bool) {
                let issue = self.mismatch(argument.id, &Type::Bool, kind);
                self.issues.push(issue);
            }
        }
        let node = match call.func_name.as_str() {
            operators::LOGICAL_AND => Node::And(arguments),
            _ => Node::Or(arguments),
        };
        (Type::Bool, node)
    }

    /// Finds the overloads that fit the arguments.
    fn resolve(
        &mut self,
        id: u64,
        name: &str,
        found: &'static [Overload],
        kinds: Vec<Type>,
        arguments: Vec<Node>,
        call: &CallExpr,
    ) -> Typed {
        let is_method = kinds.len() > call.args.len();
        let mut result: Option<Type> = None;
        let mut fitting = Vec::new();
        for overload in found.iter().filter(|overload| overload.is_method == is_method) {
            let (first, second) = (self.fresh(), self.fresh());
            let instantiate = |kind: &Type| instantiate(kind, &first, &second);
            let parameters: Vec<Type> = overload.parameters.iter().map(instantiate).collect();
            if !self.bound.assign_all(&kinds, &parameters) {
                continue;
            }
            fitting.push(overload);
            let returned = self.bound.resolve(&instantiate(&overload.result), false);
            result = Some(match result {
                None => returned,
                Some(known) if known == returned => known,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            let kinds: Vec<String> = kinds
                .iter()
                .map(|kind| self.bound.resolve(kind, true).to_string())
                .collect();
            let applied = match kinds.split_first() {
                Some((receiver, rest)) if is_method => format!("{receiver}.({})", rest.join(", ")),
                _ => format!("({})", kinds.join(", ")),
            };
            self.report(
                id,
                format!("found no matching overload for '{name}' applied to '{applied}'"),
            );
            return broken();
        };
        if self.declared.bounds.is_some() {
            let resolved = Resolved {
                function: name.to_owned(),
                is_method,
                overloads: fitting,
            };
            self.calls.insert(id, resolved);
        }
        (result, self.call(name, arguments, call))
    }

    fn call(&mut self, name: &str, mut arguments: Vec<Node>, call: &CallExpr) -> Node {
        match name {
            operators::CONDITIONAL => match <[Node; 3]>::try_from(arguments) {
                Ok(parts) => Node::Conditional(Box::new(parts)),
                Err(_) => broken().1,
            },
            operators::NOT_STRICTLY_FALSE => {
                Node::NotStrictlyFalse(Box::new(arguments.pop().unwrap_or_else(|| broken().1)))
            }
            _ => {
                self.check_literal_argument(name, &arguments, call);
                let compiled = match (name, arguments.get(1)) {
                    ("matches" | "find" | "findAll", Some(Node::Literal(Value::String(text)))) => {
                        pattern(text).ok()
                    }
                    _ => None,
                };
                Node::Call(Box::new(Call {
                    function: name.to_owned(),
                    arguments,
                    pattern: compiled,
                }))
            }
        }
    }

    /// Rejects literals that the function can never accept.
    fn check_literal_argument(&mut self, name: &str, arguments: &[Node], call: &CallExpr) {
        let (Some(Node::Literal(Value::String(text))), Some(argument)) =
            (arguments.last(), call.args.first())
        else {
            return;
        };
        let is_valid = match name {
            "duration" => functions::parse_duration(text).is_some(),
            "timestamp" => functions::parse_timestamp(text).is_some(),
            "matches" => pattern(text).is_ok(),
            _ => true,
        };
        if !is_valid {
            let issue = self.issue(argument.id, format!("invalid {name} argument"));
            self.late.push(issue);
        }
    }

    /// The common type of the elements of a literal. `join` is called with the position of each.
    fn join(&mut self, id: u64, known: Option<Type>, next: Type) -> Type {
        let Some(known) = known else { return next };
        if self.bound.assign(&known, &next) {
            return most_general(&known, &next);
        }
        if self.formats == 0 {
            let issue = self.mismatch(id, &known, &next);
            self.late.push(issue);
        }
        Type::Dyn
    }

    /// The type within an optional element of a literal.
    fn unwrap(&mut self, id: u64, kind: Type) -> Type {
        match kind {
            Type::Optional(inner) => (*inner).clone(),
            kind if kind.is_dyn_or_error() => kind,
            kind => {
                let issue = self.mismatch(id, &Type::optional(kind.clone()), &kind);
                self.issues.push(issue);
                kind
            }
        }
    }

    fn check_list(&mut self, list: &ListExpr) -> Typed {
        let (mut common, mut elements) = (None, Vec::with_capacity(list.elements.len()));
        for (position, element) in list.elements.iter().enumerate() {
            let (mut kind, value) = self.check(element);
            let is_optional = list.optional_indices.contains(&position);
            if is_optional {
                kind = self.unwrap(element.id, kind);
            }
            common = Some(self.join(element.id, common, kind));
            elements.push(Element { value, is_optional });
        }
        let common = common.unwrap_or_else(|| self.fresh());
        (Type::list(common), Node::List(elements))
    }

    fn check_map(&mut self, entries: &[IdedEntryExpr]) -> Typed {
        let (mut keys, mut values, mut nodes) = (None, None, Vec::with_capacity(entries.len()));
        for entry in entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                continue;
            };
            let (key_type, key) = self.check(&entry.key);
            keys = Some(self.join(entry.key.id, keys, key_type));
            let (mut value_type, value) = self.check(&entry.value);
            if entry.optional {
                value_type = self.unwrap(entry.value.id, value_type);
            }
            values = Some(self.join(entry.value.id, values, value_type));
            nodes.push(MapEntry {
                key,
                value,
                is_optional: entry.optional,
            });
        }
        let keys = keys.unwrap_or_else(|| self.fresh());
        let values = values.unwrap_or_else(|| self.fresh());
        (Type::map(keys, values), Node::Map(nodes))
    }

    /// Reports too many macros.
    fn count_macro(&mut self, id: u64) {
        self.macros += 1;
        let Limits {
            macros,
            nested_macros,
            ..
        } = self.declared.limits;
        if self.macros > macros {
            let message = format!("an expression has at most {macros} macros such as all and map");
            self.report(id, message);
        }
        // Each has two variables: the element and the accumulator.
        if self.scopes.len() / 2 >= nested_macros {
            let message = format!("macros such as all and map can be nested {nested_macros} deep");
            self.report(id, message);
        }
    }

    fn check_comprehension(&mut self, id: u64, comprehension: &ComprehensionExpr) -> Typed {
        self.count_macro(id);
        let (range_type, range) = self.check(&comprehension.iter_range);
        let (start_type, start) = self.check(&comprehension.accu_init);
        let range_type = self.bound.resolve(&range_type, false);
        let element = match &range_type {
            Type::List(element) => (**element).clone(),
            Type::Map(key, _) => (**key).clone(),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.bound.assign(&Type::Dyn, &range_type);
                Type::Dyn
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(comprehension.iter_range.id, message);
                Type::Error
            }
        };
        self.scopes
            .push((comprehension.accu_var.clone(), start_type.clone()));
        self.scopes.push((comprehension.iter_var.clone(), element));
        let (condition_type, condition) = self.check(&comprehension.loop_cond);
        self.expect(comprehension.loop_cond.id, &Type::Bool, &condition_type);
        let (step_type, step) = self.check(&comprehension.loop_step);
        self.expect(comprehension.loop_step.id, &start_type, &step_type);
        self.scopes.pop();
        let (result_type, result) = self.check(&comprehension.result);
        self.scopes.pop();
        let node = Comprehension {
            range,
            variable: comprehension.iter_var.clone(),
            accumulator: comprehension.accu_var.clone(),
            start,
            condition,
            step,
            result,
        };
        let result_type = self.bound.resolve(&result_type, false);
        (result_type, Node::Comprehension(Box::new(node)))
    }

    fn expect(&mut self, id: u64, expected: &Type, actual: &Type) {
        if !self.bound.assign(expected, actual) {
            let issue = self.mismatch(id, expected, actual);
            self.issues.push(issue);
        }
    }
}

fn check_literal(literal: &LiteralValue) -> Typed {
    let (kind, value) = match literal {
        LiteralValue::Boolean(value) => (Type::Bool, Value::Bool(*value.inner())),
        LiteralValue::Bytes(value) => (Type::Bytes, Value::Bytes(value.inner().into())),
        LiteralValue::Double(value) => (Type::Double, Value::Double(*value.inner())),
        LiteralValue::Int(value) => (Type::Int, Value::Int(*value.inner())),
        LiteralValue::Null => (Type::Null, Value::Null),
        LiteralValue::String(value) => (Type::String, Value::from(value.inner())),
        LiteralValue::UInt(value) => (Type::Uint, Value::Uint(*value.inner())),
    };
    (kind, Node::Literal(value))
}

/// The value of a name that is a type.
fn type_literal(name: &str) -> Option<Typed> {
    // These two have no short name.
    let kind = Type::named(name).filter(|_| !matches!(name, "duration" | "timestamp"))?;
    Some((Type::Meta(kind.into()), Node::Literal(Value::Type(name.into()))))
}

/// The name that an expression spells, such as `a.b.c`.
fn qualified_name(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => {
            Some(format!("{}.{}", qualified_name(&select.operand)?, select.field))
        }
        _ => None,
    }
}

/// A type of an overload, with fresh parameters.
fn instantiate(kind: &Type, first: &Type, second: &Type) -> Type {
    let inner = |kind: &Type| instantiate(kind, first, second);
    match kind {
        Type::Param(0) => first.clone(),
        Type::Param(_) => second.clone(),
        Type::List(element) => Type::list(inner(element)),
        Type::Map(key, value) => Type::map(inner(key), inner(value)),
        Type::Optional(value) => Type::optional(inner(value)),
        Type::Meta(of) => Type::Meta(inner(of).into()),
        other => other.clone(),
    }
}
