//! What `kubectl get` prints of an object: the columns of an API server, without asking one.

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

use super::columns::Column;
use super::{Cells, cluster, known_columns};

/// The columns that `kubectl get` prints for a built-in kind.
///
/// ```
/// use kube_api_protocol::table::PrinterColumns;
///
/// let columns = PrinterColumns::of("apps", "deployments").unwrap();
/// let head: Vec<String> = columns.head().map(|(name, _)| name).collect();
/// assert_eq!(head[..4], ["NAME", "READY", "UP-TO-DATE", "AVAILABLE"]);
/// let web = serde_json::json!({ "metadata": { "name": "web" }, "spec": { "replicas": 2 } });
/// assert_eq!(columns.row(&web)[..2], ["web", "0/2"]);
/// ```
#[derive(Clone, Copy)]
pub struct PrinterColumns {
    columns: &'static [Column],
    cells: Cells,
}

impl PrinterColumns {
    /// The columns of a kind; `None` if it is unknown or custom.
    pub fn of(group: &str, plural: &str) -> Option<Self> {
        known_columns((group, plural)).map(|(columns, cells)| Self { columns, cells })
    }

    /// `NAME` and `AGE`, which every kind has.
    pub fn name_and_age() -> Self {
        let (columns, cells) = cluster::NAME_AND_AGE;
        Self { columns, cells }
    }

    /// The headings, and whether each is shown with `-o wide` only.
    pub fn head(&self) -> impl Iterator<Item = (String, bool)> {
        self.columns
            .iter()
            .map(|column| (column.heading(), column.is_wide()))
    }

    /// The cells of an object, one for each heading. Ages are those of this moment.
    pub fn row(&self, object: &Value) -> Vec<String> {
        let cells = (self.cells)(object, Timestamp::now());
        cells
            .into_iter()
            .map(|cell| match cell {
                Value::String(text) => text,
                Value::Null => String::new(),
                other => other.to_string(),
            })
            .collect()
    }
}

impl fmt::Debug for PrinterColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.columns.iter().map(Column::heading))
            .finish()
    }
}
