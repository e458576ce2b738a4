//! Classes of allocations.

use lode_layout::{
    InvalidField, PmdkChunk, PmdkChunkKind, PmdkHeap, PmdkObjectHeaderKind, PmdkRun, align_up,
};

/// The most bytes of an object: PMDK's constant, somewhat more than a zone.
pub(super) const OBJECT_MAX: u64 = 0x3_FFDF_FFC0;
/// The most blocks of a run that one object takes: those of a word of the bitmap.
const UNITS_MAX: u64 = 64;
/// The most chunks of a run.
const CHUNKS_MAX: u64 = u16::MAX as u64;
/// Bytes of a run before its bitmap, by which PMDK finds the number of chunks of a program's class.
const RUN_HEAD: u64 = 16;
/// Bytes in which PMDK counts the units of classes when it compares them.
const GRANULE: u64 = 16;
const COMPACT: u16 = 1;
const NO_HEADER: u16 = 2;
const ALIGNED: u16 = 4;
const FLEXIBLE: u16 = 8;

/// A class of allocations: blocks of one size in runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassDescription {
    /// Bytes of a block.
    pub unit_size: u64,
    /// Alignment of the objects' data in bytes; 0 for none.
    pub alignment: u64,
    /// Blocks of a run.
    pub units_per_run: u32,
    /// The header of the objects.
    pub header: PmdkObjectHeaderKind,
    /// Its identifier; `None` for the next free one.
    pub id: Option<u8>,
}

/// The reason why a class can't be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClassError {
    /// Another class has the identifier.
    #[error("an allocation class {id} is there already")]
    Exists {
        /// The identifier.
        id: u8,
    },
    /// Another class has the same runs, as PMDK compares them.
    #[error("allocation class {id} has the same runs; use that one")]
    Same {
        /// The identifier of the other class.
        id: u8,
    },
    /// No identifier is free.
    #[error("all 255 allocation classes are in use")]
    Exhausted,
    /// A field breaks its rule.
    #[error("the {field} of an allocation class can't be {found}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        found: u64,
    },
}

/// The properties of a run by which its class is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RunKey {
    pub(super) unit_size: u64,
    pub(super) alignment: u64,
    /// Flags of the header of its first chunk.
    pub(super) flags: u16,
    pub(super) chunks: u32,
}

/// A class, as the allocator uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) id: u8,
    pub(super) key: RunKey,
    /// The header of the objects.
    pub(super) header: PmdkObjectHeaderKind,
    /// Blocks of a run; 0 for the class of whole chunks.
    pub(super) units: u32,
}

impl RunKey {
    /// Returns the header of the first chunk.
    pub(super) fn chunk(&self) -> PmdkChunk {
        PmdkChunk { kind: PmdkChunkKind::Run, flags: self.flags, size: self.chunks }
    }

    /// Returns the places of a run whose first chunk lies at `at`.
    pub(super) fn places(&self, at: u64) -> Result<PmdkRun, InvalidField> {
        PmdkRun::decode(PmdkRun::encode(self.unit_size, self.alignment), self.chunk(), at)
    }
}

impl Class {
    /// Returns the class of whole chunks.
    pub(super) const fn whole_chunks() -> Class {
        let key = RunKey { unit_size: PmdkHeap::CHUNK, alignment: 0, flags: COMPACT, chunks: 1 };
        Class { id: 0, key, header: PmdkObjectHeaderKind::Compact, units: 0 }
    }

    /// Returns a class of PMDK's own: compact headers.
    pub(super) fn compact(id: u8, unit_size: u64, chunks: u32) -> Option<Class> {
        let key = RunKey { unit_size, alignment: 0, flags: COMPACT | FLEXIBLE, chunks };
        Class::of_key(id, key, PmdkObjectHeaderKind::Compact)
    }

    fn of_key(id: u8, key: RunKey, header: PmdkObjectHeaderKind) -> Option<Class> {
        let units = u32::try_from(key.places(0).ok()?.block_count).ok()?;
        Some(Class { id, key, header, units })
    }

    /// Returns the class that a program describes.
    pub(super) fn described(description: &ClassDescription, id: u8) -> Result<Class, ClassError> {
        let ClassDescription { unit_size, alignment, units_per_run, header, .. } = *description;
        let wrong = |field, found| ClassError::Field { field, found };
        if unit_size == 0 || unit_size > OBJECT_MAX {
            return Err(wrong("unit size", unit_size));
        }
        if units_per_run == 0 {
            return Err(wrong("number of blocks", 0));
        }
        if alignment != 0 && (!alignment.is_power_of_two() || !unit_size.is_multiple_of(alignment)) {
            return Err(wrong("alignment", alignment));
        }
        let bytes = u64::from(units_per_run).saturating_mul(unit_size).saturating_add(RUN_HEAD);
        let bytes = align_up(bytes, PmdkHeap::CHUNK).saturating_add(alignment);
        let chunks = (bytes / PmdkHeap::CHUNK).min(CHUNKS_MAX) as u32;
        let of_header = match header {
            PmdkObjectHeaderKind::Compact => COMPACT,
            PmdkObjectHeaderKind::None => NO_HEADER,
            PmdkObjectHeaderKind::Legacy => 0,
        };
        let flags = of_header | FLEXIBLE | if alignment == 0 { 0 } else { ALIGNED };
        let key = RunKey { unit_size, alignment, flags, chunks };
        Class::of_key(id, key, header).ok_or(wrong("number of blocks", units_per_run.into()))
    }

    /// Returns true if PMDK takes the runs of both classes for the same ones: it counts units in granules of 16 bytes, and of the
    /// alignment only whether there is one.
    pub(super) fn resembles(&self, other: &Class) -> bool {
        let granules = |class: &Class| class.key.unit_size.div_ceil(GRANULE);
        granules(self) == granules(other)
            && self.key.flags == other.key.flags
            && self.key.chunks == other.key.chunks
    }

    pub(super) fn description(&self) -> ClassDescription {
        ClassDescription {
            unit_size: self.key.unit_size,
            alignment: self.key.alignment,
            units_per_run: self.units,
            header: self.header,
            id: Some(self.id),
        }
    }

    pub(super) fn has_whole_chunks(&self) -> bool {
        self.id == 0
    }

    /// Returns the blocks, or chunks, that an object of `size` bytes takes. `None` if the class does not suit it.
    pub(super) fn units_of(&self, size: u64) -> Option<u32> {
        let units = size.checked_add(self.header.len())?.div_ceil(self.key.unit_size);
        let max = match self.header {
            _ if self.has_whole_chunks() => PmdkHeap::ZONE_CHUNKS_MAX.into(),
            PmdkObjectHeaderKind::None => 1,
            _ => UNITS_MAX.min(self.units.into()),
        };
        u32::try_from(units).ok().filter(|units| u64::from(*units) <= max)
    }
}
