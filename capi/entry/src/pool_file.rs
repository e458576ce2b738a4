//! The file of a pool: opened, or made, and mapped as PMDK does it.
//!
//! A pool of several files is refused in one place, [`refuse_set`].

use crate::allocator::take_refusal;
use crate::ctl::Setting;
use crate::failure::Failure;
use crate::pool_header;
use lode_layout::{BLOCK, PmdkHeader, PmdkKind, PmdkShutdown, PoolOffset, align_down};
use lode_pmem::{
    ByAddress, DaxDevice, FaultScope, Medium, NewFile, PmemError, ProgramBacking, ProgramMedium,
    ProgramShare, Sysfs, allocate_program_file, file_size_limit, store_again,
};
use rustix::fs::{self as rfs, Access, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// The first bytes of a file that describes a pool of several files.
const SET_SIGNATURE: &[u8] = b"PMEMPOOLSET";
/// Bytes of the header that hold the shutdown state, with its checksum.
const SHUTDOWN_STATE: Range<usize> = 0xfb8..0xff8;
/// Bytes of the smallest file that PMDK takes.
const FILE_LEN_MIN: u64 = 2 << 20;

/// The pools of a library, and what the library found in its environment when it was loaded.
#[derive(Clone, Copy, Debug)]
pub struct PoolFiles {
    /// The kind of its pools.
    pub kind: PmdkKind,
    /// Bytes of the smallest new pool.
    pub len_min: u64,
    /// The instructions that it uses.
    pub instructions: ByAddress,
    /// The answer whether a medium is persistent memory, if the environment gives one.
    pub forced: Option<bool>,
}

/// A pool that is to be made.
#[derive(Debug)]
pub struct NewPool {
    /// Its memory, all zeros in a new file.
    pub medium: ProgramMedium,
    /// Its header.
    pub header: PmdkHeader,
    /// True if the file is new, and so all zeros.
    pub is_zeroed: bool,
    /// The file, if it has no name yet.
    new: Option<NewFile>,
}

/// The kind of the file that a path names.
#[derive(Debug)]
enum Place {
    /// There is none.
    Absent,
    File,
    Device(DaxDevice),
}

impl PoolFiles {
    /// Opens and maps the pool at `path`.
    ///
    /// # Errors
    /// EAGAIN if another handle has it open, EINVAL if it is no pool of this kind, and those of the system calls.
    pub fn open(&self, path: &Path) -> Result<ProgramMedium, Failure> {
        let share = if Setting::CopyOnWriteAtOpen.is_set() {
            ProgramShare::CopyOnWrite
        } else {
            ProgramShare::Shared
        };
        let medium = self.map_open(path, share)?;
        if Setting::PrefaultAtOpen.is_set() {
            prefault(&medium);
        }
        Ok(medium)
    }

    /// Opens the pool at `path` for a check, which changes nothing.
    ///
    /// # Errors
    /// As [`open`](PoolFiles::open); ENOTSUP for a device, which can't be mapped privately.
    pub fn open_to_check(&self, path: &Path) -> Result<ProgramMedium, Failure> {
        self.map_open(path, ProgramShare::ReadOnly)
    }

    fn map_open(&self, path: &Path, share: ProgramShare) -> Result<ProgramMedium, Failure> {
        let place = place(path)?;
        let file = open_locked(path)?;
        if matches!(place, Place::Device(_)) && share != ProgramShare::Shared {
            let text = "device dax cannot be mapped privately; copy the pool to a file";
            return Err(Failure::new(libc::ENOTSUP, text));
        }
        let len = length(path, &file, &place, FILE_LEN_MIN)?;
        let mut bytes = [0; PmdkHeader::LEN];
        let medium = self.map(path, &file, &place, len, share)?;
        let read = medium.memory().reading(|memory| memory.read(PoolOffset::NULL, &mut bytes));
        read.map_err(|fault| Failure::new(libc::EIO, format!("{}: {fault}", path.display())))?;
        let header = pool_header::check(&bytes, self.kind)?;
        if header.read_only == 0 {
            let is_file = matches!(place, Place::File);
            if is_file && share == ProgramShare::Shared {
                settle_shutdown_state(&medium, &bytes, &file)
                    .map_err(|error| Failure::of_call(&format!("msync \"{}\"", path.display()), &error))?;
            }
            return Ok(medium);
        }
        drop(medium);
        let medium = self.map(path, &file, &place, len, ProgramShare::ReadOnly)?;
        let known = pool_header::without_read_only(&bytes);
        // A private view: the file keeps its features.
        FaultScope::run(|| medium.copy(PoolOffset::NULL, &known)).map_err(|_| Failure::broken())?;
        Ok(medium)
    }

    /// Begins a pool of `len` bytes in a new file at `path`, with this mode; with a length of 0 one in the file or device that
    /// is there. The caller stores its structures, and then [publishes](NewPool::publish) it.
    ///
    /// # Errors
    /// EEXIST if the file is there, or has a header; EINVAL if the size is too small; and those of the system calls.
    pub fn create(&self, path: &Path, len: u64, mode: u32) -> Result<NewPool, Failure> {
        let exists = exists(path)?;
        if len > 0 && exists {
            return Err(Failure::new(
                libc::EEXIST,
                format!(
                    "file {} already exists; remove it, or pass a size of 0 to make the pool in it",
                    path.display()
                ),
            ));
        }
        let pool = if len == 0 { self.begin_in_place(path)? } else { self.begin_in_new(path, len, mode)? };
        if Setting::PrefaultAtCreate.is_set() {
            prefault(&pool.medium);
        }
        Ok(pool)
    }

    fn begin_in_place(&self, path: &Path) -> Result<NewPool, Failure> {
        let place = place(path)?;
        let file = open_locked(path)?;
        let len = length(path, &file, &place, 0)?;
        if len < self.len_min {
            let (found, least) = (file_len(&file).unwrap_or(len), self.len_min);
            return Err(Failure::invalid(format!(
                "file is not a poolset file and its size ({found}) is smaller than {least}; give it that size"
            )));
        }
        let medium = self.map(path, &file, &place, len, ProgramShare::Shared)?;
        let is_free = medium
            .memory()
            .reading(|memory| memory.equals(PoolOffset::NULL, &[0; PmdkHeader::LEN]))
            .map_err(|fault| Failure::new(libc::EIO, format!("{}: {fault}", path.display())))?;
        if !is_free {
            let text = format!(
                "Non-empty file detected; {} has a header already: clear its first {BLOCK} bytes to use it",
                path.display()
            );
            return Err(Failure::new(libc::EEXIST, text));
        }
        Ok(NewPool { medium, header: self.header(), is_zeroed: false, new: None })
    }

    fn begin_in_new(&self, path: &Path, len: u64, mode: u32) -> Result<NewPool, Failure> {
        self.check_len(len)?;
        if i64::try_from(len).is_err() {
            return Err(Failure::new(
                libc::EFBIG,
                format!("invalid size ({len}) for os_off_t; choose a smaller one"),
            ));
        }
        let new = NewFile::create(path).map_err(|error| of_new(path, &error))?;
        let allocated = match file_size_limit() {
            // The same error that the call gives, without its signal.
            Some(limit) if len > limit => Err(Errno::FBIG.into()),
            _ => allocate_program_file(new.file(), len),
        };
        allocated.map_err(|error| {
            Failure::of_call(&format!("posix_fallocate \"{}\", {len}", path.display()), &error)
                .and("choose a smaller size, or free space")
        })?;
        lock(path, new.file())?;
        rfs::fchmod(new.file(), Mode::from_bits_truncate(mode))
            .map_err(|errno| Failure::of_call(&format!("chmod 0/0/{}", path.display()), &errno.into()))?;
        let medium =
            self.map(path, new.file(), &Place::File, align_down(len, BLOCK), ProgramShare::Shared)?;
        Ok(NewPool { medium, header: self.header(), is_zeroed: true, new: Some(new) })
    }

    fn check_len(&self, len: u64) -> Result<(), Failure> {
        let (len, least) = (align_down(len, BLOCK), self.len_min);
        if len >= least {
            return Ok(());
        }
        Err(Failure::invalid(format!(
            "reservation pool size {len} smaller than {least}; choose a larger one"
        )))
    }

    /// Returns the header of a new pool.
    fn header(&self) -> PmdkHeader {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let header = PmdkHeader::new(self.kind, Uuid::new_v4(), Uuid::new_v4(), created);
        let has_state = Setting::ShutdownStateAtCreate.is_set();
        PmdkHeader { shutdown: has_state.then(PmdkShutdown::default), ..header }
    }

    fn map(
        &self,
        path: &Path,
        file: &File,
        place: &Place,
        len: u64,
        share: ProgramShare,
    ) -> Result<ProgramMedium, Failure> {
        let device = match place {
            Place::Device(device) => Some(device),
            Place::Absent | Place::File => None,
        };
        ProgramMedium::map(file, device, len, share, self.forced, self.instructions)
            .map_err(|error| Failure::of_call(&format!("mmap: {}", path.display()), &error))
    }
}

impl NewPool {
    /// Gives a new file its name: the pool is whole.
    ///
    /// # Errors
    /// ENOMEM if the program's allocator refused memory, EEXIST if another file has that name by now.
    ///
    /// # Durability
    /// Content and name are durable on return. After a crash before that, the file is there and whole, or it is not there.
    pub fn publish(self, path: &Path) -> Result<ProgramMedium, Failure> {
        if take_refusal() {
            return Err(Failure::no_memory());
        }
        if let Some(new) = self.new {
            new.publish().map_err(|error| of_new(path, &error))?;
        }
        Ok(self.medium)
    }
}

/// Returns true if the path names something.
fn exists(path: &Path) -> Result<bool, Failure> {
    match rfs::access(path, Access::EXISTS) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(Failure::of_call(&format!("os_access \"{}\"", path.display()), &errno.into())),
    }
}

/// Finds what the path names.
fn place(path: &Path) -> Result<Place, Failure> {
    if !exists(path)? {
        return Ok(Place::Absent);
    }
    let stat = rfs::stat(path).map_err(|errno| Failure::of_call("stat", &errno.into()))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Directory => Ok(Place::File),
        FileType::CharacterDevice => match DaxDevice::numbered(&Sysfs::default(), stat.st_rdev) {
            Some(device) => Ok(Place::Device(device)),
            None => Err(Failure::invalid(format!("{} is not device DAX", path.display()))),
        },
        _ => Err(Failure::invalid(format!(
            "file type 0{:o} not supported; a pool is a file, or a device-DAX node",
            stat.st_mode & 0o170_000
        ))),
    }
}

/// Opens and locks the file. A file that describes a set of files is refused.
fn open_locked(path: &Path) -> Result<File, Failure> {
    let failed = |errno: Errno| Failure::of_call(&format!("open \"{}\"", path.display()), &errno.into());
    let open = |flags: OFlags| rfs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).map(File::from);
    let (file, refused) = match open(OFlags::RDWR) {
        Ok(file) => (file, None),
        // A set's file, and a folder, are judged by a file that is open for reading.
        Err(errno @ (Errno::ACCESS | Errno::ROFS | Errno::ISDIR | Errno::PERM)) => {
            (open(OFlags::RDONLY).map_err(failed)?, Some(errno))
        }
        Err(errno) => return Err(failed(errno)),
    };
    lock(path, &file)?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(Failure::invalid(format!(
            "stat \"{}\": negative size; name a file in it",
            path.display()
        )));
    }
    refuse_set(path, &file)?;
    match refused {
        None => Ok(file),
        Some(errno) => Err(failed(errno).and("a pool is opened for reading and writing")),
    }
}

/// Takes PMDK's lock, which the mapping keeps.
fn lock(path: &Path, file: &File) -> Result<(), Failure> {
    rfs::flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| {
        let failure = Failure::of_call(&format!("flock \"{}\"", path.display()), &errno.into());
        failure.and("another handle, of this or of another process, has the pool open: close it first")
    })
}

/// Refuses a file that describes a pool of several files.
fn refuse_set(path: &Path, file: &File) -> Result<(), Failure> {
    let mut first = [0; SET_SIGNATURE.len()];
    // A file that can't be read by this call is no set's.
    if file.read_exact_at(&mut first, 0).is_ok() && first == SET_SIGNATURE {
        let text = format!(
            "{} is a file of a pool set, which this version of Lodestone's library does not open; use a pool of a single file",
            path.display()
        );
        return Err(Failure::new(libc::ENOTSUP, text));
    }
    Ok(())
}

/// Returns the bytes of a pool in the file or device, whole pages of them; `least` is the least of a file.
fn length(path: &Path, file: &File, place: &Place, least: u64) -> Result<u64, Failure> {
    let len = match place {
        Place::Device(device) => device.len(),
        Place::Absent | Place::File => file_len(file)
            .map_err(|error| Failure::of_call(&format!("stat \"{}\"", path.display()), &error))?,
    };
    if len < least {
        return Err(Failure::invalid(format!(
            "size {len} smaller than {least}; {} is no pool",
            path.display()
        )));
    }
    Ok(align_down(len, BLOCK))
}

/// Makes the shutdown state of a pool that no module of persistent memory holds that of a closed one, as PMDK leaves it: a process
/// that was killed may have left another. The state of modules, whose counts only PMDK compares, stays.
///
/// # Durability
/// The state is durable on return. A power cut before that leaves a mixture, which has no valid checksum, and so is no state.
fn settle_shutdown_state(
    medium: &ProgramMedium,
    header: &[u8; PmdkHeader::LEN],
    file: &File,
) -> io::Result<()> {
    let Ok(decoded) = PmdkHeader::decode(header) else { return Ok(()) };
    // A state under the header's checksum stays: PMDK stores it without a new checksum, and can't open the pool again.
    let Some(_) = decoded.shutdown.filter(|_| decoded.has_short_checksum) else { return Ok(()) };
    let closed = PmdkHeader { shutdown: Some(PmdkShutdown::default()), ..decoded }.encode();
    let state = SHUTDOWN_STATE;
    if header[state.clone()] == closed[state.clone()] {
        return Ok(());
    }
    if ProgramBacking::of_file(&Sysfs::default(), file.metadata()?.dev()).has_region() {
        return Ok(());
    }
    let at = PoolOffset::new(state.start as u64);
    // The mapping has a header, so the bytes are inside.
    let _ = FaultScope::run(|| medium.copy(at, &closed[state]));
    // ORDER: the state is durable before the pool is used. Stop here: see above.
    medium.drain().map_err(|error| io::Error::from_raw_os_error(error.errno))
}

/// Returns the length of a file in bytes.
fn file_len(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.len())
}

/// Returns the failure of a new file.
fn of_new(path: &Path, error: &PmemError) -> Failure {
    let errno = match error {
        PmemError::Io { errno, .. } => *errno,
        // The path does not end with a name.
        _ => libc::ENOENT,
    };
    let words = format!("open \"{}\"", path.display());
    Failure::of_call(&words, &io::Error::from_raw_os_error(errno)).and("check the folder of the new file")
}

/// Stores to each page what is there, so that it has space.
fn prefault(medium: &ProgramMedium) {
    let word = lode_layout::WORD;
    for at in (0..medium.memory().len()).step_by(BLOCK as usize) {
        // A page that can't be stored to shows itself when it is used.
        let _ = store_again(medium, PoolOffset::new(at), word);
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_pmem::Cpu;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn files() -> PoolFiles {
        let instructions = ByAddress::new(Cpu::oldest());
        PoolFiles { kind: PmdkKind::Log, len_min: FILE_LEN_MIN, instructions, forced: Some(true) }
    }

    /// Stores the header of a new pool, which is whole then.
    fn finish(pool: NewPool, path: &Path) -> ProgramMedium {
        FaultScope::run(|| pool.medium.copy(PoolOffset::NULL, &pool.header.encode())).unwrap();
        pool.publish(path).unwrap()
    }

    fn refused<T: std::fmt::Debug>(outcome: Result<T, Failure>, errno: i32, words: &str) {
        let failure = outcome.unwrap_err();
        assert_eq!(failure.errno, errno, "{failure:?}");
        assert!(failure.text.starts_with(words), "{failure:?} is not {words}");
    }

    #[test]
    fn new_pool_has_its_name_when_it_is_whole() {
        let _alone = crate::ctl::ALONE.lock();
        let folder = tempfile::tempdir().unwrap();
        let (files, path) = (files(), folder.path().join("pool"));
        drop(files.create(&path, FILE_LEN_MIN, 0o600).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let pool = files.create(&path, FILE_LEN_MIN + 4097, 0o604).unwrap();
        assert!(pool.is_zeroed && pool.header.shutdown.is_some() && !path.exists());
        let medium = finish(pool, &path);
        assert_eq!(medium.memory().len(), FILE_LEN_MIN + 4096);
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.len(), metadata.permissions().mode() & 0o7777), (FILE_LEN_MIN + 4097, 0o604));
        let words = format!("flock \"{}\": Resource temporarily unavailable; ", path.display());
        refused(files.open(&path), libc::EAGAIN, &words);
        refused(files.open_to_check(&path), libc::EAGAIN, &words);
        drop(medium);
        drop(files.open_to_check(&path).unwrap());
        drop(files.open(&path).unwrap());
        let words = format!("file {} already exists; ", path.display());
        refused(files.create(&path, FILE_LEN_MIN, 0o600), libc::EEXIST, &words);
        refused(files.create(&path, 0, 0o600), libc::EEXIST, "Non-empty file detected; ");
    }

    #[test]
    fn file_that_is_there_becomes_a_pool() {
        let _alone = crate::ctl::ALONE.lock();
        let folder = tempfile::tempdir().unwrap();
        let (files, path) = (files(), folder.path().join("pool"));
        let file = File::create(&path).unwrap();
        file.set_len(FILE_LEN_MIN - 1).unwrap();
        let words = "file is not a poolset file and its size (2097151) is smaller than 2097152; ";
        refused(files.create(&path, 0, 0o600), libc::EINVAL, words);
        refused(files.open(&path), libc::EINVAL, "size 2097151 smaller than 2097152; ");
        file.set_len(FILE_LEN_MIN).unwrap();
        refused(files.open(&path), libc::EINVAL, "invalid major version (0); ");
        let pool = files.create(&path, 0, 0o604).unwrap();
        assert!(!pool.is_zeroed);
        drop(finish(pool, &path));
        drop(files.open(&path).unwrap());
    }

    #[test]
    fn paths_without_a_pool_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (files, missing) = (files(), folder.path().join("missing"));
        let words = format!("open \"{}\": No such file or directory", missing.display());
        refused(files.open(&missing), libc::ENOENT, &words);
        refused(files.create(&missing.join("pool"), FILE_LEN_MIN, 0o600), libc::ENOENT, "open \"");
        refused(files.open(folder.path()), libc::EINVAL, "stat \"");
        refused(files.open(Path::new("/dev/null")), libc::EINVAL, "/dev/null is not device DAX");
        let set = folder.path().join("set");
        fs::write(&set, "PMEMPOOLSET\n4M /pmem/part\n").unwrap();
        for outcome in [files.open(&set).map(drop), files.open_to_check(&set).map(drop)] {
            refused(outcome, libc::ENOTSUP, &format!("{} is a file of a pool set", set.display()));
        }
        refused(files.create(&set, 0, 0o600), libc::ENOTSUP, &set.display().to_string());
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
        let pool = files.create(&path, FILE_LEN_MIN, 0o600).unwrap();
        assert_eq!(pool.header.shutdown, None);
        drop(finish(pool, &path));
        Setting::CopyOnWriteAtOpen.set(1);
        Setting::PrefaultAtOpen.set(1);
        let medium = files.open(&path).unwrap();
        medium.store8(PoolOffset::new(BLOCK), 7);
        drop(medium);
        assert_eq!(fs::read(&path).unwrap()[BLOCK as usize], 0);
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
