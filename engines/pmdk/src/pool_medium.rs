//! The medium of an open pool: the master replica, and copies in the others.
//!
//! ```text
//! engine -- store, store8 --> master                       visible
//!        -- flush(range) ---> bytes of the master --> each replica, then write-back of all
//!        -- copy, log_write > master and each replica
//!        -- drain ----------> each replica, then the master: durable in all
//! ```
//!
//! A range that was flushed and drained is durable in every replica. The header, the first 4096 bytes, is each replica's own, but for the
//! mark of a pool that Lodestone has open: a flush of the master's header sets it in each, the master's last. So each replica
//! alone is a pool that a crash left, with the mark as long as a log takes the place of its lanes.
//!
//! A crash may leave ranges in flight in one replica and not in another. Loads and recovery see the master alone, so before an engine
//! recovers a pool that is marked, [`recover_replicas`](PoolMedium::recover_replicas) gives the others the master's bytes.
//!
//! A pool with replicas has the durability `line` on any medium: engines flush what they stored at home, which `byte` and `commit` would
//! spare. Each drain makes a sync if the master needs one.

use crate::bugs;
use crate::error::PmdkError;
use crate::locked_part::LockedPart;
use lode_layout::{Durability, LINE, PmdkPartHeader, PoolOffset, StoredPmdkHeader, WORD};
use lode_pmem::{Fault, FaultScope, Mapping, Medium, SyncError};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that are copied at a time.
const STEP: usize = 4096;
/// Bytes at the start of a replica that are its own.
const HEADER_LEN: u64 = PmdkPartHeader::LEN as u64;

/// Bytes that are compared at a time when replicas are recovered.
const COMPARED: u64 = 256 << 10;

/// The replicas of an open pool, mapped, with the locks on their parts.
#[derive(Debug)]
pub struct PoolMedium<M = Mapping> {
    // In this order: mappings are dropped before the locks of their files.
    master: M,
    replicas: Vec<M>,
    _locks: Vec<Arc<LockedPart>>,
    /// Held while bytes go from the master to the replicas: of two threads that flush the same bytes, the later one copies what
    /// both have stored.
    copying: Mutex<()>,
}

impl<M: Medium> PoolMedium<M> {
    pub(crate) fn new(master: M, replicas: Vec<M>, locks: Vec<Arc<LockedPart>>) -> PoolMedium<M> {
        PoolMedium { master, replicas, _locks: locks, copying: Mutex::default() }
    }

    /// Returns the medium of a pool whose replicas the caller has mapped, and whose mappings keep the locks of their files.
    pub fn of(master: M, replicas: Vec<M>) -> PoolMedium<M> {
        PoolMedium::new(master, replicas, Vec::new())
    }

    /// Returns the same medium for a child of a fork, which takes the pool over: a thread that is not there may hold the lock of the copies.
    pub fn unlocked(self) -> PoolMedium<M> {
        PoolMedium { copying: Mutex::default(), ..self }
    }

    /// Flushes as [`flush`](Medium::flush) does, in a child of a fork, in whose copy of this value a thread that is not there may hold the
    /// lock of the copies.
    ///
    /// # Durability
    /// After the next drain.
    pub fn flush_in_child(&self, at: PoolOffset, len: u64) {
        let (start, end) = (at.get().max(HEADER_LEN), at.get().saturating_add(len));
        self.replicas.iter().for_each(|replica| self.copy_to(replica, start, end));
        self.master.flush(at, len);
    }

    /// Returns the mappings, the master first.
    pub fn mappings(&self) -> impl Iterator<Item = &M> {
        std::iter::once(&self.master).chain(&self.replicas)
    }

    /// Returns the mapping of the master replica, for reports.
    pub fn master(&self) -> &M {
        &self.master
    }

    /// Returns the number of replicas beside the master.
    #[inline]
    pub fn replica_count(&self) -> usize {
        self.replicas.len()
    }

    /// Calls `each` with the mirrored part of a range and every replica, while no other thread does.
    #[inline]
    fn mirror(&self, at: PoolOffset, len: u64, each: impl FnMut(&M, u64, u64)) {
        if !self.replicas.is_empty() {
            self.mirror_in_each(at, len, each);
        }
    }

    #[cold]
    fn mirror_in_each(&self, at: PoolOffset, len: u64, mut each: impl FnMut(&M, u64, u64)) {
        let (start, end) = (at.get().max(HEADER_LEN), at.get().saturating_add(len));
        if start >= end {
            return;
        }
        let _alone = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        self.replicas.iter().for_each(|replica| each(replica, start, end));
    }

    /// Copies a range of the master to a replica, and starts its write-back.
    fn copy_to(&self, replica: &M, start: u64, end: u64) {
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

    /// Marks the replicas as in use if the master is marked, and takes the mark away otherwise.
    #[cold]
    fn mirror_mark(&self) -> Result<(), Fault> {
        let is_in_use = is_in_use(&header(&self.master)?);
        for replica in &self.replicas {
            let found = StoredPmdkHeader::new(header(replica)?);
            if found.features().is_in_use() == is_in_use && found.is_intact() {
                continue;
            }
            for (at, word) in found.in_use_words(is_in_use) {
                replica.store8(at, word);
                replica.flush(at, WORD);
            }
        }
        Ok(())
    }

    /// Gives the replicas what the master has, if its mark says that a crash of Lodestone left the pool. Otherwise it takes a mark away that
    /// only a replica has. To be called before an engine opens the pool for writing. `path` is that of the pool.
    ///
    /// # Errors
    /// [`PmdkError::Memory`] if bytes of a replica are lost; [`PmdkError::Drain`].
    ///
    /// # Durability
    /// On return. After a crash before that, the master is as it was, and the next call does the same.
    ///
    /// # Cost
    /// Reads all of the pool and of its replicas after a crash. None without replicas.
    pub fn recover_replicas(&self, path: &Path) -> Result<(), PmdkError> {
        if self.replicas.is_empty() {
            return Ok(());
        }
        let master = header(&self.master).map_err(PmdkError::memory(path))?;
        let copied = FaultScope::run(|| {
            if is_in_use(&master) {
                self.replicas.iter().for_each(|replica| self.copy_differences(replica));
            }
            self.mirror_mark().unwrap_or_else(Fault::raise);
        });
        copied.map_err(PmdkError::memory(path))?;
        // ORDER: equal replicas before the engine's first store. Stop here: the master counts.
        lode_pmem::Layer::drain(self).map_err(PmdkError::drain(path))
    }

    /// Copies the bytes of the master to a replica where they differ.
    fn copy_differences(&self, replica: &M) {
        let len = self.master.memory().len().min(replica.memory().len());
        let mut bytes = vec![0; COMPARED as usize];
        for start in (HEADER_LEN..len).step_by(COMPARED as usize) {
            let place = PoolOffset::new(start);
            let bytes = &mut bytes[..(len - start).min(COMPARED) as usize];
            if let Err(fault) = self.master.memory().reading(|memory| memory.read(place, bytes)) {
                return fault.raise();
            }
            let is_equal = replica.memory().reading(|memory| memory.equals(place, bytes));
            if !is_equal.unwrap_or(false) {
                self.copy_to(replica, start, start + bytes.len() as u64);
            }
        }
    }
}

fn header<M: Medium>(mapping: &M) -> Result<[u8; PmdkPartHeader::LEN], Fault> {
    let mut bytes = [0; PmdkPartHeader::LEN];
    mapping.memory().reading(|memory| memory.read(PoolOffset::NULL, &mut bytes))?;
    Ok(bytes)
}

/// Returns true if the header has the mark. One of two words of it counts as the mark.
fn is_in_use(header: &[u8; PmdkPartHeader::LEN]) -> bool {
    PmdkPartHeader::decode(header).is_ok_and(|header| header.features.is_in_use())
}

impl<M: Medium> lode_pmem::Layer for PoolMedium<M> {
    type Inner = M;

    #[inline]
    fn inner(&self) -> &M {
        &self.master
    }

    #[inline]
    fn durability(&self) -> Durability {
        if self.replicas.is_empty() { self.master.durability() } else { Durability::Line }
    }

    #[inline]
    fn log_block(&self) -> u64 {
        if self.replicas.is_empty() { self.master.log_block() } else { LINE }
    }

    #[inline]
    fn copy(&self, at: PoolOffset, bytes: &[u8]) {
        self.mirror(at, bytes.len() as u64, |replica, start, end| {
            let skipped = (start - at.get()) as usize;
            replica.copy(PoolOffset::new(start), &bytes[skipped..(end - at.get()) as usize]);
        });
        self.master.copy(at, bytes);
    }

    #[inline]
    fn flush(&self, at: PoolOffset, len: u64) {
        self.mirror(at, len, |replica, start, end| self.copy_to(replica, start, end));
        let is_marked = at.get() < HEADER_LEN && !self.replicas.is_empty();
        if is_marked && !bugs::MARK_NOT_MIRRORED.is_active() {
            self.mirror_mark().unwrap_or_else(Fault::raise);
        }
        self.master.flush(at, len);
    }

    #[inline]
    fn drain(&self) -> Result<(), SyncError> {
        let drained = if bugs::REPLICAS_NOT_DRAINED.is_active() { &[] } else { &self.replicas[..] };
        for replica in drained {
            // ORDER: the replicas before the master, as with PMDK: the caller's ORDER says before what.
            replica.drain()?;
        }
        // ORDER: as above.
        self.master.drain()
    }

    #[inline]
    fn log_write(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
        if self.replicas.is_empty() {
            // ORDER: as in `drain`.
            return self.master.log_write(at, bytes);
        }
        // The unit of a log write may be larger where the medium needs a sync: a copy has none.
        lode_pmem::Layer::copy(self, at, bytes);
        // ORDER: as in `drain`.
        lode_pmem::Layer::drain(self)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_layout::{PmdkHeader, PmdkKind};
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

    /// The mark is in the header of each replica, whose checksum is its own; all else of the header is.
    #[test]
    fn mark_is_that_of_the_master() {
        let medium = medium();
        let header = |replica: u128| {
            let uuid = uuid::Uuid::from_u128(replica + 1);
            PmdkHeader::new(PmdkKind::Objects, uuid::Uuid::from_u128(9), uuid, 3).encode()
        };
        for (replica, mapping) in medium.mappings().enumerate() {
            mapping.store(PoolOffset::NULL, &header(replica as u128));
        }
        let marks = || -> Vec<bool> {
            let headers = contents(&medium).into_iter().map(|bytes| PmdkPartHeader::decode(&bytes).unwrap());
            headers.map(|header| header.features.is_in_use()).collect()
        };
        for is_marked in [true, false] {
            let words = StoredPmdkHeader::new(super::header(&medium.master).unwrap()).in_use_words(is_marked);
            // After one of the two words the pool counts as marked.
            for ((at, word), want) in words.into_iter().zip([true, is_marked]) {
                medium.store8(at, word);
                medium.flush(at, WORD);
                assert_eq!(marks(), [want; 3]);
            }
        }
        assert!(
            contents(&medium).iter().enumerate().all(|(nth, bytes)| bytes[..4096] == header(nth as u128))
        );
        // A mark that a crash left in a replica alone.
        for (at, word) in StoredPmdkHeader::new(header(1)).in_use_words(true) {
            medium.replicas[0].store8(at, word);
        }
        assert_eq!(marks(), [false, true, false]);
        medium.recover_replicas(Path::new("pool")).unwrap();
        assert_eq!(marks(), [false; 3]);
    }

    #[test]
    fn replicas_of_a_crash_get_the_bytes_of_the_master() {
        let medium = medium();
        let header = PmdkHeader::new(PmdkKind::Objects, uuid::Uuid::nil(), uuid::Uuid::nil(), 3);
        medium.mappings().for_each(|mapping| mapping.store(PoolOffset::NULL, &header.encode()));
        let at = [HEADER_LEN, 3 * HEADER_LEN - 8, 4 * HEADER_LEN - 8].map(PoolOffset::new);
        at.iter().for_each(|at| medium.master.store8(*at, 7));
        medium.replicas[1].store8(PoolOffset::new(2 * HEADER_LEN), 9);
        let is_equal = || {
            let all = contents(&medium);
            all[1..].iter().all(|replica| replica[HEADER_LEN as usize..] == all[0][HEADER_LEN as usize..])
        };
        medium.recover_replicas(Path::new("pool")).unwrap();
        assert!(!is_equal(), "a pool that was closed");
        for (at, word) in StoredPmdkHeader::new(header.encode()).in_use_words(true) {
            medium.master.store8(at, word);
        }
        medium.recover_replicas(Path::new("pool")).unwrap();
        assert!(is_equal());
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
        let flushed = FaultScope::run(|| medium.flush(at, 8));
        assert!(flushed.is_err());
        assert_eq!(memory::bytes(&medium.replicas[0])[3 * HEADER_LEN as usize], 9);
    }
}
