//! The downbeat command.
fn main() {}
