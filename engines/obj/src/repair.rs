//! The repair of a heap: what is certain, and nothing else.
//!
//! | finding | repair | certain because |
//! |---|---|---|
//! | a log in force, a zone that grew, footers | recovery | the next open does the same |
//! | a chunk that does not lead to its run | its header is written | no chunk of the run has the header of a block of its own |
//! | one bit past the end of a run is clear | it is set | nothing else of the heap is damaged, so the run is as long as its header says |
//! | an extension to which no log leads | its space is given back | it has the header of an extension that fills it |
//!
//! All else is left as it is: content that is lost, and headers of which either may be the wrong one. A pool is repaired only
//! if its logs can be recovered. Each repair is one word, so a crash leaves some of them made.

use crate::check::{Finding, bits_past_end, check};
use crate::error::{ObjError, Structure};
use crate::recover::recover;
use crate::view::ObjView;
use lode_layout::{
    LINE, PmdkChunk, PmdkChunkKind, PmdkUlog, PmdkWordChange, PoolOffset, WORD, align_down, align_up,
};
use lode_pmem::Medium;

/// The findings of a repair, by its outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// Findings that were repaired, or that a repair would repair.
    pub repaired: Vec<Finding>,
    /// Findings that were left as they are.
    pub left: Vec<Finding>,
    /// Bytes of lost space that were given back.
    pub given_back: u64,
}

/// Lists what [`repair`] would do to the pool on `medium`. Nothing is stored.
///
/// # Cost
/// As [`check`].
pub fn plan_repair<M: Medium>(medium: &M) -> Repair {
    let mut plan = Repair::default();
    let findings = check(medium);
    let view = ObjView::open(medium).ok();
    // Where the logs can't be read, any extension may have a log.
    let has_logs = !findings.iter().any(hides_logs);
    let has_damage =
        findings.iter().any(|found| found.is_damage() && !matches!(found, Finding::BitsPastEnd { .. }));
    for finding in &findings {
        let is_certain = match (*finding, &view) {
            (Finding::InForce { .. } | Finding::SmallZone { .. } | Finding::Footer { .. }, _) => has_logs,
            (Finding::RunData { zone, chunk, distance }, Some(view)) => {
                let first = chunk - distance;
                let of_run = |found: &&Finding| match **found {
                    Finding::RunData { zone: of, chunk, distance } => of == zone && chunk - distance == first,
                    _ => false,
                };
                findings.iter().filter(of_run).all(|found| is_headless(view, found))
            }
            (Finding::BitsPastEnd { .. }, Some(view)) => !has_damage && lacks_one_bit(view, finding),
            (Finding::Lost { at, .. }, Some(view)) => has_logs && is_extension(view, at),
            _ => false,
        };
        let finding = *finding;
        if let (true, Finding::Lost { size, .. }) = (is_certain, finding) {
            plan.given_back += size;
        }
        if is_certain { &mut plan.repaired } else { &mut plan.left }.push(finding);
    }
    plan
}

/// Repairs the pool on `medium`: recovers it, and makes the repairs that are certain.
///
/// # Errors
/// [`ObjError::Memory`], [`ObjError::InDoubt`]. Damage is no error: it is in what was left.
///
/// # Durability
/// The repairs are durable on return. A crash before that leaves some of them made; the same call makes the others.
///
/// # Cost
/// Checks, one or two recoveries, and a few drains.
pub fn repair<M: Medium>(medium: &M) -> Result<Repair, ObjError> {
    let before = plan_repair(medium);
    let mut recovered = recover(medium).map(drop);
    if let Err(ObjError::Damaged(_)) = recovered {
        // The recovery frees blocks by headers and bitmaps, so these may have hindered it.
        apply(medium, &before, |finding| !matches!(finding, Finding::Lost { .. }))?;
        recovered = recover(medium).map(drop);
    }
    let after = plan_repair(medium);
    let mut given_back = 0;
    match recovered {
        Ok(()) => {
            apply(medium, &after, |_| true)?;
            given_back = after.given_back;
        }
        Err(ObjError::Damaged(_)) => {}
        Err(error) => return Err(error),
    }
    let left = check(medium);
    let mut repaired: Vec<Finding> = before.repaired;
    // Before the recovery, extensions of logs in force may look lost, and objects half made.
    repaired.retain(|finding| !matches!(finding, Finding::Lost { .. }));
    repaired.extend(after.repaired);
    repaired.retain(|finding| !left.contains(finding));
    let mut distinct: Vec<Finding> = Vec::new();
    for finding in repaired {
        if !distinct.contains(&finding) {
            distinct.push(finding);
        }
    }
    Ok(Repair { repaired: distinct, left, given_back })
}

/// Returns true if the chunk of the finding does not begin a block, whatever run it belongs to.
fn is_headless<M: Medium>(view: &ObjView<M>, finding: &Finding) -> bool {
    let Finding::RunData { zone, chunk, .. } = *finding else { return false };
    match view.chunk(zone, chunk) {
        Ok(found) => matches!(found.kind, PmdkChunkKind::RunData | PmdkChunkKind::Footer),
        Err(ObjError::Damaged(_)) => true,
        Err(_) => false,
    }
}

/// Returns true if a word of a bitmap lacks one bit past the end: more bits show that the run has another length.
fn lacks_one_bit<M: Medium>(view: &ObjView<M>, finding: &Finding) -> bool {
    let Finding::BitsPastEnd { zone, chunk, word } = *finding else { return false };
    let lacking = view.block(zone, chunk, u32::MAX).and_then(|block| {
        let run = view.run(&block)?;
        Ok((bits_past_end(&run, word) & !view.word(view.bitmap_word_at(&block, word))?).count_ones())
    });
    lacking.is_ok_and(|lacking| lacking == 1)
}

/// Returns true if an internal object has the header of an extension that fills it. The root has not, if its word is damaged.
fn is_extension<M: Medium>(view: &ObjView<M>, at: PoolOffset) -> bool {
    let decoded = view.object_at(at).and_then(|object| {
        let start = align_up(at.get(), LINE);
        let room = (at.get() + object.usable_size).saturating_sub(start + PmdkUlog::LEN as u64);
        Ok((PmdkUlog::decode(view.bytes(PoolOffset::new(start))?, room), align_down(room, LINE)))
    });
    decoded.is_ok_and(|(log, room)| log.is_ok_and(|log| room > 0 && log.capacity == room))
}

fn hides_logs(finding: &Finding) -> bool {
    match finding {
        Finding::Damage(damage) => matches!(
            damage.structure,
            Structure::Log { .. }
                | Structure::Descriptor
                | Structure::State
                | Structure::Heap
                | Structure::Root
                | Structure::Object
        ),
        Finding::Memory(_) | Finding::SharedExtension { .. } => true,
        _ => false,
    }
}

fn apply<M: Medium>(medium: &M, plan: &Repair, is_wanted: impl Fn(&Finding) -> bool) -> Result<(), ObjError> {
    // Without a descriptor or a header of the heap, nothing else is known.
    let view = match ObjView::open(medium) {
        Ok(view) => view,
        Err(ObjError::Damaged(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    for finding in plan.repaired.iter().filter(|finding| is_wanted(finding)) {
        match *finding {
            Finding::RunData { zone, chunk, distance } => {
                let header = PmdkChunk { kind: PmdkChunkKind::RunData, flags: 0, size: distance };
                put(&view, view.chunk_header_at(zone, chunk), header.encode());
            }
            Finding::BitsPastEnd { zone, chunk, word } => {
                let block = view.block(zone, chunk, u32::MAX)?;
                let run = view.run(&block)?;
                let at = view.bitmap_word_at(&block, word);
                put(&view, at, view.word(at)? | bits_past_end(&run, word));
            }
            Finding::Lost { at, .. } => {
                let (at, change, value) = view.freeing(&view.object_at(at)?);
                let word = if change == PmdkWordChange::Set { value } else { view.word(at)? & value };
                put(&view, at, word);
            }
            _ => {}
        }
    }
    // ORDER: the repairs before the caller is told, and before the recovery frees by them. Stop here: any of them are made.
    Ok(view.medium().drain()?)
}

fn put<M: Medium>(view: &ObjView<M>, at: PoolOffset, word: u64) {
    view.medium().store8(at, word);
    view.medium().flush(at, WORD);
}
