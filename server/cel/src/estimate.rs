//! Estimates what evaluating an expression costs at most, before there is anything to evaluate.
//!
//! An API server rejects definitions whose rules may become too expensive. The costs of operators are those of CEL, the costs of
//! Kubernetes' functions are in [`calls`]. The steps that are counted are those that the interpreter counts; sizes come
//! from literals and from the [`Bounds`] of a schema.

mod calls;

use std::collections::HashMap;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, ListExpr, LiteralValue,
    SelectExpr, operators,
};

use super::check::Resolved;
use super::size::{Bounds, EntrySize, Size};
use super::types::Type;

const LIST: u64 = 10;
const MAP: u64 = 30;
const STRUCT: u64 = 40;

/// What the checker knows about the parts of an expression, by their number.
pub(super) struct Known<'k> {
    pub(super) types: &'k HashMap<u64, Type>,
    pub(super) calls: &'k HashMap<u64, Resolved>,
}

/// The cost of an expression in the worst case.
pub(super) fn estimate(tree: &IdedExpr, known: Known<'_>, bounds: &Bounds) -> u64 {
    let mut estimator = Estimator {
        known,
        bounds,
        paths: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
    };
    estimator.cost(tree)
}

struct Estimator<'k> {
    known: Known<'k>,
    bounds: &'k Bounds,
    /// Where the schema describes a part: a variable, then fields and `@items`, `@values` or `@keys`.
    paths: HashMap<u64, Vec<String>>,
    sizes: HashMap<u64, Size>,
    entries: HashMap<u64, EntrySize>,
    locals: Vec<Local>,
}

/// A variable of a comprehension.
struct Local {
    name: String,
    path: Vec<String>,
    size: Option<Size>,
    entry: Option<EntrySize>,
}

/// An argument or receiver of a call.
struct Operand<'e> {
    expression: &'e IdedExpr,
    kind: Type,
    path: Vec<String>,
    size: Option<Size>,
    entry: Option<EntrySize>,
    cost: u64,
}

impl Operand<'_> {
    fn size(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }

    /// The number that it is, if it is a literal.
    fn number(&self) -> Option<u64> {
        match &self.expression.expr {
            Expr::Literal(LiteralValue::Int(value)) => u64::try_from(*value.inner()).ok(),
            _ => None,
        }
    }
}

impl Estimator<'_> {
    fn cost(&mut self, expression: &IdedExpr) -> u64 {
        match &expression.expr {
            Expr::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => vec![name.clone()],
                };
                self.paths.insert(expression.id, path);
                1
            }
            Expr::Select(select) => self.select(expression.id, select),
            Expr::Call(call) => self.call(expression, call),
            Expr::List(list) => self.list(expression.id, list),
            Expr::Map(map) => self.map(expression.id, &map.entries),
            Expr::Struct(_) => STRUCT,
            Expr::Comprehension(comprehension) => self.comprehension(expression.id, comprehension),
            Expr::Literal(_) | Expr::Unspecified => 0,
        }
    }

    fn select(&mut self, id: u64, select: &SelectExpr) -> u64 {
        let operand = self.cost(&select.operand);
        if select.test {
            // The test itself is free.
            return operand;
        }
        let reads = matches!(
            self.kind(&select.operand),
            Type::Map(..) | Type::Object(_) | Type::Param(_)
        );
        let mut path = self.path(&select.operand);
        path.push(select.field.clone());
        self.paths.insert(id, path);
        operand.saturating_add(u64::from(reads))
    }

    fn call(&mut self, expression: &IdedExpr, call: &CallExpr) -> u64 {
        let name = call.func_name.as_str();
        if let ("dyn", [argument]) = (name, call.args.as_slice()) {
            let cost = self.cost(argument);
            let (size, entry) = (self.size(argument), self.entry(argument));
            self.keep(expression.id, size, entry);
            return cost.saturating_add(1);
        }
        let arguments: Vec<Operand<'_>> = call.args.iter().map(|argument| self.operand(argument)).collect();
        let arguments_cost = arguments
            .iter()
            .fold(0_u64, |sum, argument| sum.saturating_add(argument.cost));
        match name {
            operators::LOGICAL_AND | operators::LOGICAL_OR => {
                let size = self.size(expression);
                self.keep(expression.id, size, None);
                return arguments_cost;
            }
            operators::CONDITIONAL => return self.conditional(expression.id, &arguments),
            _ => {}
        }
        // The same function may be a method or not; the checker has found out.
        let known = self.known.calls;
        let Some(resolved) = known.get(&expression.id) else {
            return arguments_cost.saturating_add(1);
        };
        let receiver = match &call.target {
            Some(target) if resolved.is_method => Some(self.operand(target)),
            _ => None,
        };
        let (mut cost, mut size) = (0, None);
        for overload in &resolved.overloads {
            let estimate = calls::estimate(self, &resolved.function, overload, receiver.as_ref(), &arguments);
            cost = cost.max(estimate.cost);
            size = match (size, estimate.size) {
                (Some(known), Some(other)) => Some(Size::union(known, other)),
                (known, other) => known.or(other),
            };
        }
        if let ("_[_]", Some(container)) = (resolved.function.as_str(), arguments.first()) {
            let step = match container.kind {
                Type::List(_) => Some("@items"),
                Type::Map(..) => Some("@values"),
                _ => None,
            };
            if let Some(step) = step {
                let mut path = container.path.clone();
                path.push(step.to_owned());
                self.paths.insert(expression.id, path);
                size = container.entry.map(|entry| entry.value);
            }
        }
        let entry = match (resolved.function.as_str(), arguments.as_slice()) {
            ("_+_", [left, right]) => left.entry.zip(right.entry).map(|(left, right)| left.union(right)),
            _ => None,
        };
        let size = size.or_else(|| self.size(expression));
        self.keep(expression.id, size, entry);
        let receiver = receiver.map_or(0, |receiver| receiver.cost);
        cost.saturating_add(arguments_cost).saturating_add(receiver)
    }

    fn conditional(&mut self, id: u64, arguments: &[Operand<'_>]) -> u64 {
        let [condition, first, second] = arguments else {
            return 0;
        };
        let entry = first.entry.zip(second.entry);
        let entry = entry.map(|(first, second)| first.union(second));
        self.keep(id, Some(first.size().union(second.size())), entry);
        condition.cost.saturating_add(first.cost.max(second.cost))
    }

    fn list(&mut self, id: u64, list: &ListExpr) -> u64 {
        let (mut cost, mut value) = (LIST, Size::NONE);
        for element in &list.elements {
            cost = cost.saturating_add(self.cost(element));
            value = value.union(self.size(element).unwrap_or(Size::UNKNOWN));
        }
        if list.elements.is_empty() {
            value.least = 0;
        }
        let entry = EntrySize {
            is_list: true,
            key: Size::exactly(1),
            value,
        };
        self.keep(id, None, Some(entry));
        cost
    }

    fn map(&mut self, id: u64, entries: &[IdedEntryExpr]) -> u64 {
        let (mut cost, mut keys, mut values) = (MAP, Size::NONE, Size::NONE);
        for entry in entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                continue;
            };
            cost = cost.saturating_add(self.cost(&entry.key));
            cost = cost.saturating_add(self.cost(&entry.value));
            keys = keys.union(self.size(&entry.key).unwrap_or(Size::UNKNOWN));
            values = values.union(self.size(&entry.value).unwrap_or(Size::UNKNOWN));
        }
        if entries.is_empty() {
            (keys.least, values.least) = (0, 0);
        }
        let entry = EntrySize {
            is_list: false,
            key: keys,
            value: values,
        };
        self.keep(id, None, Some(entry));
        cost
    }

    fn comprehension(&mut self, id: u64, comprehension: &ComprehensionExpr) -> u64 {
        let (range, start) = (&comprehension.iter_range, &comprehension.accu_init);
        let mut cost = self.cost(range).saturating_add(self.cost(start));
        let accumulator = Local {
            name: comprehension.accu_var.clone(),
            path: self.path(start),
            size: self.size(start),
            entry: self.entry(start),
        };
        self.locals.push(accumulator);
        let entry = self.entry(range);
        let is_list = match entry {
            Some(entry) => entry.is_list,
            None => matches!(self.kind(range), Type::List(_)),
        };
        let mut path = self.path(range);
        path.push(if is_list { "@items" } else { "@keys" }.to_owned());
        self.locals.push(Local {
            name: comprehension.iter_var.clone(),
            path,
            size: entry.map(|entry| if is_list { entry.value } else { entry.key }),
            entry: None,
        });
        let condition = self.cost(&comprehension.loop_cond);
        let each = self.cost(&comprehension.loop_step).saturating_add(condition);
        self.locals.pop();
        cost = cost.saturating_add(self.cost(&comprehension.result));
        self.locals.pop();
        let count = self.size(range).unwrap_or(Size::UNKNOWN);
        cost = cost.saturating_add(count.most.saturating_mul(each));
        match &start.expr {
            Expr::Literal(_) => {
                let size = self.size(start);
                self.keep(id, size, None);
            }
            Expr::List(_) | Expr::Map(_) => {
                let entry = self.entry(&comprehension.loop_step);
                self.keep(id, Some(count), entry);
            }
            _ => {}
        }
        cost
    }

    fn operand<'e>(&mut self, expression: &'e IdedExpr) -> Operand<'e> {
        let cost = self.cost(expression);
        let mut path = self.path(expression);
        if path.first().is_some_and(|root| is_accumulator(root)) {
            path.clear();
        }
        Operand {
            expression,
            kind: self.kind(expression),
            path,
            size: self.size(expression),
            entry: self.entry(expression),
            cost,
        }
    }

    fn keep(&mut self, id: u64, size: Option<Size>, entry: Option<EntrySize>) {
        if let Some(size) = size {
            self.sizes.insert(id, size);
        }
        if let Some(entry) = entry {
            self.entries.insert(id, entry);
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn local_of(&self, expression: &IdedExpr) -> Option<&Local> {
        match &expression.expr {
            Expr::Ident(name) => self.local(name),
            _ => None,
        }
    }

    fn kind(&self, expression: &IdedExpr) -> Type {
        let kind = self.known.types.get(&expression.id);
        kind.cloned().unwrap_or(Type::Dyn)
    }

    fn path(&self, expression: &IdedExpr) -> Vec<String> {
        match self.local_of(expression) {
            Some(local) => local.path.clone(),
            None => self.paths.get(&expression.id).cloned().unwrap_or_default(),
        }
    }

    fn size(&self, expression: &IdedExpr) -> Option<Size> {
        if let Some(size) = self.sizes.get(&expression.id) {
            return Some(*size);
        }
        let literal = match &expression.expr {
            Expr::Literal(LiteralValue::String(text)) => Some(text.inner().chars().count()),
            Expr::Literal(LiteralValue::Bytes(bytes)) => Some(bytes.inner().len()),
            Expr::Literal(_) => Some(1),
            Expr::List(list) => Some(list.elements.len()),
            Expr::Map(map) => Some(map.entries.len()),
            _ => None,
        };
        if let Some(literal) = literal {
            return Some(Size::exactly(literal as u64));
        }
        if let Some(size) = self.size_at(&self.path(expression)) {
            return Some(size);
        }
        if is_scalar(&self.kind(expression)) {
            return Some(Size::exactly(1));
        }
        self.local_of(expression)?.size
    }

    /// The size of what the schema describes at a path. The variable at its beginning is always the object itself.
    fn size_at(&self, path: &[String]) -> Option<Size> {
        let (_, rest) = path.split_first()?;
        Some(Size::up_to(self.bounds.at(rest)?.most))
    }

    fn entry(&self, expression: &IdedExpr) -> Option<EntrySize> {
        if let Some(entry) = self.entries.get(&expression.id) {
            return Some(*entry);
        }
        self.local_of(expression)?.entry
    }
}

fn is_accumulator(name: &str) -> bool {
    matches!(name, "__result__" | "@result")
}

/// Whether all values of a type have the same size.
fn is_scalar(kind: &Type) -> bool {
    match kind {
        Type::Bool | Type::Int | Type::Uint | Type::Double | Type::Duration | Type::Timestamp => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
