//! Label selectors: syntax, validation and matching.

mod contradiction;
mod parse;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use self::parse::{Parser, check_key, check_value};
use crate::errors::ParseError;
use crate::object::Object;

/// A label selector: requirements on labels, all of which must be met.
///
/// Parses the syntax of `kubectl -l`: `app=web`, `tier!=cache`, `env in (dev, test)`, `env notin (prod)`,
/// `partition`, `!partition`, `size>5`, `size<9`, joined by commas. The empty text selects everything.
/// Selectors that differ only in order or notation, as `in (x)` and `=x`, are equal.
///
/// ```
/// use kube_informers::Selector;
///
/// let selector: Selector = "tier!=cache, app in (web)".parse()?;
/// assert_eq!(selector.to_string(), "app=web,tier!=cache");
/// assert!(selector.matches_labels(|key| (key == "app").then_some("web")));
/// # Ok::<(), kube_informers::error::ParseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[doc(alias = "labels.Selector")]
pub struct Selector {
    /// Sorted, each once.
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Test {
    Present,
    Absent,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Above(i64),
    Below(i64),
}

impl Selector {
    /// Selects every object.
    #[doc(alias = "labels.Everything")]
    pub fn everything() -> Self {
        Self::default()
    }

    /// Whether every object is selected.
    #[doc(alias = "Empty")]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Selects no object.
    #[doc(alias = "labels.Nothing")]
    pub fn nothing() -> Self {
        Self {
            requirements: contradiction::nothing(),
        }
    }

    /// Whether no object can be selected, whatever its labels: `app,!app`, `app=a,app=b`, `size>5,size<6`.
    pub fn is_nothing(&self) -> bool {
        contradiction::is_contradiction(&self.requirements)
    }

    /// The selector in an optional field of a Kubernetes object. `None` selects nothing; an empty selector selects
    /// everything, as with [`TryFrom<&LabelSelector>`].
    ///
    /// # Errors
    ///
    /// The selector is malformed.
    #[doc(alias = "LabelSelectorAsSelector")]
    pub fn of_field(selector: Option<&LabelSelector>) -> Result<Self, ParseError> {
        selector.map_or_else(|| Ok(Self::nothing()), Self::try_from)
    }

    /// Whether an object's labels are selected.
    pub fn matches<K: Object + ?Sized>(&self, object: &K) -> bool {
        self.matches_labels(|key| object.object_label(key))
    }

    /// Whether labels are selected, given a function that returns the value of a label.
    pub fn matches_labels<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.test.passes(label(&requirement.key)))
    }

    /// Selects the objects that both selectors select.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new([self.requirements, other.requirements].concat())
    }

    fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort();
        requirements.dedup();
        Self { requirements }
    }
}

impl Test {
    fn passes(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Present => value.is_some(),
            Self::Absent => value.is_none(),
            Self::In(values) => value.is_some_and(|value| values.contains(value)),
            Self::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Self::Above(bound) => number().is_some_and(|number| number > *bound),
            Self::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let set = |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match &self.test {
            Test::Present => write!(f, "{key}"),
            Test::Absent => write!(f, "!{key}"),
            Test::In(values) if values.len() == 1 => write!(f, "{key}={}", set(values)),
            Test::In(values) => write!(f, "{key} in ({})", set(values)),
            Test::NotIn(values) if values.len() == 1 => write!(f, "{key}!={}", set(values)),
            Test::NotIn(values) => write!(f, "{key} notin ({})", set(values)),
            Test::Above(bound) => write!(f, "{key}>{bound}"),
            Test::Below(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

impl FromStr for Selector {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Parser::new(text)
            .selector()
            .map(Self::new)
            .map_err(|(at, problem)| ParseError::new("a label selector", text, problem).at(at))
    }
}

/// The selector of a Kubernetes object, such as a Deployment. Without requirements it selects everything.
impl TryFrom<&LabelSelector> for Selector {
    type Error = ParseError;

    #[doc(alias = "LabelSelectorAsSelector")]
    fn try_from(selector: &LabelSelector) -> Result<Self, ParseError> {
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            requirements.push((key.as_str(), "In", vec![value.as_str()]));
        }
        for expression in selector.match_expressions.iter().flatten() {
            let values = expression.values.iter().flatten().map(String::as_str).collect();
            requirements.push((&expression.key, &expression.operator, values));
        }
        let requirements = requirements.into_iter().map(|(key, operator, values)| {
            requirement(key, operator, &values)
                .map_err(|problem| ParseError::new("a label selector", key, problem).at(0))
        });
        Ok(Self::new(requirements.collect::<Result<_, _>>()?))
    }
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> Result<Requirement, String> {
    check_key(key)?;
    values.iter().try_for_each(|value| check_value(value))?;
    let set = || {
        values
            .iter()
            .map(|value| (*value).to_owned())
            .collect::<BTreeSet<_>>()
    };
    let test = match (operator, values) {
        ("Exists", []) => Test::Present,
        ("DoesNotExist", []) => Test::Absent,
        ("In", [_, ..]) => Test::In(set()),
        ("NotIn", [_, ..]) => Test::NotIn(set()),
        ("In" | "NotIn", []) => return Err(format!("`{operator}` needs at least one value")),
        ("Exists" | "DoesNotExist", _) => return Err(format!("`{operator}` takes no values")),
        _ => {
            return Err(format!(
                "the operator {operator:?} is none of In, NotIn, Exists, DoesNotExist"
            ));
        }
    };
    Ok(Requirement {
        key: key.to_owned(),
        test,
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelectorRequirement, ObjectMeta};
    use proptest::prelude::*;

    use super::*;

    fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
        let pod = Pod {
            metadata: ObjectMeta {
                labels: Some(
                    labels
                        .iter()
                        .map(|(k, v)| (k.to_string(), v.to_string()))
                        .collect(),
                ),
                ..Default::default()
            },
            ..Default::default()
        };
        selector.parse::<Selector>().unwrap().matches(&pod)
    }

    #[test]
    fn every_operator_selects_matching_labels() {
        let labels = [("app", "web"), ("size", "7"), ("empty", "")];
        for yes in [
            "",
            "app=web",
            "app==web",
            "app = web",
            "app!=db",
            "other!=db",
            "app in (db, web)",
            "app notin (db)",
            "other notin (db)",
            "app",
            "!other",
            "size>6",
            "size<8",
            "empty=",
            "empty in (,x)",
            "app=web,size>6,!other",
        ] {
            assert!(selects(yes, &labels), "{yes:?}");
        }
        for no in [
            "app=db",
            "other=",
            "app!=web",
            "app in (db)",
            "other in (db)",
            "app notin (web,db)",
            "other",
            "!app",
            "size>7",
            "size<7",
            "app>1",
            "other<9",
            "app=web,other",
        ] {
            assert!(!selects(no, &labels), "{no:?}");
        }
    }

    #[test]
    fn equivalent_selectors_are_equal() {
        let parse = |text: &str| text.parse::<Selector>().unwrap();

        assert_eq!(parse("b=2,a=1"), parse(" a in (1) ,b==2, a=1"));
        assert_eq!(parse("x notin (a)"), parse("x!=a"));
        assert_eq!(parse("x in (b,a)"), parse("x in (a,b,a)"));
        assert_ne!(parse("x in (a,b)"), parse("x notin (a,b)"));
        assert_eq!(parse("b,a").to_string(), "a,b");
        assert_eq!(parse("  "), Selector::everything());
        assert_eq!(parse("in in (in, notin)").to_string(), "in in (in,notin)");
    }

    #[test]
    fn the_error_names_the_selector_the_place_and_the_problem() {
        let cases = [
            ("x=a||y=b", "\"a||y\" is not a label value at position 3"),
            ("x==a==b", "expected `,` or the end at position 5"),
            ("!x=a", "expected `,` or the end at position 3"),
            ("x<a", "expected a whole number at position 3"),
            ("a=b,", "expected a label key at position 5"),
            (",a=b", "expected a label key at position 1"),
            (
                "a b",
                "expected one of `=`, `!=`, `in`, `notin`, `<`, `>` or `,` at position 3",
            ),
            ("a in b", "expected `(` at position 6"),
            ("a in (b", "expected `,` or `)` at position 8"),
            ("a in ()", "expected at least one value at position 7"),
            ("ä=b", "\"ä\" is not a label key at position 1"),
            ("a=b,ä", "\"ä\" is not a label key at position 5"),
            ("-a=b", "\"-a\" is not a label key at position 1"),
            ("Ex.com/a", "\"Ex.com/a\" is not a label key at position 1"),
            ("a/b/c", "\"a/b/c\" is not a label key at position 1"),
        ];
        for (selector, problem) in cases {
            let error = selector.parse::<Selector>().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("{selector:?} is not a label selector: {problem}")
            );
        }
        let long = format!("a={}", "x".repeat(64)).parse::<Selector>().unwrap_err();
        assert_eq!(long.position(), Some(3));
    }

    #[test]
    fn a_label_selector_of_an_object_is_converted() {
        let expression = |operator: &str, values: &[&str]| LabelSelectorRequirement {
            key: "env".to_owned(),
            operator: operator.to_owned(),
            values: (!values.is_empty()).then(|| values.iter().map(|v| v.to_string()).collect()),
        };
        let of = |expressions: Vec<LabelSelectorRequirement>| {
            Selector::try_from(&LabelSelector {
                match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
                match_expressions: Some(expressions),
            })
        };

        let all = of(vec![
            expression("In", &["a", "b"]),
            expression("NotIn", &["c"]),
            expression("Exists", &[]),
            expression("DoesNotExist", &[]),
        ]);
        assert_eq!(all.unwrap().to_string(), "app=web,env,!env,env in (a,b),env!=c");
        assert_eq!(
            Selector::try_from(&LabelSelector::default()).unwrap(),
            Selector::everything()
        );
        assert!(of(vec![expression("In", &[])]).is_err());
        assert!(of(vec![expression("Exists", &["x"])]).is_err());
        let error = of(vec![expression("Near", &["x"])]).unwrap_err();
        assert!(error.to_string().contains("\"Near\" is none of In"), "{error}");
    }

    proptest! {
        #[test]
        fn a_printed_selector_parses_to_itself(text in "[a-c=!(),<> in1]{0,16}") {
            if let Ok(selector) = text.parse::<Selector>() {
                prop_assert_eq!(selector.to_string().parse::<Selector>(), Ok(selector));
            }
        }

        #[test]
        fn parsing_arbitrary_text_never_panics(text in "\\PC{0,24}") {
            let _ = text.parse::<Selector>();
        }
    }
}
