//! The objects of a pool in a form that does not depend on their places, so that pools of two allocators can be compared.

use lode_layout::PoolOffset;
use lode_obj::{ObjView, Object};
use lode_pmem::Mapping;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Offset of the pool set's UUID in the header.
const POOLSET_UUID_OFF: usize = 24;

/// A pool's objects by their offsets, and the numbers that they get on the way from the root.
struct Graph {
    bytes: Vec<u8>,
    /// Type number and usable bytes of each object.
    objects: BTreeMap<u64, (u64, u64)>,
    /// The low word of the pool's UUID, as it stands in each OID.
    uuid: u64,
    numbers: BTreeMap<u64, usize>,
    order: Vec<u64>,
}

/// Returns a line for each object of the pool at `path`: first those that the root reaches, in the order of the OIDs on the way, then
/// all others, sorted. A line has the type number, the usable size and a hash of the content, in which an OID counts by the number of
/// its object.
pub(crate) fn object_lines(path: &Path) -> Vec<String> {
    let bytes = fs::read(path).unwrap();
    let medium: Mapping = lode_testing::memory::from_bytes(&bytes);
    let view = ObjView::open(&medium).unwrap();
    let objects: Vec<Object> = view.objects().map(|object| object.unwrap()).collect();
    let (root, root_size) = (view.state().root, view.state().root_size);
    let described = |object: &Object| {
        let size = if object.at == root { root_size } else { object.usable_size };
        (object.at.get(), (object.type_number, size))
    };
    let is_shown = |object: &&Object| object.at == root || !object.is_internal;
    let mut graph = Graph {
        objects: objects.iter().filter(is_shown).map(described).collect(),
        uuid: uuid_word(&bytes),
        bytes,
        numbers: BTreeMap::new(),
        order: Vec::new(),
    };
    graph.visit_all(root);
    graph.lines()
}

/// Returns the word that stands in each OID of the pool.
fn uuid_word(bytes: &[u8]) -> u64 {
    let uuid = &bytes[POOLSET_UUID_OFF..][..16];
    (0..8).fold(0, |word, index| word << 8 | u64::from(uuid[index] ^ uuid[8 + index]))
}

impl Graph {
    fn word(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.bytes[at as usize..][..8].try_into().unwrap())
    }

    /// Returns the object that has the offset inside of it, and the distance from its first byte.
    fn target(&self, off: u64) -> Option<(u64, u64)> {
        let (at, (_, size)) = self.objects.range(..=off).next_back()?;
        (off - at < *size).then_some((*at, off - at))
    }

    /// Numbers the objects that the root reaches, breadth first.
    fn visit_all(&mut self, root: PoolOffset) {
        if root.is_null() {
            return;
        }
        self.number(root.get());
        let mut next = 0;
        while let Some(at) = self.order.get(next).copied() {
            next += 1;
            let (_, size) = self.objects[&at];
            for word_at in (at..at + size.saturating_sub(15)).step_by(8) {
                if self.word(word_at) == self.uuid
                    && let Some((target, _)) = self.target(self.word(word_at + 8))
                {
                    self.number(target);
                }
            }
        }
    }

    fn number(&mut self, at: u64) {
        if !self.numbers.contains_key(&at) {
            self.numbers.insert(at, self.order.len());
            self.order.push(at);
        }
    }

    fn lines(&self) -> Vec<String> {
        let line = |at: u64| {
            let (type_number, size) = self.objects[&at];
            format!("type {type_number} size {size} content {:016x}", self.content(at, size))
        };
        let reached = self.order.iter().map(|at| format!("#{} {}", self.numbers[at], line(*at)));
        let unreached = self.objects.keys().filter(|at| !self.numbers.contains_key(at));
        let mut others: Vec<String> = unreached.map(|at| line(*at)).collect();
        others.sort_unstable();
        reached.chain(others).collect()
    }

    /// Returns a hash of the object's bytes, whose OIDs are replaced by what they name.
    fn content(&self, at: u64, len: u64) -> u64 {
        let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(29);
        let mut hash = 0xcbf2_9ce4_8422_2325;
        let mut off = 0;
        while off + 8 <= len {
            let word = self.word(at + off);
            if word == self.uuid && off + 16 <= len {
                let (number, distance) = self.name(self.word(at + off + 8));
                hash = mix(mix(mix(hash, 1), number), distance);
                off += 16;
                continue;
            }
            hash = mix(hash, word);
            off += 8;
        }
        self.bytes[(at + off) as usize..(at + len) as usize]
            .iter()
            .fold(hash, |hash, byte| mix(hash, u64::from(*byte)))
    }

    /// Returns the number of the object that an OID's offset names, and the distance from its first byte.
    fn name(&self, off: u64) -> (u64, u64) {
        match self.target(off) {
            Some((target, distance)) => {
                (self.numbers.get(&target).map_or(u64::MAX, |number| *number as u64), distance)
            }
            None => (u64::MAX - 1, if off == 0 { 0 } else { 1 }),
        }
    }
}
