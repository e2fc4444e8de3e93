//! Why nothing could be started or watched.

use std::fmt;

/// Why nothing could be started or watched, in words with a mend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PtpError {
    /// The scenario or an argument asks for what cannot be.
    Input(String),
    /// This machine or this user cannot.
    Machine(String),
}

impl fmt::Display for PtpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Input(text) | Self::Machine(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for PtpError {}
