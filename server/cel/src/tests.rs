//! Expressions as a whole: types, errors, values and limits.

use serde_json::json;

use super::*;

/// The limit of one evaluation on an API server.
const LIMIT: u64 = 1_000_000;

fn declared() -> Declarations {
    let item = Type::Object(
        ObjectType {
            name: "selfType.items.@idx".to_owned(),
            fields: [("name".to_owned(), Type::String), ("size".to_owned(), Type::Int)].into(),
        }
        .into(),
    );
    let fields = [
        ("name", Type::String),
        ("count", Type::Int),
        ("ratio", Type::Double),
        ("either", Type::Dyn),
        ("tags", Type::list(Type::String)),
        ("numbers", Type::list(Type::Int)),
        ("labels", Type::map(Type::String, Type::String)),
        ("items", Type::list(item)),
        ("absent", Type::String),
        ("__namespace__", Type::String),
    ];
    let fields = fields
        .into_iter()
        .map(|(name, kind)| (name.to_owned(), kind))
        .collect();
    let name = "selfType".to_owned();
    Declarations::default()
        .with("self", Type::Object(ObjectType { name, fields }.into()))
        .with_formats(|format, text| match (format, text) {
            ("dns1123Label", "a") => Vec::new(),
            _ => vec!["not a label".to_owned()],
        })
}

fn object() -> Value {
    Value::from(&json!({
        "name": "cart", "count": 3, "ratio": 0.5, "either": "50%", "tags": ["a", "b"], "numbers": [3, 1, 2],
        "labels": { "app": "shop", "tier": "web" }, "items": [{ "name": "x", "size": 1 }, { "name": "y", "size": 2 }],
        "__namespace__": "n",
    }))
}

fn compile(source: &str) -> Result<Expression, String> {
    let mut compiled = Expression::compile_all(&[(source.to_owned(), declared())]);
    compiled.pop().unwrap()
}

fn evaluate(source: &str) -> Result<Value, Failure> {
    let expression = compile(source).unwrap_or_else(|error| panic!("{source}\n{error}"));
    expression.evaluate(&[("self", object())], LIMIT).0
}

#[test]
fn expressions_of_everyday_use_hold() {
    for source in [
        "self.count == 3 && self.count + 1 > self.count * 1 && -self.count < 0 && 7 % 3 == 1 && 7 / 2 == 3",
        "self.ratio < 1.0 && self.ratio < 1 && double(self.count) == 3.0 && int('12') == 12",
        "self.name.startsWith('ca') && self.name.endsWith('rt') && self.name.contains('ar') && self.name.size() == 4",
        "self.name.matches('^[a-z]+$') && !self.name.matches('^[0-9]') && self.name.find('[r-t]+') == 'rt'",
        "has(self.name) && !has(self.absent) && self.?absent.orValue('none') == 'none'",
        "self.namespace == 'n' && self.__namespace__ == 'n'",
        "'a' in self.tags && 'app' in self.labels && self.labels['app'] == 'shop' && self.labels.tier == 'web'",
        "self.tags.all(t, t.size() == 1) && self.tags.exists(t, t == 'b') && self.tags.exists_one(t, t == 'a')",
        "self.items.filter(i, i.size > 1).map(i, i.name) == ['y'] && self.labels.all(k, k.size() > 2)",
        "self.items.map(i, i.size > 1, i.name) == ['y'] && self.items[0].name == 'x'",
        "self.numbers.sum() == 6 && self.numbers.min() == 1 && self.numbers.max() == 3 && !self.numbers.isSorted()",
        "self.numbers.indexOf(2) == 2 && self.numbers.sort() == [1, 2, 3] && self.numbers.reverse()[0] == 2",
        "self.numbers.slice(0, 2) == [3, 1] && [[1], [2]].flatten() == [1, 2] && [1, 1].distinct() == [1]",
        "type(self.either) == string && int(self.either.replace('%', '')) <= 100",
        "type(self.count) == int && type(self.tags) == list && type(null) == null_type && type(int) == type",
        "self.either == 50 || self.either == '50%'",
        "size(self.tags) == 2 && (self.count > 5 ? false : true)",
        "'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b' && 'AbC'.lowerAscii() == 'abc'",
        "'hello'.substring(1, 3) == 'el' && 'hello'.indexOf('l') == 2 && 'hello'.lastIndexOf('l') == 3",
        "'hello'.charAt(1) == 'e' && ' x '.trim() == 'x' && 'häh'.size() == 3 && 'aaa'.replace('a', 'b', 2) == 'bba'",
        "'%s has %d'.format([self.name, self.count]) == 'cart has 3' && strings.quote('a\"b') == '\"a\\\\\"b\"'",
        "duration('1h') > duration('59m') && timestamp('2026-01-31T00:00:00Z').getMonth() == 0",
        "timestamp('2026-01-31T00:00:00Z') - timestamp('2026-01-30T00:00:00Z') == duration('24h')",
        "string(duration('90m')) == '5400s' && string(1.5) == '1.5' && string(true) == 'true'",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && isQuantity('5m') && !isQuantity('5 m')",
        "quantity('1').add(quantity('500m')).compareTo(quantity('1.5')) == 0 && quantity('2k').asInteger() == 2000",
        "ip('10.0.0.1').family() == 4 && isIP('::1') && !isIP('1.2.3') && ip.isCanonical('::1')",
        "cidr('10.0.0.0/8').containsIP('10.1.1.1') && cidr('10.0.0.0/8').prefixLength() == 8 && isCIDR('1::/64')",
        "url('https://example.com:80/a?b=c').getHostname() == 'example.com' && isURL('/a') && !isURL('a')",
        "url('https://example.com/?b=c').getQuery()['b'] == ['c']",
        "!format.dns1123Label().validate('a').hasValue() && format.dns1123Label().validate('A_').hasValue()",
        "sets.contains([1, 2], [1]) && sets.equivalent([1, 2], [2, 1, 1]) && !sets.intersects([1], [2])",
        "optional.of(1).hasValue() && !optional.none().hasValue() && optional.of(2).optMap(x, x + 1).value() == 3",
        "[?optional.of(1), 2] == [1, 2] && {?'a': optional.none(), 'b': 1} == {'b': 1} && self.tags[?5].orValue('z') == 'z'",
        "b'abc'.size() == 3 && bytes('a') == b'a' && 1u + 2u == 3u && lists.range(3) == [0, 1, 2]",
        // An error does not matter if the other side decides.
        "true || self.absent == 'x'",
        "self.absent == 'x' || true",
        "self.tags.exists(t, t == 'b' || self.absent == 'x')",
    ] {
        assert_eq!(evaluate(source), Ok(Value::Bool(true)), "{source}");
    }
}

#[test]
fn errors_of_the_evaluation_are_those_of_an_api_server() {
    for (source, message) in [
        ("self.absent == 'x'", "no such key: absent"),
        ("self.labels['x'] == 'x'", "no such key: x"),
        ("self.tags[7] == 'x'", "index out of bounds: 7"),
        ("1 / (self.count - 3) == 0", "division by zero"),
        ("1 % (self.count - 3) == 0", "modulus by zero"),
        ("self.count + 9223372036854775807 > 0", "integer overflow"),
        ("self.either + 1 == 2", "no such overload"),
        (
            "self.numbers.filter(n, n > 5).min() == 1",
            "min called on empty list",
        ),
        ("'a'.substring(5) == ''", "index out of range: 5"),
        (
            "int(self.name) == 1",
            "type conversion error from 'string' to 'int'",
        ),
        ("optional.none().value() == 1", "optional.none() dereference"),
    ] {
        let Err(Failure::Error { message: found, .. }) = evaluate(source) else {
            panic!("{source}")
        };
        assert_eq!(&*found, message, "{source}");
    }
}

#[test]
fn compile_errors_point_at_the_column_as_an_api_server_does() {
    for (source, error) in [
        (
            "self.color == 'x'",
            "ERROR: <input>:1:5: undefined field 'color'\n | self.color == 'x'\n | ....^",
        ),
        (
            "selff.name == 'x'",
            "ERROR: <input>:1:1: undeclared reference to 'selff' (in container '')\n | selff.name == 'x'\n | ^",
        ),
        (
            "self.count == 'x'",
            "ERROR: <input>:1:12: found no matching overload for '_==_' applied to '(int, string)'\n | self.count == 'x'\n | ...........^",
        ),
        (
            "self.name.beginsWith('x')",
            "ERROR: <input>:1:21: undeclared reference to 'beginsWith' (in container '')\n | self.name.beginsWith('x')\n | ....................^",
        ),
        (
            "self.count.startsWith('x')",
            "ERROR: <input>:1:22: found no matching overload for 'startsWith' applied to 'int.(string)'\n | self.count.startsWith('x')\n | .....................^",
        ),
        (
            "self.count && true",
            "ERROR: <input>:1:5: expected type 'bool' but found 'int'\n | self.count && true\n | ....^",
        ),
        (
            "self.count.all(x, true)",
            "ERROR: <input>:1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)\n | self.count.all(x, true)\n | ....^",
        ),
        (
            "[1, 'a'].size() == 2",
            "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a'].size() == 2\n | ....^",
        ),
        (
            "self.name.matches('(')",
            "ERROR: <input>:1:19: invalid matches argument\n | self.name.matches('(')\n | ..................^",
        ),
        (
            "self.name == null",
            "ERROR: <input>:1:11: found no matching overload for '_==_' applied to '(string, null)'\n | self.name == null\n | ..........^",
        ),
        (
            "self.a ==\nself.b",
            "ERROR: <input>:1:5: undefined field 'a'\n | self.a ==\n | ....^\nERROR: <input>:2:5: undefined field 'b'\n | self.b\n | ....^",
        ),
    ] {
        assert_eq!(compile(source).map(|_| ()), Err(error.to_owned()), "{source}");
    }
    assert!(
        compile("self.name ==")
            .unwrap_err()
            .starts_with("ERROR: <input>:1:13: Syntax error: ")
    );
}

#[test]
fn output_and_variables_are_known() {
    assert_eq!(*compile("self.count").unwrap().output(), Type::Int);
    assert_eq!(*compile("self.count > 1").unwrap().output(), Type::Bool);
    assert_eq!(
        compile("self.tags.map(t, t.size())")
            .unwrap()
            .output()
            .to_string(),
        "list(int)"
    );
    assert!(compile("self.count > 1").unwrap().uses("self"));
    assert!(!compile("[1].all(x, x == 1)").unwrap().uses("self"));
    assert!(!compile("[1].all(self, self == 1)").unwrap().uses("self"));
}

/// No expression can occupy the server: length, nesting, loops and the size of values are limited.
#[test]
fn expensive_expressions_end_at_the_limit() {
    let numbers: Vec<i64> = (0..2000).collect();
    let large = Value::from(
        &json!({ "numbers": numbers, "name": "x".repeat(1 << 20), "tags": vec!["y".repeat(1000); 1000] }),
    );
    for source in [
        "self.numbers.all(a, self.numbers.all(b, self.numbers.all(c, a + b + c >= 0)))",
        "self.numbers.map(a, self.numbers.map(b, a * b)).size() > 0",
        "self.numbers.map(a, self.name).join().size() > 0",
        "self.name.replace('', self.name).size() > 0",
        "self.numbers.map(a, self.name + self.name).size() > 0",
        "self.numbers.all(a, self.name == self.name)",
        "self.numbers.all(a, self.name.size() > 0)",
        "self.numbers.all(a, !'x'.matches(self.tags[0] + string(a)))",
        "self.numbers.all(a, self.tags == self.tags)",
        "self.numbers.all(a, self.tags.distinct().size() > 0)",
        "lists.range(9223372036854775807).size() > 0",
        "self.numbers.all(a, '%s'.format([self.tags]).size() > 0)",
        "self.numbers.all(a, !self.name.matches('(a|b|c|d)*z'))",
    ] {
        let expression = compile(source).unwrap();
        let (value, cost) = expression.evaluate(&[("self", large.clone())], LIMIT);
        assert_eq!(value, Err(Failure::OutOfBudget), "{source}");
        assert_eq!(cost, LIMIT, "{source}");
    }
    let deep = |count: usize| format!("{}true{}", "(".repeat(count), ")".repeat(count));
    assert!(compile(&deep(200)).unwrap_err().contains("nested at most"));
    assert!(
        compile(&format!("'{}' == ''", "x".repeat(20_000)))
            .unwrap_err()
            .contains("bytes")
    );
    assert!(
        compile(&format!("{}true", "!".repeat(4000)))
            .unwrap_err()
            .contains("operators")
    );
    assert!(
        compile(&format!("1{} == 1", "+1".repeat(1000)))
            .unwrap_err()
            .contains("nested too deep")
    );
    assert!(compile(&deep(40)).is_ok());
    assert!(compile(&vec!["self.count == 3"; 300].join(" && ")).is_ok());
}

/// Half of what a thread has by default.
#[test]
fn what_is_within_the_limits_does_not_exhaust_the_stack_of_a_thread() {
    let nested = (0..40).fold("true".to_owned(), |inner, _| format!("[1].all(x, {inner})"));
    let sources = [
        nested,
        format!("1{} > 1", "+1".repeat(250)),
        format!("{}true", "true ? true : ".repeat(40)),
        format!("{{}}{} == dyn(1) || true", ".a".repeat(250)),
    ];
    for source in &sources {
        let expression = compile(source).unwrap_or_else(|error| panic!("{error}"));
        let run = move || expression.clone().evaluate(&[], LIMIT).0;
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(run);
        assert_eq!(thread.unwrap().join().unwrap(), Ok(Value::Bool(true)), "{source}");
    }
}

#[test]
fn limits_can_be_chosen() {
    let compile = |source: &str| {
        let limits = Limits {
            bytes: 200,
            depth: 5,
            operators: 20,
            macros: 3,
            nested_macros: 2,
        };
        let compiled = Expression::compile(source, declared().limited(limits));
        compiled.map_err(|issues| (issues[0].column, issues[0].message.clone()))
    };
    let all = "[1].all(x, true)";
    assert!(compile(&[all; 3].join(" && ")).is_ok());
    let (column, message) = compile(&[all; 4].join(" && ")).unwrap_err();
    assert!(message.contains("at most 3 macros"), "{message}");
    assert_eq!(column, 3 * (all.len() + 4) + 7);
    assert!(compile("[1].all(x, [1].all(y, true))").is_ok());
    let (_, message) = compile("[1].all(x, [1].all(y, [1].all(z, true)))").unwrap_err();
    assert!(message.contains("nested 2 deep"), "{message}");
    assert!(compile("((((((true))))))").unwrap_err().1.contains("5 deep"));
    assert!(compile(&"!".repeat(21)).unwrap_err().1.contains("20 operators"));
    assert!(compile(&" ".repeat(201)).unwrap_err().1.contains("200 bytes"));
}

#[test]
fn redacted_errors_name_only_what_the_expression_names() {
    for (source, redacted) in [
        (
            "self.absent == 'x'",
            "it has no field \"absent\"; test with has() if a field can be absent",
        ),
        (
            "self.labels['x'] == 'x'",
            "it has no field \"x\"; test with has() if a field can be absent",
        ),
        ("self.labels[self.name] == 'x'", "a key of a map does not exist"),
        ("self.tags[self.count] == 'x'", "an index is out of bounds"),
        ("1 / (self.count - 3) == 0", "division by zero"),
        ("int(self.name) == 1", "int() failed"),
        (
            "self.either + 1 == 2",
            "no matching overload for '_+_' applied to '(string, int)'",
        ),
        ("dyn(self.name).size == 1", "a value has the wrong type"),
    ] {
        let Err(Failure::Error { redacted: found, .. }) = evaluate(source) else {
            panic!("{source}")
        };
        assert_eq!(&*found, redacted, "{source}");
    }
}

#[test]
fn unknown_names_are_variables_or_functions() {
    let undeclared = |source| {
        Expression::compile(source, declared()).unwrap_err()[0]
            .undeclared
            .clone()
    };
    assert_eq!(
        undeclared("pod.name == 'x'"),
        Some(Undeclared::Variable("pod".to_owned()))
    );
    for source in ["begins(self)", "self.name.begins('x')"] {
        let expected = Some(Undeclared::Function("begins".to_owned()));
        assert_eq!(undeclared(source), expected);
    }
    assert_eq!(undeclared("self.color == 'x'"), None);
}
