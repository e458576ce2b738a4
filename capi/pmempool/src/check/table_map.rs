//! The stage of the maps and flogs of a table.

use super::arena::Arena;
use super::dialog::{Dialog, Flags};
use super::outcome::{Outcome, Stop};
use super::pool::{Change, CheckedPool};
use lode_nvdimm::{BttBlockState, BttFlog, BttFlogEntry, BttGeometry, BttMapEntry, block_number};

/// Bytes of a lane in the flog.
const LANE_LEN: usize = BttFlog::LANE_LEN as usize;
/// Bytes of the smallest block in a table of the kernel or of PMDK.
const BLOCK_MIN: u32 = 512;

/// A set of blocks of an arena.
struct Blocks(Vec<u64>);

impl Blocks {
    fn new(count: u32) -> Blocks {
        Blocks(vec![0; (count as usize).div_ceil(64)])
    }

    fn has(&self, block: u32) -> bool {
        self.0.get(block as usize / 64).is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    fn add(&mut self, block: u32) {
        if let Some(word) = self.0.get_mut(block as usize / 64) {
            *word |= 1 << (block % 64);
        }
    }

    fn remove(&mut self, block: u32) {
        if let Some(word) = self.0.get_mut(block as usize / 64) {
            *word &= !(1 << (block % 64));
        }
    }
}

/// Map and flog of an arena, and the damage in them.
struct Lists {
    /// The entries as they are stored: a copy would take as much memory again.
    map: Vec<[u8; 4]>,
    flog: Vec<[u8; LANE_LEN]>,
    /// Blocks that an entry of the map or of the flog has.
    used: Blocks,
    /// Blocks that two have.
    doubled: Blocks,
    /// Blocks that are free in the flog.
    free: Blocks,
    wrong_entries: Vec<u32>,
    wrong_lanes: Vec<u32>,
    unused: Vec<u32>,
}

/// Checks map and flog of each arena.
pub(crate) async fn check(pool: &mut CheckedPool, dialog: &Dialog, arenas: &[Arena]) -> Result<(), Stop> {
    dialog.info("checking BTT Map and Flog");
    for (id, arena) in arenas.iter().enumerate() {
        dialog.info(format!("arena {id}: checking BTT Map and Flog"));
        let mut lists = read(pool, dialog, id, arena)?;
        lists.find_damage(dialog, id, arena).await;
        let (unused, entries, lanes) =
            (lists.unused.len(), lists.wrong_entries.len(), lists.wrong_lanes.len());
        for (count, what) in [
            (unused, "unmapped blocks"),
            (entries, "invalid BTT Map entries"),
            (lanes, "invalid BTT Flog entries"),
        ] {
            if count > 0 {
                dialog.info(format!("arena {id}: number of {what}: {count}"));
            }
        }
        if !dialog.flags().has(Flags::REPAIR) && unused > 0 {
            // PMDK has no words for it.
            return Err(Stop(Outcome::NotConsistent));
        }
        if unused != entries + lanes {
            let text = format!("arena {id}: cannot repair BTT Map and Flog");
            return Err(dialog.stop(Outcome::CannotRepair, text));
        }
        if entries + lanes > 0 {
            if !dialog.flags().has(Flags::ADVANCED) {
                let text = "BTT Map and / or BTT Flog contain invalid entries";
                return Err(dialog.need_advanced("", text));
            }
            repair(pool, dialog, id, arena, lists).await?;
        }
        dialog.seen().await;
    }
    Ok(())
}

/// Reads map and flog of an arena.
fn read(pool: &CheckedPool, dialog: &Dialog, id: usize, arena: &Arena) -> Result<Lists, Stop> {
    let info = &arena.info;
    let [lanes, entries, blocks] = [info.nfree, info.external[1], info.internal[1]];
    let refused = |what| dialog.stop(Outcome::Error, format!("arena {id}: cannot read BTT {what}"));
    let size = pool.size.min(arena.off.saturating_add(BttGeometry::ARENA_MAX));
    let fits = |off: u64, count: u64, len: u64| {
        let end = count.checked_mul(len).and_then(|len| arena.off.checked_add(off)?.checked_add(len));
        end.is_some_and(|end| end <= size)
    };
    if !fits(info.flogoff, lanes.into(), BttFlog::LANE_LEN) {
        return Err(refused("Flog"));
    }
    // The blocks, too: a number of them that no arena has would take memory without bounds.
    if !fits(info.mapoff, entries.into(), BttMapEntry::LEN)
        || info.internal[0] < BLOCK_MIN
        || !fits(info.dataoff, blocks.into(), info.internal[0].into())
    {
        return Err(refused("Map"));
    }
    if entries > blocks {
        let text =
            format!("arena {id}: cannot repair BTT Map and Flog: the map has more entries than blocks");
        return Err(dialog.stop(Outcome::CannotRepair, text));
    }
    let flog = read_items(pool, dialog, arena.off + info.flogoff, lanes).ok_or_else(|| refused("Flog"))?;
    let map = read_items(pool, dialog, arena.off + info.mapoff, entries).ok_or_else(|| refused("Map"))?;
    let [used, doubled, free] = [(); 3].map(|()| Blocks::new(blocks));
    let (wrong_entries, wrong_lanes, unused) = (Vec::new(), Vec::new(), Vec::new());
    Ok(Lists { map, flog, used, doubled, free, wrong_entries, wrong_lanes, unused })
}

/// Reads so many items of `N` bytes. `None` if they can't be read, or without memory for them, which errno says then.
fn read_items<const N: usize>(
    pool: &CheckedPool,
    dialog: &Dialog,
    off: u64,
    count: u32,
) -> Option<Vec<[u8; N]>> {
    let mut items = Vec::new();
    if items.try_reserve_exact(count as usize).is_err() {
        dialog.note_errno(libc::ENOMEM);
        return None;
    }
    items.resize(count as usize, [0; N]);
    pool.read(off, items.as_flattened_mut()).then_some(items)
}

/// Returns the block of an entry of the map.
fn block_of(entry: [u8; 4], lba: u32) -> u32 {
    BttMapEntry::decode(entry).block(lba)
}

impl Lists {
    async fn find_damage(&mut self, dialog: &Dialog, id: usize, arena: &Arena) {
        let blocks = arena.info.internal[1];
        for (lba, entry) in (0..).zip(self.map.iter().copied()) {
            dialog.room().await;
            let block = block_of(entry, lba);
            if block >= blocks {
                dialog.info_of(|| format!("arena {id}: invalid BTT Map entry at {lba}"));
                self.wrong_entries.push(lba);
            } else if self.used.has(block) {
                dialog.info_of(|| format!("arena {id}: BTT Map entry {block} duplicated at {lba}"));
                self.doubled.add(block);
                self.wrong_entries.push(lba);
            } else {
                self.used.add(block);
            }
        }
        for (lane, bytes) in (0..).zip(std::mem::take(&mut self.flog)) {
            if let Some((damage, end)) = self.find_lane_damage(&bytes, arena) {
                dialog.info_of(|| format!("arena {id}: {damage} BTT Flog entry at {lane}{end}"));
                self.wrong_lanes.push(lane);
            }
            self.flog.push(bytes);
        }
        for block in 0..blocks {
            if self.used.has(block) {
                continue;
            }
            dialog.room().await;
            dialog.info_of(|| format!("arena {id}: unmapped block {block}"));
            self.unused.push(block);
        }
    }

    /// Checks a lane, and takes its blocks. Returns PMDK's word for its damage, and the end of that message.
    fn find_lane_damage(&mut self, bytes: &[u8; LANE_LEN], arena: &Arena) -> Option<LaneDamage> {
        let pair = BttFlogEntry::stored_pair(bytes);
        let Some(current) = current_of(&pair) else { return Some(INVALID) };
        let entry = pair[current];
        let (old, new) = (block_number(entry.old_map), block_number(entry.new_map));
        let blocks = arena.info.internal[1];
        if entry.lba >= arena.info.external[1] || old >= blocks || new >= blocks {
            return Some(INVALID);
        }
        if self.free.has(old) {
            return Some(DOUBLED_FREE);
        }
        if self.used.has(old) {
            // The map has the old block: the write was not finished, and the next open finishes it.
            if self.used.has(new) {
                self.doubled.add(new);
                return Some(DOUBLED);
            }
            self.used.add(new);
            self.free.add(old);
            return None;
        }
        // A lane that was never used has one entry, the first.
        let is_first = current == 0 && entry.seq == 1 && pair[1] == ABSENT;
        if old == new && !is_first {
            return Some(INVALID);
        }
        self.used.add(old);
        self.free.add(old);
        None
    }
}

/// A word of a message, and the message's end.
type LaneDamage = (&'static str, &'static str);
const INVALID: LaneDamage = ("invalid", "");
/// A block of a write that another entry has.
const DOUBLED: LaneDamage = ("duplicated", "");
/// A block that is free in two lanes. PMDK ends the line of this message.
const DOUBLED_FREE: LaneDamage = ("duplicated", "\n");
const ABSENT: BttFlogEntry = BttFlogEntry { lba: 0, old_map: 0, new_map: 0, seq: 0 };

/// Returns the number of the current entry of a lane: PMDK's rule, which takes any numbers.
fn current_of(pair: &[BttFlogEntry; 2]) -> Option<usize> {
    const NEXT: [u32; 4] = [0, 2, 3, 1];
    match [pair[0].seq, pair[1].seq] {
        [first, second] if first == second => None,
        [0, _] => Some(1),
        [_, 0] => Some(0),
        [first, second] if NEXT[first as usize & 3] == second => Some(1),
        _ => Some(0),
    }
}

/// Returns the word of an entry whose block has content that is in doubt: reads of it fail.
fn in_doubt(block: u32) -> u32 {
    u32::from_le_bytes(BttMapEntry { state: BttBlockState::Error, number: block }.encode())
}

/// Gives wrong entries and lanes the blocks that none has.
///
/// The first of two entries with the same block counts as sound until the second one is repaired. So it is marked first, durably:
/// a repair that stops in between finds both again.
async fn repair(
    pool: &mut CheckedPool,
    dialog: &Dialog,
    id: usize,
    arena: &Arena,
    mut lists: Lists,
) -> Result<(), Stop> {
    let mut questions = Vec::new();
    let is_map_wrong = !lists.wrong_entries.is_empty();
    if is_map_wrong {
        questions.push("Do you want to repair invalid BTT Map entries?".to_owned());
    }
    if !lists.wrong_lanes.is_empty() {
        questions.push("Do you want to repair invalid BTT Flog entries?".to_owned());
    }
    let entry_off = |lba: u32| arena.off + arena.info.mapoff + u64::from(lba) * BttMapEntry::LEN;
    let (mut marks, mut entries, mut lanes) = (Vec::new(), Vec::new(), Vec::new());
    for (index, answer) in dialog.ask(&questions).await.into_iter().enumerate() {
        dialog.agreed(answer)?;
        if index == 0 && is_map_wrong {
            marks = lists.mark_doubled(dialog, id, arena, entry_off);
            entries = lists.repair_entries(dialog, id, entry_off);
        } else {
            lanes = lists.repair_lanes(dialog, id, arena);
        }
        dialog.set_outcome(Outcome::Repaired);
    }
    [marks, entries, lanes].into_iter().for_each(|group| pool.add_changes(group));
    Ok(())
}

impl Lists {
    /// Marks the first entry of each block that two have.
    fn mark_doubled(
        &mut self,
        dialog: &Dialog,
        id: usize,
        arena: &Arena,
        off: impl Fn(u32) -> u64,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        for (lba, entry) in (0..).zip(self.map.iter_mut()) {
            let block = block_of(*entry, lba);
            if block < arena.info.internal[1] && self.doubled.has(block) {
                let marked = in_doubt(block);
                *entry = marked.to_le_bytes();
                self.doubled.remove(block);
                dialog.info_of(|| format!("arena {id}: storing {marked:#x} at {lba} BTT Map entry"));
                changes.push(Change { off: off(lba), bytes: entry.to_vec() });
            }
        }
        changes
    }

    fn repair_entries(&mut self, dialog: &Dialog, id: usize, off: impl Fn(u32) -> u64) -> Vec<Change> {
        let mut changes = Vec::new();
        while let Some(lba) = self.wrong_entries.pop() {
            let Some(block) = self.unused.pop() else { break };
            let entry = in_doubt(block);
            dialog.info_of(|| format!("arena {id}: storing {entry:#x} at {lba} BTT Map entry"));
            changes.push(Change { off: off(lba), bytes: entry.to_le_bytes().to_vec() });
        }
        changes
    }

    fn repair_lanes(&mut self, dialog: &Dialog, id: usize, arena: &Arena) -> Vec<Change> {
        let mut changes = Vec::new();
        while let Some(lane) = self.wrong_lanes.pop() {
            let Some(block) = self.unused.pop() else { break };
            let word = in_doubt(block);
            let mut bytes = self.flog[lane as usize];
            BttFlogEntry { lba: lane, old_map: word, new_map: word, seq: 1 }.store_alone(&mut bytes);
            dialog.info_of(|| {
                format!("arena {id}: repairing BTT Flog at {lane} with free block entry {word:#x}")
            });
            let off = arena.off + arena.info.flogoff + u64::from(lane) * BttFlog::LANE_LEN;
            changes.push(Change { off, bytes: bytes.to_vec() });
        }
        changes
    }
}
