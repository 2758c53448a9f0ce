//! Elections and shard groups against the in-process API server, on a paused clock.

mod election;
mod extremes;
mod malformed;
mod shards;
