//! Label selectors: `app=web,tier in (front,back),!canary,weight>3`.

use std::collections::BTreeSet;
use std::fmt;

use super::SelectorError;
use crate::field_error::{FieldError, aggregate};
use crate::names;

/// The operator of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `key=value`
    Equals,
    /// `key==value`
    DoubleEquals,
    /// `key!=value`; also true without the key.
    NotEquals,
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`; also true without the key.
    NotIn,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key>3`, on integers.
    GreaterThan,
    /// `key<3`, on integers.
    LessThan,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// The operator.
    pub operator: Operator,
    /// The values, sorted and deduplicated; empty for the two existence operators.
    pub values: Vec<String>,
}

/// A conjunction of requirements; an empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Parses a label selector.
    #[doc(alias = "labels.Parse")]
    pub fn parse(selector: &str) -> Result<Self, SelectorError> {
        let mut requirements = Parser {
            tokens: scan(selector),
            position: 0,
        }
        .selector()?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether labels match; `lookup` returns the value of a label.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.matches(lookup(&requirement.key)))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

impl Requirement {
    fn new(key: &str, operator: Operator, values: BTreeSet<String>) -> Result<Self, SelectorError> {
        let mut errors = Vec::new();
        let broken = names::label_key(key);
        if !broken.is_empty() {
            errors.push(FieldError::invalid("key", key, broken.join("; ")));
        }
        for (index, value) in values.iter().enumerate() {
            if matches!(operator, Operator::GreaterThan | Operator::LessThan) && go_int(value).is_none() {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(FieldError::invalid(
                    format!("values[{index}]"),
                    value.as_str(),
                    detail,
                ));
            }
        }
        for (index, value) in values.iter().enumerate() {
            let broken = names::label_value(value);
            if !broken.is_empty() {
                let field = format!("values[{index}][{key}]");
                errors.push(FieldError::invalid(field, value.as_str(), broken.join("; ")));
            }
        }
        if errors.is_empty() {
            Ok(Self {
                key: key.to_owned(),
                operator,
                values: values.into_iter().collect(),
            })
        } else {
            Err(unparsable(aggregate(&errors)))
        }
    }

    /// Whether a label's value (or its absence) meets the requirement.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|wanted| wanted == value);
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => value.is_some_and(listed),
            Operator::NotEquals | Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compare(value, |actual, bound| actual > bound),
            Operator::LessThan => self.compare(value, |actual, bound| actual < bound),
        }
    }

    fn compare(&self, value: Option<&str>, test: impl Fn(i64, i64) -> bool) -> bool {
        match (
            value.and_then(go_int),
            self.values.first().and_then(|bound| go_int(bound)),
        ) {
            (Some(actual), Some(bound)) => test(actual, bound),
            _ => false,
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.join(",");
        let key = &self.key;
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// A decimal integer as accepted by Go's `ParseInt`: with an optional sign.
fn go_int(text: &str) -> Option<i64> {
    text.parse().ok()
}

fn unparsable(detail: impl fmt::Display) -> SelectorError {
    SelectorError(format!("unable to parse requirement: {detail}"))
}

fn found(literal: &str, expected: &str) -> String {
    format!("found '{literal}', expected: {expected}")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenKind {
    End,
    ClosedParenthesis,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    GreaterThan,
    Identifier,
    In,
    LessThan,
    NotEquals,
    NotIn,
    OpenParenthesis,
}

#[derive(Clone, Debug)]
struct Token {
    kind: TokenKind,
    literal: String,
}

fn is_symbol(character: char) -> bool {
    matches!(character, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

/// Splits the text into tokens; the last one is always `End`.
fn scan(selector: &str) -> Vec<Token> {
    // The server's scanner stops at a NUL.
    let text = selector.split('\0').next().unwrap_or_default();
    let mut rest = text;
    let mut tokens = Vec::new();
    loop {
        rest = rest.trim_start_matches(is_space);
        let Some(first) = rest.chars().next() else { break };
        let (token, length) = if is_symbol(first) {
            scan_symbol(rest)
        } else {
            scan_word(rest)
        };
        tokens.push(token);
        rest = rest.get(length..).unwrap_or_default();
    }
    tokens.push(Token {
        kind: TokenKind::End,
        literal: String::new(),
    });
    tokens
}

fn scan_word(text: &str) -> (Token, usize) {
    let length = text
        .find(|character| is_symbol(character) || is_space(character))
        .unwrap_or(text.len());
    let literal = text.get(..length).unwrap_or_default();
    let kind = match literal {
        "in" => TokenKind::In,
        "notin" => TokenKind::NotIn,
        _ => TokenKind::Identifier,
    };
    (
        Token {
            kind,
            literal: literal.to_owned(),
        },
        length,
    )
}

/// Prefers an operator of two symbols to one of a single symbol.
fn scan_symbol(text: &str) -> (Token, usize) {
    let (kind, length) = match text.as_bytes() {
        [b'=', b'=', ..] => (TokenKind::DoubleEquals, 2),
        [b'!', b'=', ..] => (TokenKind::NotEquals, 2),
        [b'=', ..] => (TokenKind::Equals, 1),
        [b'!', ..] => (TokenKind::Not, 1),
        [b'>', ..] => (TokenKind::GreaterThan, 1),
        [b'<', ..] => (TokenKind::LessThan, 1),
        [b'(', ..] => (TokenKind::OpenParenthesis, 1),
        [b')', ..] => (TokenKind::ClosedParenthesis, 1),
        _ => (TokenKind::Comma, 1),
    };
    (
        Token {
            kind,
            literal: text.get(..length).unwrap_or_default().to_owned(),
        },
        length,
    )
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
}

impl Parser {
    /// The current token; `End` past the end.
    fn peek(&self) -> (TokenKind, &str) {
        let token = self.tokens.get(self.position).or(self.tokens.last());
        token.map_or((TokenKind::End, ""), |token| (token.kind, token.literal.as_str()))
    }

    /// Like `peek`, with `in` and `notin` as plain words.
    fn peek_value(&self) -> (TokenKind, &str) {
        match self.peek() {
            (TokenKind::In | TokenKind::NotIn, literal) => (TokenKind::Identifier, literal),
            other => other,
        }
    }

    fn take(&mut self) -> (TokenKind, String) {
        let (kind, literal) = self.peek();
        let taken = (kind, literal.to_owned());
        self.position += 1;
        taken
    }

    fn take_value(&mut self) -> (TokenKind, String) {
        let (kind, literal) = self.peek_value();
        let taken = (kind, literal.to_owned());
        self.position += 1;
        taken
    }

    fn selector(mut self) -> Result<Vec<Requirement>, SelectorError> {
        let mut requirements = Vec::new();
        loop {
            match self.peek_value() {
                (TokenKind::Identifier | TokenKind::Not, _) => {
                    requirements.push(self.requirement()?);
                    match self.take_value() {
                        (TokenKind::End, _) => return Ok(requirements),
                        (TokenKind::Comma, _) => match self.peek_value() {
                            (TokenKind::Identifier | TokenKind::Not, _) => {}
                            (_, literal) => {
                                return Err(SelectorError(found(literal, "identifier after ','")));
                            }
                        },
                        (_, literal) => {
                            return Err(SelectorError(found(&literal, "',' or 'end of string'")));
                        }
                    }
                }
                (TokenKind::End, _) => return Ok(requirements),
                (_, literal) => {
                    return Err(SelectorError(found(literal, "!, identifier, or 'end of string'")));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let (mut kind, mut key) = self.take_value();
        let negated = kind == TokenKind::Not;
        if negated {
            (kind, key) = self.take_value();
        }
        if kind != TokenKind::Identifier {
            return Err(unparsable(found(&key, "identifier")));
        }
        let broken = names::label_key(&key);
        if !broken.is_empty() {
            return Err(unparsable(FieldError::invalid(
                "<nil>",
                key.as_str(),
                broken.join("; "),
            )));
        }
        let ends = matches!(self.peek_value().0, TokenKind::End | TokenKind::Comma);
        if negated || ends {
            // A real server reads nothing after `!key`; the caller rejects what follows.
            let operator = if negated {
                Operator::DoesNotExist
            } else {
                Operator::Exists
            };
            return Requirement::new(&key, operator, BTreeSet::new());
        }
        let operator = self.operator().map_err(unparsable)?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.value_set(),
            _ => self.exact_value(),
        };
        Requirement::new(&key, operator, values.map_err(unparsable)?)
    }

    fn operator(&mut self) -> Result<Operator, String> {
        Ok(match self.take() {
            (TokenKind::In, _) => Operator::In,
            (TokenKind::NotIn, _) => Operator::NotIn,
            (TokenKind::Equals, _) => Operator::Equals,
            (TokenKind::DoubleEquals, _) => Operator::DoubleEquals,
            (TokenKind::NotEquals, _) => Operator::NotEquals,
            (TokenKind::GreaterThan, _) => Operator::GreaterThan,
            (TokenKind::LessThan, _) => Operator::LessThan,
            (_, literal) => return Err(found(&literal, "in, notin, =, ==, !=, gt, lt")),
        })
    }

    fn exact_value(&mut self) -> Result<BTreeSet<String>, String> {
        if matches!(self.peek_value().0, TokenKind::End | TokenKind::Comma) {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.take_value() {
            (TokenKind::Identifier, literal) => Ok(BTreeSet::from([literal])),
            (_, literal) => Err(found(&literal, "identifier")),
        }
    }

    fn value_set(&mut self) -> Result<BTreeSet<String>, String> {
        let (kind, literal) = self.take_value();
        if kind != TokenKind::OpenParenthesis {
            return Err(format!("found '{literal}' expected: '('"));
        }
        match self.peek_value() {
            (TokenKind::Identifier | TokenKind::Comma, _) => self.values(),
            (TokenKind::ClosedParenthesis, _) => {
                self.position += 1;
                Ok(BTreeSet::from([String::new()]))
            }
            (_, literal) => Err(found(literal, "',', ')' or identifier")),
        }
    }

    /// The values up to and including the closing parenthesis; an empty position is the empty value.
    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let mut values = BTreeSet::new();
        loop {
            match self.take_value() {
                (TokenKind::Identifier, literal) => {
                    values.insert(literal);
                    match self.peek_value() {
                        (TokenKind::Comma, _) => {}
                        (TokenKind::ClosedParenthesis, _) => break,
                        (_, literal) => return Err(found(literal, "',' or ')'")),
                    }
                }
                (TokenKind::Comma, _) => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek_value() {
                        (TokenKind::ClosedParenthesis, _) => {
                            values.insert(String::new());
                            break;
                        }
                        (TokenKind::Comma, _) => {
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                (_, literal) => return Err(found(&literal, "',', or identifier")),
            }
        }
        self.position += 1;
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn matches(selector: &str, labels: Value) -> bool {
        LabelSelector::parse(selector)
            .unwrap()
            .matches(|key| labels.get(key).and_then(Value::as_str))
    }

    fn error(selector: &str) -> String {
        LabelSelector::parse(selector).unwrap_err().0
    }

    #[test]
    fn operators_match_as_on_a_real_server() {
        let web = json!({ "app": "web", "weight": "7" });

        for selector in [
            "",
            "app",
            "app=web",
            "app==web",
            "app = web , weight",
            "!canary",
            "canary!=yes",
            "app!=api",
            "app in (api, web)",
            "app notin (api)",
            "canary notin (yes)",
            "weight>6",
            "weight<8",
        ] {
            assert!(matches(selector, web.clone()), "{selector}");
        }
        for selector in [
            "canary",
            "app=api",
            "!app",
            "app!=web",
            "app in (api)",
            "app notin (web)",
            "weight>7",
            "app>1",
            "canary=",
            "app=web,canary",
        ] {
            assert!(!matches(selector, web.clone()), "{selector}");
        }
    }

    #[test]
    fn empty_values_and_keywords_are_valid_values() {
        assert!(matches("a in (,x)", json!({ "a": "" })));
        assert!(matches("a in ()", json!({ "a": "" })));
        assert!(matches("a=", json!({ "a": "" })));
        assert!(matches("in in (notin)", json!({ "in": "notin" })));
        assert_eq!(
            LabelSelector::parse("b in (y,x,y),a").unwrap().to_string(),
            "a,b in (x,y)"
        );
    }

    #[test]
    fn errors_match_a_real_server() {
        assert_eq!(error("a,,b"), "found ',', expected: identifier after ','");
        assert_eq!(
            error("a b"),
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"
        );
        assert_eq!(error("!a=b"), "found '=', expected: ',' or 'end of string'");
        assert_eq!(
            error("=a"),
            "found '=', expected: !, identifier, or 'end of string'"
        );
        assert_eq!(
            error("a in b"),
            "unable to parse requirement: found 'b' expected: '('"
        );
        assert_eq!(
            error("a in (b"),
            "unable to parse requirement: found '', expected: ',' or ')'"
        );
        assert_eq!(
            error("a>x"),
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must \
             be an integer"
        );
        assert!(error("a^b").starts_with(
            "unable to parse requirement: <nil>: Invalid value: \"a^b\": name part must consist of alphanumeric"
        ));
        assert!(
            error("a=-")
                .starts_with("unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid")
        );
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_parsed_or_rejected_without_a_panic(text in "[a-z0-9=!(),<> \\PC]*") {
            if let Ok(selector) = LabelSelector::parse(&text) {
                prop_assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
            }
        }
    }
}
