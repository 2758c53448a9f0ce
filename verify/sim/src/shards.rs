//! Shards as the model knows them: parts of the hash space in eighths, computed without the code under test.

use kube_informers::shard::Shard;
use kube_informers::shard::{ShardField, ShardRange};

use crate::object::{Key, namespace, uid_text};
use crate::server::Stored;
use crate::tape::Settings;

/// The number of pieces of the hash space.
const PIECES: u32 = 8;

/// Some eighths of the hash space, by one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// One bit per piece.
    pub pieces: u8,
    /// By the namespace, and not by the UID.
    pub by_namespace: bool,
}

/// What of a collection a cache has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    All,
    /// A part.
    Part(Part),
}

impl Part {
    /// The pieces of these bits.
    pub fn new(bits: u32, settings: &Settings) -> Self {
        Self {
            pieces: bits as u8,
            by_namespace: settings.shard_by_namespace == 1,
        }
    }

    /// What a request asks for.
    pub fn requested(shard: Option<&Shard>, settings: &Settings) -> Self {
        let bits = match shard {
            None => u32::MAX,
            Some(shard) => (0..PIECES)
                .filter(|piece| shard.covers_hash(u64::from(*piece) << 61))
                .fold(0, |bits, piece| bits | 1 << piece),
        };
        Self::new(bits, settings)
    }

    /// As the code under test has it.
    pub fn shard(self) -> Shard {
        let field = match self.by_namespace {
            true => ShardField::Namespace,
            false => ShardField::Uid,
        };
        let ranges = ShardRange::ALL.split(PIECES).into_iter().enumerate();
        let own = ranges.filter(|(piece, _)| self.pieces & (1 << piece) != 0);
        Shard::new(field, own.map(|(_, range)| range))
    }

    /// Whether an object belongs to it.
    pub fn contains(self, key: Key, object: &Stored) -> bool {
        self.pieces == u8::MAX || self.pieces & (1 << self.piece(key, object)) != 0
    }

    fn piece(self, key: Key, object: &Stored) -> u64 {
        let hash = match self.by_namespace {
            true => fnv1a(namespace(key)),
            false => fnv1a(&uid_text(object.uid)),
        };
        hash >> 61
    }

    /// Whether it includes another one.
    pub fn includes(self, other: Self) -> bool {
        other.pieces & !self.pieces == 0
    }

    /// Whether nothing belongs to it.
    pub fn is_empty(self) -> bool {
        self.pieces == 0
    }
}

/// The hash that the API server uses.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_spread_over_all_pieces() {
        let mut seen = 0;
        for uid in 1..60 {
            let object = Stored {
                uid,
                version: 1,
                label: 0,
                poisoned: false,
            };
            let all = Part::new(0, &Settings::default());
            seen |= 1 << all.piece(0, &object);
        }
        assert_eq!(seen, 0xff);
    }
}
