//! Repairing a whole pool.
//!
//! Repair copies what is stored twice, corrects what one flipped bit explains, derives what follows from other data,
//! and cuts off the rest. Each step is durable before the next begins:
//!
//! 1. header copies; slot copies; records of the log with one flipped bit;
//! 2. the log is replayed and closed: from here on every transaction is written back;
//! 3. descriptors, span headers, bitmap words, and the word that holds the root's offset;
//! 4. the layout salvages its objects: parts that are not sound are unlinked, sound ones to which nothing leads are
//!    inserted again, and objects that can't be reached are freed;
//! 5. the layout corrects what it notes about its content, and what the losses have made wrong;
//! 6. the header says that no writer has the pool open, and so accepts what modules lost while one had.
//!
//! # Durability
//! Each step can be stopped at any moment, and the next repair finds what is left to do. A step gives up no data that
//! a later one needs. A repair is a writer,
//! so the header holds a count of dirty shutdowns meanwhile: the earlier one if it has one, else the current one. A
//! pool that was refused for a dirty shutdown is still refused if its repair was killed. So is a pool that had one
//! during the repair.

use crate::check::{check_content, layout_of, maps_of};
use crate::damaged_pool::DamagedPool;
use crate::layout::Layout;
use crate::outcome::{Repair, RepairError};
use crate::typed;
use lode_heap::Heap;
use lode_heap::check::{Report, SpaceMap, check_slots, repair_log, repair_slots};
use lode_layout::Geometry;
use lode_pmem::Medium;
use lode_pool::{Headers, check_heap, repair_headers};
use std::sync::Arc;

/// Repairs the pool on `medium`, in place. `log_epoch` is a random number, as for [`Heap::open`]. If the pool's layout
/// is none of `layouts`, and it holds no typed data, its objects are left as they are. No other thread or process may have the pool open.
///
/// # Errors
/// [`RepairError::Pool`] when no header can be used, or the pool has features that a writer must know and this
/// program does not: then nothing was written. After any other error the pool can be repaired again.
///
/// # Durability
/// The repaired pool is durable and closed on return. A repair that was killed can be run again.
pub fn repair_pool<M: Medium>(
    medium: &Arc<M>,
    log_epoch: [u64; 2],
    layouts: &[&dyn Layout<M>],
) -> Result<Repair, RepairError> {
    let mut repair = Repair::default();
    repair.repaired += u64::from(repair_headers(&**medium)?.is_some());
    let mut headers = Headers::read(&**medium)?;
    headers.check_writable()?;
    check_heap(&headers.current().layout)?;
    repair.dirty_shutdown = headers.dirty_shutdown(&**medium);
    headers.set_dirty_shutdowns(&**medium, headers.current().dirty_shutdowns.or(medium.dirty_shutdowns()))?;
    let header = *headers.current();
    let (uuid, geometry) = (*header.uuid.as_bytes(), header.geometry);
    repair_slots_and_log(medium, &geometry, &uuid, log_epoch, &mut repair)?;
    let layout = layout_of(&header, layouts);
    let mut before = Report::default();
    SpaceMap::read(medium.memory(), &geometry, &mut before);
    repair.repaired += SpaceMap::repair_words(&**medium, &geometry)?;
    let damaged = DamagedPool {
        medium,
        geometry: &geometry,
        uuid,
        log_epoch: [log_epoch[0], log_epoch[1] ^ 1],
        space_was_sound: before.is_clean(),
    };
    match layout {
        Some(layout) => layout.salvage(&damaged, &mut repair)?,
        None => typed::salvage(&damaged, maps_of(layouts), &mut repair)?,
    }
    check_slots(&**medium, &uuid, &mut repair.after);
    let (heap, _) = Heap::open(Arc::clone(medium), &geometry, uuid, [log_epoch[0], log_epoch[1] ^ 2])?;
    if let Some(layout) = layout {
        layout.finish_repair(&heap, &mut repair)?;
    }
    check_content(&heap, &header, layouts, &geometry, &mut repair.after);
    heap.close()?;
    headers.set_dirty_shutdowns(&**medium, None)?;
    Ok(repair)
}

/// Takes steps 1 and 2, those of slots and log.
fn repair_slots_and_log<M: Medium>(
    medium: &Arc<M>,
    geometry: &Geometry,
    uuid: &[u8; 16],
    log_epoch: [u64; 2],
    repair: &mut Repair,
) -> Result<(), RepairError> {
    repair.repaired += u64::from(repair_slots(&**medium, uuid)?);
    match check_slots(&**medium, uuid, &mut Report::default()) {
        Some(slot) => {
            let (repaired, lost) = repair_log(&**medium, geometry, uuid, &slot)?;
            repair.repaired += repaired;
            repair.lost_transactions |= lost;
        }
        None => repair.lost_transactions = true,
    }
    let (heap, _) = Heap::salvage(Arc::clone(medium), geometry, *uuid, log_epoch)?;
    heap.close()?;
    Ok(())
}
