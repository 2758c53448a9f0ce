//! Column definitions.

use serde_json::{Value, json};

/// A column of a built-in kind.
#[derive(Debug)]
pub(super) struct Column {
    name: &'static str,
    kind: &'static str,
    format: &'static str,
    priority: i64,
}

impl Column {
    /// The name column, shown with `-o wide` only.
    pub(super) const fn wide_name(name: &'static str) -> Self {
        Self {
            name,
            kind: "string",
            format: "name",
            priority: 1,
        }
    }

    /// The heading of `kubectl get`.
    pub(super) fn heading(&self) -> String {
        self.name.to_uppercase()
    }

    /// Whether it is shown with `-o wide` only.
    pub(super) fn is_wide(&self) -> bool {
        self.priority > 0
    }

    pub(super) fn definition(&self) -> Value {
        definition(self.name, self.kind, self.format, "", self.priority)
    }
}

/// A column definition in wire format.
pub(super) fn definition(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({ "name": name, "type": kind, "format": format, "description": description, "priority": priority })
}

/// The first column of nearly every table.
pub(super) const NAME: Column = Column {
    name: "Name",
    kind: "string",
    format: "name",
    priority: 0,
};
/// The time since the object was created.
pub(super) const AGE: Column = text("Age");
/// The columns of a kind that defines none.
pub(super) const CREATED_AT: &[Column] = &[
    NAME,
    Column {
        name: "Created At",
        kind: "date",
        format: "",
        priority: 0,
    },
];

pub(super) const fn text(name: &'static str) -> Column {
    Column {
        name,
        kind: "string",
        format: "",
        priority: 0,
    }
}

pub(super) const fn integer(name: &'static str) -> Column {
    Column {
        name,
        kind: "integer",
        format: "",
        priority: 0,
    }
}

pub(super) const fn boolean(name: &'static str) -> Column {
    Column {
        name,
        kind: "boolean",
        format: "",
        priority: 0,
    }
}

/// A column shown with `-o wide` only.
pub(super) const fn wide(name: &'static str) -> Column {
    Column {
        name,
        kind: "string",
        format: "",
        priority: 1,
    }
}
