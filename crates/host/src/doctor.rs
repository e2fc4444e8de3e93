//! The doctor: what a machine lacks for what is needed of it.

mod clock;
mod cores;
mod interface;
mod kernel;

use crate::finding::Finding;
use crate::look::{Look, processors};
use crate::needs::Needs;

/// Looks at everything. The findings come in the order of what to mend first: kernel, processors, clock, interfaces.
pub fn examine(look: &impl Look, needs: &Needs) -> Vec<Finding> {
    let mut found = Vec::new();
    kernel::examine(look, needs, &mut found);
    cores::examine(look, needs, &cyclic_processors(look, needs), &mut found);
    clock::examine(look, needs, &mut found);
    for wanted in &needs.interfaces {
        interface::examine(look, needs, wanted, &mut found);
    }
    found
}

/// The processors of the cyclic threads: those that are named, else those that are kept free, else the last, which a
/// run takes first.
fn cyclic_processors(look: &impl Look, needs: &Needs) -> Vec<usize> {
    if !needs.processors.is_empty() {
        return needs.processors.clone();
    }
    let free = look.read("/sys/devices/system/cpu/isolated".as_ref()).map(|list| processors(&list)).unwrap_or_default();
    if free.is_empty() { vec![look.machine().cpus.saturating_sub(1)] } else { free }
}

#[cfg(test)]
mod tests;
