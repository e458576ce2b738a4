//! The medium of an open pool: the master replica, and copies in the others.
//!
//! ```text
//! engine -- store, store8 --> master                       visible
//!        -- flush(range) ---> bytes of the master --> each replica, then write-back of all
//!        -- copy, log_write > master and each replica
//!        -- drain ----------> each replica, then the master: durable in all
//! ```
//!
//! A range that was flushed and drained is durable in every replica. The header, the first 4096 bytes, is each replica's own.
//! A power cut may leave ranges in flight in one replica and not in another: as with PMDK, loads and recovery see the
//! master alone, and recovery flushes what it stores.

use crate::locked_part::LockedPart;
use lode_layout::{Durability, PmdkPartHeader, PoolOffset};
use lode_pmem::{Mapping, Medium, SyncError};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that are copied at a time.
const STEP: usize = 4096;
/// Bytes at the start of a replica that are its own.
const HEADER_LEN: u64 = PmdkPartHeader::LEN as u64;

/// The replicas of an open pool, mapped, with the locks on their parts.
#[derive(Debug)]
pub struct PoolMedium {
    // In this order: mappings are dropped before the locks of their files.
    master: Mapping,
    replicas: Vec<Mapping>,
    _locks: Vec<Arc<LockedPart>>,
    /// Held while bytes go from the master to the replicas: of two threads that flush the same bytes, the later one copies what
    /// both have stored.
    copying: Mutex<()>,
    durability: Durability,
    log_block: u64,
}

impl PoolMedium {
    pub(crate) fn new(master: Mapping, replicas: Vec<Mapping>, locks: Vec<Arc<LockedPart>>) -> PoolMedium {
        let all = || std::iter::once(&master).chain(&replicas);
        let durability = all().map(|mapping| mapping.durability()).min().unwrap_or(Durability::None);
        let log_block = all().map(|mapping| mapping.log_block()).max().unwrap_or(HEADER_LEN);
        PoolMedium { master, replicas, _locks: locks, copying: Mutex::default(), durability, log_block }
    }

    /// Returns the mappings, the master first.
    pub(crate) fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        std::iter::once(&self.master).chain(&self.replicas)
    }

    /// Returns the mapping of the master replica, for reports.
    pub fn master(&self) -> &Mapping {
        &self.master
    }

    /// Returns the number of replicas beside the master.
    pub fn replica_count(&self) -> usize {
        self.replicas.len()
    }

    /// Calls `each` with the mirrored part of a range and every replica, while no other thread does.
    fn mirror(&self, at: PoolOffset, len: u64, mut each: impl FnMut(&Mapping, u64, u64)) {
        let (start, end) = (at.get().max(HEADER_LEN), at.get().saturating_add(len));
        if self.replicas.is_empty() || start >= end {
            return;
        }
        let _alone = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        self.replicas.iter().for_each(|replica| each(replica, start, end));
    }

    /// Copies a range of the master to a replica, and starts its write-back.
    fn copy_to(&self, replica: &Mapping, start: u64, end: u64) {
        let mut bytes = [0; STEP];
        let mut at = start;
        while at < end {
            let step = (end - at).min(STEP as u64);
            let bytes = &mut bytes[..step as usize];
            let place = PoolOffset::new(at);
            if let Err(fault) = self.master.memory().reading(|memory| memory.read(place, bytes)) {
                // The bytes are zeros then: the replica keeps what it has. The scope of the caller learns of it.
                return fault.raise();
            }
            replica.store(place, bytes);
            replica.flush(place, step);
            at += step;
        }
    }
}

impl lode_pmem::Layer for PoolMedium {
    type Inner = Mapping;

    #[inline]
    fn inner(&self) -> &Mapping {
        &self.master
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn log_block(&self) -> u64 {
        self.log_block
    }

    fn copy(&self, at: PoolOffset, bytes: &[u8]) {
        self.mirror(at, bytes.len() as u64, |replica, start, end| {
            let skipped = (start - at.get()) as usize;
            replica.copy(PoolOffset::new(start), &bytes[skipped..(end - at.get()) as usize]);
        });
        self.master.copy(at, bytes);
    }

    fn flush(&self, at: PoolOffset, len: u64) {
        self.mirror(at, len, |replica, start, end| self.copy_to(replica, start, end));
        self.master.flush(at, len);
    }

    fn drain(&self) -> Result<(), SyncError> {
        for replica in &self.replicas {
            // ORDER: the replicas before the master, as with PMDK: the caller's ORDER says before what.
            replica.drain()?;
        }
        // ORDER: as above.
        self.master.drain()
    }

    fn log_write(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
        let mut written = Ok(());
        self.mirror(at, bytes.len() as u64, |replica, start, end| {
            let bytes = &bytes[(start - at.get()) as usize..(end - at.get()) as usize];
            // ORDER: as in `drain`.
            let this = replica.log_write(PoolOffset::new(start), bytes);
            written = written.and(this);
        });
        written?;
        // ORDER: as in `drain`.
        self.master.log_write(at, bytes)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_testing::memory;

    fn medium() -> PoolMedium {
        let [master, first, second] = [(); 3].map(|()| memory::persistent(4 * HEADER_LEN));
        PoolMedium::new(master, vec![first, second], Vec::new())
    }

    fn contents(medium: &PoolMedium) -> Vec<Vec<u8>> {
        medium.mappings().map(memory::bytes).collect()
    }

    /// The three ways in which bytes become durable, over the end of the header.
    #[test]
    fn durable_bytes_are_in_all_replicas() {
        for way in 0..3 {
            let medium = medium();
            let (at, bytes) = (PoolOffset::new(HEADER_LEN - 64), [7 + way; 9000 / 64 * 64]);
            match way {
                0 => {
                    medium.store(at, &bytes);
                    medium.flush(at, bytes.len() as u64);
                    medium.drain().unwrap();
                }
                1 => {
                    medium.copy(at, &bytes);
                    medium.drain().unwrap();
                }
                _ => medium.log_write(at, &bytes).unwrap(),
            }
            let all = contents(&medium);
            let (start, end) = (HEADER_LEN as usize, HEADER_LEN as usize - 64 + bytes.len());
            assert!(all[0][start - 64..end].iter().all(|byte| *byte == 7 + way));
            for replica in &all[1..] {
                assert!(replica[..start].iter().all(|byte| *byte == 0), "the header is its own");
                assert_eq!(replica[start..], all[0][start..], "way {way}");
            }
        }
    }

    #[test]
    fn stores_reach_replicas_with_their_flush_only() {
        let medium = medium();
        medium.store8(PoolOffset::new(HEADER_LEN), 5);
        medium.store8(PoolOffset::new(HEADER_LEN + 64), 6);
        medium.flush(PoolOffset::new(HEADER_LEN), 8);
        let replica = &contents(&medium)[1];
        assert_eq!((replica[HEADER_LEN as usize], replica[HEADER_LEN as usize + 64]), (5, 0));
    }

    /// A range that the master lost is not copied as zeros over the last whole copy.
    #[test]
    fn lost_range_does_not_spoil_replicas() {
        let (file, master) = memory::file(4 * HEADER_LEN);
        let medium = PoolMedium::new(master, vec![memory::persistent(4 * HEADER_LEN)], Vec::new());
        let at = PoolOffset::new(3 * HEADER_LEN);
        medium.store8(at, 9);
        medium.flush(at, 8);
        file.set_len(2 * HEADER_LEN).unwrap();
        let flushed = lode_pmem::FaultScope::run(|| medium.flush(at, 8));
        assert!(flushed.is_err());
        assert_eq!(memory::bytes(&medium.replicas[0])[3 * HEADER_LEN as usize], 9);
    }
}
