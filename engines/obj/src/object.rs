//! The objects of a pool.

use crate::block::{Block, Blocks};
use crate::error::{DamageReason, ObjError, Structure};
use crate::view::ObjView;
use lode_layout::{PmdkChunkKind, PmdkHeap, PmdkObjectHeader, PmdkObjectHeaderKind, PmdkRun, PoolOffset};
use lode_pmem::Medium;

/// Bits of a word of a bitmap.
const BITS: u64 = 64;

/// An object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Offset of its data in the pool.
    pub at: PoolOffset,
    /// The type number that the program gave; 0 without a header.
    pub type_number: u64,
    /// Bytes of data that it has room for.
    pub usable_size: u64,
    /// True if it is PMDK's own: the root, or an extension of a log.
    pub is_internal: bool,
    /// Its place in the heap.
    pub place: Place,
}

/// The place of an object in the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The block of chunks that it takes, or that is its run.
    pub block: Block,
    /// The first of its blocks in a run and their number; `None` if it has a block of chunks for itself.
    pub units: Option<(u64, u64)>,
}

/// All objects of a pool, in the order of their offsets.
#[derive(Debug)]
pub struct Objects<'v, M> {
    view: &'v ObjView<M>,
    blocks: Blocks<'v, M>,
    /// The run, and the next of its blocks.
    within: Option<(Block, PmdkRun, u64)>,
}

impl<M: Medium> ObjView<M> {
    /// Returns all objects, in the order of their offsets, also those that are PMDK's own. pmemobj_first(3) and pmemobj_next(3) leave
    /// out the latter.
    ///
    /// After an error it goes on: with the next object of the run, the next block or the next zone.
    ///
    /// # Cost
    /// A load for each word of a bitmap, and one for each object.
    pub fn objects(&self) -> Objects<'_, M> {
        Objects { view: self, blocks: self.blocks(), within: None }
    }

    /// Returns the objects after one, as [`objects`](ObjView::objects) does.
    pub(crate) fn objects_after(&self, object: &Object) -> Result<Objects<'_, M>, ObjError> {
        let Place { block, units } = object.place;
        let chunk_count = self.zone(block.zone)?.map_or(0, |zone| zone.chunk_count);
        let within = match units {
            Some((unit, count)) => Some((block, self.run(&block)?, unit + count)),
            None => None,
        };
        Ok(Objects { view: self, blocks: self.blocks_after(&block, chunk_count), within })
    }

    /// Returns the objects from the block of chunks on in which `at` lies: some may begin before it.
    ///
    /// # Cost
    /// A load for each block of its zone before it.
    pub(crate) fn objects_around(&self, at: PoolOffset) -> Result<Objects<'_, M>, ObjError> {
        let no_object = ObjError::of(Structure::Object, at, DamageReason::NoObject);
        let (zone, chunk) = self.zone_of(at).ok_or(no_object)?;
        for block in self.blocks_of(zone)? {
            let block = block?;
            if block.zone != zone || chunk < block.chunk.saturating_add(block.header.size) {
                return Ok(Objects { view: self, blocks: self.blocks_from(&block)?, within: None });
            }
        }
        Err(no_object)
    }

    /// Returns the object whose data begins at `at`.
    ///
    /// # Errors
    /// [`ObjError::Damaged`] if no object begins there, or it is free; [`ObjError::Memory`].
    ///
    /// # Cost
    /// A few loads.
    pub fn object_at(&self, at: PoolOffset) -> Result<Object, ObjError> {
        let none = |reason| ObjError::of(Structure::Object, at, reason);
        let (zone, first) = self.zone_of(at).ok_or(none(DamageReason::NoObject))?;
        let chunk_count = self.zone(zone)?.map_or(0, |zone| zone.chunk_count);
        if first >= chunk_count {
            return Err(none(DamageReason::NoObject));
        }
        let header = self.chunk(zone, first)?;
        let chunk = match header.kind {
            PmdkChunkKind::RunData => first.checked_sub(header.size).ok_or(none(DamageReason::NoObject))?,
            _ => first,
        };
        let block = self.block(zone, chunk, chunk_count)?;
        let data = at.get() - self.chunk_at(zone, chunk).get();
        let header_len = block.header.object_header().len();
        match block.header.kind {
            PmdkChunkKind::Used if data == header_len => self.huge_object(&block),
            PmdkChunkKind::Run if first - chunk < block.header.size => {
                let run = self.run(&block)?;
                let unit = data
                    .checked_sub(run.blocks_off + header_len)
                    .filter(|inside| inside.is_multiple_of(run.block_size))
                    .map(|inside| inside / run.block_size)
                    .filter(|unit| *unit < run.usable_count())
                    .ok_or(none(DamageReason::NoObject))?;
                let bits = self.word(self.bitmap_word_at(&block, unit / BITS))?;
                if bits & 1 << (unit % BITS) == 0 {
                    return Err(none(DamageReason::Free));
                }
                self.run_object(&block, &run, unit)
            }
            PmdkChunkKind::Free => Err(none(DamageReason::Free)),
            _ => Err(none(DamageReason::NoObject)),
        }
    }

    pub(crate) fn object_header(
        &self,
        kind: PmdkObjectHeaderKind,
        at: PoolOffset,
    ) -> Result<Option<PmdkObjectHeader>, ObjError> {
        Ok(match kind {
            PmdkObjectHeaderKind::Compact => Some(PmdkObjectHeader::decode_compact(self.bytes(at)?)),
            PmdkObjectHeaderKind::Legacy => Some(PmdkObjectHeader::decode_legacy(self.bytes(at)?)),
            PmdkObjectHeaderKind::None => None,
        })
    }

    /// Returns the object of a used block of chunks.
    pub(crate) fn huge_object(&self, block: &Block) -> Result<Object, ObjError> {
        let at = self.chunk_at(block.zone, block.chunk);
        let kind = block.header.object_header();
        let max = u64::from(block.header.size) * PmdkHeap::CHUNK;
        let header = self.object_header(kind, at)?;
        if let Some(size) = header.map(|header| header.size) {
            let min = max - PmdkHeap::CHUNK + 1;
            check_size(at.plus(kind.len()), size, min.max(kind.len()), max)?;
        }
        Ok(Object {
            at: at.plus(kind.len()),
            type_number: header.map_or(0, |header| header.type_number),
            usable_size: max - kind.len(),
            is_internal: header.is_some_and(|header| header.is_internal()),
            place: Place { block: *block, units: None },
        })
    }

    /// Returns the object that begins with a block of a run.
    pub(crate) fn run_object(&self, block: &Block, run: &PmdkRun, unit: u64) -> Result<Object, ObjError> {
        let at = self.chunk_at(block.zone, block.chunk).plus(run.blocks_off + unit * run.block_size);
        let kind = block.header.object_header();
        let header = self.object_header(kind, at)?;
        let mut units = 1;
        if let Some(size) = header.map(|header| header.size) {
            // The bits of an object lie in one word of the bitmap.
            let units_max = (run.usable_count() - unit).min(BITS - unit % BITS);
            check_size(at.plus(kind.len()), size, kind.len().max(1), units_max * run.block_size)?;
            units = size.div_ceil(run.block_size);
        }
        Ok(Object {
            at: at.plus(kind.len()),
            type_number: header.map_or(0, |header| header.type_number),
            usable_size: (units * run.block_size).saturating_sub(kind.len()),
            is_internal: header.is_some_and(|header| header.is_internal()),
            place: Place { block: *block, units: Some((unit, units)) },
        })
    }
}

fn check_size(at: PoolOffset, size: u64, min: u64, max: u64) -> Result<(), ObjError> {
    if (min..=max).contains(&size) {
        return Ok(());
    }
    Err(ObjError::of(Structure::Object, at, DamageReason::ObjectSize { size, min, max }))
}

impl<M: Medium> Objects<'_, M> {
    /// Returns the next used block of the run that is being read.
    fn next_in_run(&mut self) -> Option<Result<Object, ObjError>> {
        let (block, run, mut unit) = self.within?;
        while unit < run.usable_count() {
            let word = unit / BITS;
            let bits = match self.view.word(self.view.bitmap_word_at(&block, word)) {
                Ok(bits) => bits & run.block_bits(word) & u64::MAX << (unit % BITS),
                Err(error) => {
                    self.within = None;
                    return Some(Err(error));
                }
            };
            if bits == 0 {
                unit = (word + 1) * BITS;
                continue;
            }
            let first = word * BITS + u64::from(bits.trailing_zeros());
            let object = self.view.run_object(&block, &run, first);
            let taken =
                object.as_ref().ok().and_then(|object| object.place.units).map_or(1, |(_, taken)| taken);
            self.within = Some((block, run, first + taken));
            return Some(object);
        }
        self.within = None;
        None
    }
}

impl<M: Medium> Iterator for Objects<'_, M> {
    type Item = Result<Object, ObjError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(object) = self.next_in_run() {
                return Some(object);
            }
            let block = match self.blocks.next()? {
                Ok(block) => block,
                Err(error) => return Some(Err(error)),
            };
            match block.header.kind {
                PmdkChunkKind::Used => return Some(self.view.huge_object(&block)),
                PmdkChunkKind::Run => match self.view.run(&block) {
                    Ok(run) => self.within = Some((block, run, 0)),
                    Err(error) => return Some(Err(error)),
                },
                _ => {}
            }
        }
    }
}
