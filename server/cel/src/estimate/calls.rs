//! The costs of functions, and the sizes of their results.

use super::super::signatures::Overload;
use super::super::size::{Size, scaled};
use super::super::types::Type;
use super::{Estimator, LIST, Operand};

/// The cost of reading a character or byte.
const TRAVERSAL: f64 = 0.1;
/// The cost of a character of a pattern, for each unit of the text.
const PATTERN: f64 = 0.25;
/// The longest name of a format, and the longest pattern of one.
const FORMAT_NAME: u64 = 64;
const FORMAT_PATTERN: f64 = 128.0;

/// The cost of a call without its operands, and the size of its result.
pub(super) struct Estimate {
    pub(super) cost: u64,
    pub(super) size: Option<Size>,
}

fn cost(cost: u64) -> Estimate {
    Estimate { cost, size: None }
}

/// A new list of this size.
fn allocated(factor: f64, size: Size) -> Estimate {
    Estimate {
        cost: scaled(size.most, factor).saturating_add(1 + LIST),
        size: Some(size),
    }
}

/// A text read once, and a result of the same size.
fn traversed(size: Size) -> Estimate {
    Estimate {
        cost: scaled(size.most, TRAVERSAL),
        size: Some(size),
    }
}

/// A text compared with a pattern.
fn matched(text: Size, pattern: Size) -> u64 {
    let text = text.most.saturating_add(1);
    scaled(text, TRAVERSAL).saturating_mul(scaled(pattern.most, PATTERN))
}

pub(super) fn estimate(
    estimator: &Estimator<'_>,
    function: &str,
    overload: &Overload,
    receiver: Option<&Operand<'_>>,
    arguments: &[Operand<'_>],
) -> Estimate {
    let known = match (receiver, arguments) {
        (Some(receiver), arguments) => method(estimator, function, overload, receiver, arguments),
        (None, [one]) => unary(function, overload, one),
        (None, [left, right]) => binary(function, overload, left, right),
        _ => None,
    };
    known.unwrap_or_else(|| cost(1))
}

fn unary(function: &str, overload: &Overload, argument: &Operand<'_>) -> Option<Estimate> {
    let size = argument.size();
    let parameter = overload.parameters.first();
    Some(match function {
        "url" => traversed(size),
        "ip" | "isIP" | "cidr" | "isCIDR" | "quantity" | "isQuantity" => cost(scaled(size.most, TRAVERSAL)),
        "ip.isCanonical" => cost(scaled(size.most, 2.0 * TRAVERSAL)),
        "lists.range" => allocated(1.0, Size::exactly(argument.number().unwrap_or(u64::MAX))),
        // Each character becomes up to four bytes.
        "bytes" if parameter == Some(&Type::String) => Estimate {
            cost: scaled(size.most, TRAVERSAL),
            size: Some(Size {
                most: size.most.saturating_mul(4),
                ..size
            }),
        },
        "string" if parameter == Some(&Type::Bytes) => Estimate {
            cost: scaled(size.most, TRAVERSAL),
            size: Some(Size {
                least: size.least / 4,
                ..size
            }),
        },
        "strings.quote" => Estimate {
            cost: scaled(size.most, TRAVERSAL),
            size: Some(Size {
                least: size.least.saturating_add(2),
                most: size.most.saturating_mul(2).saturating_add(2),
            }),
        },
        _ => return None,
    })
}

fn binary(function: &str, overload: &Overload, left: &Operand<'_>, right: &Operand<'_>) -> Option<Estimate> {
    let (first, second) = (left.size(), right.size());
    let parameter = overload.parameters.first();
    let is_text = matches!(parameter, Some(Type::String | Type::Bytes));
    let smaller = || cost(scaled(first.most.min(second.most), TRAVERSAL));
    Some(match function {
        "_==_" if left.kind == right.kind => match &left.kind {
            Type::Opaque("net.IP" | "net.CIDR" | "kubernetes.Quantity") => cost(1),
            Type::Opaque("kubernetes.NamedFormat") => cost(scaled(FORMAT_NAME, TRAVERSAL)),
            Type::Opaque("kubernetes.URL") => cost(scaled(right.size.map_or(1, |size| size.most), TRAVERSAL)),
            _ => smaller(),
        },
        "_==_" | "_!=_" => smaller(),
        "_<_" | "_<=_" | "_>_" | "_>=_" if is_text => smaller(),
        "_+_" if is_text => traversed(first.plus(second)),
        "_+_" if matches!(parameter, Some(Type::List(_))) => Estimate {
            cost: 1,
            size: Some(first.plus(second)),
        },
        "@in" if matches!(overload.parameters.get(1), Some(Type::List(_))) => cost(second.most),
        "matches" => cost(matched(first, second)),
        "sets.contains" | "sets.intersects" => cost(first.times(second).most.saturating_add(1)),
        "sets.equivalent" => cost(scaled(first.times(second).most, 2.0).saturating_add(1)),
        _ => return None,
    })
}

fn method(
    estimator: &Estimator<'_>,
    function: &str,
    overload: &Overload,
    receiver: &Operand<'_>,
    arguments: &[Operand<'_>],
) -> Option<Estimate> {
    let size = receiver.size();
    let argument = arguments.first().map(Operand::size);
    let is_string = overload.parameters.get(1) == Some(&Type::String);
    // Addresses have 4 or 16 bytes.
    let compared = scaled(32, TRAVERSAL);
    let parsed = || match argument {
        Some(text) if is_string => scaled(text.most, TRAVERSAL),
        _ => 0,
    };
    Some(match function {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            match element(estimator, receiver) {
                Some((kind, element)) => {
                    let text = matches!(kind, Type::String | Type::Bytes);
                    let each = 1_u64.saturating_add(if text { scaled(element.most, TRAVERSAL) } else { 0 });
                    cost(size.most.saturating_mul(each))
                }
                None => cost(scaled(size.most, TRAVERSAL)),
            }
        }
        "lowerAscii" | "upperAscii" | "substring" | "trim" => traversed(size),
        "replace" => Estimate {
            cost: scaled(size.most, 2.0 * TRAVERSAL),
            size: Some(replaced(size, argument?, arguments.get(1)?.size())),
        },
        "split" => Estimate {
            cost: scaled(size.most, 2.0 * TRAVERSAL),
            size: Some(Size::up_to(
                arguments.get(1).and_then(Operand::number).unwrap_or(size.most),
            )),
        },
        "join" => {
            let element = element(estimator, receiver).map_or(Size::exactly(0), |(_, size)| size);
            let mut joined = size.times(element);
            if let Some(separator) = argument {
                let separators = Size {
                    least: size.least.saturating_sub(1),
                    most: size.most.saturating_sub(1),
                };
                joined = joined.plus(separator.times(separators));
            }
            traversed(joined)
        }
        "find" | "findAll" => Estimate {
            cost: matched(size, argument?),
            size: Some(Size::up_to(size.most)),
        },
        "matches" => cost(matched(size, argument?)),
        "contains" => cost(scaled(size.most, TRAVERSAL).saturating_mul(scaled(argument?.most, TRAVERSAL))),
        "startsWith" | "endsWith" => cost(scaled(argument?.most, TRAVERSAL)),
        "format" => cost(scaled(size.most, TRAVERSAL)),
        "containsIP" => cost(compared.saturating_add(parsed())),
        "containsCIDR" => cost(
            compared
                .saturating_add(scaled(16, TRAVERSAL) + 1)
                .saturating_add(parsed()),
        ),
        "validate" => cost(scaled(
            scaled(argument?.most, TRAVERSAL),
            FORMAT_PATTERN * PATTERN,
        )),
        "slice" => {
            let start = arguments.first().and_then(Operand::number).unwrap_or(0);
            let end = arguments.get(1).and_then(Operand::number).unwrap_or(size.most);
            allocated(1.0, Size::exactly(end.wrapping_sub(start)))
        }
        "reverse" | "flatten" => allocated(1.0, size),
        "distinct" => allocated(2.0, size.times(size)),
        "sort" => {
            let text = match overload.parameters.first() {
                Some(Type::List(element)) => matches!(**element, Type::String | Type::Bytes),
                _ => false,
            };
            allocated(2.0 + if text { TRAVERSAL } else { 0.0 }, size.times(size))
        }
        _ => return None,
    })
}

/// The type and size of the elements of a list.
fn element(estimator: &Estimator<'_>, list: &Operand<'_>) -> Option<(Type, Size)> {
    let Type::List(kind) = &list.kind else {
        return None;
    };
    let mut path = list.path.clone();
    path.push("@items".to_owned());
    let known = (path.len() > 1).then(|| estimator.size_at(&path)).flatten();
    Some(((**kind).clone(), known.unwrap_or(Size::UNKNOWN)))
}

/// The size of a text after replacements.
fn replaced(text: Size, old: Size, new: Size) -> Size {
    let rounded_up = |size: u64, part: u64| (size as f64 / part as f64).ceil() as u64;
    let (most_replaced, most_kept) = if old.least == 0 {
        // An empty text is found around every character.
        (text.most.saturating_add(1), text.most)
    } else if new.most <= old.least {
        (0, text.most)
    } else {
        (rounded_up(text.most, old.least), 0)
    };
    let (least_replaced, least_kept) = if old.most == 0 {
        (text.least.saturating_add(1), text.least)
    } else if old.most <= new.least {
        (0, text.least)
    } else {
        (rounded_up(text.least, old.most), 0)
    };
    Size {
        least: least_replaced
            .saturating_mul(new.least)
            .saturating_add(least_kept),
        most: most_replaced.saturating_mul(new.most).saturating_add(most_kept),
    }
}
