//! What is typed after `:`: other kinds, another namespace, another context.

use crate::cli::Global;

/// What the screen shows from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Switch {
    /// These kinds.
    Kinds(String),
    /// These namespaces; none for all.
    Namespaces(Vec<String>),
    /// The cluster of this context.
    Context(String),
}

impl Switch {
    /// Reads a command; `None` if it is empty.
    pub(super) fn parse(command: &str) -> Result<Option<Self>, String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        Ok(Some(match words.as_slice() {
            [] => return Ok(None),
            ["ns" | "namespace", "all"] => Self::Namespaces(Vec::new()),
            ["ns" | "namespace", names] => {
                let names = names.split(',').filter(|name| !name.is_empty());
                Self::Namespaces(names.map(str::to_owned).collect())
            }
            ["ctx" | "context", name] => Self::Context((*name).to_owned()),
            ["ns" | "namespace", ..] => return Err("write :ns NAME, or :ns all".to_owned()),
            ["ctx" | "context", ..] => return Err("write :ctx NAME".to_owned()),
            [kinds] => Self::Kinds((*kinds).to_owned()),
            _ => return Err("write kinds with commas and without spaces, as in :pods,deploy".to_owned()),
        }))
    }

    /// The options and kinds with the switch.
    pub(super) fn apply(&self, global: &mut Global, kinds: &mut String) {
        match self {
            Self::Kinds(names) => kinds.clone_from(names),
            Self::Namespaces(names) => {
                global.selection.all_namespaces = names.is_empty();
                global.selection.namespace.clone_from(names);
            }
            Self::Context(name) => {
                global.connection.context = Some(name.clone());
                // They belong to the context before.
                global.connection.cluster = None;
                global.connection.user = None;
                global.connection.server = None;
                global.connection.embedded = false;
            }
        }
    }

    /// Whether it needs another connection.
    pub(super) fn changes_cluster(&self) -> bool {
        matches!(self, Self::Context(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        for (command, switch) in [
            ("pods,deploy", Switch::Kinds("pods,deploy".to_owned())),
            (" ns shop ", Switch::Namespaces(vec!["shop".to_owned()])),
            ("ns all", Switch::Namespaces(Vec::new())),
            ("ctx prod", Switch::Context("prod".to_owned())),
        ] {
            assert_eq!(Switch::parse(command), Ok(Some(switch)));
        }
        assert_eq!(Switch::parse("  "), Ok(None));
        for wrong in ["ns", "ctx", "ctx a b", "pods deploy"] {
            assert!(Switch::parse(wrong).is_err(), "{wrong}");
        }
    }
}
