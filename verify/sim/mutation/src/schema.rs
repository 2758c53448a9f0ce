//! Many mutants in one source: each is behind a condition on its number, which `crate::active_mutant::is` checks at run time.
//!
//! | Mutant | Becomes |
//! |---|---|
//! | value of a function | `if is(7) { return VALUE; } BODY` |
//! | operator, guard, struct field | `(if is(7) { MUTATED } else { ORIGINAL })`, around the smallest expression that means the same in parentheses |
//! | match arm | `PATTERN if !is(7) => …`; one of the other arms is `_`, so that the match stays complete |
//!
//! Only one mutant is active at a time, so the mutated text of one contains no other.

use std::cmp::Reverse;
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Arm, BinOp, Expr, ExprBinary, ExprStruct, ExprUnary};

use crate::mutants::{Genre, Mutant, offset};

/// A file with mutants behind conditions.
pub struct Rewritten {
    pub text: String,
    regions: Vec<Region>,
    /// Mutants that cannot be behind a condition.
    pub excluded: Vec<usize>,
}

/// Bytes of the rewritten text, and the mutants they are there for.
struct Region {
    bytes: Range<usize>,
    mutants: Vec<usize>,
    /// The mutated text itself; otherwise the original text beside it.
    mutated: bool,
}

/// The mutants that an error is about.
#[derive(Debug, PartialEq)]
pub struct Blame<'a> {
    pub mutants: &'a [usize],
    /// The error is in the mutated text itself, not in the original text beside it.
    pub in_mutated: bool,
}

impl Rewritten {
    /// The mutants that an error at these bytes is about: those of the innermost region there.
    pub fn blame(&self, bytes: &Range<usize>) -> Option<Blame<'_>> {
        let around = self
            .regions
            .iter()
            .filter(|region| region.bytes.start <= bytes.start && bytes.end <= region.bytes.end);
        let region = around.min_by_key(|region| region.bytes.len())?;
        Some(Blame {
            mutants: &region.mutants,
            in_mutated: region.mutated,
        })
    }
}

/// Puts the mutants, which have their numbers with them, into the source.
pub fn rewrite(source: &str, mutants: &[(usize, &Mutant)]) -> syn::Result<Rewritten> {
    let file = syn::parse_file(source)?;
    let mutants = mutants
        .iter()
        .map(|(number, mutant)| (*number, *mutant, mutant.range(source)));
    let mut finder = Finder {
        source,
        mutants: mutants.collect(),
        found: Vec::new(),
    };
    finder.visit_file(&file);

    let mut changes: Vec<Change> = Vec::new();
    let mut excluded = Vec::new();
    for (number, mutant, own) in &finder.mutants {
        let place = match mutant.genre {
            Genre::FnValue => Some(Place::Body(own.clone())),
            _ => finder
                .found
                .iter()
                .find(|(found, _)| found == number)
                .and_then(|(_, place)| place.clone()),
        };
        let Some(place) = place else {
            excluded.push(*number);
            continue;
        };
        match changes.iter_mut().find(|change| change.place == place) {
            Some(change) => change.mutants.push((*number, *mutant)),
            None => changes.push(Change {
                place,
                mutants: vec![(*number, *mutant)],
            }),
        }
    }
    changes.sort_by_key(|change| {
        let range = change.place.range();
        (
            range.start,
            Reverse(range.end),
            !matches!(change.place, Place::Body(_)),
        )
    });

    let mut writer = Writer {
        source,
        text: String::new(),
        regions: Vec::new(),
    };
    writer.write(0..source.len(), &changes);
    Ok(Rewritten {
        text: writer.text,
        regions: writer.regions,
        excluded,
    })
}

/// What is changed for a mutant, in bytes of the source.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    /// The statements of a function.
    Body(Range<usize>),
    Expression(Range<usize>),
    /// The end of a pattern.
    Pattern(usize),
}

impl Place {
    fn range(&self) -> Range<usize> {
        match self {
            Self::Body(range) | Self::Expression(range) => range.clone(),
            Self::Pattern(end) => *end..*end,
        }
    }
}

struct Change<'a> {
    place: Place,
    mutants: Vec<(usize, &'a Mutant)>,
}

struct Writer<'a> {
    source: &'a str,
    text: String,
    regions: Vec<Region>,
}

impl Writer<'_> {
    /// Writes a part of the source with the changes in it, which are sorted, outer ones first.
    fn write(&mut self, range: Range<usize>, changes: &[Change]) {
        let mut at = range.start;
        let mut left = changes;
        while let Some((change, rest)) = left.split_first() {
            let own = change.place.range();
            let inner = rest
                .iter()
                .take_while(|other| other.place.range().start < own.end)
                .count();
            self.text.push_str(&self.source[at..own.start]);
            self.change(change, &rest[..inner]);
            at = own.end;
            left = &rest[inner..];
        }
        self.text.push_str(&self.source[at..range.end]);
    }

    fn change(&mut self, change: &Change, inner: &[Change]) {
        let range = change.place.range();
        let start = self.text.len();
        let is = |number: &usize| format!("crate::active_mutant::is({number})");
        match &change.place {
            Place::Body(_) => {
                for (number, mutant) in &change.mutants {
                    self.text.push_str(&format!("if {} {{ return ", is(number)));
                    self.mutated(*number, &mutant.replacement);
                    self.text.push_str("; } ");
                }
                self.write(range, inner);
            }
            Place::Expression(_) => {
                self.text.push('(');
                for (number, mutant) in &change.mutants {
                    self.text.push_str(&format!("if {} {{ ", is(number)));
                    self.mutated(*number, &mutant.applied(self.source, range.clone()));
                    self.text.push_str(" } else ");
                }
                self.text.push_str("{ ");
                self.write(range, inner);
                self.text.push_str(" })");
            }
            Place::Pattern(_) => {
                for (number, _) in &change.mutants {
                    self.text.push_str(&format!(" if !{}", is(number)));
                }
            }
        }
        let mutants = change.mutants.iter().map(|(number, _)| *number).collect();
        self.regions.push(Region {
            bytes: start..self.text.len(),
            mutants,
            mutated: false,
        });
    }

    fn mutated(&mut self, number: usize, text: &str) {
        let start = self.text.len();
        self.text.push_str(text);
        self.regions.push(Region {
            bytes: start..self.text.len(),
            mutants: vec![number],
            mutated: true,
        });
    }
}

/// Finds the place of each mutant.
struct Finder<'a> {
    source: &'a str,
    mutants: Vec<(usize, &'a Mutant, Range<usize>)>,
    /// Numbers with their places; none if the mutant cannot be behind a condition.
    found: Vec<(usize, Option<Place>)>,
}

impl Finder<'_> {
    fn range(&self, node: &impl Spanned) -> Range<usize> {
        let (start, end) = (node.span().start(), node.span().end());
        offset(self.source, start.line, start.column)..offset(self.source, end.line, end.column)
    }

    /// Gives a place to the mutants of exactly these bytes.
    fn found(&mut self, genre: Genre, at: &Range<usize>, place: Option<Place>) {
        let numbers = self
            .mutants
            .iter()
            .filter(|(_, mutant, own)| mutant.genre == genre && own == at);
        self.found
            .extend(numbers.map(|(number, ..)| (*number, place.clone())));
    }

    /// An expression `a - b * c` changes as a whole: with `+` in place of `*`, it is `(a - b) + c`.
    fn binary(&mut self, node: &ExprBinary, whole: &Option<Place>) {
        let operator = self.range(&node.op);
        self.found(Genre::BinaryOperator, &operator, whole.clone());
        for side in [&*node.left, &*node.right] {
            match side {
                Expr::Binary(inner) if precedence(&inner.op).joins(precedence(&node.op)) => {
                    self.binary(inner, whole);
                }
                _ => self.visit_expr(side),
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr_binary(&mut self, node: &'ast ExprBinary) {
        // A condition with `let` is no expression, and cannot be put in parentheses.
        let whole = (!has_let(node)).then(|| Place::Expression(self.range(node)));
        self.binary(node, &whole);
    }

    fn visit_expr_unary(&mut self, node: &'ast ExprUnary) {
        let (operator, place) = (self.range(&node.op), Place::Expression(self.range(node)));
        self.found(Genre::UnaryOperator, &operator, Some(place));
        visit::visit_expr_unary(self, node);
    }

    fn visit_expr_struct(&mut self, node: &'ast ExprStruct) {
        let place = Place::Expression(self.range(node));
        for pair in node.fields.pairs() {
            let mut field = self.range(pair.value());
            if let Some(comma) = pair.punct() {
                field.end = self.range(comma).end;
            }
            self.found(Genre::StructField, &field, Some(place.clone()));
        }
        visit::visit_expr_struct(self, node);
    }

    fn visit_arm(&mut self, node: &'ast Arm) {
        let arm = self.range(node);
        let place = node
            .guard
            .is_none()
            .then(|| Place::Pattern(self.range(&node.pat).end));
        self.found(Genre::MatchArm, &arm, place);
        if let Some((_, guard)) = &node.guard {
            let range = self.range(guard);
            self.found(
                Genre::MatchArmGuard,
                &range,
                Some(Place::Expression(range.clone())),
            );
        }
        visit::visit_arm(self, node);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Precedence {
    Logical,
    Comparison,
    Arithmetic,
    Assignment,
}

impl Precedence {
    /// Whether another operator in place of one of them could change what belongs together.
    fn joins(self, other: Self) -> bool {
        self == other && matches!(self, Self::Logical | Self::Arithmetic)
    }
}

fn precedence(operator: &BinOp) -> Precedence {
    match operator {
        BinOp::And(_) | BinOp::Or(_) => Precedence::Logical,
        BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) => {
            Precedence::Comparison
        }
        BinOp::Add(_)
        | BinOp::Sub(_)
        | BinOp::Mul(_)
        | BinOp::Div(_)
        | BinOp::Rem(_)
        | BinOp::BitXor(_)
        | BinOp::BitAnd(_)
        | BinOp::BitOr(_)
        | BinOp::Shl(_)
        | BinOp::Shr(_) => Precedence::Arithmetic,
        _ => Precedence::Assignment,
    }
}

fn has_let(node: &ExprBinary) -> bool {
    [&*node.left, &*node.right].into_iter().any(|side| match side {
        Expr::Let(_) => true,
        Expr::Binary(inner) => has_let(inner),
        _ => false,
    })
}

#[cfg(test)]
mod tests;
