//! The Leases of a group as JSON documents: one per member, and one that holds the table.

use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::machine::{MemberSeen, Request, Response, Snapshot, TableSeen};
use super::table::Table;
use crate::error::{Failure, LeaseError};
use crate::record::{Record, new_lease, set_annotation, set_version, timestamp};
use crate::wire::{Leases, metadata, name_of};

/// Label of every Lease of a group: the name of the group.
pub(super) const GROUP_LABEL: &str = "kube-leases/shard-group";
/// Annotation of the Lease named like the group: the table.
const TABLE_ANNOTATION: &str = "kube-leases/slots";
/// Annotation of a member's Lease: the process that created it.
const PROCESS_ANNOTATION: &str = "kube-leases/process";

/// Annotation of a member's Lease: the number of its last renewal.
const RENEWALS_ANNOTATION: &str = "kube-leases/renewals";

/// Performs the requests of one replica.
pub(super) struct GroupWire {
    pub(super) leases: Leases,
    pub(super) namespace: String,
    pub(super) group: String,
    pub(super) identity: String,
    pub(super) process: String,
    pub(super) slots: usize,
    pub(super) lease: std::time::Duration,
    pub(super) wall: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    /// The documents as last read, so that fields of others are kept.
    pub(super) last: Mutex<LastDocuments>,
}

#[derive(Default)]
pub(super) struct LastDocuments {
    own: Option<Value>,
    table: Option<Value>,
}

impl GroupWire {
    /// The name of a member's Lease. Group names contain no '.', so no two groups share a Lease.
    pub(super) fn member_name(group: &str, identity: &str) -> String {
        format!("{group}.{identity}")
    }

    pub(super) async fn perform(&self, request: &Request, deadline: Instant) -> Result<Response, LeaseError> {
        let own = Self::member_name(&self.group, &self.identity);
        match request {
            Request::Join => {
                let mut lease = self.document(&own);
                set_annotation(&mut lease, PROCESS_ANNOTATION, self.process.clone());
                let now = timestamp((self.wall)());
                let record = Record {
                    holder: self.identity.clone(),
                    lease: Some(self.lease),
                    acquired: Some(now),
                    renewed: Some(now),
                    transitions: 0,
                    malformed: None,
                };
                record.write(&mut lease);
                let lease = self.leases.create(&lease, deadline).await?;
                self.own_written("create", lease)
            }
            Request::Renew {
                version,
                leaving,
                number,
            } => {
                let mut lease = match &self.last.lock().own {
                    Some(lease) => lease.clone(),
                    None => self.document(&own),
                };
                let mut record = Record::read(&lease);
                record.holder = match leaving {
                    true => String::new(),
                    false => self.identity.clone(),
                };
                record.lease = Some(self.lease);
                record.malformed = None;
                record.renew(timestamp((self.wall)()));
                record.write(&mut lease);
                set_annotation(&mut lease, RENEWALS_ANNOTATION, number.to_string());
                set_version(&mut lease, version);
                let lease = self.leases.update(&own, &lease, deadline).await?;
                self.own_written("update", lease)
            }
            Request::LookAtSelf => {
                let lease = self.leases.get(&own, deadline).await?;
                self.own("get", lease)
            }
            Request::Leave { uid, version } => {
                self.leases.delete(&own, uid, version, deadline).await?;
                Ok(Response::Deleted)
            }
            Request::Evict { name, uid, version } => {
                self.leases.delete(name, uid, version, deadline).await?;
                Ok(Response::Deleted)
            }
            Request::List => {
                let leases = self.leases.list(GROUP_LABEL, &self.group, deadline).await?;
                self.snapshot(leases).map(Response::Snapshot)
            }
            Request::WriteTable { table, version } => {
                self.write_table(table, version.as_deref(), deadline).await
            }
        }
    }

    async fn write_table(
        &self,
        table: &Table,
        version: Option<&str>,
        deadline: Instant,
    ) -> Result<Response, LeaseError> {
        let mut lease = match &self.last.lock().table {
            Some(lease) if version.is_some() => lease.clone(),
            _ => self.document(&self.group),
        };
        set_annotation(&mut lease, TABLE_ANNOTATION, table.write());
        let (verb, lease) = match version {
            Some(version) => {
                set_version(&mut lease, version);
                ("update", self.leases.update(&self.group, &lease, deadline).await?)
            }
            None => ("create", self.leases.create(&lease, deadline).await?),
        };
        let (Some(uid), Some(version)) = (metadata(&lease, "uid"), metadata(&lease, "resourceVersion"))
        else {
            return Err(self.unreadable(
                verb,
                &self.group,
                "it has no uid or no resource version".to_owned(),
            ));
        };
        let stored = annotation(&lease, TABLE_ANNOTATION).map(Table::read);
        if stored.as_ref() != Some(&Ok(table.clone())) {
            return Err(self
                .leases
                .error(verb, Some(&self.group), Failure::Altered("table")));
        }
        let response = Response::TableWritten {
            uid: uid.to_owned(),
            version: version.to_owned(),
        };
        self.last.lock().table = Some(lease);
        Ok(response)
    }

    fn snapshot(&self, leases: Vec<Value>) -> Result<Snapshot, LeaseError> {
        let mut snapshot = Snapshot {
            table: None,
            members: Vec::new(),
        };
        for lease in leases {
            if name_of(&lease) == Some(&self.group) {
                snapshot.table = Some(self.table(&lease)?);
                self.last.lock().table = Some(lease);
            } else {
                let member = self.member("list", &lease)?;
                if member.member == self.identity && member.process == self.process {
                    self.last.lock().own = Some(lease);
                }
                snapshot.members.push(member);
            }
        }
        Ok(snapshot)
    }

    fn table(&self, lease: &Value) -> Result<TableSeen, LeaseError> {
        let unreadable = |why: String| {
            let why = format!(
                "annotation {TABLE_ANNOTATION}: {why}; stop every replica of the group, delete the lease, start them \
                 again"
            );
            self.unreadable("list", &self.group, why)
        };
        let text =
            annotation(lease, TABLE_ANNOTATION).ok_or_else(|| unreadable("it is missing".to_owned()))?;
        let table = Table::read(text).map_err(&unreadable)?;
        if table.slots.len() != self.slots {
            let why = format!(
                "the group has {} slots and this replica is configured for {}; use the same number everywhere, or another group",
                table.slots.len(),
                self.slots
            );
            return Err(self.unreadable("list", &self.group, why));
        }
        let (Some(uid), Some(version)) = (metadata(lease, "uid"), metadata(lease, "resourceVersion")) else {
            return Err(unreadable(
                "its lease has no uid or no resource version".to_owned(),
            ));
        };
        Ok(TableSeen {
            table,
            uid: uid.to_owned(),
            version: version.to_owned(),
        })
    }

    /// A renewal counts only if the server stored it: otherwise other members see another lease duration.
    fn own_written(&self, verb: &'static str, lease: Value) -> Result<Response, LeaseError> {
        if Record::read(&lease).lease != Some(self.lease) {
            let name = Self::member_name(&self.group, &self.identity);
            return Err(self.leases.error(verb, Some(&name), Failure::Altered("record")));
        }
        self.own(verb, lease)
    }

    /// The first malformed Lease in a list. Its member repairs it with its next renewal, or is evicted.
    pub(super) fn malformed(&self, response: &Response) -> Option<LeaseError> {
        let Response::Snapshot(snapshot) = response else {
            return None;
        };
        snapshot.members.iter().find_map(|member| {
            let failure = Failure::Malformed(format!(
                "{}; its member repairs it with the next renewal, or is evicted after the lease duration",
                member.malformed?
            ));
            Some(self.leases.error("list", Some(&member.name), failure))
        })
    }

    fn own(&self, verb: &'static str, lease: Value) -> Result<Response, LeaseError> {
        let seen = self.member(verb, &lease)?;
        self.last.lock().own = Some(lease);
        Ok(Response::Member(seen))
    }

    fn member(&self, verb: &'static str, lease: &Value) -> Result<MemberSeen, LeaseError> {
        let name = name_of(lease).unwrap_or_default();
        let (Some(uid), Some(version)) = (metadata(lease, "uid"), metadata(lease, "resourceVersion")) else {
            return Err(self.unreadable(verb, name, "it has no uid or no resource version".to_owned()));
        };
        let record = Record::read(lease);
        let prefix = Self::member_name(&self.group, "");
        Ok(MemberSeen {
            member: name.strip_prefix(&prefix).unwrap_or(name).to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            version: version.to_owned(),
            process: annotation(lease, PROCESS_ANNOTATION)
                .unwrap_or_default()
                .to_owned(),
            leaving: record.holder.is_empty(),
            renewals: annotation(lease, RENEWALS_ANNOTATION)
                .and_then(|number| number.parse().ok())
                .unwrap_or(0),
            lease: record.lease,
            malformed: record.malformed.map(|malformed| malformed.problem),
        })
    }

    fn document(&self, name: &str) -> Value {
        new_lease(&self.namespace, name, [(GROUP_LABEL, self.group.as_str())])
    }

    pub(super) fn panicked(&self) -> LeaseError {
        let name = Self::member_name(&self.group, &self.identity);
        self.leases.error("update", Some(&name), Failure::Panicked)
    }

    fn unreadable(&self, verb: &'static str, name: &str, why: String) -> LeaseError {
        self.leases.error(verb, Some(name), Failure::Unreadable(why))
    }
}

fn annotation<'a>(lease: &'a Value, key: &str) -> Option<&'a str> {
    lease.pointer("/metadata/annotations")?.get(key)?.as_str()
}
