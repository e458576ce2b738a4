//! An open pool: its log, and its walks.

use crate::walks::{Walk, Walks};
use lode_capi_entry::{Failure, PoolFiles, PoolMemory, forget_refusal, unless_refused, words_of};
use lode_layout::PmdkLog;
use lode_log::pmdk::{PmemLog, PmemLogError};
use lode_pmem::{Durability, Medium};
use std::ops::Deref;
use std::path::Path;
use std::ptr::NonNull;

/// An open pool.
#[derive(Debug)]
pub(crate) struct Pool {
    log: PmemLog<PoolMemory>,
    walks: Walks,
}

/// The bytes that a walk shows. They stay as they are until it ends.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) start: NonNull<u8>,
    pub(crate) len: usize,
    _walk: Walk,
}

impl Pool {
    /// Opens the pool at `path`.
    pub(crate) fn open(files: &PoolFiles, path: &Path) -> Result<Pool, Failure> {
        unless_refused(|| Pool::of(files.open(path)?))
    }

    /// Makes a pool at `path`, as [`PoolFiles::create`] says.
    pub(crate) fn create(files: &PoolFiles, path: &Path, len: u64, mode: u32) -> Result<Pool, Failure> {
        forget_refusal();
        let new = files.create(path, len, mode)?;
        PmemLog::format_content(&new.medium).map_err(|error| failure(&error, ""))?;
        Pool::of(new.publish()?)
    }

    /// Checks the pool at `path`. Fails if it is damaged, as PMDK does.
    pub(crate) fn check(files: &PoolFiles, path: &Path) -> Result<(), Failure> {
        Pool::of(files.open_to_check(path)?).map(drop)
    }

    fn of(medium: PoolMemory) -> Result<Pool, Failure> {
        check_descriptor(&medium)?;
        let log = PmemLog::open_content(medium).map_err(|error| failure(&error, ""))?;
        Ok(Pool { log, walks: Walks::new() })
    }

    /// Returns the most bytes that the log can have.
    pub(crate) fn capacity(&self) -> u64 {
        self.log.capacity()
    }

    /// Returns the number of bytes of the log: those of appends that have succeeded, and that no power cut loses.
    pub(crate) fn len(&self) -> Result<u64, Failure> {
        self.adopt_end("")?;
        Ok(self.log.durable_len())
    }

    /// Appends these parts for `call`, which has [checked](Pool::check_room) that there is room.
    ///
    /// # Durability
    /// On return.
    #[inline]
    pub(crate) fn append<P: Deref<Target = [u8]>>(&self, parts: &[P], call: &str) -> Result<(), Failure> {
        self.log.appendv(parts).map_err(|error| failure(&error, call))?;
        if self.log.has_volatile_cache() {
            self.log.persist().map_err(|error| failure(&error, call))?;
        }
        Ok(())
    }

    /// Fails for `call` if an append of this many bytes is refused before any of them is read: a full log takes none, not even
    /// no bytes.
    #[inline]
    pub(crate) fn check_room(&self, need: u64, call: &str) -> Result<(), Failure> {
        if self.log.medium().memory().is_private_view() {
            return Err(failure(&PmemLogError::ReadOnly, call));
        }
        self.adopt_end(call)?;
        let free = self.log.capacity() - self.log.len();
        if free == 0 || need > free { Err(failure(&PmemLogError::Full { need, free }, call)) } else { Ok(()) }
    }

    /// Drops all bytes. `thread` is the calling thread.
    ///
    /// # Durability
    /// On return.
    pub(crate) fn rewind(&self, thread: u64) -> Result<(), Failure> {
        if self.log.medium().memory().is_private_view() {
            return Err(Failure::new(
                libc::EROFS,
                "can't rewind read-only log; its features allow no change by this version of the library",
            ));
        }
        let rewound = self.walks.without(thread, || {
            self.adopt_end("pmemlog_rewind")?;
            self.log.rewind().map_err(|error| failure(&error, "pmemlog_rewind"))
        });
        rewound.unwrap_or_else(|| {
            let text = "the callback of a walk can't rewind the log that it walks; do so after the walk";
            Err(Failure::new(libc::EDEADLK, text))
        })
    }

    /// Begins a walk. `thread` is the calling thread.
    pub(crate) fn walk(&self, thread: u64) -> Result<Shown, Failure> {
        let walk = self.walks.begin(thread);
        let len = self.len()?;
        let start = self.log.medium().memory().locate(PmdkLog::START, len);
        let start = start.map_err(|fault| failure(&PmemLogError::Memory(fault), "pmemlog_walk"))?;
        Ok(Shown { start, len: len as usize, _walk: walk })
    }

    /// Looks for appends of the parent or a child of a fork, which has the same mapping.
    #[inline]
    fn adopt_end(&self, call: &str) -> Result<(), Failure> {
        self.log.adopt_end().map_err(|error| failure(&error, call))
    }

    /// Makes all durable. A failure was reported by the call that met it.
    pub(crate) fn close(self) {
        if self.log.medium().durability() != Durability::None {
            let _ = self.log.close();
        }
    }
}

/// Checks the descriptor for PMDK's words: the engine has the same rules.
fn check_descriptor(medium: &PoolMemory) -> Result<(), Failure> {
    let mut bytes = [0; PmdkLog::LEN];
    let read = medium.memory().reading(|memory| memory.read(PmdkLog::OFF, &mut bytes));
    read.map_err(|fault| failure(&PmemLogError::Memory(fault), ""))?;
    let len = medium.memory().len();
    let Err(error) = PmdkLog::decode(bytes, len) else { return Ok(()) };
    let word = |index: usize| {
        let (words, _) = bytes.as_chunks::<8>();
        u64::from_le_bytes(words[index])
    };
    let (start, end, write) = (word(0), word(1), word(2));
    let words = if error.field == "write" {
        format!("wrong write offset (start: {start} end: {end} write: {write})")
    } else {
        format!("wrong start/end offsets (start: {start} end: {end}), pool size {len}")
    };
    Err(Failure::invalid(words).and("the descriptor is damaged: restore the pool from a copy"))
}

/// Returns the failure of `call` by an error of the log.
#[cold]
pub(crate) fn failure(error: &PmemLogError, call: &str) -> Failure {
    match error {
        PmemLogError::Full { .. } => {
            Failure::new(libc::ENOSPC, format!("{call}: {}; {error}", words_of(libc::ENOSPC)))
        }
        PmemLogError::ReadOnly => Failure::new(
            libc::EROFS,
            "can't append to read-only log; its features allow no change by this version of the library",
        ),
        PmemLogError::Descriptor(_) | PmemLogError::Plan(_) => Failure::invalid(error.to_string()),
        _ => Failure::new(libc::EIO, format!("{call}: {error}")),
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_layout::PmdkKind;
    use lode_pmem::{ByAddress, Cpu};
    use std::fs::{self, File};
    use std::os::unix::fs::{FileExt, PermissionsExt};

    const LEN: u64 = 2 << 20;

    fn files(forced: Option<bool>) -> PoolFiles {
        let instructions = ByAddress::new(Cpu::oldest());
        PoolFiles { kind: PmdkKind::Log, instructions, forced }
    }

    fn content(pool: &Pool) -> Vec<u8> {
        let shown = pool.walk(1).unwrap();
        let mut bytes = vec![0; shown.len];
        let medium = pool.log.medium();
        medium.memory().reading(|memory| memory.read(PmdkLog::START, &mut bytes)).unwrap();
        assert_eq!(medium.memory().offset_of(shown.start.as_ptr()), PmdkLog::START);
        bytes
    }

    #[test]
    fn appends_are_there_after_reopening() {
        let folder = tempfile::tempdir().unwrap();
        for forced in [Some(true), Some(false), None] {
            let (files, path) = (files(forced), folder.path().join(format!("{forced:?}")));
            let pool = Pool::create(&files, &path, LEN + 5, 0o640).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
            assert_eq!((pool.capacity(), pool.len().unwrap()), (LEN - 8192, 0));
            pool.append(&[&b"one"[..], b"", b"two"], "x").unwrap();
            assert_eq!(content(&pool), b"onetwo");
            let busy = Pool::open(&files, &path).unwrap_err();
            assert_eq!(busy.errno, libc::EAGAIN);
            assert!(busy.text.starts_with(&format!("flock \"{}\": Resource temporarily", path.display())));
            pool.close();
            let pool = Pool::open(&files, &path).unwrap();
            assert_eq!(content(&pool), b"onetwo");
            pool.rewind(1).unwrap();
            assert_eq!(pool.len().unwrap(), 0);
            drop(pool);
            Pool::check(&files, &path).unwrap();
        }
    }

    /// A child of a fork appends through the same mapping, and its parent finds the bytes.
    #[test]
    fn ends_of_other_processes_are_adopted() {
        let folder = tempfile::tempdir().unwrap();
        for forced in [true, false] {
            let path = folder.path().join(forced.to_string());
            let pool = Pool::create(&files(Some(forced)), &path, LEN, 0o600).unwrap();
            pool.append(&[&b"parent "[..]], "x").unwrap();
            let file = File::options().read(true).write(true).open(&path).unwrap();
            let end = PmdkLog::START.get();
            file.write_all_at(b"child ", end + 7).unwrap();
            file.write_all_at(&(end + 13).to_le_bytes(), PmdkLog::WRITE_OFF.get()).unwrap();
            assert_eq!(pool.len().unwrap(), 13);
            pool.append(&[&b"parent"[..]], "x").unwrap();
            assert_eq!(content(&pool), b"parent child parent");
            // A word that no append stores is left alone.
            file.write_all_at(&u64::MAX.to_le_bytes(), PmdkLog::WRITE_OFF.get()).unwrap();
            assert_eq!(pool.len().unwrap(), 19);
            file.write_all_at(&end.to_le_bytes(), PmdkLog::WRITE_OFF.get()).unwrap();
            assert_eq!(content(&pool), b"");
        }
    }

    #[test]
    fn full_and_read_only_logs_refuse() {
        let folder = tempfile::tempdir().unwrap();
        let (files, path) = (files(Some(true)), folder.path().join("pool"));
        let pool = Pool::create(&files, &path, LEN, 0o600).unwrap();
        let bytes = vec![7; pool.capacity() as usize];
        assert!(pool.check_room(pool.capacity() + 1, "x").is_err());
        pool.append(&[&bytes[..]], "x").unwrap();
        let full = pool.check_room(0, "pmemlog_append").unwrap_err();
        assert_eq!(full.errno, libc::ENOSPC);
        assert!(full.text.starts_with("pmemlog_append: No space left on device; "), "{}", full.text);
        drop(pool);
        let mut header = [0; 4096];
        let file = File::options().read(true).write(true).open(&path).unwrap();
        file.read_exact_at(&mut header, 0).unwrap();
        header[20] = 0x40;
        lode_layout::store_pmdk_checksum(&mut header);
        file.write_all_at(&header, 0).unwrap();
        let pool = Pool::open(&files, &path).unwrap();
        let refused = [pool.check_room(1, "x").unwrap_err(), pool.rewind(1).unwrap_err()];
        assert!(refused.iter().all(|failure| failure.errno == libc::EROFS), "{refused:?}");
        assert_eq!(content(&pool), bytes);
        drop(pool);
        let mut after = [0; 4096];
        file.read_exact_at(&mut after, 0).unwrap();
        assert_eq!(after, header);
    }

    #[test]
    fn damaged_descriptors_are_refused_in_pmdks_words() {
        let folder = tempfile::tempdir().unwrap();
        let (files, path) = (files(None), folder.path().join("pool"));
        drop(Pool::create(&files, &path, LEN, 0o600).unwrap());
        let file = File::options().read(true).write(true).open(&path).unwrap();
        for (at, value, words) in [
            (16, 8191, "wrong write offset (start: 8192 end: 2097152 write: 8191)"),
            (8, 4096, "wrong start/end offsets (start: 8192 end: 4096), pool size 2097152"),
            (0, 0, "wrong start/end offsets (start: 0 end: 4096), pool size 2097152"),
        ] {
            file.write_all_at(&u64::to_le_bytes(value), 4096 + at).unwrap();
            for refused in [Pool::open(&files, &path).map(drop), Pool::check(&files, &path)] {
                let refused = refused.unwrap_err();
                assert_eq!(refused.errno, libc::EINVAL);
                assert!(refused.text.starts_with(words), "{}", refused.text);
            }
        }
    }

    #[test]
    fn callback_can_append_and_not_rewind() {
        let folder = tempfile::tempdir().unwrap();
        let pool = Pool::create(&files(Some(true)), &folder.path().join("pool"), LEN, 0o600).unwrap();
        pool.append(&[&b"a"[..]], "x").unwrap();
        let shown = pool.walk(7).unwrap();
        pool.append(&[&b"b"[..]], "x").unwrap();
        assert_eq!((shown.len, pool.len().unwrap()), (1, 2));
        assert_eq!(pool.rewind(7).unwrap_err().errno, libc::EDEADLK);
        drop(shown);
        pool.rewind(7).unwrap();
    }
}
