//! Info blocks of namespaces: the blocks of media at their start.

use crate::contents::INFO_BLOCK;
use crate::platform::Platform;
use crate::region::Region;

/// Clears the info blocks of a former namespace at this offset.
pub(crate) fn clear_info(platform: &mut Platform, region: &Region, offset: u64) {
    for at in [0, INFO_BLOCK] {
        let place = region.place(offset + at);
        let there = place.and_then(|(module, off)| platform.contents.block(module, off));
        if there.is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0)) {
            write_at(platform, region, offset + at, &[0; INFO_BLOCK as usize]);
        }
    }
}

/// Writes an info block. It is on one module, since it is one line of the interleave set.
pub(crate) fn write_at(platform: &mut Platform, region: &Region, offset: u64, block: &[u8]) {
    if let Some((module, off)) = region.place(offset) {
        platform.contents.write_block(module, off, block);
    }
}
