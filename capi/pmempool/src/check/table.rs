//! The stages of a block translation table.

use super::arena::{BLOCKS_OFF, TABLE_OFF};
use super::dialog::Dialog;
use super::outcome::Stop;
use super::pool::{CheckedPool, PoolType};
use super::{table_info, table_map};

/// Checks the info blocks of all arenas, and then map and flog of each.
pub(crate) async fn check(pool: &mut CheckedPool, dialog: &Dialog) -> Result<(), Stop> {
    let start = if pool.kind == PoolType::Blocks { BLOCKS_OFF } else { TABLE_OFF };
    let Some(arenas) = table_info::check(pool, dialog, start).await? else {
        // A pool without a table is not written, as with PMDK: a repair of its size of blocks is none.
        pool.drop_changes();
        return Ok(());
    };
    dialog.seen().await;
    table_map::check(pool, dialog, &arenas).await?;
    table_info::repair(pool, &arenas);
    Ok(())
}
