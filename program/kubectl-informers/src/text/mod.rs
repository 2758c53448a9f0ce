//! Text that is safe to print: cleaned of control characters, with readable numbers, and compared line by line.

pub mod diff;
pub mod safe;
pub mod units;
