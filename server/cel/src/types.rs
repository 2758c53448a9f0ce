//! The types of expressions, and how they unify.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

/// The type of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Checked when the expression is evaluated.
    Dyn,
    /// The type of an expression with an error, which was reported. Fits everywhere.
    Error,
    /// `null`.
    Null,
    /// `bool`.
    Bool,
    /// `int`, of 64 bits.
    Int,
    /// `uint`, of 64 bits.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// `google.protobuf.Duration`.
    Duration,
    /// `google.protobuf.Timestamp`.
    Timestamp,
    /// A list with elements of a type.
    List(Arc<Type>),
    /// A map with keys and values of these types.
    Map(Arc<Type>, Arc<Type>),
    /// A value that may be absent.
    Optional(Arc<Type>),
    /// The type of a type.
    Meta(Arc<Type>),
    /// A type of Kubernetes' libraries, such as `kubernetes.URL`.
    Opaque(&'static str),
    /// An object whose fields are known.
    Object(Arc<ObjectType>),
    /// A type parameter of a function; a number after instantiation.
    Param(u32),
}

/// The fields of an object, by the names that expressions use.
#[derive(Debug, PartialEq)]
pub struct ObjectType {
    /// The name, for errors.
    pub name: String,
    /// The types of the fields.
    pub fields: BTreeMap<String, Type>,
}

/// The types of Kubernetes' libraries.
const OPAQUE: &[&str] = &[
    "kubernetes.URL",
    "kubernetes.Quantity",
    "kubernetes.NamedFormat",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.ResourceCheck",
    "kubernetes.authorization.Decision",
    "net.IP",
    "net.CIDR",
];

impl Type {
    /// A list with elements of a type.
    #[must_use]
    pub fn list(element: Type) -> Type {
        Type::List(Arc::new(element))
    }

    /// A map with keys and values of these types.
    #[must_use]
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new(key), Arc::new(value))
    }

    /// A value of a type that may be absent.
    #[must_use]
    pub fn optional(value: Type) -> Type {
        Type::Optional(Arc::new(value))
    }

    /// A type by the name that expressions use for it, such as `int` or `net.IP`.
    pub(super) fn named(name: &str) -> Option<Type> {
        Some(match name {
            "dyn" => Type::Dyn,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "null_type" => Type::Null,
            "google.protobuf.Duration" | "duration" => Type::Duration,
            "google.protobuf.Timestamp" | "timestamp" => Type::Timestamp,
            "list" => Type::list(Type::Dyn),
            "map" => Type::map(Type::Dyn, Type::Dyn),
            "type" => Type::Meta(Arc::new(Type::Dyn)),
            "optional_type" => Type::optional(Type::Dyn),
            name => Type::Opaque(OPAQUE.iter().find(|known| **known == name)?),
        })
    }

    pub(super) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// Whether null fits.
    fn is_nullable(&self) -> bool {
        matches!(
            self,
            Type::Null
                | Type::Opaque(_)
                | Type::Optional(_)
                | Type::Object(_)
                | Type::Duration
                | Type::Timestamp
        )
    }

    fn parameters(&self) -> Vec<&Type> {
        match self {
            Type::List(element) | Type::Optional(element) | Type::Meta(element) => vec![element],
            Type::Map(key, value) => vec![key, value],
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn => f.write_str("dyn"),
            Type::Error => f.write_str("!error!"),
            Type::Null => f.write_str("null"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::String => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::List(element) => write!(f, "list({element})"),
            Type::Map(key, value) => write!(f, "map({key}, {value})"),
            Type::Optional(value) => write!(f, "optional_type({value})"),
            Type::Meta(of) => write!(f, "type({of})"),
            Type::Opaque(name) => f.write_str(name),
            Type::Object(object) => f.write_str(&object.name),
            Type::Param(id) => write!(f, "_var{id}"),
        }
    }
}

/// What the type parameters stand for so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Substitutions(HashMap<u32, Type>);

impl Substitutions {
    /// Whether values of one type fit where the other is expected; binds parameters if so.
    pub(super) fn assign(&mut self, from: &Type, to: &Type) -> bool {
        let mut attempt = self.clone();
        let fits = attempt.unify(from, to);
        if fits {
            *self = attempt;
        }
        fits
    }

    /// The same for several types at once.
    pub(super) fn assign_all(&mut self, from: &[Type], to: &[Type]) -> bool {
        if from.len() != to.len() {
            return false;
        }
        let mut attempt = self.clone();
        let fits = from.iter().zip(to).all(|(from, to)| attempt.unify(from, to));
        if fits {
            *self = attempt;
        }
        fits
    }

    fn unify(&mut self, a: &Type, b: &Type) -> bool {
        if let Type::Param(id) = b {
            match self.bind(*id, a) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Type::Param(id) = a {
            return self.bind(*id, b).0;
        }
        if a.is_dyn_or_error() || b.is_dyn_or_error() {
            return true;
        }
        match (a, b) {
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::Meta(_), Type::Meta(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.unify(a, b),
            (Type::Map(ak, av), Type::Map(bk, bv)) => self.unify(ak, bk) && self.unify(av, bv),
            (Type::Object(a), Type::Object(b)) => a.name == b.name,
            (a, b) => a == b,
        }
    }

    /// Binds a parameter to a type. Returns whether the type fits, and whether the parameter was bound before.
    fn bind(&mut self, id: u32, to: &Type) -> (bool, bool) {
        if *to == Type::Param(id) {
            return (true, true);
        }
        if let Some(bound) = self.0.get(&id).cloned() {
            if bound == *to {
                return (true, true);
            }
            if !self.unify(to, &bound) {
                return (false, true);
            }
            let general = most_general(to, &bound);
            if !self.occurs(id, &general) {
                self.0.insert(id, general);
            }
            return (true, true);
        }
        if self.occurs(id, to) {
            return (false, false);
        }
        self.0.insert(id, to.clone());
        (true, false)
    }

    fn occurs(&self, id: u32, within: &Type) -> bool {
        match within {
            Type::Param(other) if *other == id => true,
            Type::Param(other) => self.0.get(other).is_some_and(|bound| self.occurs(id, bound)),
            other => other.parameters().iter().any(|part| self.occurs(id, part)),
        }
    }

    /// The type with its parameters replaced. Unbound ones become `dyn` on request.
    pub(super) fn resolve(&self, of: &Type, free_is_dyn: bool) -> Type {
        let resolve = |part: &Type| Arc::new(self.resolve(part, free_is_dyn));
        match of {
            Type::Param(id) => match self.0.get(id) {
                Some(bound) => self.resolve(bound, free_is_dyn),
                None if free_is_dyn => Type::Dyn,
                None => of.clone(),
            },
            Type::List(element) => Type::List(resolve(element)),
            Type::Map(key, value) => Type::Map(resolve(key), resolve(value)),
            Type::Optional(value) => Type::Optional(resolve(value)),
            Type::Meta(inner) => Type::Meta(resolve(inner)),
            other => other.clone(),
        }
    }
}

/// The less specific of two types that unify.
pub(super) fn most_general(a: &Type, b: &Type) -> Type {
    if is_equal_or_less_specific(a, b) {
        a.clone()
    } else {
        b.clone()
    }
}

fn is_equal_or_less_specific(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::Meta(_), Type::Meta(_)) => true,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
            is_equal_or_less_specific(a, b)
        }
        (Type::Map(ak, av), Type::Map(bk, bv)) => {
            is_equal_or_less_specific(ak, bk) && is_equal_or_less_specific(av, bv)
        }
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_bound_by_the_first_argument_and_checked_by_the_next() {
        let mut bound = Substitutions::default();
        let element = Type::Param(0);
        assert!(bound.assign(&Type::list(Type::Int), &Type::list(element.clone())));
        assert_eq!(bound.resolve(&element, false), Type::Int);
        assert!(!bound.assign(&Type::String, &element));
        assert!(bound.assign(&Type::Dyn, &element));
    }

    #[test]
    fn null_fits_objects_but_not_scalars() {
        let mut bound = Substitutions::default();
        assert!(bound.assign(&Type::Null, &Type::Duration));
        assert!(!bound.assign(&Type::Null, &Type::String));
        assert!(!bound.assign(&Type::list(Type::Int), &Type::Null));
    }

    #[test]
    fn a_parameter_does_not_contain_itself() {
        let mut bound = Substitutions::default();
        assert!(!bound.assign(&Type::list(Type::Param(0)), &Type::Param(0)));
    }
}
