//! The search for the end of a log, and the steps from frame to frame.

use crate::area::{Area, Found};
use crate::bugs;
use lode_layout::{LINE, LogFrameHeader, LogState};
use lode_pmem::{Fault, Memory};

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Position after the last frame.
    pub(crate) end: u64,
    /// Position up to which all records were durable when the last frame was written.
    pub(crate) proven: u64,
}

/// A position that has no intact frame.
#[derive(Clone, Copy, Debug)]
struct Gap {
    position: u64,
    /// The fault that the position raised.
    fault: Option<Fault>,
}

/// Finds the end of the log whose newest state is `state`.
///
/// # Errors
/// Fails if the memory can't be read where the log may end.
///
/// # Cost
/// Reads the records after the end that the state notes, and as many bytes after them as an append may have.
pub(crate) fn find_end(area: &Area, memory: &Memory, state: &LogState) -> Result<Tail, Fault> {
    let limit = area.limit(state.head);
    let (mut position, mut proven) = (state.end, state.end);
    let mut gaps: Vec<Gap> = Vec::new();
    let mut body = Vec::new();
    while position < limit {
        let found = memory.reading(|memory| area.frame(memory, position, limit, &mut body));
        let (header, fault) = match found {
            Ok(Some(found)) if found.header.epoch == state.epoch => {
                if !found.is_sound && !bugs::CONTENT_NOT_COMPARED.is_active() {
                    gaps.push(Gap { position, fault: None });
                }
                (Some(found.header), None)
            }
            other => (None, other.err()),
        };
        if let Some(header) = header {
            proven = proven.max(if bugs::PROVES_ALL_BEFORE.is_active() { position } else { header.proven() });
            gaps.retain(|gap| gap.position >= proven);
            position = header.next();
            continue;
        }
        gaps.push(Gap { position, fault });
        let window = limit.min(position + area.append_max() + LINE);
        let later = next_of_epoch(area, memory, position + LINE, window, limit, state.epoch);
        let Some(later) = later else { break };
        position = later.position;
    }
    match gaps.first() {
        None => Ok(Tail { end: position, proven }),
        Some(Gap { fault: Some(fault), .. }) => Err(*fault),
        Some(Gap { position, .. }) => Ok(Tail { end: *position, proven }),
    }
}

/// Returns the first header of the epoch from `from` up to `to`.
fn next_of_epoch(
    area: &Area,
    memory: &Memory,
    mut from: u64,
    to: u64,
    limit: u64,
    epoch: u32,
) -> Option<LogFrameHeader> {
    loop {
        let header = area.search(memory, from, to, limit)?;
        if header.epoch == epoch {
            return Some(header);
        }
        from = header.position + LINE;
    }
}

/// A step of a walk: the frame at a position before the end, or damage.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// An intact frame.
    Intact(LogFrameHeader),
    /// Damage up to `next`, where the next intact header or the end is.
    Damaged {
        /// Position after the damage.
        next: u64,
        /// The fault, if memory could not be read.
        fault: Option<Fault>,
    },
}

/// Reads the frame at `position`, and its body into `body`; the log ends at `end`.
pub(crate) fn step(area: &Area, memory: &Memory, position: u64, end: u64, body: &mut Vec<u8>) -> Step {
    let found = memory.reading(|memory| area.frame(memory, position, end, body));
    let fault = match found {
        Ok(Some(Found { header, is_sound: true })) => return Step::Intact(header),
        Ok(Some(Found { header, is_sound: false })) => {
            return Step::Damaged { next: header.next(), fault: None };
        }
        Ok(None) => None,
        Err(fault) => Some(fault),
    };
    let next = area.search(memory, position + LINE, end, end);
    Step::Damaged { next: next.map_or(end, |header| header.position), fault }
}
