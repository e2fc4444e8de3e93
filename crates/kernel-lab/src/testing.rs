//! For tests that need the laboratory.

use crate::kernel::Kernel;

/// The kernel for a test; none, with words on standard error, where it is not built and need not be.
///
/// # Panics
/// It is not there, and all tests are required (`DOWNBEAT_REQUIRE_ALL` is set, and `DOWNBEAT_WITHOUT_KERNEL_LAB` is not).
#[must_use]
pub fn kernel(test: &str) -> Option<Kernel> {
    let set = |name| std::env::var_os(name).is_some();
    match Kernel::find() {
        Ok(kernel) => Some(kernel),
        Err(error) => {
            let required = set("DOWNBEAT_REQUIRE_ALL") && !set("DOWNBEAT_WITHOUT_KERNEL_LAB");
            assert!(!required, "{test} needs the kernel laboratory: {error}");
            eprintln!("skipped: {test} needs the kernel laboratory (make kernel-lab)");
            None
        }
    }
}
