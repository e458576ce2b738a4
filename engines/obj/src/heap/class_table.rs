//! All classes of an open pool, and the class for each size.
//!
//! PMDK's default classes are no part of the format: it derives them anew at each open, by rules that its behaviour shows. Here they
//! are derived by the same rules, so that both libraries put objects of a size into the same kind of run. The test `classes` compares
//! each of them with Debian's library.
//!
//! 1. The first class has blocks of 128 bytes in runs of one chunk.
//! 2. Sizes go up in steps of 5 %, rounded up to 64 bytes. In each of the ranges that [`RANGES`] ends, they begin anew, 64 bytes after
//!    the end of the range before.
//! 3. A run has room for 200 blocks, in at most 16 chunks. If the blocks leave more than 1 KiB unused, they get 64 bytes larger.
//! 4. No class is made for a size that up to 8 blocks of another class fill, if its runs have as many chunks.
//! 5. Objects of up to 112 bytes have the first class, whatever classes the program makes.
//! 6. Any other object, counted in steps of 16 bytes, gets the class of which up to 8 blocks fill it. If there is none, it gets the class
//!    that leaves the fewest bytes unused in the blocks, and in the run's blocks that are too few for an object.

use super::class::{Class, ClassDescription, ClassError};
use lode_layout::{PmdkHeap, PmdkObjectHeaderKind, align_up};
use lode_pmem::sync::{SpinMutex, asymmetric};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Identifiers of classes.
const CLASSES: usize = 255;
/// Bytes of a block of the first class.
const FIRST: u64 = 128;
/// Ends of the ranges of sizes.
const RANGES: [u64; 8] = [1024, 2048, 4096, 8192, 16384, 32768, 131_072, 393_216];
/// Bytes to which the sizes of blocks are rounded.
const STEP: u64 = 64;
/// Bytes in which the sizes of objects are counted.
const GRANULE: u64 = 16;
/// Blocks that a run has room for.
const RUN_UNITS_MIN: u64 = 200;
/// Most chunks of a run.
const RUN_CHUNKS_MAX: u64 = 16;
/// Bytes of a run's first header.
const RUN_HEADER: u64 = 16;
/// Most bytes of a run that no block takes.
const UNUSED_MAX: u64 = 1024;
/// Most blocks of an object whose class the program does not choose.
const UNITS_MAX: u64 = 8;
/// Most bytes of an object in a run whose class the program does not choose.
const RUN_OBJECT_MAX: u64 = 10 * PmdkHeap::CHUNK;
/// Stands for a size that was not asked for yet.
const UNKNOWN: u8 = u8::MAX;

/// The classes of an open pool.
#[derive(Debug)]
pub(super) struct ClassTable {
    whole_chunks: Class,
    classes: Box<[OnceLock<Class>]>,
    /// The class for each size, counted in granules.
    of_size: Box<[AtomicU8]>,
    /// Held while a class is made.
    making: SpinMutex<()>,
}

impl ClassTable {
    /// Returns PMDK's default classes.
    pub(super) fn new() -> ClassTable {
        let granules = (RUN_OBJECT_MAX / GRANULE) as usize + 1;
        let table = ClassTable {
            whole_chunks: Class::whole_chunks(),
            classes: (0..CLASSES).map(|_| OnceLock::new()).collect(),
            of_size: (0..granules).map(|_| AtomicU8::new(UNKNOWN)).collect(),
            making: SpinMutex::new(()),
        };
        for (slot, class) in table.classes.iter().zip(default_classes()) {
            let _ = slot.set(*class);
        }
        // A class that the program makes gets none of the sizes that the first one has.
        for size in &table.of_size[..(FIRST / GRANULE) as usize] {
            // ORDER: no other thread has the table.
            size.store(1, Ordering::Relaxed);
        }
        table
    }

    /// Returns a class.
    pub(super) fn get(&self, id: u8) -> Option<&Class> {
        self.classes.get(usize::from(id))?.get()
    }

    fn all(&self) -> impl DoubleEndedIterator<Item = &Class> {
        self.classes.iter().filter_map(OnceLock::get)
    }

    /// Returns the class for objects of a size.
    ///
    /// # Cost
    /// A load, after the first object of a size.
    #[inline]
    pub(super) fn of_size(&self, size: u64) -> &Class {
        let granule = size.div_ceil(GRANULE);
        let known = usize::try_from(granule).ok().and_then(|granule| self.of_size.get(granule));
        // ORDER: none: a class is found by its `OnceLock`, which orders its content.
        let id = known.map_or(0, |known| known.load(Ordering::Relaxed));
        if id != UNKNOWN {
            return self.classes[usize::from(id)].get().unwrap_or(&self.whole_chunks);
        }
        let class = self.best(granule * GRANULE);
        if let Some(known) = known {
            // ORDER: as above. Another thread may store the class that it has found.
            known.store(class.id, Ordering::Relaxed);
        }
        class
    }

    /// Returns the class that wastes the fewest bytes.
    fn best(&self, size: u64) -> &Class {
        let mut best: Option<(u64, &Class)> = None;
        // As PMDK does it: of two equal classes, the one with the higher identifier.
        for class in self.all().rev().filter(|class| class.header != PmdkObjectHeaderKind::None) {
            let bytes = size + class.header.len();
            let units = bytes.div_ceil(class.key.unit_size);
            if !class.has_whole_chunks() && units > UNITS_MAX {
                continue;
            }
            let unused = units * class.key.unit_size - bytes;
            if unused == 0 {
                return class;
            }
            let of_run = match u64::from(class.units) {
                0 => 0,
                count => count % units * class.key.unit_size / count,
            };
            if best.is_none_or(|(least, _)| unused + of_run < least) {
                best = Some((unused + of_run, class));
            }
        }
        best.map_or(&self.whole_chunks, |(_, class)| class)
    }

    /// Returns PMDK's default classes of runs that suit a size, those that waste the fewest bytes first, and the blocks that it takes.
    pub(super) fn suitable(&self, size: u64) -> Vec<(&Class, u32)> {
        let classes = default_classes().iter().skip(1).filter_map(|class| self.get(class.id));
        let mut suitable: Vec<_> =
            classes.filter_map(|class| class.units_of(size).map(|count| (class, count))).collect();
        suitable.sort_by_key(|(class, count)| u64::from(*count) * class.key.unit_size);
        suitable
    }

    /// Makes a class.
    pub(super) fn add(&self, description: &ClassDescription) -> Result<u8, ClassError> {
        let _making = super::lock(&self.making);
        let free = || (0..CLASSES as u8).find(|id| self.get(*id).is_none());
        let id = match description.id {
            Some(id) if self.get(id).is_some() || usize::from(id) >= CLASSES => {
                return Err(ClassError::Exists { id });
            }
            Some(id) => id,
            None => free().ok_or(ClassError::Exhausted)?,
        };
        let class = Class::described(description, id)?;
        if let Some(same) = self.all().skip(1).find(|other| other.resembles(&class)) {
            return Err(ClassError::Same { id: same.id });
        }
        let _ = self.classes[usize::from(id)].set(class);
        Ok(id)
    }
}

/// Makes what all pools of the process share, which the first open makes otherwise. A program whose threads open pools while it
/// forks calls it before: the child of a fork would wait for the thread that was making it.
pub fn prepare() {
    asymmetric::is_available();
    default_classes();
}

/// Returns PMDK's default classes, in the order of their identifiers.
fn default_classes() -> &'static [Class] {
    static CLASSES: OnceLock<Vec<Class>> = OnceLock::new();
    CLASSES.get_or_init(|| {
        let mut classes = vec![Class::whole_chunks()];
        classes.extend(Class::compact(1, FIRST, 1));
        let mut start = FIRST;
        for end in RANGES {
            let mut size = start + STEP;
            while size <= end {
                derive(&mut classes, size);
                // In single precision, as PMDK computes it.
                let exact = size as f32 * 0.05;
                let whole = exact as u64;
                let is_whole = exact - whole as f32 == 0.0;
                let step = if is_whole { whole } else { whole + 1 };
                size += align_up(step, STEP);
            }
            start = end;
        }
        classes
    })
}

/// Adds the class for blocks of a size, unless there is one.
fn derive(classes: &mut Vec<Class>, size: u64) {
    let content = |chunks: u64| chunks * PmdkHeap::CHUNK - RUN_HEADER;
    let missing = (size * RUN_UNITS_MIN).saturating_sub(content(1));
    let chunks = (1 + missing.div_ceil(PmdkHeap::CHUNK)).min(RUN_CHUNKS_MAX) as u32;
    let fills = |class: &Class, size: u64| {
        size.is_multiple_of(class.key.unit_size) && size / class.key.unit_size <= UNITS_MAX
    };
    if classes[1..].iter().any(|class| class.key.chunks >= chunks && fills(class, size)) {
        return;
    }
    let mut size = size;
    let class = loop {
        let Some(class) = Class::compact(classes.len() as u8, size, chunks) else { return };
        let Ok(places) = class.key.places(0) else { return };
        if (u64::from(chunks) * PmdkHeap::CHUNK - places.blocks_off) % size <= UNUSED_MAX {
            break class;
        }
        size += STEP;
    };
    if !classes[1..].iter().any(|other| fills(other, size)) {
        classes.push(class);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// As Debian's library answers.
    #[test]
    fn default_classes_are_those_of_pmdk() {
        let units: Vec<u64> = default_classes().iter().map(|class| class.key.unit_size).collect();
        assert_eq!(units[..9], [262_144, 128, 192, 320, 448, 704, 832, 1088, 1216]);
        assert_eq!((units.len(), units[53]), (54, 349_440));
        assert_eq!(default_classes()[9].description().units_per_run, 356);
    }

    #[test]
    fn classes_of_programs() {
        let table = ClassTable::new();
        let class = ClassDescription {
            unit_size: 1344,
            alignment: 0,
            units_per_run: 1000,
            header: PmdkObjectHeaderKind::Compact,
            id: Some(128),
        };
        assert_eq!(table.add(&class), Ok(128));
        assert_eq!(table.get(128).map(|class| class.description().units_per_run), Some(1170));
        assert_eq!(table.add(&class), Err(ClassError::Exists { id: 128 }));
        let next = ClassDescription { id: None, ..class };
        assert_eq!(table.add(&next), Err(ClassError::Same { id: 128 }));
        assert_eq!(
            table.add(&ClassDescription { unit_size: 1329, ..next }),
            Err(ClassError::Same { id: 128 })
        );
        let aligned = ClassDescription {
            unit_size: 1024,
            alignment: 512,
            units_per_run: 500,
            header: PmdkObjectHeaderKind::None,
            id: None,
        };
        assert_eq!(table.add(&aligned), Ok(54));
        assert_eq!(table.get(54).map(|class| class.description().units_per_run), Some(510));
        let next = ClassDescription { alignment: 1024, ..aligned };
        assert_eq!(table.add(&next), Err(ClassError::Same { id: 54 }), "the alignments are no difference");
        // The bitmap does not count: 2047 blocks have room in a chunk, and 2045 of them are there.
        let full = ClassDescription { unit_size: 128, alignment: 0, units_per_run: 2047, ..aligned };
        assert_eq!(table.add(&full), Ok(55));
        assert_eq!(table.get(55).map(|class| class.description().units_per_run), Some(2045));
        for (wrong, field) in [
            (ClassDescription { unit_size: 0, ..aligned }, "unit size"),
            (ClassDescription { unit_size: 1 << 40, ..aligned }, "unit size"),
            (ClassDescription { alignment: 24, ..aligned }, "alignment"),
            (ClassDescription { alignment: 2048, ..aligned }, "alignment"),
            (ClassDescription { units_per_run: 0, ..aligned }, "number of blocks"),
        ] {
            assert!(
                matches!(table.add(&wrong), Err(ClassError::Field { field: found, .. }) if found == field)
            );
        }
        assert_eq!(table.of_size(1312).id, 128, "blocks that an object fills");
        assert_eq!(table.of_size(1330).key.unit_size, 704);
    }
}
