//! The check of a log: descriptor, state, redo log and all records, without a store.

use crate::area::Area;
use crate::error::Damage;
use crate::scan::{Step, find_end, step};
use crate::{descriptor, state};
use lode_layout::{Geometry, LogFrameHeader, LogState};
use lode_pmem::Medium;
use lode_redo::LogArea;

/// Damages after which a check ends.
const DAMAGES_MAX: usize = 1000;

/// Checks the log of the pool `uuid`. Returns the damages, at most about a thousand: none if it is sound. The traces of a
/// crash are no damage.
///
/// # Cost
/// Reads everything.
pub fn check<M: Medium>(medium: &M, geometry: &Geometry, uuid: &[u8; 16]) -> Vec<Damage> {
    let [(_, first), (second_at, second)] = descriptor::copies(medium, geometry);
    let mut damages: Vec<Damage> = [first, second].iter().filter_map(|copy| copy.err()).collect();
    if let (Ok(first), Ok(second)) = (first, second)
        && first != second
    {
        damages.push(Damage::DescriptorDiffers { at: second_at });
    }
    let Ok(descriptor) = first.or(second) else { return damages };
    damages.extend(lode_redo::check(medium, LogArea::of(geometry), uuid).err().map(Damage::from));
    let copies = match state::copies(medium, geometry, uuid, &descriptor) {
        Ok(copies) => copies,
        Err(damage) => {
            damages.push(damage);
            return damages;
        }
    };
    let [(_, first), (second_at, second)] = copies;
    damages.extend([first, second].iter().filter_map(|copy| copy.err()));
    if let (Ok(first), Ok(second)) = (first, second)
        && first != second
    {
        damages.push(Damage::StateDiffers { at: second_at });
    }
    if let Ok(state) = first.or(second) {
        check_records(medium, &Area::new(&descriptor, uuid), &state, &mut damages);
    }
    damages
}

/// Reads all records.
fn check_records<M: Medium>(medium: &M, area: &Area, state: &LogState, damages: &mut Vec<Damage>) {
    let end = match find_end(area, medium.memory(), state) {
        Ok(tail) => tail.end,
        Err(fault) => {
            damages.push(fault.into());
            state.end
        }
    };
    let (mut position, mut body) = (LogFrameHeader::frame_of(state.head), Vec::new());
    while position < end && damages.len() < DAMAGES_MAX {
        position = match step(area, medium.memory(), position, end, &mut body) {
            Step::Intact(header) => header.next(),
            Step::Damaged { next, fault: Some(fault) } => {
                damages.push(fault.into());
                next
            }
            Step::Damaged { next, fault: None } => {
                damages.push(area.damage(position, next));
                next
            }
        };
    }
}
