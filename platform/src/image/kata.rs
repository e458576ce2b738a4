//! What lies in front of the root file system in an image as Kata Containers boots it.
//!
//! ```text
//! 0        partition table: the file system begins at 3 MiB        for those who see all of the image
//! 4 KiB    info block: a page map in DRAM, the data begins at 2 MiB
//! 2 MiB    partition table: the file system begins at 1 MiB        for those who see the data alone: a kernel with DAX
//! 3 MiB    file system
//! ```
//!
//! A module without labels is one namespace, and that has no identity: so the info block names none, either.

use lode_layout::{PAGE_MAP_OFF, PageMapInfo, PageMapPlace, PageMapUser};
use uuid::Uuid;

/// Where the data of the page map begins, in bytes.
pub(super) const DATA: u64 = 2 << 20;
/// Where the file system begins, in bytes from the start of the data.
pub(super) const PARTITION: u64 = 1 << 20;
/// What the file has a multiple of, in bytes: a section of memory, so that every kernel can map all of it.
pub(super) const UNIT: u64 = 128 << 20;
const SECTOR: u64 = 512;
const PAGE: u64 = 4096;
/// The kind of partition that holds a file system of Linux.
const LINUX: u8 = 0x83;

/// The blocks in front of a file system, each with where it begins in the image, whose file has `len` bytes. `uuid` is
/// that of the page map.
pub(super) fn blocks(len: u64, file_system_len: u64, uuid: Uuid) -> Vec<(u64, Vec<u8>)> {
    let info = PageMapInfo {
        user: PageMapUser::FileSystem,
        uuid,
        parent_uuid: Uuid::nil(),
        minor: 4,
        data_off: DATA,
        page_count: (len - DATA) / PAGE,
        place: PageMapPlace::Dram,
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

/// A partition table of the old kind with one partition of `len` bytes at `start`.
fn partition_table(start: u64, len: u64) -> Vec<u8> {
    let mut sector = vec![0; SECTOR as usize];
    // Numbers of cylinders and heads are not used any more: 0xfffffe says so.
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
