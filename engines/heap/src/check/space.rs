//! The heap's space: descriptors, headers, bitmaps and the root word, and the objects that are in use.

use super::{Finding, Report, Severity};
use crate::alloc::class::Class;
use crate::alloc::space::{Block, Space, Span, SpanKind};
use crate::error::HeapError;
use lode_layout::{
    CHECKED_BITS, CHUNK, ChunkDescriptor, Extent, Geometry, Huge, PoolOffset, SPAN_HEADER, Superblock, WORD,
    checked, decode_root, encode_root, unchecked,
};
use lode_pmem::{FaultScope, Medium, Memory, Readable};

const BITS: u64 = CHECKED_BITS as u64;
/// The strongest alignment of an object, in bytes.
const ALIGN_MAX: u64 = 4096;

/// The content of a span in use.
#[derive(Clone, Debug)]
enum Kind {
    /// Blocks; a bit in `reached` for each that was reached.
    Superblock { shape: Superblock, reached: Vec<u64> },
    /// One object.
    Huge { object: Huge, reached: bool },
    /// The header is damaged.
    Unknown,
}

/// A span in use.
#[derive(Clone, Debug)]
struct Used {
    span: Span,
    kind: Kind,
}

/// The result of following a reference to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkResult {
    /// It is allocated, and was not reached before.
    Marked,
    /// It is a second reference to the object.
    AlreadyMarked,
    /// It is not allocated, or its bitmap is damaged.
    Unallocated,
    /// No object can begin there.
    NoObject,
}

/// The spans of a heap, with marks on objects that were reached.
#[derive(Debug)]
pub struct SpaceMap {
    geometry: Geometry,
    /// Spans in use, in the order of their offsets.
    used: Vec<Used>,
}

impl SpaceMap {
    /// Reads all tables, headers and bitmaps of the heap. No thread may change them meanwhile.
    ///
    /// # Cost
    /// Memory for a bit for each block and some words for each span in use.
    pub fn read(memory: &Memory, geometry: &Geometry, report: &mut Report) -> SpaceMap {
        let mut map = SpaceMap { geometry: *geometry, used: Vec::new() };
        let space = Space::new(geometry);
        for (index, extent) in geometry.extents().iter().enumerate() {
            let read = memory.reading(|memory| map.read_extent(memory, &space, index, extent, report));
            if let Err(lost) = read {
                report.add(Finding::damage("the heap", lost.at, "it can't be read"));
            }
        }
        // A root word that can't be read is zero, which is damage.
        let _ = memory.reading(|memory| map.report_root(memory, report));
        map
    }

    fn read_extent(
        &mut self,
        memory: &Readable,
        space: &Space,
        index: usize,
        extent: &Extent,
        report: &mut Report,
    ) {
        let (tables, chunks) = (extent.table_len / CHUNK, extent.len / CHUNK);
        let mut span_end = tables;
        for (chunk, word) in table(memory, extent) {
            let at = extent.start.plus(chunk * WORD);
            if (chunk == 0 && index == 0) || word == 0 {
                continue;
            }
            if chunk < tables || chunk >= chunks || chunk < span_end {
                report.add(Finding {
                    found: Some(word),
                    want: Some(0),
                    ..Finding::damage("the chunk descriptor", at, "it belongs to no span and must be zero")
                });
                continue;
            }
            span_end = chunk + self.read_span(memory, space, extent, chunk, word, report);
        }
        report.counts.chunks += chunks - tables;
    }

    /// Adds the span that begins with `chunk`, and returns its length in chunks.
    fn read_span(
        &mut self,
        memory: &Readable,
        space: &Space,
        extent: &Extent,
        chunk: u64,
        word: u64,
        report: &mut Report,
    ) -> u64 {
        let start = extent.start.plus(chunk * CHUNK);
        match space.span(memory, extent, chunk) {
            Ok((span, kind)) => {
                let kind = match kind {
                    SpanKind::Superblock(shape) => superblock(memory, extent, span, shape, report),
                    SpanKind::Huge(object) => huge(span, object, report),
                    SpanKind::Free => return 1,
                };
                self.used.push(Used { span, kind });
                span.chunks
            }
            Err(error) => {
                let at = extent.start.plus(chunk * WORD);
                let chunks = ChunkDescriptor::decode(word)
                    .map_or(1, ChunkDescriptor::chunks)
                    .min(extent.len / CHUNK - chunk);
                let finding = match error {
                    HeapError::Corrupt { what, at: damaged } if damaged != at => Finding::damage(
                        what,
                        damaged,
                        "its objects can't be freed, and its free space is not used",
                    ),
                    _ => Finding {
                        found: Some(word),
                        ..Finding::damage("the chunk descriptor", at, "its space is lost")
                    },
                };
                report.add(finding);
                self.used.push(Used { span: Span { start, chunks }, kind: Kind::Unknown });
                chunks
            }
        }
    }

    fn report_root(&self, memory: &Readable, report: &mut Report) {
        let at = root_at(&self.geometry);
        let word = memory.load8(at);
        match decode_root(word) {
            None => report.add(Finding {
                found: Some(word),
                ..Finding::damage("the word that says where the root is", at, "nothing can be reached")
            }),
            Some(root) if !root.is_null() && self.is_allocated(memory, root) != Some(true) => {
                report.add(Finding {
                    found: Some(root.get()),
                    ..Finding::damage("the root", at, "no object is there")
                })
            }
            Some(_) => {}
        }
    }

    fn find(&self, at: PoolOffset) -> Option<usize> {
        let after = self.used.partition_point(|used| used.span.start <= at);
        let used = self.used.get(after.checked_sub(1)?)?;
        (at < used.span.start.plus(used.span.len())).then(|| after - 1)
    }

    /// Returns true if the object at `at` is allocated; `None` if none can begin there or its bitmap is damaged.
    pub fn is_allocated(&self, memory: &Readable, at: PoolOffset) -> Option<bool> {
        let used = &self.used[self.find(at)?];
        match &used.kind {
            Kind::Superblock { shape, .. } => {
                let block = Block::of(used.span.start, shape, index_of(used.span, shape, at)?);
                Some(unchecked(memory.load8(block.word))? & block.mask() != 0)
            }
            Kind::Huge { object, .. } => (used.span.start.plus(object.data_off) == at).then_some(true),
            Kind::Unknown => None,
        }
    }

    /// Returns the usable size and type number of the object that begins at `at`, allocated or not.
    pub fn object(&self, at: PoolOffset) -> Option<(u64, u64)> {
        let used = &self.used[self.find(at)?];
        match &used.kind {
            Kind::Superblock { shape, .. } => {
                index_of(used.span, shape, at).map(|_| (shape.block_size, shape.type_number))
            }
            Kind::Huge { object, .. } => (used.span.start.plus(object.data_off) == at)
                .then_some((used.span.len() - object.data_off, object.type_number)),
            Kind::Unknown => None,
        }
    }

    /// Returns true if the object at `at` was reached.
    pub fn is_marked(&self, at: PoolOffset) -> bool {
        let Some(found) = self.find(at) else { return false };
        let used = &self.used[found];
        match &used.kind {
            Kind::Superblock { shape, reached } => index_of(used.span, shape, at)
                .is_some_and(|index| reached[(index / BITS) as usize] & 1 << (index % BITS) != 0),
            Kind::Huge { reached, .. } => *reached,
            Kind::Unknown => false,
        }
    }

    /// Marks the object at `at` as reached by a reference.
    pub fn mark(&mut self, memory: &Readable, at: PoolOffset) -> MarkResult {
        let state = self.is_allocated(memory, at);
        let Some(found) = self.find(at) else { return MarkResult::NoObject };
        let used = &mut self.used[found];
        let again = match &mut used.kind {
            Kind::Superblock { shape, reached } => {
                let Some(index) = index_of(used.span, shape, at) else { return MarkResult::NoObject };
                let (word, bit) = ((index / BITS) as usize, 1 << (index % BITS));
                let again = reached[word] & bit != 0;
                reached[word] |= bit;
                again
            }
            Kind::Huge { object, reached } if used.span.start.plus(object.data_off) == at => {
                std::mem::replace(reached, true)
            }
            _ => return MarkResult::NoObject,
        };
        match (again, state) {
            (true, _) => MarkResult::AlreadyMarked,
            (false, Some(true)) => MarkResult::Marked,
            (false, _) => MarkResult::Unallocated,
        }
    }

    /// Calls `visit` with each allocated object that was not reached.
    pub fn visit_unmarked(&self, memory: &Readable, mut visit: impl FnMut(PoolOffset)) {
        for used in &self.used {
            match &used.kind {
                Kind::Superblock { shape, reached } => {
                    for (word, reached) in (0..).zip(reached) {
                        let stored = memory.load8(used.span.start.plus(SPAN_HEADER + word * WORD));
                        let mut left = unchecked(stored).unwrap_or(0) & !reached;
                        while left != 0 {
                            let index = word * BITS + u64::from(left.trailing_zeros());
                            left &= left - 1;
                            if index < shape.block_count {
                                visit(Block::of(used.span.start, shape, index).at);
                            }
                        }
                    }
                }
                Kind::Huge { object, reached: false } => visit(used.span.start.plus(object.data_off)),
                _ => {}
            }
        }
    }

    /// Reports every allocated object that was not reached.
    pub fn report_leaks(&self, memory: &Readable, report: &mut Report) {
        report.traced = true;
        self.visit_unmarked(memory, |at| {
            report.add(Finding::damage("the object", at, "nothing leads to it, so its space is lost"));
        });
    }

    /// Makes every bitmap agree with the objects that were reached. With `exactly` it has no other blocks. Otherwise
    /// it keeps other blocks, too, except in damaged words. Returns the number of words written.
    ///
    /// # Errors
    /// [`HeapError::InDoubt`].
    ///
    /// # Durability
    /// Durable on return. If it is killed before, it can be run again.
    pub fn repair_bitmaps<M: Medium>(&self, medium: &M, exactly: bool) -> Result<u64, HeapError> {
        let scope = FaultScope::open();
        let memory = scope.memory(medium.memory());
        let mut written = 0;
        for used in &self.used {
            let (shape, reached) = match &used.kind {
                Kind::Superblock { shape, reached } => (shape, reached),
                Kind::Huge { reached: true, .. } => continue,
                Kind::Huge { .. } | Kind::Unknown if !exactly => continue,
                Kind::Huge { .. } | Kind::Unknown => {
                    written += self.free_span(medium, used.span);
                    continue;
                }
            };
            for (word, reached) in (0..).zip(reached) {
                let at = used.span.start.plus(SPAN_HEADER + word * WORD);
                let stored = memory.load8(at);
                let blocks = (shape.block_count - word * BITS).min(BITS);
                let kept = unchecked(stored).unwrap_or(0) & ((1 << blocks) - 1);
                let right = checked(if exactly { *reached } else { kept | reached });
                if right != stored {
                    store(medium, at, right);
                    written += 1;
                }
            }
        }
        // Lost words stay lost, and the next check reports them.
        let _ = scope.close();
        drain(medium)?;
        Ok(written)
    }

    fn free_span<M: Medium>(&self, medium: &M, span: Span) -> u64 {
        let mut extents = self.geometry.extents().iter();
        let Some(extent) = extents.find(|extent| extent.start <= span.start && span.start < extent.end())
        else {
            return 0;
        };
        let chunk = (span.start.get() - extent.start.get()) / CHUNK;
        store(medium, extent.start.plus(chunk * WORD), ChunkDescriptor::Free.encode());
        1
    }

    /// Puts flipped bits right in descriptors, headers and bitmap words, if only one way to do so makes sense. Clears
    /// descriptors for which no way does. Returns the number of words written.
    ///
    /// # Errors
    /// [`HeapError::InDoubt`].
    ///
    /// # Durability
    /// Durable on return. If it is killed before, it can be run again.
    pub fn repair_words<M: Medium>(medium: &M, geometry: &Geometry) -> Result<u64, HeapError> {
        let scope = FaultScope::open();
        let memory = scope.memory(medium.memory());
        let mut written = 0;
        for (index, extent) in geometry.extents().iter().enumerate() {
            let (tables, chunks) = (extent.table_len / CHUNK, extent.len / CHUNK);
            let mut chunk = u64::from(index == 0);
            let mut span_end = tables;
            while chunk < extent.table_len / WORD {
                let at = extent.start.plus(chunk * WORD);
                let word = memory.load8(at);
                let inside = chunk >= tables && chunk < chunks && chunk >= span_end;
                let right = if inside { descriptor(medium, memory, extent, chunk, word) } else { 0 };
                if right != word {
                    store(medium, at, right);
                    written += 1;
                }
                if right != 0 {
                    let chunks = ChunkDescriptor::decode(right).map_or(1, ChunkDescriptor::chunks);
                    span_end = chunk + chunks;
                    let span = Span { start: extent.start.plus(chunk * CHUNK), chunks };
                    written += repair_bitmap_flips(medium, memory, span);
                }
                chunk += 1;
            }
        }
        // Lost words stay lost, and the next check reports them.
        let _ = scope.close();
        // ORDER: the words that describe objects are right before anything is done about the objects.
        drain(medium)?;
        Ok(written)
    }

    /// Makes the object at `at` the root, durably on return.
    ///
    /// # Errors
    /// [`HeapError::InDoubt`], [`HeapError::Fault`].
    pub fn repair_root<M: Medium>(medium: &M, geometry: &Geometry, at: PoolOffset) -> Result<(), HeapError> {
        FaultScope::run(|| store(medium, root_at(geometry), encode_root(at)))?;
        drain(medium)
    }

    /// Returns candidate roots when the root word is corrupt: the offsets that one flipped bit makes of it, and then
    /// the allocated objects that were not reached. All of them have the type.
    pub fn root_candidates(&self, memory: &Readable, type_number: u64) -> Vec<PoolOffset> {
        let word = memory.load8(root_at(&self.geometry));
        let flipped =
            (0..u64::BITS).filter_map(|bit| decode_root(word ^ 1 << bit)).filter(|root| !root.is_null());
        let mut all: Vec<PoolOffset> = flipped.collect();
        self.visit_unmarked(memory, |at| all.push(at));
        all.retain(|at| self.object(*at).is_some_and(|(_, found)| found == type_number));
        all
    }
}

fn root_at(geometry: &Geometry) -> PoolOffset {
    geometry.extents().first().map_or(PoolOffset::NULL, |extent| extent.start)
}

/// Returns the words of an extent's table, with their chunks.
fn table(memory: &Readable, extent: &Extent) -> impl Iterator<Item = (u64, u64)> {
    let start = extent.start;
    (0..extent.table_len / WORD).map(move |chunk| (chunk, memory.load8(start.plus(chunk * WORD))))
}

fn store<M: Medium>(medium: &M, at: PoolOffset, word: u64) {
    medium.store8(at, word);
    medium.flush(at, WORD);
}

fn drain<M: Medium>(medium: &M) -> Result<(), HeapError> {
    // ORDER: repaired words are durable before the next step relies on them. Stop here: the next repair does the rest.
    medium.drain().map_err(HeapError::from)
}

fn index_of(span: Span, shape: &Superblock, at: PoolOffset) -> Option<u64> {
    let into = at.get().checked_sub(span.start.get() + shape.data_off)?;
    let index = into / shape.block_size;
    (index * shape.block_size == into && index < shape.block_count).then_some(index)
}

/// Returns true if the allocator makes such superblocks.
fn is_plausible(extent: &Extent, span: Span, shape: &Superblock) -> bool {
    Class::of_block_size(shape.block_size).is_some_and(|class| {
        let into = span.start.get() - extent.start.get();
        class.span_lengths().any(|chunks| chunks == span.chunks)
            && into.is_multiple_of(span.len())
            && Superblock::plan(span.len(), shape.block_size, class.align(), shape.type_number) == *shape
    })
}

fn superblock(
    memory: &Readable,
    extent: &Extent,
    span: Span,
    shape: Superblock,
    report: &mut Report,
) -> Kind {
    report.counts.superblocks += 1;
    if !is_plausible(extent, span, &shape) {
        report.add(Finding::damage(
            "the superblock header",
            span.start,
            "no allocator makes such superblocks",
        ));
        return Kind::Unknown;
    }
    for word in 0..shape.bitmap_words() {
        let at = span.start.plus(SPAN_HEADER + word * WORD);
        let stored = memory.load8(at);
        let blocks = (shape.block_count - word * BITS).min(BITS);
        match unchecked(stored) {
            Some(bits) if bits >> blocks == 0 => report.counts.objects += u64::from(bits.count_ones()),
            _ => report.add(Finding {
                severity: Severity::Damage,
                found: Some(stored),
                ..Finding::damage(
                    "the allocation bitmap",
                    at,
                    "which of its blocks are in use can't be told; none of the superblock is handed out",
                )
            }),
        }
    }
    let reached = vec![0; shape.bitmap_words() as usize];
    Kind::Superblock { shape, reached }
}

fn huge(span: Span, object: Huge, report: &mut Report) -> Kind {
    report.counts.objects += 1;
    let aligned = object.data_off.is_power_of_two() && object.data_off <= ALIGN_MAX;
    if !aligned || (object.size + object.data_off).div_ceil(CHUNK) > span.chunks {
        report.add(Finding::damage(
            "the header of the object",
            span.start,
            "no allocator makes such objects",
        ));
    }
    Kind::Huge { object, reached: false }
}

/// Returns the right descriptor for a chunk that does not lie in an earlier span. It is the stored one if a sound
/// header fits it. Otherwise it is one with a flipped bit, or the one that the header implies, if a sound header fits
/// that. Otherwise it is zero.
fn descriptor<M: Medium>(medium: &M, memory: &Readable, extent: &Extent, chunk: u64, word: u64) -> u64 {
    if word == 0 {
        return 0;
    }
    let start = extent.start.plus(chunk * CHUNK);
    let left = extent.len / CHUNK - chunk;
    let is_sound = |descriptor: &ChunkDescriptor| {
        let span = Span { start, chunks: descriptor.chunks() };
        span.chunks <= left && repair_header(medium, memory, extent, span, *descriptor)
    };
    let flipped = (0..u64::BITS).filter_map(|bit| ChunkDescriptor::decode(word ^ 1 << bit));
    let from_header = descriptor_from_header(memory, start);
    let candidates = ChunkDescriptor::decode(word).into_iter().chain(flipped).chain(from_header);
    let mut used = candidates.filter(|descriptor| *descriptor != ChunkDescriptor::Free);
    let found = used.find(is_sound).map_or(0, ChunkDescriptor::encode);
    // A free chunk keeps the header that it had, so a word with a single set bit is a zero with a flipped bit.
    if word.is_power_of_two() && ChunkDescriptor::decode(word).is_none() { 0 } else { found }
}

/// Returns the descriptor that the header at `start` implies.
fn descriptor_from_header(memory: &Readable, start: PoolOffset) -> Option<ChunkDescriptor> {
    let header = header_at(memory, start);
    let block_size = header[1] & u64::from(u32::MAX);
    if let Some(class) = Class::of_block_size(block_size) {
        let planned = |chunks: &u64| {
            Superblock::decode(&header, start.get(), chunks * CHUNK).is_some_and(|shape| {
                Superblock::plan(chunks * CHUNK, block_size, class.align(), shape.type_number) == shape
            })
        };
        if let Some(chunks) = class.span_lengths().find(planned) {
            return Some(ChunkDescriptor::Superblock { chunks });
        }
    }
    let chunks = header[1].checked_add(header[2])?.div_ceil(CHUNK);
    Huge::decode(&header, start.get(), chunks.checked_mul(CHUNK)?).map(|_| ChunkDescriptor::Huge { chunks })
}

fn header_at(memory: &Readable, start: PoolOffset) -> [u64; 8] {
    std::array::from_fn(|word| memory.load8(start.plus(word as u64 * WORD)))
}

/// Puts right a flipped bit in the header of a span, if one makes it sound. Returns true if the header is sound then.
fn repair_header<M: Medium>(
    medium: &M,
    memory: &Readable,
    extent: &Extent,
    span: Span,
    descriptor: ChunkDescriptor,
) -> bool {
    let header = header_at(memory, span.start);
    let is_sound = |header: &[u64; 8]| match descriptor {
        ChunkDescriptor::Superblock { .. } => Superblock::decode(header, span.start.get(), span.len())
            .is_some_and(|shape| is_plausible(extent, span, &shape)),
        ChunkDescriptor::Huge { .. } => Huge::decode(header, span.start.get(), span.len()).is_some(),
        ChunkDescriptor::Free => false,
    };
    if is_sound(&header) {
        return true;
    }
    let flip = (0..header.len() * u64::BITS as usize).find(|bit| {
        let mut flipped = header;
        flipped[bit / 64] ^= 1 << (bit % 64);
        is_sound(&flipped)
    });
    if let Some(bit) = flip {
        store(medium, span.start.plus(bit as u64 / 64 * WORD), header[bit / 64] ^ 1 << (bit % 64));
    }
    flip.is_some()
}

/// Puts flipped bits right in the bitmap of a superblock, where only one is possible. Returns the number of words
/// written.
fn repair_bitmap_flips<M: Medium>(medium: &M, memory: &Readable, span: Span) -> u64 {
    let header = header_at(memory, span.start);
    let Some(shape) = Superblock::decode(&header, span.start.get(), span.len()) else { return 0 };
    let mut written = 0;
    for word in 0..shape.bitmap_words() {
        let at = span.start.plus(SPAN_HEADER + word * WORD);
        let stored = memory.load8(at);
        let blocks = (shape.block_count - word * BITS).min(BITS);
        let is_sound = |word: u64| unchecked(word).is_some_and(|bits| bits >> blocks == 0);
        if is_sound(stored) {
            continue;
        }
        let mut sound = (0..u64::BITS).map(|bit| stored ^ 1 << bit).filter(|word| is_sound(*word));
        if let (Some(right), None) = (sound.next(), sound.next()) {
            store(medium, at, right);
            written += 1;
        }
    }
    written
}
