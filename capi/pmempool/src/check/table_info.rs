//! The stage of the info blocks of a table.

use super::arena::{Arena, InfoBytes, first_valid, next_off, sound};
use super::dialog::{Dialog, Flags};
use super::outcome::{Outcome, Stop};
use super::pool::{Change, CheckedPool, PoolType};
use lode_layout::PmdkUuidField;
use lode_nvdimm::{BttGeometry, BttInfo, BttRules, StoredBtt};
use uuid::Uuid;

/// Checks the info block of each arena, and its copy. Returns the arenas; `None` if the pool has no table yet.
pub(crate) async fn check(
    pool: &CheckedPool,
    dialog: &Dialog,
    start: u64,
) -> Result<Option<Vec<Arena>>, Stop> {
    dialog.info("checking BTT Info headers");
    let known = first_valid(pool, start);
    if known.is_none() && pool.kind == PoolType::Table {
        return Err(dialog.stop(Outcome::NotConsistent, "can not find any valid BTT Info"));
    }
    let mut arenas: Vec<Arena> = Vec::new();
    let mut off = start;
    loop {
        let Some(bytes) = pool.read_page(off) else {
            return Err(dialog.stop(Outcome::Error, "arena 0: cannot read BTT Info header"));
        };
        if pool.kind == PoolType::Blocks && bytes.iter().all(|byte| *byte == 0) {
            dialog.info("BTT Layout not written");
            return Ok(None);
        }
        let arena = check_arena(pool, dialog, arenas.len(), off, bytes, known.as_ref()).await?;
        let next = arena.info.nextoff;
        arenas.push(arena);
        if next == 0 {
            return Ok(Some(arenas));
        }
        off = off.saturating_add(next);
    }
}

/// Checks the info block of an arena, and its copy.
async fn check_arena(
    pool: &CheckedPool,
    dialog: &Dialog,
    id: usize,
    off: u64,
    mut bytes: InfoBytes,
    known: Option<&StoredBtt>,
) -> Result<Arena, Stop> {
    let damage = format!("arena {id}: BTT Info header checksum incorrect");
    let mut info = sound(&bytes);
    let is_repaired = info.is_none();
    if info.is_some() {
        dialog.info(format!("arena {id}: BTT Info header checksum correct"));
    } else if !dialog.flags().has(Flags::REPAIR) {
        return Err(dialog.stop(Outcome::NotConsistent, damage));
    }
    let copy_off = next_off(pool, off).saturating_sub(StoredBtt::LEN as u64);
    let Some(copy) = pool.read_page(copy_off) else {
        return Err(dialog.stop(Outcome::Error, format!("arena {id}: cannot read BTT Info backup")));
    };
    let copy_info = sound(&copy);
    if info.is_none() && copy_info.is_some() {
        let question = format!("{damage}.|Restore BTT Info from backup?");
        let repair = |_| {
            dialog.info(format!("arena {id}: restoring BTT Info header from backup"));
            (bytes, info) = (copy, copy_info);
            Ok(())
        };
        dialog.ask_and_repair(&[question], repair).await?;
    }
    let info = match info {
        Some(info) => info,
        None => regenerate(pool, dialog, id, off, &mut bytes, known, &damage).await?,
    };
    let is_copy_repaired = copy_info.is_none();
    if is_copy_repaired {
        repair_copy(dialog, id, off.saturating_add(info.infooff) == copy_off).await?;
    }
    Ok(Arena { off, copy_off, bytes, info, is_repaired, is_copy_repaired })
}

/// Repairs the copy of an info block. It can be repaired if the block says that it is where it was read.
async fn repair_copy(dialog: &Dialog, id: usize, is_in_place: bool) -> Result<(), Stop> {
    let damage = format!("arena {id}: BTT Info backup checksum incorrect");
    if !dialog.flags().has(Flags::REPAIR) {
        return Err(dialog.stop(Outcome::NotConsistent, damage));
    }
    if !is_in_place {
        // The page that the block names may hold anything.
        let text =
            format!("{damage}: the BTT Info header has another place for it than the end of the arena");
        return Err(dialog.stop(Outcome::CannotRepair, text));
    }
    let question = format!("{damage}.|Do you want to restore it from BTT Info header?");
    let repair = |_| {
        dialog.info(format!("arena {id}: restoring BTT Info backup from header"));
        Ok(())
    };
    dialog.ask_and_repair(&[question], repair).await
}

/// Makes the info block of an arena anew, from that of another one. The checksum is a question of its own.
async fn regenerate(
    pool: &CheckedPool,
    dialog: &Dialog,
    id: usize,
    off: u64,
    bytes: &mut InfoBytes,
    known: Option<&StoredBtt>,
    damage: &str,
) -> Result<StoredBtt, Stop> {
    let Some(known) = known else {
        return Err(dialog.stop(Outcome::NotConsistent, "can not find any valid BTT Info"));
    };
    let repair = |_| {
        dialog.info(format!("arena {id}: regenerating BTT Info header"));
        *bytes = calculated(pool, off, known)
            .ok_or_else(|| dialog.stop(Outcome::CannotRepair, "can not restore BTT Info"))?;
        Ok(())
    };
    let question = format!("{damage}.|Do you want to regenerate BTT Info?");
    dialog.ask_and_repair(&[question], repair).await?;
    if !dialog.flags().has(Flags::ADVANCED) {
        return Err(dialog.need_advanced("", damage));
    }
    let question = format!("{damage}.|Do you want to regenerate BTT Info checksum?");
    dialog.ask_and_repair(&[question], |_| Ok(())).await?;
    StoredBtt::store_checksum(bytes);
    sound(bytes).ok_or_else(|| dialog.stop(Outcome::CannotRepair, "can not restore BTT Info"))
}

/// Returns the info block of the arena at `off`, in the table of another one.
fn calculated(pool: &CheckedPool, off: u64, known: &StoredBtt) -> Option<InfoBytes> {
    let rest = pool.size.checked_sub(off)?;
    let len = rest.min(BttGeometry::ARENA_MAX);
    let rules = BttRules { nfree: known.nfree, ..BttRules::pmdk(known.external[0]) };
    let geometry = BttGeometry::arena(len, &rules, rest - len < BttGeometry::ARENA_MIN).ok()?;
    let info = BttInfo {
        uuid: Uuid::from_bytes(known.uuid),
        parent_uuid: Uuid::from_bytes(known.parent_uuid),
        is_read_only: known.flags != 0,
        version: lode_nvdimm::BttVersion::V1_1,
        geometry,
    };
    Some(info.encode())
}

/// Adds the repairs of the info blocks and of their copies. The copies come after the blocks: one of the two is sound at any
/// time. A page that no question was about stays as it is.
pub(crate) fn repair(pool: &mut CheckedPool, arenas: &[Arena]) {
    let parent = pool.headers.first().and_then(|headers| headers.first());
    let parent = parent.filter(|_| pool.has_new_uuid).map(|header| header.uuid(PmdkUuidField::PoolSet));
    let mut groups = [Vec::new(), Vec::new()];
    for arena in arenas {
        let mut bytes = arena.bytes;
        if let Some(parent) = parent {
            StoredBtt::set_parent(&mut bytes, parent);
        }
        let places = [(arena.off, arena.is_repaired), (arena.copy_off, arena.is_copy_repaired)];
        for ((off, is_repaired), group) in places.into_iter().zip(&mut groups) {
            if is_repaired || parent.is_some() {
                group.push(Change { off, bytes: bytes.to_vec() });
            }
        }
    }
    groups.into_iter().for_each(|group| pool.add_changes(group));
}
