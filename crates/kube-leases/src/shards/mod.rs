//! tmp
pub(crate) mod machine;
mod plan;
#[cfg(test)]
mod simulation;
mod table;
