//! Habits of the repository: check, bench, prove.
fn main() {}
