//! The stage of a block pool's descriptor.

use super::arena;
use super::dialog::{Dialog, Flags};
use super::outcome::{Outcome, Stop};
use super::pool::{Change, CheckedPool};
use lode_layout::{BLOCK, PmdkBlk};
use lode_nvdimm::BttGeometry;

/// Bytes of PMDK's own structure, which its largest size of a block depends on.
const STRUCTURE_LEN: u64 = 4200;
/// Bytes of the smallest block that PMDK makes.
const BLOCK_SIZE_MIN: u32 = 512;

/// Checks the descriptor of a block pool.
pub(crate) async fn check(pool: &mut CheckedPool, dialog: &Dialog) -> Result<(), Stop> {
    dialog.info("checking pmemblk header");
    let mut bytes = [0; 4];
    if !pool.read(PmdkBlk::OFF, &mut bytes) {
        return Err(dialog.stop(Outcome::Error, "cannot read pmemblk structure"));
    }
    let found = u32::from_le_bytes(bytes);
    let info = arena::first_valid(pool, arena::BLOCKS_OFF);
    let correct = match info {
        Some(info) => info.external[0],
        None if arena::is_zero(pool, arena::BLOCKS_OFF) => found,
        None if found < BLOCK_SIZE_MIN || u64::from(found) >= block_size_end(pool.size) => {
            return Err(dialog.stop(Outcome::CannotRepair, "invalid pmemblk.bsize"));
        }
        None => found,
    };
    if found == correct {
        dialog.info("pmemblk header correct");
        return Ok(());
    }
    let damage = "invalid pmemblk.bsize";
    if !dialog.flags().has(Flags::REPAIR) {
        return Err(dialog.stop(Outcome::NotConsistent, damage));
    }
    let question = format!("{damage}.|Do you want to set pmemblk.bsize to {correct} from BTT Info?");
    let repair = |_| {
        dialog.info(format!("setting pmemblk.b_size to {correct:#x}"));
        Ok(())
    };
    dialog.ask_and_repair(&[question], repair).await?;
    let bytes = correct.to_le_bytes().to_vec();
    pool.add_changes(vec![Change { off: PmdkBlk::OFF, bytes }]);
    Ok(())
}

/// Returns the least size of a block that is too large for a pool of this size: PMDK's.
fn block_size_end(size: u64) -> u64 {
    const FREE: u64 = 256;
    /// Bytes of the info blocks and of the flog.
    const AROUND: u64 = 2 * BLOCK + FREE * 64;
    const ALIGN: u64 = 256;
    let arena = size.saturating_sub(STRUCTURE_LEN).min(BttGeometry::ARENA_MAX).saturating_sub(AROUND);
    let internal = (arena.saturating_sub(BLOCK) / (2 * FREE)).saturating_sub(4);
    internal.max(u64::from(BLOCK_SIZE_MIN)).next_multiple_of(ALIGN) - ALIGN
}
