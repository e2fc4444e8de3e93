//! Worst-case bounds in exact arithmetic.
