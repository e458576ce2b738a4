//! Lists of bad blocks.

use crate::ndctl::BadBlocks;
use lode_pmem::SysfsFolder;

/// Reads the list in this folder. All ranges get these modules.
pub(super) fn read(folder: &SysfsFolder, modules: &[u32]) -> Vec<BadBlocks> {
    let blocks = folder.bad_sectors().into_iter().map(|sectors| BadBlocks {
        offset: sectors.start,
        count: sectors.end - sectors.start,
        modules: modules.to_vec(),
    });
    blocks.collect()
}
