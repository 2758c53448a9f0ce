//! Informers of one shard, on servers with and without support for shards.

mod moves;
mod scope;
mod selector;
mod support;
