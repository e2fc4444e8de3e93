//! The numbers by which programmes call functions of the running kernel, from its type information (BTF).

use std::ffi::CStr;
use std::path::Path;

/// Where the kernel tells its types, if it was built with `CONFIG_DEBUG_INFO_BTF`.
pub(super) const KERNEL: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xEB9F;
const TYPE_BYTES: usize = 12;

// Kinds of types (linux/btf.h), as far as their length or a name matters.
const INT: u32 = 1;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;
const ENUM64: u32 = 19;

/// The number of a function of the running kernel; none when it does not tell, or has no such function.
pub(super) fn function_of_kernel(name: &str) -> Option<u32> {
    function(&std::fs::read(Path::new(KERNEL)).ok()?, name)
}

/// The number of a function in what a kernel tells of its types; none when there is none, or the bytes make no sense.
fn function(btf: &[u8], wanted: &str) -> Option<u32> {
    let magic = u16::from_ne_bytes(*btf.first_chunk()?);
    let word = |at: usize| Some(u32::from_ne_bytes(*btf.get(at..)?.first_chunk()?) as usize);
    let part = |offset: usize, bytes: usize| {
        let start = word(4)?.checked_add(word(offset)?)?;
        btf.get(start..start.checked_add(word(bytes)?)?)
    };
    let (mut types, names) = (part(8, 12)?, part(16, 20)?);
    if magic != MAGIC {
        return None;
    }
    // Types are counted from 1; 0 is `void`.
    for number in 1.. {
        let (head, rest) = types.split_first_chunk::<TYPE_BYTES>()?;
        let field = |at: usize| Some(u32::from_ne_bytes(*head.get(at..)?.first_chunk()?));
        let (name, info) = (field(0)?, field(4)?);
        let kind = info >> 24 & 0x1F;
        if kind == FUNC {
            let found = CStr::from_bytes_until_nul(names.get(name as usize..)?).ok()?;
            if found.to_bytes() == wanted.as_bytes() {
                return Some(number);
            }
        }
        types = rest.get(members_bytes(kind, (info & 0xFFFF) as usize)..)?;
    }
    None
}

/// What stands behind the head of a type.
const fn members_bytes(kind: u32, members: usize) -> usize {
    match kind {
        INT | VAR | DECL_TAG => 4,
        ARRAY => 12,
        STRUCT | UNION | DATASEC | ENUM64 => 12 * members,
        ENUM | FUNC_PROTO => 8 * members,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel with a few types of every length.
    fn kernel() -> Vec<u8> {
        let names = b"\0other\0wanted\0";
        let mut types = Vec::new();
        let kinds = [(INT, 0), (ARRAY, 0), (STRUCT, 2), (ENUM, 3), (FUNC_PROTO, 1), (2, 0), (ENUM64, 1), (DATASEC, 1)];
        for (kind, members) in kinds {
            // All of them have the wanted name, which only counts for functions.
            types.extend([7, kind << 24 | members as u32, 0].map(u32::to_ne_bytes).concat());
            types.extend(vec![0xFF; members_bytes(kind, members)]);
        }
        for name in [1_u32, 7] {
            types.extend([name, FUNC << 24, 5].map(u32::to_ne_bytes).concat());
        }
        let mut btf = MAGIC.to_ne_bytes().to_vec();
        btf.extend([1, 0]);
        btf.extend([24, 0, types.len() as u32, types.len() as u32, names.len() as u32].map(u32::to_ne_bytes).concat());
        [btf, types, names.to_vec()].concat()
    }

    #[test]
    fn a_function_is_found_by_its_name() {
        assert_eq!(function(&kernel(), "wanted"), Some(10));
        assert_eq!(function(&kernel(), "other"), Some(9));
        assert_eq!(function(&kernel(), "want"), None);
    }

    #[test]
    fn what_is_cut_or_no_type_information_has_no_functions() {
        let whole = kernel();
        for bytes in 0..whole.len() {
            assert_eq!(function(&whole[..bytes], "wanted"), None, "{bytes}");
        }
        for at in 0..24 {
            for value in [0, 0xFF] {
                let mut wrong = whole.clone();
                wrong[at] = value;
                _ = function(&wrong, "wanted");
            }
        }
    }

    #[test]
    fn the_running_kernel_tells_the_function_that_gives_stamps_where_it_tells_any() {
        if Path::new(KERNEL).exists() {
            assert!(function_of_kernel("bpf_xdp_metadata_rx_hash").is_some());
            assert_eq!(function_of_kernel("no_such_function_of_any_kernel"), None);
        }
    }
}
