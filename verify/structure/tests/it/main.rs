//! The structure of the workspace, as rules that fail when broken.

mod houses;
mod imports;
mod reasons;
