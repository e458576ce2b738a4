//! What a transaction reads is what it has stored, and what its record will store.

use super::*;
use lode_layout::{CHUNK, checked};
use lode_pmem::{Durability, Mapping};

const LEN: u64 = 8 * CHUNK;
/// A span that the transaction has taken.
const OWN: Span = Span { start: PoolOffset::new(3 * CHUNK), chunks: 2 };

fn medium() -> Mapping {
    Mapping::options().durability(Durability::None).map_anonymous(LEN).expect("memory")
}

/// Random numbers below a bound.
fn draws(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    }
}

impl WriteSet {
    /// Returns the number of pending writes that reads have looked at, and of lines that they have looked up.
    fn visits(&self) -> u64 {
        self.visits + self.overlay.lookups.get()
    }
}

/// Stores to random ranges, most of them near `near`, and compares what the transaction reads with a model that
/// has each store at once. Makes the transaction long after `short` of `steps` stores.
fn compare(seed: u64, near: u64, short: u64, steps: u64) -> (Mapping, WriteSet, Vec<u8>) {
    let (medium, mut draw) = (medium(), draws(seed));
    let mut model = vec![0u8; LEN as usize];
    let mut writes = WriteSet::new();
    writes.add_own_span(OWN);
    for step in 0..steps {
        if step == short {
            medium.memory().reading(|_| writes.make_long(&medium)).expect("no fault");
        }
        let longest = if draw(8) == 0 { 3000 } else { 80 };
        let len = 1 + draw(longest);
        let at = (near + draw(2 * CHUNK)).min(LEN - len);
        let range = at as usize..(at + len) as usize;
        match draw(3) {
            0 => {
                let bytes: Vec<u8> = (0..len).map(|i| (step + i) as u8).collect();
                writes.store_bytes(&medium, PoolOffset::new(at), &bytes);
                model[range].copy_from_slice(&bytes);
            }
            1 => {
                let at = at & !7;
                writes.store_words(&medium, PoolOffset::new(at), &[step]);
                model[at as usize..at as usize + 8].copy_from_slice(&step.to_le_bytes());
            }
            _ => {
                let zero = |_: &Readable| writes.zero(&medium, PoolOffset::new(at), len);
                medium.memory().reading(zero).expect("no fault");
                model[range].fill(0);
            }
        }
        let (from, len) = (draw(LEN - 300), 1 + draw(300));
        let from = if draw(2) == 0 { from } else { at.min(LEN - len) };
        let mut seen = vec![0; len as usize];
        let word = PoolOffset::new(from & !7);
        let mut words = vec![0; (len / WORD) as usize];
        let loaded = medium.memory().reading(|memory| {
            writes.read(memory, PoolOffset::new(from), &mut seen);
            writes.load_words(memory, word, &mut words);
            writes.load8(memory, word)
        });
        assert_eq!(seen, model[from as usize..(from + len) as usize], "seed {seed}, step {step}");
        let expected = &model[word.get() as usize..][..words.len() * 8];
        assert_eq!(words.as_bytes(), expected, "seed {seed}, step {step}");
        let expected = model[word.get() as usize..][..8].try_into().expect("a word");
        assert_eq!(loaded, Ok(u64::from_le_bytes(expected)), "seed {seed}, step {step}");
    }
    (medium, writes, model)
}

#[test]
fn transaction_reads_its_writes() {
    for seed in 0..8 {
        let (medium, mut writes, _) = compare(seed, CHUNK, u64::MAX, 300);
        writes.clear();
        assert_eq!(medium.memory().reading(|memory| writes.load8(memory, PoolOffset::new(CHUNK))), Ok(0));
    }
}

/// Stores to both sides of the edges of its own span.
#[test]
fn long_transaction_reads_its_writes() {
    for (seed, short) in [(1, 0), (2, 10), (3, 150), (4, 299), (5, 100)] {
        for near in [0, 2 * CHUNK, 4 * CHUNK] {
            compare(seed, near, short, 300);
        }
    }
}

/// The entries of a long transaction, applied to the medium, leave what the transaction saw. The dirty ranges hold
/// everything that was stored in place.
#[test]
fn entries_of_long_transaction_are_complete() {
    for seed in 0..8 {
        let (medium, writes, model) = compare(seed, 2 * CHUNK, 100, 300);
        let mut in_place = vec![0u8; LEN as usize];
        medium.memory().reading(|memory| memory.read(PoolOffset::NULL, &mut in_place)).expect("no fault");
        let mut kept = vec![0u8; LEN as usize];
        for (at, len) in writes.long.as_ref().expect("a long transaction").in_place.ranges() {
            let range = at.get() as usize..(at.get() + len) as usize;
            kept[range.clone()].copy_from_slice(&in_place[range]);
        }
        assert_eq!(kept, in_place, "seed {seed}: a line was stored in place and is not flushed");
        let mut log = Record::new();
        writes.for_each_entry(|entry| log.push(entry));
        assert_eq!(log.body().len() as u64, writes.log_words(), "seed {seed}: the length of the log");
        writes.for_each_entry(|entry| {
            if let Entry::Words { at, .. } | Entry::Bytes { at, .. } = entry {
                assert!(!writes.own_spans.hold(at), "seed {seed}: {at} is in place");
            }
            match entry {
                Entry::Zero { at, len } => {
                    kept[at.get() as usize..(at.get() + len) as usize].fill(0);
                }
                Entry::Words { at, words } => {
                    let bytes = words.as_bytes();
                    kept[at.get() as usize..][..bytes.len()].copy_from_slice(bytes);
                }
                Entry::Bytes { at, len, words } => {
                    kept[at.get() as usize..][..len as usize]
                        .copy_from_slice(&words.as_bytes()[..len as usize]);
                }
                entry => panic!("{entry:?}"),
            }
        });
        assert_eq!(kept, model, "seed {seed}");
    }
}

/// The later change of a bit counts, in the record and in place.
#[test]
fn bits_of_long_transaction_are_merged() {
    let medium = medium();
    let (old, own) = (PoolOffset::new(CHUNK), OWN.start);
    let mut writes = WriteSet::new();
    writes.add_own_span(OWN);
    writes.store8(&medium, own, checked(0));
    for at in [old, own] {
        writes.set_bits(&medium, at, 0b0111);
        writes.clear_bits(&medium, at, 0b0010);
    }
    medium.memory().reading(|_| writes.make_long(&medium)).expect("no fault");
    for at in [old, own] {
        medium
            .memory()
            .reading(|_| {
                writes.clear_bits(&medium, at, 0b1001);
                writes.set_bits(&medium, at, 0b1000);
            })
            .expect("no fault");
    }
    assert_eq!(medium.memory().reading(|memory| memory.load8(own)), Ok(checked(0b1100)));
    let mut entries = Vec::new();
    assert_eq!(writes.log_words(), 4, "an entry for each of the two words");
    writes.for_each_entry(|entry| entries.push(format!("{entry:?}")));
    let expected = [Entry::SetBits { at: old, mask: 0b1100 }, Entry::ClearBits { at: old, mask: 0b0011 }];
    assert_eq!(entries, expected.map(|entry| format!("{entry:?}")));
}

/// Reads look at about as many stores in a transaction of many as in one of few, also if all are to one word.
#[test]
fn visits_grow_with_changes() {
    let visits = |steps: u64, long: bool, places: u64| {
        let (medium, mut draw) = (medium(), draws(steps));
        let mut writes = WriteSet::new();
        if long {
            medium.memory().reading(|_| writes.make_long(&medium)).expect("no fault");
        }
        for step in 0..steps {
            let at = PoolOffset::new(draw(places) * WORD);
            writes.store8(&medium, at, step);
            let mut word = [0; 8];
            medium.memory().reading(|memory| writes.read(memory, at, &mut word)).expect("no fault");
            assert_eq!(u64::from_le_bytes(word), step);
        }
        writes.visits() / steps
    };
    for (long, places) in [(false, 1), (false, LEN / WORD), (true, 1), (true, LEN / WORD)] {
        assert!(visits(20_000, long, places) <= 3, "long: {long}, {places} places");
    }
    assert!(visits(16, false, 1) <= PENDING_WRITES_MAX as u64 + 2);
}

/// The length of the log is known, whichever bytes of a line were stored, and in whichever order.
#[test]
fn length_of_log_is_exact() {
    let medium = medium();
    for seed in 0..64 {
        let mut draw = draws(seed);
        let mut writes = WriteSet::new();
        medium.memory().reading(|_| writes.make_long(&medium)).expect("no fault");
        for _ in 0..1 + seed * 2 {
            let bytes = [7; 12];
            let at = PoolOffset::new(CHUNK + draw(120));
            writes.store_bytes(&medium, at, &bytes[..1 + draw(1 + seed / 6) as usize]);
            let mut log = Record::new();
            writes.for_each_entry(|entry| log.push(entry));
            assert_eq!(log.body().len() as u64, writes.log_words(), "seed {seed}");
        }
    }
}

/// Words of a line that are read one after the other take one look at the overlay, as the slots of a node are read.
#[test]
fn words_of_line_are_looked_up_once() {
    const WORDS: u64 = 258;
    let medium = medium();
    let mut writes = WriteSet::new();
    medium.memory().reading(|_| writes.make_long(&medium)).expect("no fault");
    for word in (0..WORDS).step_by(3) {
        writes.store8(&medium, PoolOffset::new(word * WORD), word + 1);
    }
    let sum = medium.memory().reading(|memory| {
        (0..WORDS).map(|word| writes.load8(memory, PoolOffset::new(word * WORD))).sum::<u64>()
    });
    assert_eq!(sum, Ok((0..WORDS).step_by(3).map(|word| word + 1).sum()));
    assert_eq!(writes.visits(), (WORDS * WORD).div_ceil(lode_layout::LINE));
}
