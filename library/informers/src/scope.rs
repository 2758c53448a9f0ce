//! `Scope`: the part of a collection that an informer covers. Namespaces, labels, fields, a shard.

use std::collections::BTreeSet;
use std::fmt;

use crate::errors::ParseError;
use crate::selector::Selector;
use crate::shard::Shard;

/// Selects objects of a kind; all of them by default.
///
/// Scopes that select the same objects in different notations are equal, so that a factory shares one watch between them.
///
/// ```
/// use kube_informers::Scope;
///
/// let scope = Scope::namespace("shop").labels("app=web")?.fields("spec.nodeName=node-1")?;
/// assert_eq!(scope.to_string(), "namespace shop, labels app=web, fields spec.nodeName=node-1");
/// # Ok::<(), kube_informers::error::ParseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[doc(alias = "TweakListOptionsFunc")]
#[doc(alias = "WithNamespace")]
pub struct Scope {
    /// `None` for all namespaces.
    namespaces: Option<BTreeSet<String>>,
    labels: Selector,
    fields: BTreeSet<String>,
    /// `None` for everything. Never `Shard::everything`, which is equivalent.
    shard: Option<Shard>,
}

impl Scope {
    /// All objects, in all namespaces.
    pub fn all() -> Self {
        Self::default()
    }

    /// One namespace.
    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self::namespaces([namespace])
    }

    /// Several namespaces. Each has its own watch, since a request covers either one namespace or all.
    pub fn namespaces(namespaces: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            namespaces: Some(namespaces.into_iter().map(Into::into).collect()),
            ..Self::default()
        }
    }

    /// The same selectors in these namespaces.
    #[must_use]
    pub fn in_namespaces(self, namespaces: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            namespaces: Some(namespaces.into_iter().map(Into::into).collect()),
            ..self
        }
    }

    /// The same selectors in all namespaces.
    #[must_use]
    pub fn in_all_namespaces(self) -> Self {
        Self {
            namespaces: None,
            ..self
        }
    }

    /// Only objects whose labels match, in addition to earlier selectors.
    ///
    /// # Errors
    ///
    /// The selector is malformed.
    #[doc(alias = "LabelSelectorPredicate")]
    #[doc(alias = "labelSelector")]
    pub fn labels(mut self, selector: &str) -> Result<Self, ParseError> {
        self.labels = self.labels.and(selector.parse()?);
        Ok(self)
    }

    /// Only objects whose fields match, as in `spec.nodeName=node-1,status.phase!=Running`, in addition to earlier
    /// selectors. The server decides which fields of a kind can be selected.
    ///
    /// # Errors
    ///
    /// The selector is malformed.
    #[doc(alias = "GetFieldSelector")]
    #[doc(alias = "fieldSelector")]
    pub fn fields(mut self, selector: &str) -> Result<Self, ParseError> {
        self.fields.extend(field_terms(selector)?);
        Ok(self)
    }

    /// Only objects of this shard: the part of the collection that one of several replicas owns. Replaces an earlier
    /// shard.
    ///
    /// A server that supports shards sends only these objects. Objects that another server sends in addition are
    /// filtered by the client, so the cache is the same and only the traffic differs.
    /// [`Informer::set_shard`](crate::Informer::set_shard) moves the shard of a running informer.
    ///
    /// ```
    /// use kube_informers::shard::{ShardField, ShardRange};
    /// use kube_informers::shard::Shard;
    /// use kube_informers::Scope;
    ///
    /// let halves = ShardRange::ALL.split(2);
    /// let scope = Scope::namespace("shop").shard(Shard::new(ShardField::Uid, [halves[0]]));
    /// assert_eq!(
    ///     scope.to_string(),
    ///     "namespace shop, uid in 0x0000000000000000-0x8000000000000000"
    /// );
    /// ```
    #[must_use]
    #[doc(alias = "shardSelector")]
    pub fn shard(mut self, shard: Shard) -> Self {
        self.shard = Some(shard).filter(|shard| !shard.is_everything());
        self
    }

    /// Only one object of this scope.
    pub(crate) fn of_object(mut self, namespace: Option<&str>, name: &str) -> Self {
        if let Some(namespace) = namespace {
            self.namespaces = Some([namespace.to_owned()].into());
        }
        self.fields.insert(format!("metadata.name={name}"));
        self
    }

    /// The shard, if there is one.
    pub fn selected_shard(&self) -> Option<&Shard> {
        self.shard.as_ref()
    }

    /// The namespaces, or `None` for all of them.
    pub fn selected_namespaces(&self) -> Option<&BTreeSet<String>> {
        self.namespaces.as_ref()
    }

    /// The label selector; it matches everything by default.
    pub fn label_selector(&self) -> &Selector {
        &self.labels
    }

    /// The field selector, if there is one.
    pub fn field_selector(&self) -> Option<String> {
        let terms: Vec<&str> = self.fields.iter().map(String::as_str).collect();
        (!terms.is_empty()).then(|| terms.join(","))
    }

    /// The scopes of the single requests that make up this one: one per namespace, or the whole.
    pub fn members(&self) -> Vec<Self> {
        match &self.namespaces {
            None => vec![self.clone()],
            Some(namespaces) => namespaces
                .iter()
                .map(|namespace| Self {
                    namespaces: Some([namespace.clone()].into()),
                    ..self.clone()
                })
                .collect(),
        }
    }

    /// The selectors as text: `, labels app=web, fields spec.nodeName=node-1`.
    pub(crate) fn conditions(&self) -> String {
        let mut text = String::new();
        if !self.labels.is_everything() {
            text.push_str(&format!(", labels {}", self.labels));
        }
        if let Some(fields) = self.field_selector() {
            text.push_str(&format!(", fields {fields}"));
        }
        if let Some(shard) = &self.shard {
            text.push_str(&format!(", {shard}"));
        }
        text
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self
            .namespaces
            .as_ref()
            .map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
        match names.as_deref() {
            None => f.write_str("all namespaces")?,
            Some([]) => f.write_str("no namespace")?,
            Some([namespace]) => write!(f, "namespace {namespace}")?,
            Some(namespaces) => write!(f, "namespaces {}", namespaces.join(", "))?,
        }
        f.write_str(&self.conditions())
    }
}

/// The terms of a field selector, in canonical form.
fn field_terms(selector: &str) -> Result<Vec<String>, ParseError> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, c) in selector.char_indices().chain([(selector.len(), ',')]) {
        if escaped && at < selector.len() {
            escaped = false;
            continue;
        }
        escaped = c == '\\';
        if c == ',' {
            let text = selector.get(start..at).unwrap_or_default();
            if !text.trim().is_empty() {
                terms.push(field_term(text).map_err(|(offset, problem)| {
                    ParseError::new("a field selector", selector, problem).at(start + offset)
                })?);
            }
            start = at + 1;
        }
    }
    Ok(terms)
}

fn field_term(text: &str) -> Result<String, (usize, &'static str)> {
    let Some(at) = text.find(['=', '!']) else {
        return Err((text.len(), "expected `=` or `!=`"));
    };
    let (path, rest) = text.split_at(at);
    let (operator, value) = match rest {
        rest if rest.starts_with("!=") => ("!=", rest.get(2..)),
        rest if rest.starts_with("==") => ("=", rest.get(2..)),
        rest if rest.starts_with('=') => ("=", rest.get(1..)),
        _ => return Err((at, "expected `=` or `!=`")),
    };
    let path = path.trim();
    if path.is_empty() || path.contains(|c: char| c.is_whitespace() || c == '\\') {
        return Err((0, "expected the path of a field"));
    }
    let value = value.unwrap_or_default().trim();
    let mut escaped = false;
    for c in value.chars() {
        match (std::mem::take(&mut escaped), c) {
            (true, '\\' | ',' | '=') => {}
            (true, _) => return Err((at, "only `\\\\`, `\\,` and `\\=` can be escaped in the value")),
            (false, '\\') => escaped = true,
            (false, '=') => return Err((at, "expected `\\=` for `=` in the value")),
            (false, _) => {}
        }
    }
    if escaped {
        return Err((text.len(), "expected something after `\\`"));
    }
    Ok(format!("{path}{operator}{value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::{ShardField, ShardRange};

    #[test]
    fn the_default_scope_is_everything_in_one_request() {
        let scope = Scope::default();

        assert_eq!(scope.to_string(), "all namespaces");
        assert_eq!(scope.members(), [Scope::all()]);
        assert_eq!(scope.field_selector(), None);
        assert!(scope.label_selector().is_everything());
    }

    #[test]
    fn each_namespace_is_a_request_with_the_same_selectors() {
        let scope = Scope::namespaces(["b", "a", "b"]).labels("x=1").unwrap();

        assert_eq!(scope.to_string(), "namespaces a, b, labels x=1");
        assert_eq!(
            scope.members(),
            [
                Scope::namespace("a").labels("x=1").unwrap(),
                Scope::namespace("b").labels("x=1").unwrap()
            ]
        );
    }

    #[test]
    fn an_empty_set_of_namespaces_is_not_all_namespaces() {
        let scope = Scope::namespaces([""; 0]);

        assert_eq!(scope.members(), []);
        assert_eq!(scope.to_string(), "no namespace");
        assert_ne!(scope, Scope::all());
    }

    #[test]
    fn equivalent_scopes_are_equal() {
        let one = Scope::all()
            .labels("b=2,a=1")
            .unwrap()
            .fields("y!=2, x==1")
            .unwrap();
        let other = Scope::all()
            .labels("a=1")
            .unwrap()
            .labels("b in (2)")
            .unwrap()
            .fields("x=1,y!=2,")
            .unwrap();

        assert_eq!(one, other);
        assert_eq!(one.field_selector().as_deref(), Some("x=1,y!=2"));
    }

    #[test]
    fn a_malformed_field_selector_is_rejected() {
        for good in ["metadata.name=a", "a=", "a=b\\,c", "a=\\=\\\\", "", " , "] {
            assert!(Scope::all().fields(good).is_ok(), "{good:?}");
        }
        let cases = [
            ("a", "expected `=` or `!=` at position 2"),
            ("a=1,b", "expected `=` or `!=` at position 6"),
            ("a=1,=2", "expected the path of a field at position 5"),
            ("a=b=c", "expected `\\=` for `=` in the value at position 2"),
            (
                "a=\\x",
                "only `\\\\`, `\\,` and `\\=` can be escaped in the value at position 2",
            ),
            ("a!b", "expected `=` or `!=` at position 2"),
            ("a=b\\", "expected something after `\\` at position 5"),
        ];
        for (selector, problem) in cases {
            let error = Scope::all().fields(selector).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("{selector:?} is not a field selector: {problem}")
            );
        }
    }

    #[test]
    fn a_shard_is_part_of_the_scope_and_of_each_member() {
        let halves = ShardRange::ALL.split(2);
        let low = Shard::new(ShardField::Uid, [halves[0]]);
        let high = Shard::new(ShardField::Uid, [halves[1]]);
        let scope = Scope::namespaces(["a", "b"]).shard(high).shard(low.clone());

        assert_eq!(
            scope.to_string(),
            "namespaces a, b, uid in 0x0000000000000000-0x8000000000000000"
        );
        assert_ne!(scope, Scope::namespaces(["a", "b"]));
        for member in scope.members() {
            assert_eq!(member.selected_shard(), Some(&low));
        }
    }

    #[test]
    fn a_shard_of_everything_is_no_shard() {
        let scope = Scope::all().shard(Shard::everything(ShardField::Namespace));

        assert_eq!(scope, Scope::all());
        assert_ne!(Scope::all().shard(Shard::nothing(ShardField::Uid)), Scope::all());
    }

    #[test]
    fn a_malformed_label_selector_is_rejected() {
        let error = Scope::namespace("shop").labels("app=web=x").unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"app=web=x\" is not a label selector: expected `,` or the end at position 8"
        );
    }
}
