//! The arenas of a block translation table: their places, and their info blocks.

use super::pool::CheckedPool;
use lode_layout::{BLOCK, PmdkBlk};
use lode_nvdimm::{BttGeometry, StoredBtt};

/// Offset of the first arena in a block pool.
pub(crate) const BLOCKS_OFF: u64 = PmdkBlk::TABLE_OFF;
/// Offset of the first arena of a table alone.
pub(crate) const TABLE_OFF: u64 = BLOCK;

/// The bytes of an info block.
pub(crate) type InfoBytes = [u8; StoredBtt::LEN];

/// An arena whose info block is sound, perhaps after a repair.
#[derive(Clone, Debug)]
pub(crate) struct Arena {
    /// Its offset in the pool.
    pub(crate) off: u64,
    /// The offset of the copy of its info block in the pool: the place where the check read it.
    pub(crate) copy_off: u64,
    pub(crate) bytes: InfoBytes,
    pub(crate) info: StoredBtt,
    /// True if the info block was repaired.
    pub(crate) is_repaired: bool,
    /// True if the copy of the info block was repaired.
    pub(crate) is_copy_repaired: bool,
}

/// Returns the offset of the arena after the one at `off`, or the end of the pool.
pub(crate) fn next_off(pool: &CheckedPool, off: u64) -> u64 {
    let end = pool.size - pool.size % BLOCK;
    off.saturating_add(BttGeometry::ARENA_MAX).min(end)
}

/// Returns the info block in `bytes` if it is sound.
pub(crate) fn sound(bytes: &InfoBytes) -> Option<StoredBtt> {
    StoredBtt::read(bytes).filter(|info| info.is_intact)
}

/// Returns the places where info blocks of a table that begins at `start` may be.
fn places(pool: &CheckedPool, start: u64) -> impl Iterator<Item = u64> {
    let arenas =
        (0..).map(move |index: u64| start.saturating_add(index.saturating_mul(BttGeometry::ARENA_MAX)));
    arenas
        .take_while(|off| *off < pool.size)
        .flat_map(|off| [off, next_off(pool, off).saturating_sub(StoredBtt::LEN as u64)])
}

/// Returns the first sound info block of a table that begins at `start`, or the first sound copy.
pub(crate) fn first_valid(pool: &CheckedPool, start: u64) -> Option<StoredBtt> {
    places(pool, start).filter_map(|off| pool.read_page(off)).find_map(|bytes| sound(&bytes))
}

/// Returns true if all places of info blocks are zeros: the table was not written yet.
pub(crate) fn is_zero(pool: &CheckedPool, start: u64) -> bool {
    places(pool, start).filter_map(|off| pool.read_page(off)).all(|bytes| bytes.iter().all(|byte| *byte == 0))
}
