use super::*;
use crate::mutants::{Position, Span};

/// A mutant of the only place where `text` occurs.
fn mutant(source: &str, genre: Genre, text: &str, replacement: &str) -> Mutant {
    assert_eq!(source.matches(text).count(), 1, "{text:?}");
    let start = source.find(text).unwrap();
    let position = |at: usize| Position {
        line: source[..at].matches('\n').count() + 1,
        column: source[..at].rsplit('\n').next().unwrap().chars().count() + 1,
    };
    Mutant {
        name: String::new(),
        file: String::new(),
        span: Span {
            start: position(start),
            end: position(start + text.len()),
        },
        replacement: replacement.to_owned(),
        genre,
    }
}

/// The text with these mutants, numbered from 1, and with a short name for the condition.
fn rewritten(source: &str, mutants: &[(Genre, &str, &str)]) -> String {
    let mutants: Vec<_> = mutants
        .iter()
        .map(|(genre, text, replacement)| mutant(source, *genre, text, replacement))
        .collect();
    let numbered: Vec<_> = (1..).zip(&mutants).collect();
    let result = rewrite(source, &numbered).unwrap();
    assert_eq!(result.excluded, [0; 0]);
    syn::parse_file(&result.text).unwrap();
    result.text.replace("crate::active_mutant::is", "is")
}

#[test]
fn the_value_of_a_function_is_returned_early() {
    assert_eq!(
        rewritten(
            "fn f() -> bool { g(); true }",
            &[(Genre::FnValue, "g(); true", "false")]
        ),
        "fn f() -> bool { if is(1) { return false; } g(); true }"
    );
}

#[test]
fn an_operator_is_chosen_at_run_time() {
    assert_eq!(
        rewritten(
            "fn f() { if a < b { c += 1; } }",
            &[
                (Genre::BinaryOperator, "<", "=="),
                (Genre::BinaryOperator, "+=", "-="),
            ]
        ),
        "fn f() { if (if is(1) { a == b } else { a < b }) { (if is(2) { c -= 1 } else { c += 1 }); } }"
    );
}

#[test]
fn mutants_of_one_operator_share_an_expression() {
    assert_eq!(
        rewritten(
            "fn f() { a > b }",
            &[
                (Genre::BinaryOperator, ">", "<"),
                (Genre::BinaryOperator, ">", ">="),
            ]
        ),
        "fn f() { (if is(1) { a < b } else if is(2) { a >= b } else { a > b }) }"
    );
}

#[test]
fn an_operator_of_another_precedence_takes_the_operands_it_would_take_in_the_source() {
    assert_eq!(
        rewritten("fn f() { a - b * c == d }", &[(Genre::BinaryOperator, "*", "+")]),
        "fn f() { (if is(1) { a - b + c } else { a - b * c }) == d }"
    );
    assert_eq!(
        rewritten("fn f() { a && (b || c) }", &[(Genre::BinaryOperator, "||", "&&")]),
        "fn f() { a && ((if is(1) { b && c } else { b || c })) }"
    );
}

#[test]
fn the_mutated_text_contains_no_other_mutant() {
    assert_eq!(
        rewritten(
            "fn f() -> bool { !g(a == b) }",
            &[
                (Genre::FnValue, "!g(a == b)", "true"),
                (Genre::UnaryOperator, "!", ""),
                (Genre::BinaryOperator, "==", "!="),
            ]
        ),
        "fn f() -> bool { if is(1) { return true; } \
         (if is(2) { g(a == b) } else { !g((if is(3) { a != b } else { a == b })) }) }"
    );
}

#[test]
fn a_deleted_arm_does_not_match() {
    assert_eq!(
        rewritten(
            "fn f() { match x { A(b) => b < 1, _ => false } }",
            &[
                (Genre::MatchArm, "A(b) => b < 1,", ""),
                (Genre::BinaryOperator, "<", ">"),
            ]
        ),
        "fn f() { match x { A(b) if !is(1) => (if is(2) { b > 1 } else { b < 1 }), _ => false } }"
    );
}

#[test]
fn a_guard_becomes_a_constant() {
    assert_eq!(
        rewritten(
            "fn f() { match x { A if y() => 1, _ => 2 } }",
            &[
                (Genre::MatchArmGuard, "y()", "true"),
                (Genre::MatchArmGuard, "y()", "false"),
            ]
        ),
        "fn f() { match x { A if (if is(1) { true } else if is(2) { false } else { y() }) => 1, _ => 2 } }"
    );
}

#[test]
fn a_deleted_field_comes_from_the_base() {
    assert_eq!(
        rewritten(
            "fn f() { S { a: 1, b: 2, ..d() } }",
            &[(Genre::StructField, "a: 1,", "")]
        ),
        "fn f() { (if is(1) { S {  b: 2, ..d() } } else { S { a: 1, b: 2, ..d() } }) }"
    );
}

#[test]
fn a_condition_with_let_is_left_alone() {
    let source = "fn f() { if let Some(a) = b && c > d {} }";
    let mutants = [
        mutant(source, Genre::BinaryOperator, "&&", "||"),
        mutant(source, Genre::BinaryOperator, ">", "<"),
    ];
    let result = rewrite(source, &[(1, &mutants[0]), (2, &mutants[1])]).unwrap();
    assert_eq!(result.excluded, [1]);
    assert!(
        result
            .text
            .contains("let Some(a) = b && (if crate::active_mutant::is(2) { c < d }")
    );
}

#[test]
fn an_error_is_about_the_innermost_mutant_around_it() {
    let source = "fn f() -> bool { g(a == b) }\nfn h() {}";
    let mutants = [
        mutant(source, Genre::FnValue, "g(a == b)", "true"),
        mutant(source, Genre::BinaryOperator, "==", "!="),
    ];
    let result = rewrite(source, &[(1, &mutants[0]), (2, &mutants[1])]).unwrap();
    let blame = |text: &str| {
        let start = result.text.find(text).unwrap();
        let blame = result.blame(&(start..start + text.len()));
        blame.map(|blame| (blame.mutants.to_vec(), blame.in_mutated))
    };
    assert_eq!(blame("a != b"), Some((vec![2], true)));
    assert_eq!(blame("a == b"), Some((vec![2], false)));
    assert_eq!(blame("true"), Some((vec![1], true)));
    assert_eq!(blame("g("), Some((vec![1], false)));
    assert_eq!(blame("fn h"), None);
}
