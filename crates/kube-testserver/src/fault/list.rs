//! What goes wrong with lists.

use super::Fault;

/// What goes wrong with a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListFault {
    pub(crate) expire_continue: bool,
    pub(crate) empty_page: bool,
    pub(crate) ignore_limit: bool,
    pub(crate) empty_continue: bool,
    pub(crate) null_items: bool,
    pub(crate) version_shift: i64,
}

/// Lists.
impl Fault {
    /// The continue token has expired (410), and a resumable one comes with the error.
    pub fn expire_continue() -> Fault {
        on_list(ListFault {
            expire_continue: true,
            ..ListFault::default()
        })
    }

    /// A page without items, whose token leads on to the page that should have come.
    pub fn empty_page() -> Fault {
        on_list(ListFault {
            empty_page: true,
            ..ListFault::default()
        })
    }

    /// The whole list comes, whatever the limit.
    pub fn ignore_limit() -> Fault {
        on_list(ListFault {
            ignore_limit: true,
            ..ListFault::default()
        })
    }

    /// The last page says `"continue": ""` instead of nothing.
    pub fn empty_continue() -> Fault {
        on_list(ListFault {
            empty_continue: true,
            ..ListFault::default()
        })
    }

    /// The list says `"items": null` where it has no items.
    pub fn null_items() -> Fault {
        on_list(ListFault {
            null_items: true,
            ..ListFault::default()
        })
    }

    /// The list's own resource version is off by so much.
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
