//! The table of a group: which member owns which slot. One document, changed by one conditional write at a time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The owner of a slot: the name of the member, and the uid of its Lease, which no later Lease of that name will have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    pub member: String,
    pub uid: String,
}

/// The owner of each slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Incremented by each write, so that a stale table can be recognised.
    pub version: u64,
    pub slots: Vec<Option<Owner>>,
}

/// The serialised form: each owner once, each slot as an index into the owners.
#[derive(Serialize, Deserialize)]
struct TableText {
    version: u64,
    owners: Vec<(String, String)>,
    slots: Vec<Option<usize>>,
}

impl Table {
    pub fn new(slots: usize) -> Table {
        Table {
            version: 0,
            slots: vec![None; slots],
        }
    }

    /// # Errors
    ///
    /// What is wrong with the text.
    pub fn read(text: &str) -> Result<Table, String> {
        let text: TableText = serde_json::from_str(text).map_err(|error| {
            // The line and column, and not the text around it.
            format!(
                "it is not a table (line {}, column {})",
                error.line(),
                error.column()
            )
        })?;
        // Higher versions could not grow any more, and an old table could not be recognised as such.
        if text.version > i64::MAX.unsigned_abs() {
            return Err("its version is out of range".to_owned());
        }
        let owners: Vec<Owner> = text
            .owners
            .into_iter()
            .map(|(member, uid)| Owner { member, uid })
            .collect();
        let slots = text.slots.into_iter().map(|place| match place {
            None => Ok(None),
            Some(place) => match owners.get(place) {
                Some(owner) => Ok(Some(owner.clone())),
                None => Err(format!("a slot names owner {place} of {}", owners.len())),
            },
        });
        Ok(Table {
            version: text.version,
            slots: slots.collect::<Result<_, _>>()?,
        })
    }

    pub fn write(&self) -> String {
        let owners: BTreeMap<&Owner, usize> = self
            .slots
            .iter()
            .flatten()
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .enumerate()
            .map(|(place, owner)| (owner, place))
            .collect();
        let text = TableText {
            version: self.version,
            // The map is sorted in the order of the indexes.
            owners: owners
                .keys()
                .map(|owner| (owner.member.clone(), owner.uid.clone()))
                .collect(),
            slots: self
                .slots
                .iter()
                .map(|owner| owner.as_ref().and_then(|owner| owners.get(owner).copied()))
                .collect(),
        };
        serde_json::to_string(&text).unwrap_or_default()
    }

    pub fn is_owned_by(&self, slot: usize, uid: &str) -> bool {
        self.owner(slot).is_some_and(|owner| owner.uid == uid)
    }

    pub fn owner(&self, slot: usize) -> Option<&Owner> {
        self.slots.get(slot)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Option<Owner> {
        Some(Owner {
            member: name.to_owned(),
            uid: format!("uid-of-{name}"),
        })
    }

    #[test]
    fn a_table_written_is_the_table_read() {
        let table = Table {
            version: 7,
            slots: vec![owner("b"), None, owner("a"), owner("b")],
        };

        let text = table.write();

        assert_eq!(
            text,
            r#"{"version":7,"owners":[["a","uid-of-a"],["b","uid-of-b"]],"slots":[1,null,0,1]}"#
        );
        assert_eq!(Table::read(&text), Ok(table));
    }

    #[test]
    fn an_unreadable_table_is_rejected_with_a_reason() {
        for (text, why) in [
            ("", "it is not a table"),
            ("{}", "it is not a table"),
            (
                r#"{"version":1,"owners":[],"slots":[0]}"#,
                "a slot names owner 0 of 0",
            ),
            (r#"{"version":-1,"owners":[],"slots":[]}"#, "it is not a table"),
            (
                r#"{"version":18446744073709551615,"owners":[],"slots":[]}"#,
                "its version is out of range",
            ),
        ] {
            let error = Table::read(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
