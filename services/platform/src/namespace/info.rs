//! Info blocks of namespaces: the blocks of media at their start.

use crate::contents::INFO_BLOCK;
use crate::platform::Platform;
use crate::region::Region;

/// Returns the info block at this offset of a region; `None` if it is all zeros.
pub(super) fn read_at(platform: &Platform, region: &Region, offset: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; INFO_BLOCK as usize];
    for (module, off, part) in region.pieces(offset..offset + INFO_BLOCK) {
        if let Some(there) = platform.contents.block(module, off)
            && there.len() == part.len()
        {
            bytes[part].copy_from_slice(there);
        }
    }
    bytes.iter().any(|byte| *byte != 0).then_some(bytes)
}

/// Clears the info blocks of a former namespace at this offset.
pub(crate) fn clear_info(platform: &mut Platform, region: &Region, offset: u64) {
    for at in [0, INFO_BLOCK] {
        if read_at(platform, region, offset + at).is_some() {
            write_at(platform, region, offset + at, &[0; INFO_BLOCK as usize]);
        }
    }
}

/// Writes an info block. In an interleave set it is on one module, since it is one line. A region of CXL memory may have
/// smaller ones.
pub(crate) fn write_at(platform: &mut Platform, region: &Region, offset: u64, block: &[u8]) {
    for (module, off, part) in region.pieces(offset..offset + block.len() as u64) {
        platform.contents.write_block(module, off, &block[part]);
    }
}
