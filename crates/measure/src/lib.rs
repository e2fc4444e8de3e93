//! Trace events, frame rows, statistics and the form of results.
