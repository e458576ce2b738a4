//! The logs of the lanes, and their entries.

use crate::error::{DamageReason, LogKind, ObjError, Structure};
use crate::view::ObjView;
use lode_layout::{LINE, PmdkUlog, PmdkUlogEntry, PoolOffset, align_up};
use lode_pmem::Medium;
use std::collections::HashSet;

/// A log of a lane: its part in the lane, and its extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) lane: u64,
    pub(crate) kind: LogKind,
    /// The parts, the one in the lane first.
    pub(crate) parts: Vec<LogPart>,
}

/// A part of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPart {
    /// Offset of its header.
    pub(crate) at: PoolOffset,
    pub(crate) header: PmdkUlog,
}

/// An entry of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEntry {
    pub(crate) entry: PmdkUlogEntry,
    /// Offset of the bytes of a buffer.
    pub(crate) data: PoolOffset,
}

impl LogKind {
    /// Every log of a lane, in the order in which they lie there.
    pub(crate) const ALL: [LogKind; 3] = [LogKind::Internal, LogKind::External, LogKind::Undo];

    /// Returns the offset of the log in its lane and the bytes for its entries.
    fn place(self) -> (u64, u64) {
        let header = PmdkUlog::LEN as u64;
        let external = header + PmdkUlog::INTERNAL_CAPACITY;
        match self {
            LogKind::Internal => (0, PmdkUlog::INTERNAL_CAPACITY),
            LogKind::External => (external, PmdkUlog::EXTERNAL_CAPACITY),
            LogKind::Undo => (external + header + PmdkUlog::EXTERNAL_CAPACITY, PmdkUlog::UNDO_CAPACITY),
        }
    }
}

impl LogPart {
    pub(crate) fn next_at(&self) -> PoolOffset {
        self.at.plus(PmdkUlog::NEXT_OFF)
    }
}

impl Log {
    pub(crate) fn structure(&self) -> Structure {
        Structure::Log { lane: self.lane, kind: self.kind }
    }

    pub(crate) fn first(&self) -> &LogPart {
        &self.parts[0]
    }
}

impl<M: Medium> ObjView<M> {
    /// Returns the offset of a log in its lane.
    pub(crate) fn log_at(&self, lane: u64, kind: LogKind) -> PoolOffset {
        PoolOffset::new(self.descriptor().lanes).plus(lane * PmdkUlog::LANE_LEN + kind.place().0)
    }

    /// Reads a log of a lane: all its parts.
    pub(crate) fn log(&self, lane: u64, kind: LogKind) -> Result<Log, ObjError> {
        let structure = Structure::Log { lane, kind };
        let (at, capacity_max) = (self.log_at(lane, kind), kind.place().1);
        let read = |at: PoolOffset, capacity_max| {
            let header = PmdkUlog::decode(self.bytes(at)?, capacity_max);
            Ok::<_, ObjError>(LogPart { at, header: header.map_err(ObjError::damaged(structure, at))? })
        };
        let mut last = read(at, capacity_max)?;
        let mut parts = vec![last];
        let mut seen = HashSet::new();
        while !last.header.next.is_null() {
            let next = last.header.next;
            let at = PoolOffset::new(align_up(next.get(), LINE));
            let damaged = |reason| ObjError::of(structure, last.at, reason);
            if next.get() > at.get() || !self.is_in_heap(at, PmdkUlog::LEN as u64 + LINE) {
                return Err(damaged(DamageReason::ExtensionOutside { next }));
            }
            if !seen.insert(at) {
                return Err(damaged(DamageReason::ExtensionTwice { next }));
            }
            last = read(at, self.heap_end() - at.get() - PmdkUlog::LEN as u64)?;
            parts.push(last);
        }
        Ok(Log { lane, kind, parts })
    }

    /// Returns the entries of one part, and true if they reach its end, so that those of the next part follow.
    fn entries_of(&self, part: &LogPart, gen_num: u64) -> Result<(Vec<LogEntry>, bool), ObjError> {
        let mut entries = Vec::new();
        let mut done = 0;
        let capacity = part.header.capacity;
        while done < capacity {
            let at = part.at.plus(PmdkUlog::LEN as u64 + done);
            let mut head = [0; PmdkUlogEntry::BUFFER_LEN as usize];
            let len = (capacity - done).min(PmdkUlogEntry::BUFFER_LEN) as usize;
            self.medium().memory().reading(|memory| memory.read(at, &mut head[..len]))?;
            let Some(entry) = PmdkUlogEntry::decode(head) else { return Ok((entries, false)) };
            let Some(len) = entry.len_in_log().filter(|len| *len <= capacity - done) else {
                return Ok((entries, false));
            };
            if let PmdkUlogEntry::Buffer { checksum, .. } = entry
                && PmdkUlogEntry::buffer_checksum(&self.range(at, len)?, gen_num) != checksum
            {
                return Ok((entries, false));
            }
            entries.push(LogEntry { entry, data: at.plus(PmdkUlogEntry::BUFFER_LEN) });
            done += len;
        }
        Ok((entries, true))
    }

    /// Returns the entries of a log that are in force, in their order. Each changes bytes that a log may change.
    pub(crate) fn entries(&self, log: &Log) -> Result<Vec<LogEntry>, ObjError> {
        let first = log.first();
        let gen_num = first.header.gen_num;
        let (mut entries, mut goes_on) = self.entries_of(first, gen_num)?;
        if entries.is_empty() || !self.is_in_force(log, &entries)? {
            return Ok(Vec::new());
        }
        for part in &log.parts[1..] {
            if !goes_on {
                break;
            }
            let (more, is_full) = self.entries_of(part, gen_num)?;
            entries.extend(more);
            goes_on = is_full;
        }
        for LogEntry { entry, .. } in &entries {
            let (target, len) = entry.range();
            if !self.is_target(target, len) {
                return Err(ObjError::of(log.structure(), first.at, DamageReason::Target { target, len }));
            }
        }
        Ok(entries)
    }

    /// Returns true if the log counts, which has these entries in its lane. The checksum of a redo log covers that part.
    fn is_in_force(&self, log: &Log, entries: &[LogEntry]) -> Result<bool, ObjError> {
        if log.kind == LogKind::Undo || crate::bugs::REDO_NOT_COMPARED.is_active() {
            return Ok(true);
        }
        let len: u64 = entries.iter().filter_map(|entry| entry.entry.len_in_log()).sum();
        let bytes = self.range(log.first().at, PmdkUlog::LEN as u64 + len)?;
        Ok(PmdkUlog::redo_checksum(&bytes) == log.first().header.checksum)
    }
}
