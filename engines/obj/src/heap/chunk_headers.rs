//! Headers of chunks, as the entries of a record.

use super::Heap;
use super::free_space::Extent;
use super::slots::BlockPlace;
use crate::begin::begin;
use crate::error::ObjError;
use lode_layout::{PmdkChunk, PmdkChunkKind, PmdkZone, PoolOffset, Record};
use lode_pmem::Medium;
use lode_redo::cover::{Changes, Cover};

impl Heap {
    fn push_chunk(&self, record: &mut Record, (zone, chunk): BlockPlace, header: PmdkChunk) {
        record.push_word(self.places.chunk_header_at(zone.into(), chunk), header.encode());
    }

    /// Adds the headers of a free block.
    pub(super) fn push_free(&self, record: &mut Record, ((zone, chunk), len): Extent) {
        let header = PmdkChunk { kind: PmdkChunkKind::Free, flags: 0, size: len };
        self.push_chunk(record, (zone, chunk), header);
        if len > 1 {
            self.push_chunk(
                record,
                (zone, chunk + len - 1),
                PmdkChunk { kind: PmdkChunkKind::Footer, ..header },
            );
        }
    }

    /// Adds the header that makes a free block an object. Its footer stays: it has the same size.
    pub(super) fn push_used(&self, record: &mut Record, (place, len): Extent) {
        self.push_chunk(record, place, used(len));
    }

    /// Adds the headers of a run.
    pub(super) fn push_run(&self, record: &mut Record, (zone, chunk): BlockPlace, header: PmdkChunk) {
        self.push_chunk(record, (zone, chunk), header);
        for distance in 1..header.size {
            let part = PmdkChunk { kind: PmdkChunkKind::RunData, flags: 0, size: distance };
            self.push_chunk(record, (zone, chunk + distance), part);
        }
    }

    /// Adds the header of a zone, which has one free block.
    pub(super) fn push_zone(&self, record: &mut Record, zone: u32, chunk_count: u32) {
        record.push_word(self.places.zone_at(zone.into()), PmdkZone { chunk_count }.encode());
        self.push_free(record, ((zone, 0), chunk_count));
    }
}

/// Returns the header of the first of the chunks that an object has for itself.
pub(super) fn used(len: u32) -> PmdkChunk {
    PmdkChunk { kind: PmdkChunkKind::Used, flags: super::Class::whole_chunks().key.flags, size: len }
}

/// Commits headers by a record of their own, together with the content of ranges. The caller holds [`Heap::order`].
pub(super) fn commit<M: Medium>(
    cover: &Cover<M>,
    objects: &[(PoolOffset, u64)],
    headers: &Record,
) -> Result<(), ObjError> {
    cover.commit(begin(cover)?, Changes { objects, entries: headers.body(), ..Changes::default() })?;
    Ok(())
}
