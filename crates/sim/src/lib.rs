//! The scenario in virtual time.
