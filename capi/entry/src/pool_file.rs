//! The pools of a library: their files, sets and nodes are opened or made by `lode-pmdk`, and mapped here as PMDK does it.

use crate::allocator::take_refusal;
use crate::ctl::Setting;
use crate::failure::Failure;
use crate::pool_failure::of_parts;
use lode_layout::{BLOCK, PmdkFeatures, PmdkKind, PmdkPartHeader, PmdkShutdown, PoolOffset};
use lode_pmdk::{
    CreateOptions, NewParts, OpenOptions, PmdkAccess, PmdkError, PoolGrowth, PoolMedium, PoolParts, SetError,
    store_shutdown_state,
};
use lode_pmem::{ByAddress, DaxDevice, MappedPart, Medium, ProgramMedium, ProgramShare, Sysfs, store_again};
use std::mem::ManuallyDrop;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The pools of a library, and what the library found in its environment when it was loaded.
#[derive(Clone, Copy, Debug)]
pub struct PoolFiles {
    /// The kind of its pools.
    pub kind: PmdkKind,
    /// The instructions that it uses.
    pub instructions: ByAddress,
    /// The answer whether a medium is persistent memory, if the environment gives one.
    pub forced: Option<bool>,
}

/// The memory of an open pool: the bytes of its parts, without the headers between them. Dropping it closes the pool.
#[derive(Debug)]
pub struct PoolMemory {
    medium: ManuallyDrop<PoolMedium<ProgramMedium>>,
    header: PmdkPartHeader,
    /// For each replica, the shutdown state that says on the medium that the pool is open; `None` if nothing says so. `growth` has those of
    /// a pool that grows.
    states: Vec<Option<PmdkShutdown>>,
    /// The directories in which the pool grows.
    growth: Option<Mutex<PoolGrowth>>,
    /// True if a drop leaves the mapping, and the state, as they are.
    is_kept: AtomicBool,
}

/// A pool that is to be made.
#[derive(Debug)]
pub struct NewPool {
    /// Its memory.
    pub medium: PoolMedium<ProgramMedium>,
    /// True if all files are new, and so all zeros.
    pub is_zeroed: bool,
    parts: NewParts,
    files: PoolFiles,
}

impl PoolFiles {
    /// Opens and maps the pool at `path`: a file, a device-DAX node, or the file of a pool set.
    ///
    /// # Errors
    /// EAGAIN if another handle has it open, EINVAL if it is no pool of this kind, or an object pool that may only be read, and those of
    /// the system calls.
    pub fn open(&self, path: &Path) -> Result<PoolMemory, Failure> {
        let memory = if Setting::CopyOnWriteAtOpen.is_set() {
            self.map_open(path, PmdkAccess::CopyOnWrite, ProgramShare::CopyOnWrite)?
        } else {
            self.map_open(path, PmdkAccess::ReadWrite, ProgramShare::Shared)?
        };
        if Setting::PrefaultAtOpen.is_set() {
            prefault(&memory);
        }
        Ok(memory)
    }

    /// Opens the pool at `path` for a check, which changes nothing.
    ///
    /// # Errors
    /// As [`open`](PoolFiles::open); ENOTSUP for a device, which can't be mapped privately.
    pub fn open_to_check(&self, path: &Path) -> Result<PoolMemory, Failure> {
        self.map_open(path, PmdkAccess::CopyOnWrite, ProgramShare::ReadOnly)
    }

    fn map_open(&self, path: &Path, access: PmdkAccess, share: ProgramShare) -> Result<PoolMemory, Failure> {
        let options = OpenOptions { program: Some(self.instructions), ..OpenOptions::new(self.kind, access) };
        let parts = PoolParts::open(path, &options).map_err(|error| of_parts(&error))?;
        if parts.is_read_only() && self.kind == PmdkKind::Objects {
            let features = "the pool has features (ro_compat) that only a newer library may change";
            return Err(Failure::invalid("read-only mode is not supported").and(features));
        }
        let share = if parts.is_read_only() { ProgramShare::ReadOnly } else { share };
        let to_map = parts.to_map().map_err(|error| of_parts(&error))?;
        let reserved = parts.reserved().map_err(|error| of_parts(&error))?;
        let medium = self.map(path, &to_map, reserved, share)?;
        let mut memory = PoolMemory::of(medium, *parts.header());
        if share == ProgramShare::Shared {
            memory.medium.recover_replicas(path).map_err(|error| of_parts(&error))?;
            let growth = self.growth(&parts)?;
            memory.store_states(parts.shutdown_states(), true, path).map_err(|error| of_parts(&error))?;
            (memory.states, memory.growth) = (parts.shutdown_states().to_vec(), growth);
        }
        parts.leave_locks();
        Ok(memory)
    }

    /// Begins a pool of `len` bytes in a new file at `path`, with this mode; with a length of 0 one in the file or device that is
    /// there, or in the parts of the set file. The caller stores its structures durably, and then [publishes](NewPool::publish) it.
    ///
    /// # Errors
    /// EEXIST if the file is there, or has a header; EINVAL if the size is too small; and those of the system calls.
    pub fn create(&self, path: &Path, len: u64, mode: u32) -> Result<NewPool, Failure> {
        let mut options = CreateOptions::new(self.kind);
        if !Setting::ShutdownStateAtCreate.is_set() {
            options.features.incompat &= !PmdkFeatures::SHUTDOWN_STATE;
        }
        (options.mode, options.program) = (Some(mode), Some(self.instructions));
        let size = (len > 0).then_some(len);
        let parts = NewParts::stage(path, size, &options).map_err(|error| of_parts(&error))?;
        let to_map = parts.to_map().map_err(|error| of_parts(&error))?;
        let reserved = parts.reserved().map_err(|error| of_parts(&error))?;
        let medium = self.map(path, &to_map, reserved, ProgramShare::Shared)?;
        if Setting::PrefaultAtCreate.is_set() {
            prefault(&medium);
        }
        let is_zeroed = parts.is_zeroed();
        Ok(NewPool { medium, is_zeroed, parts, files: *self })
    }

    fn growth(&self, parts: &PoolParts) -> Result<Option<Mutex<PoolGrowth>>, Failure> {
        let growth = parts.growth(Some(self.instructions)).map_err(|error| of_parts(&error))?;
        Ok(growth.map(Mutex::new))
    }

    /// Maps the parts of each replica.
    fn map(
        &self,
        path: &Path,
        replicas: &[Vec<MappedPart>],
        reserved: u64,
        share: ProgramShare,
    ) -> Result<PoolMedium<ProgramMedium>, Failure> {
        let mapped = replicas.iter().map(|parts| self.map_replica(path, parts, reserved, share));
        let mut mapped = mapped.collect::<Result<Vec<_>, Failure>>()?.into_iter();
        let master =
            mapped.next().ok_or_else(|| Failure::invalid("the set has no parts; write some lines"))?;
        Ok(PoolMedium::of(master, mapped.collect()))
    }

    fn map_replica(
        &self,
        path: &Path,
        parts: &[MappedPart],
        reserved: u64,
        share: ProgramShare,
    ) -> Result<ProgramMedium, Failure> {
        let device = coarsest_device(parts);
        if device.is_some() && share != ProgramShare::Shared {
            return Err(Failure::new(libc::ENOTSUP, SetError::PrivateDevices.to_string()));
        }
        ProgramMedium::map_parts(parts, reserved, device.as_ref(), share, self.forced, self.instructions)
            .map_err(|error| Failure::of_call(&format!("mmap: {}", path.display()), &error))
    }
}

impl NewPool {
    /// Makes the parts those of a pool, and returns the open pool.
    ///
    /// # Errors
    /// ENOMEM if the program's allocator refused memory, EEXIST if another file has that name by now.
    ///
    /// # Durability
    /// Content and names are durable on return. After a crash before that, the pool is there and whole, or it is not there.
    pub fn publish(self) -> Result<PoolMemory, Failure> {
        if take_refusal() {
            return Err(Failure::no_memory());
        }
        let parts = self.parts.finish().map_err(|error| of_parts(&error))?;
        let (header, states) = (*parts.header(), parts.shutdown_states().to_vec());
        let growth = self.files.growth(&parts)?;
        parts.leave_locks();
        let mut memory = PoolMemory::of(self.medium, header);
        (memory.states, memory.growth) = (states, growth);
        Ok(memory)
    }
}

impl PoolMemory {
    fn of(medium: PoolMedium<ProgramMedium>, header: PmdkPartHeader) -> PoolMemory {
        PoolMemory {
            medium: ManuallyDrop::new(medium),
            header,
            states: Vec::new(),
            growth: None,
            is_kept: AtomicBool::new(false),
        }
    }

    /// Returns the same memory for a child of a fork, which takes the pool over, and says on the medium that it is open. Its replicas get
    /// what the master has. It does not grow if it did so at the fork. A drop leaves it mapped, until [`unmap_on_drop`](PoolMemory::unmap_on_drop).
    ///
    /// # Errors
    /// Those of a store to the header, or to a replica.
    ///
    /// # Safety
    /// This value is never dropped, and no longer used when the new one is.
    pub unsafe fn inherited(&self) -> Result<PoolMemory, Failure> {
        // SAFETY: - a living value, which is not dropped, as the caller promises.
        let medium = unsafe { ptr::read(&raw const *self.medium) };
        let mut memory = PoolMemory::of(medium.unlocked(), self.header);
        // ORDER: no other thread has the value.
        memory.is_kept.store(true, Ordering::Relaxed);
        memory.medium.recover_replicas(Path::new("")).map_err(|error| of_parts(&error))?;
        // None if another thread had the lock at the fork: a growth was under way.
        memory.growth =
            self.growth.as_ref().and_then(|growth| Some(Mutex::new(growth.try_lock().ok()?.clone())));
        memory.states = self.states();
        memory.store_states(&memory.states, true, Path::new("")).map_err(|error| of_parts(&error))?;
        Ok(memory)
    }

    /// Returns the shutdown states of an open pool; none while another thread makes the pool larger.
    fn states(&self) -> Vec<Option<PmdkShutdown>> {
        match &self.growth {
            None => self.states.clone(),
            Some(growth) => growth.try_lock().map_or(Vec::new(), |growth| growth.shutdown_states().to_vec()),
        }
    }

    /// Lets a drop close the pool, and unmap it.
    pub fn unmap_on_drop(&self) {
        // ORDER: none: the thread that drops the value has it from this one.
        self.is_kept.store(false, Ordering::Relaxed);
    }

    /// Returns the header of the first part, as it was when the pool was opened.
    pub fn header(&self) -> &PmdkPartHeader {
        &self.header
    }

    /// Returns the mappings of the replicas, the master's first.
    pub fn replicas(&self) -> impl Iterator<Item = &ProgramMedium> {
        self.medium.mappings()
    }

    /// Flushes in a child of a fork, as long as the pool is another process's.
    ///
    /// # Durability
    /// After the next drain.
    pub fn flush_in_child(&self, at: PoolOffset, len: u64) {
        self.medium.flush_in_child(at, len);
    }

    /// Returns true if the pool has replicas beside the master.
    #[inline]
    pub fn has_replicas(&self) -> bool {
        self.medium.replica_count() > 0
    }

    /// Returns true if the pool [grows](PoolMemory::grow).
    pub fn can_grow(&self) -> bool {
        self.growth.is_some()
    }

    /// Makes the memory longer by a part of `len` bytes of zeros in the next directory of the set, or by as many as there is room for.
    ///
    /// # Errors
    /// [`SetError::Exhausted`] without room, or without directories; [`PmdkError`] for the files. The memory has its old length then.
    ///
    /// # Durability
    /// The part is durable on return. A crash before that leaves the pool with its old size or the new one.
    ///
    /// # Cost
    /// Allocates the part. Two syncs.
    pub fn grow(&self, len: u64) -> Result<(), PmdkError> {
        let Some(growth) = &self.growth else {
            return Err(PmdkError::Set { path: "".into(), error: SetError::Exhausted { left: 0 } });
        };
        let mut growth = growth.lock().unwrap_or_else(PoisonError::into_inner);
        let before = growth.shutdown_states().to_vec();
        growth.append(len, |parts, states| {
            let path = Path::new("");
            let mapped = self.store_states(states, true, path).and_then(|()| self.map_more(parts));
            mapped.inspect_err(|_| {
                // If this fails, too, lost stores are suspected after a kill.
                let _ = self.store_states(&before, true, path);
            })
        })
    }

    /// Maps a part more in each replica. `parts` has the master's first, which is mapped last: the engine sees the length of the master.
    fn map_more(&self, parts: &[MappedPart]) -> Result<(), PmdkError> {
        let mapped: Vec<_> = self.medium.mappings().zip(parts).collect();
        for (mapping, part) in mapped.into_iter().rev() {
            let failed = |errno| PmdkError::Io { op: "mmap", path: part.path.clone(), errno };
            // A growth that failed in the middle: the part would lie elsewhere than in the master.
            if mapping.memory().len() != self.medium.memory().len() {
                return Err(failed(libc::EBUSY));
            }
            mapping.grow(part).map_err(|error| failed(error.raw_os_error().unwrap_or(libc::ENOMEM)))?;
        }
        Ok(())
    }

    /// Stores the states, in the headers of the replicas, of an open pool or of a closed one.
    fn store_states(
        &self,
        states: &[Option<PmdkShutdown>],
        is_open: bool,
        path: &Path,
    ) -> Result<(), PmdkError> {
        let states = self.medium.mappings().zip(states);
        let mut kept = states.filter_map(|(mapping, state)| Some((mapping, (*state)?)));
        kept.try_for_each(|(mapping, state)| store_shutdown_state(mapping, state, is_open, path))
    }
}

impl lode_pmem::Layer for PoolMemory {
    type Inner = PoolMedium<ProgramMedium>;

    #[inline]
    fn inner(&self) -> &PoolMedium<ProgramMedium> {
        &self.medium
    }
}

impl Drop for PoolMemory {
    /// Says on the medium that the pool is closed, and unmaps it. After an error it counts as open in a crash, as after a kill.
    fn drop(&mut self) {
        // ORDER: as in `unmap_on_drop`.
        if self.is_kept.load(Ordering::Relaxed) {
            return;
        }
        let states = self.states();
        // ORDER: all stores before the mark of a closed pool. Stop here: the pool counts as open, which the next open checks.
        if states.iter().any(Option::is_some) && self.medium.drain().is_ok() {
            let _ = self.store_states(&states, false, Path::new(""));
        }
        // SAFETY: - the value is dropped here alone, and not used after that.
        unsafe { ManuallyDrop::drop(&mut self.medium) };
    }
}

/// Returns the device-DAX node with the largest alignment; `None` if the parts are files.
fn coarsest_device(parts: &[MappedPart]) -> Option<DaxDevice> {
    let device = |part: &MappedPart| {
        let metadata = part.file.metadata().ok().filter(|metadata| metadata.file_type().is_char_device())?;
        DaxDevice::numbered(&Sysfs::default(), metadata.rdev())
    };
    parts.iter().filter_map(device).max_by_key(DaxDevice::align)
}

/// Stores to each page what is there, so that it has space.
fn prefault<M: Medium>(medium: &M) {
    let word = lode_layout::WORD;
    for at in (0..medium.memory().len()).step_by(BLOCK as usize) {
        // A page that can't be stored to shows itself when it is used.
        let _ = store_again(medium, PoolOffset::new(at), word);
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_layout::{PmdkShutdownRecord, store_pmdk_checksum};
    use lode_pmem::Cpu;
    use std::fs::{self, File};
    use std::os::unix::fs::{FileExt, PermissionsExt};

    const LEN_MIN: u64 = 2 << 20;

    fn files() -> PoolFiles {
        PoolFiles { kind: PmdkKind::Log, instructions: ByAddress::new(Cpu::oldest()), forced: Some(true) }
    }

    fn refused<T: std::fmt::Debug>(outcome: Result<T, Failure>, errno: i32, words: &str) {
        let failure = outcome.unwrap_err();
        assert_eq!(failure.errno, errno, "{failure:?}");
        assert!(failure.text.starts_with(words), "{failure:?} is not {words}");
    }

    /// Writes a set file with two parts beside it.
    fn write_set(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("set");
        let [a, b] = ["a", "b"].map(|name| folder.join(name).display().to_string());
        fs::write(&path, format!("PMEMPOOLSET\n2M {a}\n4M {b}\n")).unwrap();
        path
    }

    #[test]
    fn new_pool_has_its_name_when_it_is_whole() {
        let _alone = crate::ctl::ALONE.lock();
        let folder = tempfile::tempdir().unwrap();
        let (files, path) = (files(), folder.path().join("pool"));
        drop(files.create(&path, LEN_MIN, 0o600).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let pool = files.create(&path, LEN_MIN + 4097, 0o604).unwrap();
        assert!(pool.is_zeroed && !path.exists());
        let memory = pool.publish().unwrap();
        assert!(memory.header().features.has_shutdown_state());
        assert_eq!(memory.memory().len(), LEN_MIN + 4096);
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.len(), metadata.permissions().mode() & 0o7777), (LEN_MIN + 4097, 0o604));
        let words = format!("flock \"{}\": Resource temporarily unavailable: ", path.display());
        refused(files.open(&path), libc::EAGAIN, &words);
        refused(files.open_to_check(&path), libc::EAGAIN, &words);
        drop(memory);
        drop(files.open_to_check(&path).unwrap());
        drop(files.open(&path).unwrap());
        let words = format!("file {} already exists; ", path.display());
        refused(files.create(&path, LEN_MIN, 0o600), libc::EEXIST, &words);
        refused(files.create(&path, 0, 0o600), libc::EEXIST, "Non-empty file detected: ");
    }

    #[test]
    fn file_that_is_there_becomes_a_pool() {
        let _alone = crate::ctl::ALONE.lock();
        let folder = tempfile::tempdir().unwrap();
        let (files, path) = (files(), folder.path().join("pool"));
        let file = File::create(&path).unwrap();
        file.set_len(LEN_MIN - 1).unwrap();
        let words = "file is not a poolset file and its size (2097151) is smaller than 2097152: ";
        refused(files.create(&path, 0, 0o600), libc::EINVAL, words);
        refused(files.open(&path), libc::EINVAL, "size 2097151 smaller than 2097152, ");
        file.set_len(LEN_MIN).unwrap();
        refused(files.open(&path), libc::EINVAL, "invalid major version (0); ");
        let pool = files.create(&path, 0, 0o604).unwrap();
        assert!(!pool.is_zeroed);
        drop(pool.publish().unwrap());
        drop(files.open(&path).unwrap());
    }

    #[test]
    fn sets_are_pools() {
        let _alone = crate::ctl::ALONE.lock();
        let folder = tempfile::tempdir().unwrap();
        let (files, path) = (files(), write_set(folder.path()));
        drop(files.create(&path, 0, 0o600).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the set file alone");
        let pool = files.create(&path, 0, 0o604).unwrap();
        assert!(pool.is_zeroed);
        let memory = pool.publish().unwrap();
        assert_eq!(memory.memory().len(), (6 << 20) - 4096);
        memory.store8(PoolOffset::new(2 << 20), 7);
        for name in ["a", "b"] {
            let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o604);
            let words = format!("flock \"{}\": ", folder.path().join("a").display());
            refused(files.open(&path), libc::EAGAIN, &words);
        }
        drop(memory);
        let bytes = fs::read(folder.path().join("b")).unwrap();
        assert_eq!(bytes[4096], 7, "after the header of the second part");
        refused(files.create(&path, 0, 0o600), libc::EEXIST, "Non-empty file detected: ");
        refused(files.open(&folder.path().join("b")), libc::EINVAL, "wrong part UUID");
        drop(files.open(&path).unwrap());
    }

    /// The header says that a pool is open as long as it is, and not that of a view.
    #[test]
    fn shutdown_state_is_that_of_an_open_pool() {
        let _alone = crate::ctl::ALONE.lock();
        let folder = tempfile::tempdir().unwrap();
        let (files, path) = (files(), folder.path().join("pool"));
        let is_dirty = || {
            let header = PmdkPartHeader::decode(&fs::read(&path).unwrap()).unwrap();
            matches!(header.shutdown, PmdkShutdownRecord::Stored(PmdkShutdown { is_dirty: true, .. }))
        };
        let memory = files.create(&path, LEN_MIN, 0o600).unwrap().publish().unwrap();
        assert!(is_dirty());
        drop(memory);
        assert!(!is_dirty());
        let memory = files.open(&path).unwrap();
        assert!(is_dirty());
        drop(memory);
        let memory = files.open_to_check(&path).unwrap();
        assert!(!is_dirty());
        drop(memory);
        // Features that a writer must know.
        let mut bytes = fs::read(&path).unwrap();
        bytes[0x14] = 4;
        store_pmdk_checksum(&mut bytes[..4096]);
        fs::write(&path, &bytes).unwrap();
        let memory = files.open(&path).unwrap();
        assert!(memory.memory().is_private_view() && !is_dirty());
        drop(memory);
        assert!(fs::read(&path).unwrap() == bytes);
    }

    /// A growth stores the state with the sums of the new part's modules. This machine may have none, so a wrong state shows it.
    #[test]
    fn growth_stores_the_shutdown_state() {
        let _alone = crate::ctl::ALONE.lock();
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("d")).unwrap();
        let path = folder.path().join("set");
        let text = format!("PMEMPOOLSET\nOPTION SINGLEHDR\n12M {}\n", folder.path().join("d").display());
        fs::write(&path, text).unwrap();
        let files = PoolFiles { kind: PmdkKind::Objects, ..files() };
        let memory = files.create(&path, 0, 0o600).unwrap().publish().unwrap();
        let first = File::options().read(true).write(true).open(folder.path().join("d/000000.pmem")).unwrap();
        let stored = || {
            let mut bytes = [0; PmdkPartHeader::LEN];
            first.read_exact_at(&mut bytes, 0).unwrap();
            PmdkPartHeader::decode(&bytes).unwrap().shutdown
        };
        let opened = stored();
        for (len, is_grown) in [(LEN_MIN, true), (LEN_MIN, true), (LEN_MIN, false)] {
            first.write_all_at(&[7; PmdkShutdown::LEN], PmdkShutdown::OFF).unwrap();
            assert_eq!(memory.grow(len).is_ok(), is_grown);
            assert_eq!(stored(), if is_grown { opened } else { PmdkShutdownRecord::Torn });
        }
        drop(memory);
        let closed = stored();
        assert!(matches!(
            closed,
            PmdkShutdownRecord::Empty | PmdkShutdownRecord::Stored(PmdkShutdown { is_dirty: false, .. })
        ));
    }

    #[test]
    fn paths_without_a_pool_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (files, missing) = (files(), folder.path().join("missing"));
        let words = format!("open \"{}\": No such file or directory", missing.display());
        refused(files.open(&missing), libc::ENOENT, &words);
        refused(files.create(&missing.join("pool"), LEN_MIN, 0o600), libc::ENOENT, "open \"");
        refused(files.open(folder.path()), libc::EINVAL, "stat \"");
        refused(files.open(Path::new("/dev/null")), libc::EINVAL, "/dev/null is not device DAX");
        let set = folder.path().join("set");
        fs::write(&set, "PMEMPOOLSET\n4M pmem/part\n").unwrap();
        let words = format!("{} [incorrect path (must be an absolute one):2]; ", set.display());
        for outcome in [files.open(&set).map(drop), files.open_to_check(&set).map(drop)] {
            refused(outcome, libc::EINVAL, &words);
        }
        refused(files.create(&set, 0, 0o600), libc::EINVAL, &words);
        let words = format!("invalid size ({}) for os_off_t", u64::MAX);
        refused(files.create(&missing, u64::MAX, 0o600), libc::EFBIG, &words);
    }

    #[test]
    fn settings_change_new_and_opened_pools() {
        let _alone = crate::ctl::ALONE.lock();
        let folder = tempfile::tempdir().unwrap();
        let (files, path) = (files(), folder.path().join("pool"));
        Setting::ShutdownStateAtCreate.set(0);
        Setting::PrefaultAtCreate.set(1);
        let memory = files.create(&path, LEN_MIN, 0o600).unwrap().publish().unwrap();
        assert!(!memory.header().features.has_shutdown_state());
        drop(memory);
        Setting::CopyOnWriteAtOpen.set(1);
        Setting::PrefaultAtOpen.set(1);
        let memory = files.open(&path).unwrap();
        memory.store8(PoolOffset::new(BLOCK), 7);
        drop(memory);
        let mut byte = [1];
        File::open(&path).unwrap().read_exact_at(&mut byte, BLOCK).unwrap();
        assert_eq!(byte, [0]);
        for (setting, value) in [
            (Setting::ShutdownStateAtCreate, 1),
            (Setting::PrefaultAtCreate, 0),
            (Setting::CopyOnWriteAtOpen, 0),
            (Setting::PrefaultAtOpen, 0),
        ] {
            setting.set(value);
        }
    }
}
