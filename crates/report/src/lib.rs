//! One self-contained page for a run, its simulation and its bound.
