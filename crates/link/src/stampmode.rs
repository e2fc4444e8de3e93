//! Which stamps the kernel shall take.

/// Which stamps the kernel shall take of the frames that are sent, or that arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stamps {
    /// None.
    #[default]
    Off,
    /// In the driver when sending, on entry into the stack when receiving, by the system's clock.
    Software,
    /// In the network card, by its own clock (PHC). That clock counts TAI when PTP or `phc2sys` keeps it.
    Hardware,
}
