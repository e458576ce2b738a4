use super::*;
use crate::log::ring_checksum_seed;
use lode_layout::Record;
use lode_pmem::Memory;

const BLOCK: u64 = BLOCKS[3];
const SECTOR: usize = 512;
const RING_LEN: u64 = 16 * BLOCK;
const CHECKPOINT: u64 = 100;

/// A ring at durability commit, with the content that a power cut left.
struct SharedRing {
    memory: Memory,
    checksum_seed: ChecksumSeed,
    head: u64,
    sequence: u64,
}

impl SharedRing {
    /// Returns a ring whose records so far are not needed.
    fn new() -> SharedRing {
        let memory = Memory::anonymous(RING_LEN).unwrap();
        let checksum_seed = ring_checksum_seed(&[7; 16], [1, 2], 0);
        let mut ring = SharedRing { memory, checksum_seed, head: 0, sequence: CHECKPOINT - 40 };
        while ring.sequence < CHECKPOINT {
            let (at, batch) = ring.batch(&[30, 70]);
            ring.memory.store(at, &batch);
        }
        ring.head = 0;
        ring
    }

    /// Returns the next batch, and its place. Its records have entries of `lens` words.
    fn batch(&mut self, lens: &[usize]) -> (PoolOffset, Vec<u8>) {
        let start = self.head;
        let mut words = Vec::new();
        for len in lens {
            let mut record = Record::new();
            (0..*len as u64 / 2)
                .for_each(|word| record.push_word(PoolOffset::new(RING_LEN + 8 * word), word));
            self.sequence += 1;
            let at = start + words.len() as u64 * WORD;
            words.extend_from_slice(record.finish(self.checksum_seed, self.sequence, at, checksum));
        }
        words.resize(align_up(words.len() as u64 * WORD, BLOCK) as usize / 8, 0);
        self.head = start + words.len() as u64 * WORD;
        (PoolOffset::new(start), words.as_bytes().to_vec())
    }

    fn scan(&self) -> RingScan {
        let scan = self.memory.reading(|memory| {
            let (start, checksum_seed) = (PoolOffset::NULL, self.checksum_seed);
            Ring { memory, start, len: RING_LEN, checksum_seed, shared: true, checkpoint: CHECKPOINT }.scan()
        });
        scan.unwrap()
    }
}

/// After an opening the ring is full of records of an earlier epoch. Inside of them, a map word or an offset looks like the
/// header of a long record.
#[test]
fn records_of_an_earlier_epoch_are_no_damage() {
    for word in [|at: u64| (at % 2000) << 32 | at, |at: u64| ((at * 5) % 2000) << 32 | (at * 77 % 9999)] {
        let ring = SharedRing::new();
        let words: Vec<u64> = (0..RING_LEN / WORD).map(word).collect();
        ring.memory.store(PoolOffset::NULL, words.as_bytes());
        let scan = ring.scan();
        assert!(!scan.too_many_records && scan.needed.is_empty() && scan.gaps.is_empty(), "{scan:?}");
    }
}

/// A power cut leaves any sectors of the batch that was being written, and all of the batches before it. It is no proof
/// of damage, however many records are missing between those that are there.
#[test]
fn torn_batch_is_not_proven_damage() {
    for lens in [&[60, 60, 60, 60][..], &[8, 120, 8, 120, 8, 120], &[200, 2, 60, 2, 60, 2, 100], &[62; 8]] {
        let mut ring = SharedRing::new();
        for _ in 0..2 {
            let (at, batch) = ring.batch(&[20, 90]);
            ring.memory.store(at, &batch);
        }
        let (at, batch) = ring.batch(lens);
        let mut old = vec![0; batch.len()];
        ring.memory.reading(|memory| memory.read(at, &mut old)).unwrap();
        let sectors = batch.len() / SECTOR;
        assert!(sectors <= 8, "{sectors} sectors");
        for written in 0u32..1 << sectors {
            for sector in 0..sectors {
                let bytes = sector * SECTOR..(sector + 1) * SECTOR;
                let from = if written >> sector & 1 == 1 { &batch } else { &old };
                ring.memory.store(at.plus(bytes.start as u64), &from[bytes]);
            }
            let scan = ring.scan();
            assert!(scan.needed.len() >= 4, "the batches before it are there");
            let proven: Vec<_> = scan.gaps.iter().filter(|gap| gap.proven).collect();
            assert!(proven.is_empty(), "records of {lens:?} words, sectors {written:#b}: {proven:?}");
        }
    }
}

/// A record that is missing before a whole later batch was durable.
#[test]
fn damage_before_later_batches_is_proven() {
    let lens = [60, 60, 60, 60];
    for damaged in 0..lens.len() {
        let mut ring = SharedRing::new();
        for _ in 0..3 {
            let (at, batch) = ring.batch(&lens);
            ring.memory.store(at, &batch);
        }
        let whole = ring.scan();
        assert!(whole.gaps.is_empty());
        let record = PoolOffset::new(whole.needed[damaged].offset);
        ring.memory.store(record, &[0xa5; 64]);
        let scan = ring.scan();
        // Nothing tells where the first one began.
        let is_proven = scan.gaps.iter().any(|gap| gap.proven && (gap.at == record || damaged == 0));
        assert!(is_proven, "record {damaged}: {:?}", scan.gaps);
        assert_eq!(scan.needed.len(), whole.needed.len() - 1, "the others are there");
    }
}
