//! Default names of handlers.

/// The path of a type; for a closure, the path of the function that contains it.
pub(super) fn of<T: ?Sized>() -> String {
    without_closures(std::any::type_name::<T>()).to_owned()
}

/// One name for several functions: theirs if they share it, else all of them joined by `+`, each once.
pub(super) fn joined<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut distinct: Vec<&str> = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    (!distinct.is_empty()).then(|| distinct.join("+"))
}

fn without_closures(mut path: &str) -> &str {
    while let Some(outer) = path.strip_suffix("::{{closure}}") {
        path = outer;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_value<T>(_: &T) -> String {
        of::<T>()
    }

    #[test]
    fn a_closure_is_named_after_its_function() {
        let plain = || ();
        let nested = || || ();

        let here = "kube_informers::handler::name::tests::a_closure_is_named_after_its_function";
        assert_eq!(of_value(&plain), here);
        assert_eq!(of_value(&nested()), here);
    }

    #[test]
    fn distinct_names_are_joined() {
        assert_eq!(joined(["a::f", "a::f"]), Some("a::f".to_owned()));
        assert_eq!(joined(["a::f", "b::g", "a::f"]), Some("a::f+b::g".to_owned()));
        assert_eq!(joined([]), None);
    }
}
