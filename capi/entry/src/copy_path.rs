//! The flags of copies: PMEM_F_MEM_* of libpmem, and PMEM2_F_MEM_* of libpmem2, which are the same numbers.

use lode_pmem::CopyPath;

const NODRAIN: u32 = 1 << 0;
const NONTEMPORAL: u32 = 1 << 1;
const TEMPORAL: u32 = 1 << 2;
const WC: u32 = 1 << 3;
const WB: u32 = 1 << 4;
const NOFLUSH: u32 = 1 << 5;

/// Returns the path of a copy with these flags.
#[inline(always)]
pub fn path_of(flags: u32) -> CopyPath {
    if flags & !NODRAIN == 0 {
        CopyPath::ByLength
    } else if flags & NOFLUSH != 0 {
        CopyPath::Unflushed
    } else if flags & NONTEMPORAL != 0 {
        CopyPath::PastCache
    } else if flags & WC != 0 {
        CopyPath::WriteCombining
    } else if flags & (TEMPORAL | WB) != 0 {
        CopyPath::ThroughCache
    } else {
        CopyPath::ByLength
    }
}

/// Returns true if a copy with these flags is durable when the call returns: it flushes and drains.
#[inline(always)]
pub fn ends_durable(flags: u32) -> bool {
    flags & (NODRAIN | NOFLUSH) == 0
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn first_flag_of_the_list_decides() {
        for (flags, path, is_durable) in [
            (0, CopyPath::ByLength, true),
            (NODRAIN, CopyPath::ByLength, false),
            (NONTEMPORAL | WB, CopyPath::PastCache, true),
            (WC | TEMPORAL | NODRAIN, CopyPath::WriteCombining, false),
            (TEMPORAL, CopyPath::ThroughCache, true),
            (WB, CopyPath::ThroughCache, true),
            (NOFLUSH | NONTEMPORAL, CopyPath::Unflushed, false),
            (1 << 6, CopyPath::ByLength, true),
        ] {
            assert_eq!((path_of(flags), ends_durable(flags)), (path, is_durable), "{flags:#x}");
        }
    }
}
