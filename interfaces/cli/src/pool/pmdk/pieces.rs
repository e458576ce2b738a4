//! The pieces of a pool of PMDK that lie in a range of it.

use super::{PmdkPool, find, start_of, uuid_text};
use crate::failure::Failure;
use lode_btt::{Btt, BttError, PoolUuids, TablePiece, TablePieces};
use lode_layout::{BLOCK, PmdkBlk, PmdkKind, PmdkLog, PoolOffset};
use lode_obj::{ObjView, Piece, PieceKind, pool_number, recover};
use lode_pmdk::{OpenOptions, PmdkAccess, PmdkError, PoolMedium};
use lode_pmem::Medium;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bytes of the smallest block.
const SECTOR: u64 = BLOCK / 8;
/// Limit of bytes of a range whose blocks are told.
const BLOCKS_RANGE_MAX: u64 = 1 << 30;
/// Limit of pieces of a table that are told.
const RUNS_MAX: usize = 10_000;

/// The pieces of a pool of PMDK in a range of it.
pub(crate) struct PmdkPart {
    pub(crate) library: &'static str,
    pub(crate) uuid: Option<String>,
    /// The layout of a pool of objects.
    pub(crate) layout: Option<String>,
    pub(crate) pieces: Vec<PmdkPiece>,
    /// The reasons why pieces can't be told.
    pub(crate) notes: Vec<String>,
}

/// A piece: its first byte in the pool, its length, its kind, and a description.
pub(crate) struct PmdkPiece {
    pub(crate) at: u64,
    pub(crate) len: u64,
    pub(crate) kind: &'static str,
    pub(crate) text: String,
    pub(crate) object: Option<PmdkObject>,
}

/// An object of libpmemobj.
pub(crate) struct PmdkObject {
    /// Its identifier: the number of the pool, and the offset of its data.
    pub(crate) oid: [u64; 2],
    pub(crate) type_number: u64,
    /// Bytes of data that it has room for.
    pub(crate) size: u64,
    pub(crate) is_root: bool,
}

/// Returns what of the pool at `path` lies in `range` of it; `None` if it is no pool of PMDK. Of a set file, it is a range of the pool.
pub(crate) fn pieces_in(path: &Path, range: &Range<u64>) -> Option<PmdkPart> {
    let pool = find("locating", path).ok().flatten()?;
    let header = pool.inspection.header();
    let mut part = PmdkPart {
        library: pool.library(),
        uuid: header.map(|header| uuid_text(header.poolset_uuid)),
        layout: None,
        pieces: Vec::new(),
        notes: Vec::new(),
    };
    let is_of_set = |header: &lode_layout::PmdkPartHeader| {
        [header.next_part, header.next_replica].iter().any(|next| *next != header.uuid)
    };
    if !pool.inspection.is_set() && header.is_some_and(is_of_set) {
        part.notes
            .push("it is a part of a pool set: give SETFILE:OFFSET for the objects of the pool".to_owned());
        return Some(part);
    }
    if let Ok(super::Content::Objects { layout }) = pool.content() {
        part.layout = Some(layout);
    }
    let faults = pool.faults();
    if !faults.is_empty() {
        part.notes.extend(faults.iter().map(|fault| format!("damaged: {fault}")));
        return Some(part);
    }
    match open(&pool) {
        Ok(opened) => match pool.kind {
            PmdkKind::Objects => add_objects(&opened, range, &mut part),
            PmdkKind::Log => add_log(&pool, range, &mut part),
            PmdkKind::Blocks => add_blocks(&opened, range, &mut part),
        },
        Err(error @ (PmdkError::Io { .. } | PmdkError::InUse { .. })) => {
            part.notes.push(format!("its content can't be read: {error}"));
        }
        Err(error) => part.notes.push(format!("damaged: {error}")),
    }
    Some(part)
}

/// Opens the pool in a private view. Lost ranges do not matter: they are what is located.
fn open(pool: &PmdkPool) -> Result<lode_pmdk::PmdkPool, PmdkError> {
    let options = OpenOptions {
        ignores_shutdown_state: true,
        ignores_bad_blocks: true,
        ..OpenOptions::new(pool.kind, PmdkAccess::ReadOnly)
    };
    lode_pmdk::PmdkPool::open(pool.inspection.path(), &options)
}

/// Returns the recovered content. Content that can't be recovered is as it lies, and the reason is a note.
fn recovered(opened: &lode_pmdk::PmdkPool, notes: &mut Vec<String>) -> Arc<PoolMedium> {
    let medium = Arc::clone(opened.medium());
    if let Err(error) = recover(&medium) {
        notes.push(format!("damaged, and not recovered: {error}"));
    }
    medium
}

fn add_objects(opened: &lode_pmdk::PmdkPool, range: &Range<u64>, part: &mut PmdkPart) {
    let medium = recovered(opened, &mut part.notes);
    let view = match ObjView::open(&medium) {
        Ok(view) => view,
        Err(error) => return part.notes.push(format!("damaged: {error}")),
    };
    let (number, root) = (pool_number(opened.header().poolset_uuid.as_bytes()), view.state().root);
    for piece in view.pieces_in(range) {
        match piece {
            Ok(piece) => part.pieces.push(described(&piece, number, root)),
            Err(error) => part.notes.push(format!("damaged: {error}")),
        }
    }
}

fn described(piece: &Piece, number: u64, root: PoolOffset) -> PmdkPiece {
    let (kind, text, object) = match &piece.kind {
        PieceKind::Header => ("header", "the header".to_owned(), None),
        PieceKind::Descriptor => ("descriptor", "the descriptor".to_owned(), None),
        PieceKind::State => ("state", "the state of the pool: root, run and sizes".to_owned(), None),
        PieceKind::Lane(lane) => ("lane", format!("lane {lane}"), None),
        PieceKind::HeapHeader => ("heap header", "the header of the heap".to_owned(), None),
        PieceKind::ZoneHeader(zone) => ("zone header", format!("the header of zone {zone}"), None),
        PieceKind::ChunkHeaders { zone, chunks } => (
            "chunk headers",
            format!("headers of chunks {} to {} of zone {zone}", chunks.start, chunks.end - 1),
            None,
        ),
        PieceKind::RunHeader(block) => {
            let text =
                format!("header and bitmap of the run in chunk {} of zone {}", block.chunk, block.zone);
            ("run header", text, None)
        }
        PieceKind::FreeUnits(block, first, count) => {
            let (chunk, zone) = (block.chunk, block.zone);
            ("free", format!("free: block {first}+{count} of the run in chunk {chunk} of zone {zone}"), None)
        }
        PieceKind::FreeChunks(block) => {
            let (chunks, first, zone) = (block.header.size, block.chunk, block.zone);
            ("free", format!("free: {chunks} chunks from chunk {first} of zone {zone} on"), None)
        }
        PieceKind::Unused => ("unused", "unused".to_owned(), None),
        PieceKind::Object(object) => {
            let is_root = object.at == root;
            let internal = if object.is_internal && !is_root { ", PMDK's own" } else { "" };
            let found = PmdkObject {
                oid: [number, object.at.get()],
                type_number: object.type_number,
                size: object.usable_size,
                is_root,
            };
            let what = if is_root { "the root object" } else { "an object" };
            let text = format!(
                "{what} of type {}{internal}, OID {number:#x}:{:#x}, {} bytes",
                found.type_number, found.oid[1], found.size
            );
            ("object", text, Some(found))
        }
    };
    PmdkPiece { at: piece.at.get(), len: piece.len, kind, text, object }
}

/// Adds a piece without an object.
fn add(part: &mut PmdkPart, range: &Range<u64>, place: Range<u64>, kind: &'static str, text: String) {
    if place.start < range.end && range.start < place.end {
        let (at, len) = (place.start, place.end - place.start);
        part.pieces.push(PmdkPiece { at, len, kind, text, object: None });
    }
}

fn add_log(pool: &PmdkPool, range: &Range<u64>, part: &mut PmdkPart) {
    let (Some(page), Ok(size)) = (pool.inspection.descriptor(), pool.inspection.size()) else { return };
    let Ok(PmdkLog { end, write }) = PmdkLog::decode(start_of(page), size) else { return };
    let start = PmdkLog::START.get();
    let byte = |at: u64| at.saturating_sub(start);
    add(part, range, 0..PmdkLog::OFF.get(), "header", "the header".to_owned());
    add(part, range, PmdkLog::OFF.get()..start, "descriptor", "the descriptor".to_owned());
    let used = range.start.max(start)..range.end.min(write.get());
    if used.start < used.end {
        let (first, all) = (byte(used.start), byte(write.get()));
        let text = match used.end - used.start {
            1 => format!("byte {first} of the {all} of the log"),
            _ => format!("bytes {first} to {} of the {all} of the log", byte(used.end) - 1),
        };
        add(part, range, used, "log", text);
    }
    add(part, range, write.get()..end.get(), "free", "free: after the end of the log".to_owned());
    add(part, range, end.get()..size.max(end.get()), "unused", "unused".to_owned());
}

/// Adds the blocks that have the range.
fn add_blocks(opened: &lode_pmdk::PmdkPool, range: &Range<u64>, part: &mut PmdkPart) {
    add(part, range, 0..PmdkBlk::OFF, "header", "the header".to_owned());
    add(part, range, PmdkBlk::OFF..PmdkBlk::TABLE_OFF, "descriptor", "the descriptor".to_owned());
    let header = opened.header();
    let uuids = PoolUuids { poolset: header.poolset_uuid, part: header.uuid };
    // The writes that a crash left are completed, in the private view. A table that can't be opened is told below.
    drop(Btt::open_pool(Arc::clone(opened.medium()), uuids));
    let start = range.start.max(PmdkBlk::TABLE_OFF);
    let end = range.end.min(start.saturating_add(BLOCKS_RANGE_MAX));
    if end < range.end {
        part.notes.push(format!("the blocks of the first {BLOCKS_RANGE_MAX} bytes are told"));
    }
    if start < end {
        let found = TablePieces::new(opened.medium(), uuids, start..end)
            .and_then(|mut pieces| add_runs(&mut pieces, start..end, part));
        if let Err(error) = found {
            part.notes.push(format!("damaged: {error}"));
        }
    }
}

/// Adds the runs of the range, up to their limit or to a byte whose piece is unknown.
fn add_runs<M: Medium>(
    pieces: &mut TablePieces<'_, M>,
    range: Range<u64>,
    part: &mut PmdkPart,
) -> Result<(), BttError> {
    let mut at = range.start;
    for _ in 0..RUNS_MAX {
        if at >= range.end {
            return Ok(());
        }
        let piece = pieces.piece_at(PoolOffset::new(at))?;
        let run = TableRun::from(pieces, at..range.end, piece);
        part.pieces.push(run.described());
        at += run.len;
    }
    if at < range.end {
        part.notes.push(format!("the first {RUNS_MAX} pieces are told, up to byte {at:#x} of the pool"));
    }
    Ok(())
}

/// Pieces of a table, one after the other: of the same use, and of consecutive blocks.
struct TableRun {
    at: u64,
    len: u64,
    first: TablePiece,
    last: TablePiece,
}

impl TableRun {
    /// Returns the run at the start of the range, which begins with `first`.
    fn from<M: Medium>(pieces: &mut TablePieces<'_, M>, range: Range<u64>, first: TablePiece) -> TableRun {
        let mut run = TableRun { at: range.start, len: 1, first, last: first };
        loop {
            let at = run.at + run.len;
            let sector_end = (at / SECTOR + 1).saturating_mul(SECTOR).min(range.end);
            run.extend(pieces, sector_end);
            if at >= range.end || run.at + run.len < sector_end {
                return run;
            }
        }
    }

    /// Extends the run up to `end`, or to the byte where another piece begins. There is at most one: blocks are not smaller than a
    /// sector, so no two begin inside of one.
    fn extend<M: Medium>(&mut self, pieces: &mut TablePieces<'_, M>, end: u64) {
        let mut known = self.at + self.len;
        let (mut limit, mut probe) = (end, end.saturating_sub(1));
        while known < limit {
            match pieces.piece_at(PoolOffset::new(probe)) {
                Ok(piece) if self.goes_on_with(piece) => (self.last, known) = (piece, probe + 1),
                _ => limit = probe,
            }
            probe = known.midpoint(limit);
        }
        self.len = known - self.at;
    }

    fn goes_on_with(&self, piece: TablePiece) -> bool {
        match (self.last, piece) {
            (TablePiece::Block { arena, block, .. }, TablePiece::Block { arena: other, block: next, .. }) => {
                arena == other && (next == block || next == block + 1)
            }
            // Entries lie in the order of their blocks.
            (TablePiece::Map { arena, .. }, TablePiece::Map { arena: other, .. }) => arena == other,
            (last, piece) => last == piece,
        }
    }

    fn described(&self) -> PmdkPiece {
        let (kind, text) = match (self.first, self.last) {
            (TablePiece::Info(arena), _) => ("info block", format!("an info block of arena {arena}")),
            (TablePiece::Map { arena, block }, TablePiece::Map { block: last, .. }) if last > block => {
                ("map", format!("the map entries of blocks {block} to {last}, in arena {arena}"))
            }
            (TablePiece::Map { arena, block }, _) => {
                ("map", format!("the map entry of block {block}, in arena {arena}"))
            }
            (TablePiece::Flog(arena), _) => ("flog", format!("the log of writes (flog) of arena {arena}")),
            (TablePiece::Block { arena, block, .. }, TablePiece::Block { block: last, .. })
                if last > block =>
            {
                ("block", format!("blocks {block} to {last}, in arena {arena}"))
            }
            (TablePiece::Block { arena, block, off }, _) => {
                ("block", format!("byte {off} of block {block}, in arena {arena}"))
            }
            (TablePiece::Free(arena), _) => ("free", format!("a free block of arena {arena}")),
            (TablePiece::Unused, _) => ("unused", "unused".to_owned()),
        };
        PmdkPiece { at: self.at, len: self.len, kind, text, object: None }
    }
}

/// Finds an object by its identifier, for the command `what`. Returns the range of the pool that it takes.
///
/// # Errors
/// The reason why the pool has no such object.
pub(crate) fn object_of(what: &str, path: &Path, oid: [u64; 2]) -> Result<Range<u64>, Failure> {
    let refused = |why: String| Failure::new(what, format!("{}: {why}", path.display()));
    let pool = find(what, path)?.filter(|pool| pool.kind == PmdkKind::Objects);
    let none = || refused("it is no pool of libpmemobj, so it has no object with an OID".to_owned());
    let pool = pool.ok_or_else(none)?;
    if let Some(fault) = pool.faults().first() {
        return Err(refused(format!("the pool of libpmemobj is damaged: {fault}")));
    }
    let opened = open(&pool).map_err(|error| Failure::new(what, error))?;
    let (number, shown) =
        (pool_number(opened.header().poolset_uuid.as_bytes()), format!("OID {:#x}:{:#x}", oid[0], oid[1]));
    if oid[0] != number {
        return Err(refused(format!("{shown} is of another pool: objects of this one have {number:#x}")));
    }
    let medium = recovered(&opened, &mut Vec::new());
    let found = ObjView::open(&medium).and_then(|view| view.object_at(PoolOffset::new(oid[1])));
    let object = found.map_err(|error| refused(format!("{shown}: {error}")))?;
    Ok(oid[1]..oid[1].saturating_add(object.usable_size.max(1)))
}

/// Returns the places of a byte of the pool in the parts of its replicas, if `path` is a set file of a pool of PMDK.
pub(crate) fn places_in_set(path: &Path, off: u64) -> Option<Vec<(std::path::PathBuf, u64)>> {
    let pool = find("locating", path).ok().flatten().filter(|pool| pool.inspection.is_set())?;
    let places = pool.inspection.places_of(off).into_iter();
    Some(places.map(|(path, at)| (path.to_owned(), at)).collect())
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_btt::format_content;
    use lode_nvdimm::{BttGeometry, BttInfo, BttMapEntry};
    use lode_pmdk::CreateOptions;
    use std::error::Error;
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;

    /// Makes a pool of libpmemblk with blocks of this size, and the map entries that `entry` says. Returns the geometry of its arena.
    fn make(path: &Path, block_size: u32, entry: impl Fn(u32) -> u32) -> BttGeometry {
        let options = CreateOptions::new(PmdkKind::Blocks);
        let make = |medium: &Arc<PoolMedium>, is_zeroed| Ok(format_content(medium, block_size, is_zeroed)?);
        let made =
            lode_pmdk::PmdkPool::create::<Box<dyn Error>>(path, Some(17 << 20), &options, make).unwrap();
        let uuids = PoolUuids { poolset: made.header().poolset_uuid, part: made.header().uuid };
        let btt = Btt::open_pool(Arc::clone(made.medium()), uuids).unwrap();
        btt.write(0, &vec![1; block_size as usize]).unwrap();
        btt.flush().unwrap();
        drop(btt);
        made.close().unwrap();
        let content = fs::read(path).unwrap();
        let geometry = BttInfo::decode(&content[PmdkBlk::TABLE_OFF as usize..]).unwrap().geometry;
        let file = File::options().write(true).open(path).unwrap();
        for lba in 1..geometry.external_nlba() {
            let at = PmdkBlk::TABLE_OFF + geometry.mapoff() + u64::from(lba) * BttMapEntry::LEN;
            file.write_all_at(&(0xc000_0000 | entry(lba)).to_le_bytes(), at).unwrap();
        }
        geometry
    }

    /// Returns the pieces of a range, each with its length, and the notes.
    fn told(path: &Path, range: &Range<u64>) -> (Vec<(u64, String)>, Vec<String>) {
        let part = pieces_in(path, range).unwrap();
        let mut end = range.start;
        for piece in &part.pieces {
            assert_eq!(piece.at, end, "{}", piece.text);
            end += piece.len;
        }
        (part.pieces.into_iter().map(|piece| (piece.len, piece.text)).collect(), part.notes)
    }

    /// Blocks of 768 bytes on media: a block begins in the middle of a sector.
    #[test]
    fn blocks_that_begin_inside_of_a_sector_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blk");
        let geometry = make(&path, 520, |lba| match lba {
            10 => 12,
            12 => 10,
            lba => lba,
        });
        assert_eq!(geometry.internal_lbasize(), 768);
        let data = PmdkBlk::TABLE_OFF + geometry.dataoff();
        let byte = |off: u64, block: u64| format!("byte {off} of block {block}, in arena 0");
        let sector = data + 11 * 768 - 256;
        let found = told(&path, &(sector..sector + 512));
        assert_eq!(found, (vec![(256, byte(512, 12)), (256, byte(0, 11))], Vec::new()));
        let found = told(&path, &(data + 9 * 768 - 256..data + 14 * 768));
        let wanted = vec![
            (1024, "blocks 8 to 9, in arena 0".to_owned()),
            (768, byte(0, 12)),
            (768, byte(0, 11)),
            (768, byte(0, 10)),
            (768, byte(0, 13)),
        ];
        assert_eq!(found, (wanted, Vec::new()));
    }

    #[test]
    fn runs_have_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blk");
        // No block follows the one before it.
        let geometry = make(&path, 512, |lba| lba ^ 1);
        let (found, notes) = told(&path, &(PmdkBlk::TABLE_OFF..17 << 20));
        let end = PmdkBlk::TABLE_OFF + found.iter().map(|(len, _)| len).sum::<u64>();
        assert_eq!(found.len(), RUNS_MAX);
        assert!(end < PmdkBlk::TABLE_OFF + geometry.mapoff(), "{end:#x}");
        assert_eq!(notes, [format!("the first {RUNS_MAX} pieces are told, up to byte {end:#x} of the pool")]);
    }
}
