//! The making, the opening and the closing of a pool.
//!
//! | stops after | media | next open by Lodestone |
//! |---|---|---|
//! | PMDK's recovery, lanes anew | PMDK's pool | as any |
//! | the mark | no sound slot, and one of four places of slots is zero | makes lanes, words and slots anew |
//! | words and slots | a log without records | recovers the log |
//! | commits | a log with records | recovers the log, puts spilled bytes back |
//! | the slot of a log that moves | the log in the place of the lanes, its chunks free | the same |
//! | the slot of a closed log | all is at home | recovers the log: nothing to do |
//! | the lanes in the place of the log | the same | the same |
//! | the lanes in the place of the slots | no sound slot, and one of four places is zero | makes words and slots anew |
//! | one of the two words of the mark | the checksum fits with the mark turned | counts as marked |

use super::log_space::LogSpace;
use super::{Pool, lanes, marker, spill};
use crate::bugs;
use crate::error::{ObjError, Structure};
use crate::heap::Heap;
use crate::recover::{begin_run, recover_lanes};
use crate::view::ObjView;
use crate::words::{random, store_words};
use lode_layout::{BLOCK, Geometry, ObjWords, PmdkHeap, PmdkObj, PmdkObjState, PoolOffset, WORD};
use lode_pmem::sync::SpinMutex;
use lode_pmem::{FaultScope, Medium};
use lode_redo::cover::Cover;
use lode_redo::{Log, LogArea, slots};
use std::sync::Arc;

/// Number of transactions that may be open at a time: as many as PMDK's lanes, and some for records of the heap and of spills that one of
/// these needs.
const TRANSACTIONS: usize = 1024 + 64;
/// Lanes of a new pool.
const LANES: u64 = 1024;
/// Offset of the heap in a new pool.
const HEAP: u64 = 0x30_2000;

impl<M: Medium> Pool<M> {
    /// Stores the content of a new pool after its header: descriptor, lanes, state and heap. All else may be any bytes.
    ///
    /// # Errors
    /// [`ObjError::TooSmall`] if no chunk fits; [`ObjError::InDoubt`], [`ObjError::Memory`].
    ///
    /// # Durability
    /// Durable on return.
    pub fn format(medium: &M, layout: &[u8]) -> Result<(), ObjError> {
        let size = medium.memory().len();
        let heap_size = size.saturating_sub(HEAP);
        if PmdkHeap::zone_count(heap_size) == 0 {
            return Err(ObjError::TooSmall { size });
        }
        let descriptor =
            PmdkObj { layout: layout.to_vec(), lanes: Geometry::SLOT_0.get(), lane_count: LANES, heap: HEAP };
        let state = PmdkObjState {
            root: PoolOffset::NULL,
            run_id: 0,
            root_size: 0,
            conversion: 0,
            heap_size,
            allocated: 0,
        };
        let mut page = [0; BLOCK as usize];
        page[..PmdkObj::LEN].copy_from_slice(&descriptor.encode());
        page[PmdkObj::LEN..][..PmdkObjState::LEN].copy_from_slice(&state.encode());
        let stored = FaultScope::run(|| {
            medium.copy(PoolOffset::new(PmdkObj::OFF), &page);
            medium.copy(PoolOffset::new(HEAP), &PmdkHeap::encode());
            for zone in 0..PmdkHeap::zone_count(heap_size) {
                let at = PoolOffset::new(HEAP + PmdkHeap::LEN as u64 + zone * PmdkHeap::ZONE_MAX);
                medium.store8(at, 0);
                medium.flush(at, WORD);
            }
        });
        stored?;
        lanes::store_new(medium, &descriptor)
    }

    /// Opens the pool on `medium`, whose first part has its header at offset 0. Recovers what a crash left, of PMDK or of Lodestone.
    ///
    /// # Errors
    /// [`ObjError::Header`], [`ObjError::Lanes`], [`ObjError::Damaged`], [`ObjError::Cover`] if the log is damaged;
    /// [`ObjError::InDoubt`], [`ObjError::Memory`], [`ObjError::Random`]. After a refusal the pool is as it was, but for what
    /// recovery had completed.
    ///
    /// # Durability
    /// What was durable is there. Transactions that had not committed are rolled back, durably.
    ///
    /// # Cost
    /// Reads the log, and the headers of blocks. Some ten drains; the lanes are stored anew if PMDK had the pool last.
    pub fn open(medium: M) -> Result<Pool<M>, ObjError> {
        let medium = Arc::new(medium);
        let header = marker::header(&medium)?;
        let uuid = header.poolset_uuid.into_bytes();
        let view = ObjView::open(Arc::clone(&medium))?;
        let (lanes, words) = (lanes::log_area(view.descriptor())?, ObjWords::of(view.descriptor()));
        if !header.features.is_in_use() {
            recover_lanes(&medium)?;
            lanes::store_new(&medium, view.descriptor())?;
            marker::store(&medium, true)?;
            begin_log(&medium, &uuid, lanes, words)?;
        } else if is_log_unbegun(&medium, &uuid)? {
            begin_log(&medium, &uuid, lanes, words)?;
        }
        let areas = [stored_area(&view, words, &uuid)?, lanes];
        let (cover, _) =
            Cover::recover_movable(Arc::clone(&medium), areas, words.start(), uuid, random()?, TRANSACTIONS)?;
        spill::put_all_back(&view, words, &uuid)?;
        view.grow_zones()?;
        let run_id = begin_run(&medium)?;
        let view = ObjView::open(&*medium)?;
        let log_space = LogSpace::at(&view, cover.log_area())?;
        let heap = Heap::boot(&view, log_space.map(|space| (space.zone as u32, space.chunk)))?;
        let spill_words = SpinMutex::new(vec![false; ObjWords::SPILLS as usize]);
        let root = SpinMutex::new(());
        Ok(Pool { cover, heap, medium, words, uuid, run_id, spill_words, root })
    }

    /// Closes the pool, so that PMDK opens it. Open transactions are aborted, reservations are given up.
    ///
    /// # Errors
    /// [`ObjError::Cover`], [`ObjError::InDoubt`]: the next open completes the close.
    ///
    /// # Durability
    /// On return the pool is closed durably.
    ///
    /// # Cost
    /// That of a checkpoint, and the lanes are stored anew.
    pub fn close(self) -> Result<(), ObjError> {
        let Pool { cover, heap, medium, words, uuid, .. } = self;
        let view = ObjView::open(Arc::clone(&medium))?;
        cover.close()?;
        // An open transaction that was forgotten has its spilled bytes there still.
        spill::put_all_back(&view, words, &uuid)?;
        let state = [
            (PmdkObjState::ROOT_OFF, view.word(words.root())?),
            (PmdkObjState::ROOT_SIZE_OFF, view.word(words.root_size())?),
            (PmdkObjState::ALLOCATED_OFF, heap.counts(&*medium)?.0),
        ];
        store_words(&medium, state)?;
        // ORDER: the state before the lanes take the place of the log. Stop here: the log is closed, and the words count.
        medium.drain()?;
        if bugs::MARK_OFF_FIRST.is_active() {
            marker::store(&medium, false)?;
        }
        lanes::store_new(&medium, view.descriptor())?;
        if let Some(((zone, chunk), count)) = heap.log_block() {
            LogSpace { zone: zone.into(), chunk, count }.join(&view)?;
        }
        marker::store(&medium, false)
    }
}

/// Finds a place for the log, and stores words and slots of one without records. The pool is marked, its lanes are as a new pool has
/// them, and `lanes` is their place.
fn begin_log<M: Medium>(
    medium: &Arc<M>,
    uuid: &[u8; 16],
    lanes: LogArea,
    words: ObjWords,
) -> Result<(), ObjError> {
    let view = ObjView::open(Arc::clone(medium))?;
    let area = LogSpace::take(&view)?.map_or(lanes, |space| space.area(&view));
    let mut page = [0; ObjWords::LEN as usize];
    let mut put = |at: PoolOffset, word: u64| {
        let index = (at.get() - words.start().get()) as usize;
        page[index..index + WORD as usize].copy_from_slice(&word.to_le_bytes());
    };
    for (index, word) in ObjWords::encode_log(area.start, area.len, uuid).into_iter().enumerate() {
        put(words.start().plus(index as u64 * WORD), word);
    }
    put(words.root(), view.state().root.get());
    put(words.root_size(), view.state().root_size);
    let stored = FaultScope::run(|| {
        medium.copy(words.start(), &page);
        medium.copy(Geometry::SLOT_0, &[0; 2 * BLOCK as usize]);
    });
    stored?;
    // ORDER: the words before the slot that makes them count. Stop here: no slot is sound, and they are stored again.
    medium.drain()?;
    Ok(Log::format(medium, area, uuid, random()?)?)
}

/// Returns the place of the log, as the words have it.
fn stored_area<M: Medium>(view: &ObjView<M>, words: ObjWords, uuid: &[u8; 16]) -> Result<LogArea, ObjError> {
    let mut log = [0; ObjWords::LOG_WORDS];
    for (index, word) in log.iter_mut().enumerate() {
        *word = view.word(words.start().plus(index as u64 * WORD))?;
    }
    let damaged = ObjError::damaged(Structure::Words, words.start());
    let (start, len) = ObjWords::decode_log(log, uuid, view.medium().memory().len()).map_err(damaged)?;
    Ok(LogArea { start, len })
}

/// Returns true if the log of a marked pool has not begun, or the pool was closed but for its mark: one of the four places of slots is
/// zero, and none has a slot.
fn is_log_unbegun<M: Medium>(medium: &M, uuid: &[u8; 16]) -> Result<bool, ObjError> {
    let copies = medium.memory().reading(|memory| slots::copies(memory, uuid))?;
    let is_zero = |copy: &slots::SlotCopy| copy.words.iter().all(|word| *word == 0);
    Ok(slots::newest(&copies).is_none() && copies.iter().any(is_zero))
}
