//! Memory blocks: the units in which the kernel takes memory online.

use crate::machine::Machine;
use std::ops::Range;

/// Size of a memory block in bytes. Linux on x86-64 has larger ones from this much memory on.
const BLOCK: u64 = 128 << 20;
const LARGE_BLOCK: u64 = 2 << 30;
const LARGE_MEMORY: u64 = 64 << 30;

/// Returns the size of the machine's memory blocks, in bytes.
pub fn block_size(machine: &Machine) -> u64 {
    let dram: u64 = machine.sockets().into_iter().map(|socket| machine.dram_capacity(socket)).sum();
    if dram < LARGE_MEMORY { BLOCK } else { LARGE_BLOCK }
}

/// Returns the number of whole memory blocks in these ranges. The kernel does not use the rest.
pub(crate) fn whole_blocks(ranges: &[Range<u64>], block: u64) -> u64 {
    ranges.iter().map(|range| (range.end / block).saturating_sub(range.start.div_ceil(block))).sum()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn only_whole_blocks_count() {
        for (range, count) in [
            (0..BLOCK, 1),
            (0..BLOCK - 1, 0),
            (1..BLOCK, 0),
            (1..2 * BLOCK, 1),
            (1..2, 0),
            (BLOCK - 1..BLOCK + 1, 0),
        ] {
            assert_eq!(whole_blocks(std::slice::from_ref(&range), BLOCK), count, "{range:?}");
        }
        assert_eq!(whole_blocks(&[0..BLOCK, BLOCK..3 * BLOCK], BLOCK), 3);
    }

    #[test]
    fn blocks_are_large_on_large_machines() {
        let mut machine = Machine::parse(Machine::included("lab-one").unwrap()).unwrap();
        assert_eq!(block_size(&machine), BLOCK);
        machine.dram[0].capacity = LARGE_MEMORY;
        assert_eq!(block_size(&machine), LARGE_BLOCK);
    }
}
