//! Clocks, threads, memory and the shared trace ring.
