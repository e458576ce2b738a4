//! Blocks before the root file system in an image for Kata Containers.
//!
//! ```text
//! 0        partition table: the file system begins at 3 MiB        for programs that read the whole image
//! 4 KiB    info block: a page map in DRAM, the data begins at 2 MiB
//! 2 MiB    partition table: the file system begins at 1 MiB        for a kernel with DAX, which sees the data alone
//! 3 MiB    file system
//! ```
//!
//! A module without labels is one namespace without a UUID. So the info block has no parent UUID.

use lode_nvdimm::{PAGE_MAP_OFF, PageMapInfo, PageMapLocation, PageMapUser};
use uuid::Uuid;

/// Offset of the page map's data, in bytes.
pub(super) const DATA: u64 = 2 << 20;
/// Offset of the file system in that data, in bytes.
pub(super) const PARTITION: u64 = 1 << 20;
/// Alignment of the file's length in bytes: a memory section, which every kernel can map completely.
pub(super) const UNIT: u64 = 128 << 20;
const SECTOR: u64 = 512;
const PAGE: u64 = 4096;
/// Partition type of Linux file systems.
const LINUX: u8 = 0x83;

/// Returns the blocks before a file system, with their offsets in the image. The image file has `len` bytes, and the
/// page map gets `uuid`.
pub(super) fn blocks(len: u64, file_system_len: u64, uuid: Uuid) -> Vec<(u64, Vec<u8>)> {
    let info = PageMapInfo {
        user: PageMapUser::FileSystem,
        uuid,
        parent_uuid: Uuid::nil(),
        minor: 4,
        data_off: DATA,
        page_count: (len - DATA) / PAGE,
        location: PageMapLocation::Dram,
        start_pad: 0,
        end_trunc: 0,
        align: DATA as u32,
        page_size: PAGE as u32,
        page_struct_size: 64,
    };
    vec![
        (0, partition_table(DATA + PARTITION, file_system_len)),
        (PAGE_MAP_OFF, info.encode().to_vec()),
        (DATA, partition_table(PARTITION, file_system_len)),
    ]
}

/// Returns an MBR partition table with one partition of `len` bytes at `start`.
fn partition_table(start: u64, len: u64) -> Vec<u8> {
    let mut sector = vec![0; SECTOR as usize];
    // Cylinders and heads are not used: 0xfffffe marks this.
    let no_cylinder = [0xfe, 0xff, 0xff];
    let entry = &mut sector[446..462];
    entry[1..4].copy_from_slice(&no_cylinder);
    entry[4] = LINUX;
    entry[5..8].copy_from_slice(&no_cylinder);
    entry[8..12].copy_from_slice(&((start / SECTOR) as u32).to_le_bytes());
    entry[12..16].copy_from_slice(&((len / SECTOR).min(u64::from(u32::MAX)) as u32).to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}
