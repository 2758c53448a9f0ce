//! Faults of lists.

use super::Fault;

/// The faults of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListFault {
    pub(crate) expire_continue: bool,
    pub(crate) empty_page: bool,
    pub(crate) ignore_limit: bool,
    pub(crate) empty_continue: bool,
    pub(crate) null_items: bool,
    pub(crate) version_shift: i64,
}

/// Faults of lists.
impl Fault {
    /// The continue token has expired (410), and the error carries a resumable one.
    pub fn expire_continue() -> Fault {
        on_list(ListFault {
            expire_continue: true,
            ..ListFault::default()
        })
    }

    /// An empty page whose token continues with the skipped page.
    pub fn empty_page() -> Fault {
        on_list(ListFault {
            empty_page: true,
            ..ListFault::default()
        })
    }

    /// The whole list is returned regardless of the limit.
    pub fn ignore_limit() -> Fault {
        on_list(ListFault {
            ignore_limit: true,
            ..ListFault::default()
        })
    }

    /// The last page has `"continue": ""` instead of no token.
    pub fn empty_continue() -> Fault {
        on_list(ListFault {
            empty_continue: true,
            ..ListFault::default()
        })
    }

    /// An empty list has `"items": null`.
    pub fn null_items() -> Fault {
        on_list(ListFault {
            null_items: true,
            ..ListFault::default()
        })
    }

    /// The list's own resource version is off by this amount.
    pub fn list_version(shift: i64) -> Fault {
        on_list(ListFault {
            version_shift: shift,
            ..ListFault::default()
        })
    }
}

fn on_list(list: ListFault) -> Fault {
    Fault {
        list,
        ..Fault::default()
    }
}

impl ListFault {
    pub(super) fn and(self, other: ListFault) -> ListFault {
        ListFault {
            expire_continue: self.expire_continue || other.expire_continue,
            empty_page: self.empty_page || other.empty_page,
            ignore_limit: self.ignore_limit || other.ignore_limit,
            empty_continue: self.empty_continue || other.empty_continue,
            null_items: self.null_items || other.null_items,
            version_shift: self.version_shift.saturating_add(other.version_shift),
        }
    }
}
