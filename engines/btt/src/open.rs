//! Opening a table: its info blocks, its flogs, and the writes that a crash left unfinished.

use crate::arena::Arena;
use crate::bugs;
use crate::error::{BttError, InDoubtCause};
use crate::found::{FoundArena, InfoCopies, InfoCopy};
use crate::plan::{Plan, backup_off};
use crate::pool::{Pool, PoolUuids};
use crate::table::Table;
use crate::write::in_doubt;
use lode_layout::{BLOCK, LINE, PmdkBlk, PoolOffset, WORD, Want};
use lode_nvdimm::{
    BttBlockState, BttDamage, BttDialect, BttFlog, BttFlogEntry, BttGeometry, BttInfo, BttMapEntry,
    BttVersion, InfoBlockError,
};
use lode_pmem::{Durability, Fault, Medium, store_again};
use uuid::Uuid;

/// Highest number of lanes that this engine keeps in memory. The kernel and PMDK make 256.
const LANES_MAX: u64 = 1 << 16;

/// The table of a medium.
#[derive(Debug)]
pub(crate) enum FoundTable {
    /// A table that is there.
    Arenas(BttDialect, Vec<FoundArena>),
    /// A pool of PMDK whose table is made by the first write.
    Planned(Plan),
}

impl FoundTable {
    /// Returns the arenas that are there.
    pub(crate) fn arenas(&self) -> &[FoundArena] {
        match self {
            FoundTable::Arenas(_, arenas) => arenas,
            FoundTable::Planned(_) => &[],
        }
    }
}

/// The info blocks that count.
#[derive(Clone, Copy, Debug)]
struct Family {
    version: BttVersion,
    /// The UUID of the pool of PMDK. Info blocks of another one are left over from a pool that was there before.
    pool: Option<Uuid>,
}

/// Finds the table on `medium`.
///
/// A pool of PMDK has its header at 0, and a table of version 2.0 an info block. A table of version 1.1 has nothing
/// there. So 0 is tried first: at 4096, a table of version 2.0 has a block of its user, who could have written there what
/// looks like an info block.
///
/// # Errors
/// Fails if there is no table, or if an arena can't be used.
pub(crate) fn find_table<M: Medium>(medium: &M) -> Result<FoundTable, BttError> {
    find_table_of(medium, None)
}

/// Finds the table on `medium`, of a pool of PMDK whose headers were checked if there are UUIDs.
///
/// # Errors
/// As [`find_table`].
pub(crate) fn find_table_of<M: Medium>(medium: &M, pool: Option<PoolUuids>) -> Result<FoundTable, BttError> {
    let pool = match pool {
        Some(uuids) => Some(Pool::read(medium, uuids)?),
        None => Pool::find(medium)?,
    };
    match pool {
        Some(pool) => find_in_pool(medium, &pool),
        None => Ok(FoundTable::Arenas(BttDialect::Kernel, find_in_namespace(medium)?)),
    }
}

fn find_in_pool<M: Medium>(medium: &M, pool: &Pool) -> Result<FoundTable, BttError> {
    let (start, at) = (PmdkBlk::TABLE_OFF, PoolOffset::new(PmdkBlk::TABLE_OFF));
    let family = Family { version: BttVersion::V1_1, pool: Some(pool.uuids.poolset) };
    let unusable = |error| BttError::Info { arena: 0, at, error };
    let copies = read_copies(medium, start, family);
    if copies.copies == [Err(InfoBlockError::Absent); 2] {
        return Ok(FoundTable::Planned(Plan::in_pool(pool, medium.memory().len()).map_err(unusable)?));
    }
    let arenas = follow_arenas(medium, start, family, copies)?;
    for arena in &arenas {
        Want::Exactly(pool.descriptor.block_size.into())
            .check("external_lbasize", 0, arena.info.geometry.external_lbasize().into())
            .map_err(|field| BttError::Info { arena: arena.index, at: arena.start, error: field.into() })?;
    }
    Ok(FoundTable::Arenas(BttDialect::Pmdk, arenas))
}

fn find_in_namespace<M: Medium>(medium: &M) -> Result<Vec<FoundArena>, BttError> {
    for version in [BttVersion::V2_0, BttVersion::V1_1] {
        let (start, family) = (version.arenas_off(), Family { version, pool: None });
        let copies = read_copies(medium, start, family);
        let is_damaged = match version {
            // Without its signature at 0, a damaged second copy is that of a table of version 1.1, at the same place.
            BttVersion::V2_0 => copies.copies[0] != Err(InfoBlockError::Absent),
            BttVersion::V1_1 => copies.copies.iter().any(|copy| *copy != Err(InfoBlockError::Absent)),
        };
        if is_damaged || copies.copies[1].is_ok() {
            return follow_arenas(medium, start, family, copies);
        }
    }
    Err(BttError::Absent)
}

fn follow_arenas<M: Medium>(
    medium: &M,
    mut start: u64,
    family: Family,
    mut copies: InfoCopies,
) -> Result<Vec<FoundArena>, BttError> {
    let mut found: Vec<FoundArena> = Vec::new();
    loop {
        let (index, at) = (found.len() as u32, PoolOffset::new(start));
        let info = copies.choose(index)?;
        check_arena(&info, index, at, medium.memory().len())?;
        let arena = FoundArena { index, start: at, info, copies };
        if let Some(first) = found.first() {
            check_same_table(&first.info, &arena)?;
        }
        found.push(arena);
        // An arena ends after its start and inside of the medium, so this ends.
        match info.geometry.nextoff() {
            Some(len) => start += len,
            None => return Ok(found),
        }
        copies = read_copies(medium, start, family);
    }
}

/// Reads both copies of the info block of the arena at `start`.
fn read_copies<M: Medium>(medium: &M, start: u64, family: Family) -> InfoCopies {
    let len = medium.memory().len();
    let first = read_info(medium, start, family);
    let second_at =
        first.map_or(backup_off(start, len), |info| start.saturating_add(info.geometry.infooff()));
    // Where a smaller arena could end, another arena may have its copy.
    let is_own = |info: &BttInfo| start.saturating_add(info.geometry.infooff()) == second_at;
    let second = read_info(medium, second_at, family)
        .and_then(|info| if is_own(&info) { Ok(info) } else { Err(InfoBlockError::Absent) });
    InfoCopies { at: [start, second_at].map(PoolOffset::new), copies: [first, second] }
}

/// Reads a copy of an info block of this family. A copy that can't be read is one of zeros.
fn read_info<M: Medium>(medium: &M, at: u64, family: Family) -> InfoCopy {
    let mut bytes = [0; BLOCK as usize];
    let read = medium.memory().reading(|memory| memory.read(PoolOffset::new(at), &mut bytes));
    read.map_err(|_: Fault| InfoBlockError::Absent)?;
    // The places of both versions' second copies can be the same.
    let is_own = |info: &BttInfo| {
        info.version == family.version && family.pool.is_none_or(|pool| info.parent_uuid == pool)
    };
    BttInfo::decode(&bytes)
        .and_then(|info| if is_own(&info) { Ok(info) } else { Err(InfoBlockError::Absent) })
}

/// Checks what this engine needs of an arena beyond the rules of the format.
fn check_arena(info: &BttInfo, arena: u32, at: PoolOffset, len: u64) -> Result<(), BttError> {
    let geometry = &info.geometry;
    let rules = || {
        Want::AtMost(LANES_MAX).check("nfree", 0, geometry.nfree().into())?;
        // Blocks are copied past the cache, whole lines at a time.
        Want::MultipleOf(LINE).check("internal_lbasize", 0, geometry.internal_lbasize().into())?;
        Want::MultipleOf(BLOCK).check("nextoff", 0, geometry.nextoff().unwrap_or(0))
    };
    rules().map_err(|field| BttError::Info { arena, at, error: field.into() })?;
    let end = at.get() + geometry.infooff() + BLOCK;
    if end > len {
        return Err(BttError::CutShort { arena, at, end, len });
    }
    Ok(())
}

fn check_same_table(first: &BttInfo, other: &FoundArena) -> Result<(), BttError> {
    let (index, info) = (other.index, &other.info);
    let [ours, theirs] = [first, info].map(|info| info.geometry.external_lbasize());
    let field = match () {
        () if first.uuid != info.uuid => "uuid",
        () if first.parent_uuid != info.parent_uuid => "parent_uuid",
        () if ours != theirs => "external_lbasize",
        () => return Ok(()),
    };
    Err(BttError::Foreign { arena: index, at: other.start, field })
}

/// Reads the flog of an arena.
///
/// # Errors
/// Fails if it can't be read, or is no flog.
pub(crate) fn read_flog<M: Medium>(medium: &M, arena: &FoundArena) -> Result<BttFlog, BttError> {
    let geometry = &arena.info.geometry;
    let mut bytes = vec![0; BttFlog::len_of(geometry) as usize];
    let at = arena.start.plus(geometry.flogoff());
    medium.memory().reading(|memory| memory.read(at, &mut bytes))?;
    let damaged = |damage| BttError::Damaged { arena: arena.index, at: arena.start, damage };
    let flog = BttFlog::decode(&bytes, geometry).map_err(damaged)?;
    check_free_blocks(&flog, geometry).map_err(damaged)?;
    Ok(flog)
}

/// Checks that no two lanes have the same free block: two writes would store to it at once.
fn check_free_blocks(flog: &BttFlog, _geometry: &BttGeometry) -> Result<(), BttDamage> {
    let mut free: Vec<u32> = flog.current().map(|entry| entry.free_block()).collect();
    free.sort_unstable();
    match free.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(BttDamage::Shared { block: pair[0] }),
        None => Ok(()),
    }
}

/// Opens the table on `medium`, and finishes the writes that did not reach the map.
///
/// # Errors
/// Fails if there is no table, or if it is damaged.
///
/// # Durability
/// What it finished is durable on return.
///
/// # Cost
/// The info blocks, the flogs and a map entry for each lane are read. A drain if there ever was a write, and another one if one
/// was not finished.
pub(crate) fn open<M: Medium>(medium: &M, pool: Option<PoolUuids>) -> Result<Table, BttError> {
    match find_table_of(medium, pool)? {
        FoundTable::Arenas(dialect, arenas) => open_arenas(medium, dialect, &arenas),
        FoundTable::Planned(_) => Err(BttError::Absent),
    }
}

/// Opens a table that was found, as [`open`] does.
pub(crate) fn open_arenas<M: Medium>(
    medium: &M,
    dialect: BttDialect,
    found: &[FoundArena],
) -> Result<Table, BttError> {
    let mut arenas = Vec::new();
    let mut first_lba = 0;
    for found in found {
        let flog = read_flog(medium, found)?;
        arenas.push((Arena::new(found, dialect, first_lba, &flog), flog));
        first_lba += u64::from(found.info.geometry.external_nlba());
    }
    let mut is_any_flushed = false;
    for (arena, flog) in &arenas {
        is_any_flushed |= flush_last_writes(medium, arena, flog)?;
    }
    if is_any_flushed && !bugs::FINISHED_BEFORE_DRAIN.is_active() {
        // ORDER: flog entries, and the map entries that are there, are durable before a map entry follows from them: a program
        // that was killed may not have drained them. Stop here: the next open does the same.
        medium.drain()?;
    }
    let mut is_any_finished = false;
    for (arena, flog) in &arenas {
        is_any_finished |= finish_writes(medium, arena, flog)?;
    }
    if is_any_finished && !bugs::RECOVERY_NOT_DRAINED.is_active() {
        // ORDER: the map is durable before a lane's flog entry is replaced. Stop here: the next open does the same.
        medium.drain()?;
    }
    let arenas = arenas.into_iter().map(|(arena, _)| arena).collect();
    Ok(Table::new(arenas, medium.durability()))
}

/// Returns the last write of each lane, with the number of the lane.
fn last_writes(flog: &BttFlog) -> impl Iterator<Item = (usize, BttFlogEntry)> {
    let lanes = flog.current().enumerate();
    lanes.filter(|(_, write)| write.free_block() != write.written_block())
}

/// Makes flog entry and map entry of the last write of each lane durable with the next drain: a program that ended, however it
/// did, may have left them to the caches, and the next write of the lane builds on them. Returns true if there was any.
fn flush_last_writes<M: Medium>(medium: &M, arena: &Arena, flog: &BttFlog) -> Result<bool, BttError> {
    let mut is_any = false;
    if arena.is_read_only {
        return Ok(is_any);
    }
    for (lane, write) in last_writes(flog) {
        let ranges = [(arena.word_at(write.lba), WORD), (arena.flog_at(lane), BttFlog::LANE_LEN)];
        for (at, len) in ranges {
            if medium.durability() == Durability::Commit {
                store_again(medium, at, len)
                    .map_err(|fault| BttError::InDoubt(InDoubtCause::Memory(fault)))?;
            }
            in_doubt(|| medium.flush(at, len))?;
        }
        is_any = true;
    }
    Ok(is_any)
}

/// Sets the map entry of each write whose flog entry is current and whose map entry is not there. Returns true if there was any.
///
/// Each lane can be looked at by itself: a flog entry counts only once the map entries are durable that it builds on.
fn finish_writes<M: Medium>(medium: &M, arena: &Arena, flog: &BttFlog) -> Result<bool, BttError> {
    let mut is_any = false;
    if arena.is_read_only || bugs::FLOG_IGNORED.is_active() {
        return Ok(is_any);
    }
    for (_, write) in last_writes(flog) {
        let found = arena.entry(medium, write.lba)?;
        if found.number == write.free_block() {
            let new = BttMapEntry { state: BttBlockState::Normal, number: write.written_block() };
            in_doubt(|| arena.store_entry(medium, write.lba, new))?;
            is_any = true;
        }
    }
    Ok(is_any)
}
