//! A scenario run for real in network namespaces of this machine.
