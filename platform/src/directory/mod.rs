//! Directory with the state of a platform. Each change of it is atomic.
//!
//! ```text
//! lock            an empty file that commands lock: exclusively for a change, shared to read
//! machine.toml    the machine, as it was given
//! state.toml      the state of the machine
//! modules/        for each module 0x0001.media, as large as its capacity and sparse, and 0x0001.labels
//! journal         a pending change; see `journal.rs`
//! staged/         media that will replace others; see `staged.rs`
//! ```

mod journal;
mod leftover;
mod media;
mod staged;
mod step;

use crate::contents::{Contents, INFO_BLOCK, ModuleWrite};
use crate::error::PlatformError;
use crate::machine::{Handle, Machine, MachineFault};
use crate::platform::Platform;
use crate::state::{STATE_FORMAT, State};
use journal::{Change, FileWrite, JOURNAL, JOURNAL_NEW};
pub(crate) use media::Media;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Deserialize;
use staged::STAGED;
pub(crate) use staged::Staged;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use step::Step;

const LOCK: &str = "lock";
const MACHINE: &str = "machine.toml";
const STATE: &str = "state.toml";
/// The new state file before it is complete.
const NEW_STATE: &str = "state.new";
const MODULES: &str = "modules";

/// Access mode of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reads. Other commands may read at the same time.
    Look,
    /// Changes the directory. No other command may use it.
    Change,
}

/// Directory with the state of a platform, locked while this value exists.
#[derive(Debug)]
pub struct Directory {
    root: PathBuf,
    /// Holds the kernel's lock.
    _lock: File,
    platform: Platform,
}

impl Directory {
    /// Creates a directory for the machine in `text`; `source` is the path or name of that text.
    ///
    /// # Errors
    /// The text is no valid machine file, the directory is not empty, or the kernel refuses.
    ///
    /// # Durability
    /// The directory is durable when this returns. `state.toml` is written last: without it the directory is invalid,
    /// and the next `init` removes its files.
    ///
    /// # Cost
    /// Two files for each module, and one wait for the whole file system. A wait for each file costs fifty times as
    /// much. ext4 does not reuse inodes that were freed a moment ago, which slows down new files after many were
    /// removed.
    pub fn init(root: &Path, source: &Path, text: &str) -> Result<Directory, PlatformError> {
        let machine = Machine::parse(text).map_err(|fault| machine_error(source, fault))?;
        let io = |what: &'static str, path: &Path| {
            let path = path.to_owned();
            move |error| PlatformError::Io { what, path, error }
        };
        let left = leftover::clear(root)?;
        fs::create_dir_all(root).map_err(io("making", root))?;
        let lock = match left {
            Some(lock) => lock,
            None => {
                let lock = File::create_new(root.join(LOCK)).map_err(io("making", root))?;
                take(&lock, Purpose::Change, root)?;
                lock
            }
        };
        fs::create_dir_all(root.join(MODULES)).map_err(io("making", root))?;
        for module in &machine.modules {
            for (path, size) in [
                (media_path(module.handle), module.capacity),
                (labels_path(module.handle), module.label_area),
            ] {
                let path = root.join(path);
                let file = File::create_new(&path).map_err(io("making", &path))?;
                file.set_len(size).map_err(io("making", &path))?;
            }
        }
        let platform = Platform::new(machine);
        let steps = [Step::Create(MACHINE.into(), text.as_bytes().to_vec()), Step::PersistAll];
        let steps = steps.into_iter().chain(change_of_state(&platform.state).steps());
        for step in steps {
            step.run(root).map_err(io("writing", &root.join(step.path())))?;
        }
        Ok(Directory { root: root.to_owned(), _lock: lock, platform })
    }

    /// Opens a directory. First completes an interrupted change.
    ///
    /// # Errors
    /// It holds no platform, a newer or a corrupt one. Another command uses it. The kernel refuses.
    pub fn open(root: &Path, purpose: Purpose) -> Result<Directory, PlatformError> {
        let no_state = || PlatformError::NoState { path: root.to_owned() };
        let lock = OpenOptions::new().read(true).open(root.join(LOCK)).map_err(|_| no_state())?;
        let interrupted = || [JOURNAL, JOURNAL_NEW, STAGED].iter().any(|name| root.join(name).exists());
        take(&lock, purpose, root)?;
        if interrupted() {
            take(&lock, Purpose::Change, root)?;
            finish(root)?;
        }
        let platform = load(root)?;
        Ok(Directory { root: root.to_owned(), _lock: lock, platform })
    }

    /// Returns the platform.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// Returns the path of the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Applies `change` to the platform, and returns the result of `change`.
    ///
    /// # Errors
    /// Those of `change`, or the kernel refuses. In both cases nothing is changed, except with
    /// [`PlatformError::Interrupted`], after which the next command completes the change.
    ///
    /// # Durability
    /// The change is atomic: after a crash, the directory holds the platform before or after it. It is durable when
    /// this returns.
    pub fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Platform) -> Result<T, PlatformError>,
    ) -> Result<T, PlatformError> {
        let mut platform = self.platform.clone();
        let answer = change(&mut platform)?;
        let changed = self.change_to(&mut platform);
        if !changed.writes.is_empty() {
            write(&self.root, &changed)?;
        }
        self.platform = platform;
        Ok(answer)
    }

    /// Changes the platform like [`change`](Directory::change), and atomically with it media of its modules.
    ///
    /// # Errors
    /// Those of [`change`](Directory::change).
    ///
    /// # Durability
    /// That of [`change`](Directory::change), the media included.
    pub(crate) fn change_media<T>(
        &mut self,
        mut staged: Staged,
        change: impl FnOnce(&mut Platform) -> Result<T, PlatformError>,
    ) -> Result<T, PlatformError> {
        let mut platform = self.platform.clone();
        let answer = change(&mut platform)?;
        for (module, range) in staged.rewritten() {
            platform.state.clear_errors(*module, range.start, range.end - range.start);
        }
        let mut changed = Change { writes: staged.replacements()? };
        changed.writes.extend(self.change_to(&mut platform).writes);
        let written = write(&self.root, &changed);
        if let Err(PlatformError::Interrupted { .. }) = written {
            staged.set_noted();
        }
        written?;
        self.platform = load(&self.root)?;
        Ok(answer)
    }

    /// Returns the writes that store this platform in the directory.
    fn change_to(&self, platform: &mut Platform) -> Change {
        let writes = platform.contents.take_writes();
        for write in &writes {
            match write {
                ModuleWrite::Media(module, off, bytes) => {
                    platform.state.clear_errors(*module, *off, bytes.len() as u64);
                }
                ModuleWrite::Zeros(module, off, len) => platform.state.clear_errors(*module, *off, *len),
                ModuleWrite::Labels(..) => {}
            }
        }
        let mut writes: Vec<FileWrite> = writes.iter().map(file_write).collect();
        if platform.state != self.platform.state {
            writes.extend(change_of_state(&platform.state).writes);
        }
        Change { writes }
    }

    /// Reads a module's label area.
    ///
    /// # Errors
    /// The module nmemN does not exist, or the kernel refuses.
    pub fn label_area(&self, index: usize) -> Result<Vec<u8>, PlatformError> {
        let module =
            self.platform.machine.modules.get(index).ok_or(PlatformError::UnknownDevice { index })?;
        let path = self.root.join(labels_path(module.handle));
        fs::read(&path).map_err(|error| PlatformError::Io { what: "reading", path, error })
    }
}

fn file_write(write: &ModuleWrite) -> FileWrite {
    match write {
        ModuleWrite::Labels(module, write) => FileWrite::bytes(labels_path(*module), write.off, &write.bytes),
        ModuleWrite::Media(module, off, bytes) => FileWrite::bytes(media_path(*module), *off, bytes),
        ModuleWrite::Zeros(module, off, len) => {
            FileWrite::Zeros { file: media_path(*module), off: *off, len: *len }
        }
    }
}

/// Loads the platform from a directory without a pending change.
fn load(root: &Path) -> Result<Platform, PlatformError> {
    let no_state = || PlatformError::NoState { path: root.to_owned() };
    let text = read(root, STATE)?.ok_or_else(no_state)?;
    let state = parse_state(root, &text)?;
    let text = read(root, MACHINE)?.ok_or_else(no_state)?;
    let path = root.join(MACHINE);
    let machine = Machine::parse(&text).map_err(|fault| machine_error(&path, fault))?;
    let mut platform = Platform { machine, state, contents: Contents::default() };
    load_areas(root, &mut platform)?;
    load_blocks(root, &mut platform)?;
    Ok(platform)
}

/// Loads the label areas. An area without allocated blocks was never written, and is not read.
fn load_areas(root: &Path, platform: &mut Platform) -> Result<(), PlatformError> {
    for module in &platform.machine.modules {
        let path = root.join(labels_path(module.handle));
        let read = fs::metadata(&path)
            .and_then(|file| if file.blocks() == 0 { Ok(None) } else { fs::read(&path).map(Some) });
        match read {
            Ok(Some(bytes)) => platform.contents.load_area(module.handle, &bytes),
            Ok(None) => {}
            Err(error) => return Err(PlatformError::Io { what: "reading", path, error }),
        }
    }
    Ok(())
}

/// Loads the readable info blocks of the labelled namespaces.
fn load_blocks(root: &Path, platform: &mut Platform) -> Result<(), PlatformError> {
    for (module, off) in platform.info_places() {
        // Like the kernel, this ignores an unreadable info block.
        if platform.state.unreadable(module, &(off..off + INFO_BLOCK)).is_some() {
            continue;
        }
        let path = root.join(media_path(module));
        let mut bytes = vec![0; INFO_BLOCK as usize];
        let read = File::open(&path).and_then(|file| file.read_exact_at(&mut bytes, off));
        read.map_err(|error| PlatformError::Io { what: "reading", path, error })?;
        platform.contents.load_block(module, off, bytes);
    }
    Ok(())
}

/// Makes a change durable, and performs it.
fn write(root: &Path, change: &Change) -> Result<(), PlatformError> {
    for step in change.steps_to_note(journal_text(change)) {
        if let Err(error) = step.run(root) {
            let what = "noting a change in";
            // The change is undone as long as the journal does not have its name.
            return match fs::remove_file(root.join(JOURNAL_NEW)) {
                Err(_) if root.join(JOURNAL).exists() => {
                    Err(PlatformError::Interrupted { what, path: root.to_owned(), error })
                }
                _ => Err(PlatformError::Io { what, path: root.to_owned(), error }),
            };
        }
    }
    run_to_finish(root, change)
}

fn run_to_finish(root: &Path, change: &Change) -> Result<(), PlatformError> {
    for step in change.steps_to_finish() {
        let path = root.join(step.path());
        step.run(root).map_err(|error| PlatformError::Interrupted { what: "writing", path, error })?;
    }
    Ok(())
}

/// Completes an interrupted change, or removes the files of one that did not become durable.
fn finish(root: &Path) -> Result<(), PlatformError> {
    let path = root.join(JOURNAL_NEW);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(PlatformError::Io { what: "removing", path, error });
        }
        _ => {}
    }
    if let Some(text) = read(root, JOURNAL)? {
        run_to_finish(root, &parse(root, JOURNAL, &text)?)?;
    }
    let path = root.join(STAGED);
    match fs::remove_dir_all(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(PlatformError::Io { what: "removing", path, error })
        }
        _ => Ok(()),
    }
}

fn change_of_state(state: &State) -> Change {
    Change { writes: vec![FileWrite::Whole { file: STATE.into(), text: state_text(state) }] }
}

/// Takes the lock of the directory, or returns an error if another command has it.
fn take(lock: &File, purpose: Purpose, root: &Path) -> Result<(), PlatformError> {
    let operation = match purpose {
        Purpose::Look => FlockOperation::NonBlockingLockShared,
        Purpose::Change => FlockOperation::NonBlockingLockExclusive,
    };
    flock(lock, operation).map_err(|errno| match errno {
        Errno::WOULDBLOCK => PlatformError::InUse { path: root.to_owned() },
        errno => PlatformError::Io { what: "locking", path: root.to_owned(), error: errno.into() },
    })
}

fn media_path(module: Handle) -> PathBuf {
    Path::new(MODULES).join(format!("{module}.media"))
}

fn labels_path(module: Handle) -> PathBuf {
    Path::new(MODULES).join(format!("{module}.labels"))
}

fn machine_error(source: &Path, fault: MachineFault) -> PlatformError {
    PlatformError::Machine { source: source.to_owned(), fault }
}

/// Reads a text file of the directory; `None` if there is no such file.
fn read(root: &Path, name: &str) -> Result<Option<String>, PlatformError> {
    let path = root.join(name);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PlatformError::Io { what: "reading", path, error }),
    }
}

fn parse<T: for<'a> Deserialize<'a>>(root: &Path, name: &str, text: &str) -> Result<T, PlatformError> {
    toml::from_str(text)
        .map_err(|error| PlatformError::Corrupt { path: root.join(name), says: error.message().to_owned() })
}

/// Parses a state. Checks the format first, since a newer one may have other fields.
fn parse_state(root: &Path, text: &str) -> Result<State, PlatformError> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let Format { format } = parse(root, STATE, text)?;
    if format > STATE_FORMAT {
        return Err(PlatformError::Newer { path: root.to_owned(), found: format, known: STATE_FORMAT });
    }
    parse(root, STATE, text)
}

fn state_text(state: &State) -> String {
    toml::to_string(state).expect("a state has nothing that TOML can't say")
}

fn journal_text(change: &Change) -> String {
    toml::to_string(change).expect("a change has nothing that TOML can't say")
}

#[cfg(test)]
mod test;
