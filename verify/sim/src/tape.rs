//! A tape: the settings of one run and everything that happens in it.
//!
//! Every choice of a run is on its tape, so a tape can be replayed, and shortened by deleting entries: an entry that
//! does not apply, such as the deletion of an absent object, changes nothing.

use std::fmt;
use std::str::FromStr;

/// Declares the operations with their names on a tape.
macro_rules! operations {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal,)*) => {
        /// What may happen in one step.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name on a tape.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

operations! {
    /// The object `a` is created.
    Create = "create",
    /// The object `a` is updated; its label becomes `b`.
    Update = "update",
    /// The object `a` is deleted.
    Delete = "delete",
    /// The object `a` is deleted and created again.
    Recreate = "recreate",
    /// The object `a` is updated to a state that cannot be decoded.
    Poison = "poison",
    /// `a` writes to other collections.
    Elsewhere = "elsewhere",
    /// The replica `a` stays at the version it has.
    Freeze = "freeze",
    /// The replica `a` catches up.
    CatchUp = "catch-up",
    /// New connections reach the replica `a`.
    Route = "route",
    /// The history is compacted, except the last `a` versions.
    Compact = "compact",
    /// A backup is restored: the last `a` versions are lost, and the rest is compacted.
    Restore = "restore",
    /// All connections break.
    Break = "break",
    /// All watches are closed regularly.
    Close = "close",
    /// All connections go silent and stay so.
    Silence = "silence",
    /// A bookmark is sent on all watches.
    Bookmark = "bookmark",
    /// A bookmark `a` versions too old is sent; without a version if `a` is 0.
    OldBookmark = "old-bookmark",
    /// Events are sent again: `a` of them, without the last `b`.
    Replay = "replay",
    /// An `ERROR` event with the code `a` is sent on all watches.
    ErrorEvent = "error-event",
    /// The next `b` requests are answered with the status `a`.
    Status = "status",
    /// The next `b` requests are answered with the status 429 and a Retry-After of `a` seconds.
    Throttle = "throttle",
    /// The next `b` list requests are answered with the status `a`.
    ListStatus = "list-status",
    /// The next `b` watch requests are answered with the status `a`.
    WatchStatus = "watch-status",
    /// The next `b` connections are refused.
    Refuse = "refuse",
    /// The next `b` requests are never answered.
    Hang = "hang",
    /// The next response breaks after `a` items.
    CutAfter = "cut-after",
    /// The next response ends regularly after `a` items, without an end marker.
    EndAfter = "end-after",
    /// The next `10 b` watches end after a bookmark.
    Flap = "flap",
    /// The next watch-list has no end marker.
    NoEndMarker = "no-end-marker",
    /// The next page of a list is of another version than its first.
    PagesDiffer = "pages-differ",
    /// The next continued list returns to its first token.
    RepeatToken = "repeat-token",
    /// The next continued list has expired.
    ExpireToken = "expire-token",
    /// The next list is older than requested.
    StaleList = "stale-list",
    /// Up to `a` items of the responses arrive.
    Pump = "pump",
    /// `a` milliseconds pass.
    Advance = "advance",
    /// A batch of up to `a` deltas is taken from the queue.
    Pop = "pop",
    /// The batch that was taken is applied.
    Apply = "apply",
    /// The batch that was taken is returned to the queue.
    Requeue = "requeue",
    /// Everything in the queue is applied.
    Process = "process",
    /// A handler joins. It coalesces if `a` is 1, and runs on a task if `b` is 1.
    Join = "join",
    /// The handler `a` leaves.
    Leave = "leave",
    /// The handler `a` receives up to `b` events.
    Receive = "receive",
    /// The handler `a` panics at its next event, if it runs on a task.
    Panic = "panic",
    /// The informer moves to the shard of the pieces `a`; to none if it has no shard.
    MoveShard = "move-shard",
    /// Every handler receives a resync.
    Resync = "resync",
    /// An index is added.
    AddIndex = "add-index",
    /// The informer stops.
    Stop = "stop",
    /// The process `a` of an election or a group does nothing for `b` milliseconds. Its clock goes on.
    Pause = "pause",
    /// The process `a` dies, and another life of it begins after `b` milliseconds.
    Kill = "kill",
    /// The process `a` ends cleanly.
    Retire = "retire",
    /// The next `b` messages from or to the process `a` are lost.
    Lose = "lose",
    /// The next message from or to the process `a` takes `b` milliseconds.
    Delay = "delay",
    /// The next `b` requests of the process `a` are refused.
    Deny = "deny",
    /// The next list of the process `a` is `b` lists old.
    StaleRead = "stale-read",
    /// Somebody edits a Lease: its version changes, and nothing else.
    EditLease = "edit-lease",
    /// Somebody deletes the Lease of a member of a group.
    DeleteLease = "delete-lease",
}

impl Kind {
    /// Whether it happens to elections and shard groups, and not to informers.
    pub fn is_of_leases(self) -> bool {
        self >= Self::Pause
    }

    /// Whether it is a fault of an informer, and not a regular event.
    pub fn is_fault(self) -> bool {
        use Kind::*;
        matches!(
            self,
            Poison
                | Freeze
                | Compact
                | Restore
                | Break
                | Close
                | Silence
                | OldBookmark
                | Replay
                | ErrorEvent
                | Status
                | Throttle
                | ListStatus
                | WatchStatus
                | Refuse
                | Hang
                | CutAfter
                | EndAfter
                | Flap
                | NoEndMarker
                | PagesDiffer
                | RepeatToken
                | ExpireToken
                | StaleList
                | Panic
                | Requeue
                | MoveShard
                | Stop
        )
    }
}

/// One entry of a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    /// What happens.
    pub kind: Kind,
    /// Its first number.
    pub a: u32,
    /// Its second number.
    pub b: u32,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.kind.name(), self.a, self.b)
    }
}

/// Declares the settings with their names on a tape.
macro_rules! settings {
    ($($(#[doc = $doc:literal])* $field:ident,)*) => {
        /// The settings of a run. Constants are small, so that the rare branch is common.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
        pub struct Settings {
            $($(#[doc = $doc])* pub $field: u32,)*
        }

        impl Settings {
            /// The names and values, in order.
            pub fn pairs(&self) -> Vec<(&'static str, u32)> {
                vec![$((stringify!($field), self.$field)),*]
            }

            pub(crate) fn set(&mut self, name: &str, value: u32) -> bool {
                match name {
                    $(stringify!($field) => self.$field = value,)*
                    _ => return false,
                }
                true
            }
        }
    };
}

settings! {
    /// What is run: 0 an informer, 1 an election, 2 a shard group.
    subject,
    /// The seed of the reflector's jitter.
    jitter,
    /// The number of keys.
    keys,
    /// The number of replicas.
    replicas,
    /// 1 if watch-lists are used.
    watch_list,
    /// The page size; 0 for the default.
    page,
    /// The capacity of the queue.
    capacity,
    /// 1 if only objects with an even label are selected.
    selector,
    /// 1 if the first list may be read from any replica.
    any_cached,
    /// 1 if an expired version is reported by an `ERROR` event and not by an HTTP status.
    expired_in_band,
    /// The number of entries before the reflector starts.
    start_after,
    /// Milliseconds between two bookmarks of the healed server.
    bookmark_interval,
    /// 1 if the informer has a shard, and the server sends that only; 2 if the server sends everything.
    sharding,
    /// 1 if shards are by namespace and not by UID.
    shard_by_namespace,
    /// The pieces of the first shard.
    shard,
    /// The number of processes of an election or a group.
    processes,
    /// How the rates of their clocks differ: 0 not at all, 1 within the documented bound, 2 beyond it.
    clocks,
}

/// The settings and the entries of one run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tape {
    /// The settings.
    pub settings: Settings,
    /// What happens, in order.
    pub ops: Vec<Op>,
}

impl fmt::Display for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.settings.pairs() {
            writeln!(f, "set {name} {value}")?;
        }
        for op in &self.ops {
            writeln!(f, "{op}")?;
        }
        Ok(())
    }
}

/// A line that is not part of a tape.
#[derive(Debug, PartialEq, Eq)]
pub struct ParseTapeError {
    line: usize,
    problem: String,
}

impl fmt::Display for ParseTapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for ParseTapeError {}

impl FromStr for Tape {
    type Err = ParseTapeError;

    /// Everything after `#` is a comment.
    fn from_str(text: &str) -> Result<Self, ParseTapeError> {
        let mut tape = Self {
            settings: Settings::default(),
            ops: Vec::new(),
        };
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            tape.entry(line).map_err(|problem| ParseTapeError {
                line: number + 1,
                problem,
            })?;
        }
        Ok(tape)
    }
}

impl Tape {
    fn entry(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: &str| {
            word.parse::<u32>()
                .map_err(|_| format!("{word:?} is not a number"))
        };
        match words[..] {
            ["set", name, value] => {
                let value = number(value)?;
                if !self.settings.set(name, value) {
                    return Err(format!("there is no setting {name:?}"));
                }
            }
            [name, a, b] => {
                let kind = Kind::ALL.iter().find(|kind| kind.name() == name);
                let kind = *kind.ok_or_else(|| format!("there is no operation {name:?}"))?;
                self.ops.push(Op {
                    kind,
                    a: number(a)?,
                    b: number(b)?,
                });
            }
            _ => return Err("expected `set NAME VALUE` or `OPERATION A B`".to_owned()),
        }
        Ok(())
    }
}
