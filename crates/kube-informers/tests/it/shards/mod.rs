//! Informers of a part of a collection, on servers that know shards and on those that do not.

mod moves;
mod scope;
mod selector;
mod support;
