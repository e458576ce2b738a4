//! A directory that is opened and locked.

use super::commit::{self, change_of_state, file_write, finish, write};
use super::error::DirectoryError;
use super::journal::{Change, FileWrite, JOURNAL, JOURNAL_NEW};
use super::leftover;
use super::load::{load, machine_error, read_labels};
use super::lock::{Purpose, take};
use super::media::Media;
use super::paths::{LOCK, MACHINE, MODULES, STATE, cxl_labels_path, labels_path, media_path};
use super::pending::Pending;
use super::staged::{STAGED, Staged};
use super::step::Step;
use super::validate::state_fault;
use crate::contents::ModuleWrite;
use crate::cxl::{CxlError, area_of_text};
use crate::discovery::Discovered;
use crate::error::PlatformError;
use crate::file::error::FileError;
use crate::locate::mappers_of;
use crate::machine::{Handle, Machine, Module};
use crate::namespace::{NamespaceError, label_extent, write_labels};
use crate::nmem;
use crate::platform::Platform;
use crate::relocate::RelocateError;
use crate::security;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Directory with the state of a platform, locked while this value exists.
#[derive(Debug)]
pub struct Directory {
    pub(super) root: PathBuf,
    /// Holds the kernel's lock.
    _lock: File,
    pub(super) platform: Platform,
    /// A durable change that is not in all files. Empty if this directory is opened for changes.
    pending: Pending,
    /// Why the change is not in all files.
    unfinished: Option<DirectoryError>,
}

impl Directory {
    /// Creates a directory for the machine in `text`; `source` is the path or name of that text.
    ///
    /// # Errors
    /// Fails if the text is no valid machine file, if the directory is not empty, or if a system call fails.
    ///
    /// # Durability
    /// The directory is durable when this returns. `state.toml` is written last: without it the directory is invalid,
    /// and the next `init` removes its files.
    ///
    /// # Cost
    /// Two files for each module, and one wait for the whole file system. A wait for each file costs fifty times as
    /// much. ext4 does not reuse inodes that were freed a moment ago, which slows down new files after many were
    /// removed.
    pub fn init(root: &Path, source: &Path, text: &str) -> Result<Directory, DirectoryError> {
        let machine = Machine::parse(text).map_err(|error| machine_error(source, error))?;
        Directory::create(root, text, Platform::new(machine))
    }

    /// Creates a directory for a machine that was made from a real one, with its partitions, sets and goals.
    ///
    /// # Errors
    /// Fails if the directory is not empty, or if a system call fails.
    ///
    /// # Durability
    /// That of [`init`](Directory::init).
    pub fn adopt(root: &Path, discovered: &Discovered) -> Result<Directory, DirectoryError> {
        Directory::create(root, &discovered.text(), discovered.platform.clone())
    }

    fn create(root: &Path, text: &str, mut platform: Platform) -> Result<Directory, DirectoryError> {
        let io = |what: &'static str, path: &Path| {
            let path = path.to_owned();
            move |error| FileError { what, path, error }
        };
        let left = leftover::clear(root)?;
        fs::create_dir_all(root).map_err(io("making", root))?;
        let lock = match left {
            Some(lock) => lock,
            None => {
                let lock = File::create_new(root.join(LOCK)).map_err(io("making", root))?;
                take(&lock, Purpose::Change, root, Duration::ZERO)?;
                lock
            }
        };
        fs::create_dir_all(root.join(MODULES)).map_err(io("making", root))?;
        for module in &platform.machine.modules {
            for (path, size) in [
                (media_path(module.handle), module.capacity),
                (labels_path(module.handle), module.label_area),
            ] {
                let path = root.join(path);
                let file = File::create_new(&path).map_err(io("making", &path))?;
                file.set_len(size).map_err(io("making", &path))?;
            }
        }
        let labels = platform.contents.take_writes().into_iter().filter_map(|write| match write {
            ModuleWrite::Labels(module, write) => {
                Some(Step::Write(labels_path(module), write.off, write.bytes.to_vec()))
            }
            ModuleWrite::Media(..)
            | ModuleWrite::Zeros(..)
            | ModuleWrite::Key(..)
            | ModuleWrite::CxlLabels(..) => None,
        });
        // ORDER: the machine and its labels are durable before the state. Stop here: there is no state, and the next
        // `init` removes the files.
        let steps = [Step::Create(MACHINE.into(), text.as_bytes().to_vec()), Step::PersistAll];
        let steps = labels.chain(steps).chain(change_of_state(&platform.state).steps());
        for step in steps {
            step.run(root).map_err(io("writing", &root.join(step.path())))?;
        }
        let pending = Pending::default();
        Ok(Directory { root: root.to_owned(), _lock: lock, platform, pending, unfinished: None })
    }

    /// Opens a directory that no other command uses at this moment. See [`open_within`](Directory::open_within).
    ///
    /// # Errors
    /// Those of [`open_within`](Directory::open_within).
    pub fn open(root: &Path, purpose: Purpose) -> Result<Directory, DirectoryError> {
        Directory::open_within(root, purpose, Duration::ZERO)
    }

    /// Opens a directory. Waits for other commands up to `wait`. Then completes an interrupted change; if its files
    /// can't be written, a reader sees the changed platform, and the change stays
    /// [`unfinished`](Directory::unfinished).
    ///
    /// # Errors
    /// Fails if the directory holds no platform, a newer one or a corrupt one, if other commands use the directory for
    /// so long, or if a system call fails.
    pub fn open_within(root: &Path, purpose: Purpose, wait: Duration) -> Result<Directory, DirectoryError> {
        let no_state = || DirectoryError::NoState { path: root.to_owned() };
        let lock = OpenOptions::new().read(true).open(root.join(LOCK)).map_err(|_| no_state())?;
        take(&lock, purpose, root, wait)?;
        let (mut pending, mut unfinished) = (Pending::default(), None);
        if is_interrupted(root) {
            unfinished = complete(&lock, purpose, root, wait)?;
            // Readers share the lock, and no journal is written or removed while they do.
            if unfinished.is_some() {
                pending = commit::pending(root)?;
            }
        }
        let platform = load(root, &pending)?;
        Ok(Directory { root: root.to_owned(), _lock: lock, platform, pending, unfinished })
    }

    /// Returns why an interrupted change could not be completed; `None` if all files are as they should be.
    pub fn unfinished(&self) -> Option<&DirectoryError> {
        self.unfinished.as_ref()
    }

    /// Returns the platform.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// Returns the path of the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Applies `change` to the platform, and returns the result of `change`. A change that starts the machine removes the
    /// keys of its modules from the kernel's keyring.
    ///
    /// # Errors
    /// Fails with the error of `change`, or if a system call fails. In both cases nothing is changed, except with
    /// [`DirectoryError::Interrupted`], after which the next command completes the change.
    ///
    /// # Durability
    /// The change is atomic: after a crash, the directory holds the platform before or after it. It is durable when
    /// this returns.
    pub fn change<T, E: Into<PlatformError>>(
        &mut self,
        change: impl FnOnce(&mut Platform) -> Result<T, E>,
    ) -> Result<T, PlatformError> {
        let mut platform = self.platform.clone();
        let answer = change(&mut platform).map_err(Into::into)?;
        let changed = self.change_to(&mut platform);
        if !changed.writes.is_empty() {
            write(&self.root, &changed)?;
        }
        if platform.state.boots != self.platform.state.boots {
            security::forget_keys(&self.root, &platform);
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
    pub(crate) fn change_media<T, E: Into<PlatformError>>(
        &mut self,
        mut staged: Staged,
        change: impl FnOnce(&mut Platform) -> Result<T, E>,
    ) -> Result<T, PlatformError> {
        let mut platform = self.platform.clone();
        let answer = change(&mut platform).map_err(Into::into)?;
        // The media of a process that maps them would be those that were.
        self.check_media_unmapped(&staged.modules())?;
        for (module, range) in staged.rewritten() {
            platform.state.clear_errors(*module, range.start, range.end - range.start);
        }
        let mut changed = Change { writes: staged.replacements()? };
        changed.writes.extend(self.change_to(&mut platform).writes);
        let written = write(&self.root, &changed);
        if let Err(DirectoryError::Interrupted { .. }) = written {
            staged.set_journaled();
        }
        written?;
        self.platform = load(&self.root, &Pending::default())?;
        Ok(answer)
    }

    /// Changes the platform like [`change`](Directory::change), and atomically with it the machine file. The `new`
    /// modules are blank; they are added, or replace those of the same slots.
    ///
    /// # Errors
    /// Those of [`change`](Directory::change).
    ///
    /// # Durability
    /// That of [`change`](Directory::change), the machine file and the new modules included.
    pub(crate) fn change_modules<T, E: Into<PlatformError>>(
        &mut self,
        new: &[Module],
        machine_text: String,
        change: impl FnOnce(&mut Platform) -> Result<T, E>,
    ) -> Result<T, PlatformError> {
        let mut platform = self.platform.clone();
        let answer = change(&mut platform).map_err(Into::into)?;
        // A machine that is written can be read.
        let path = self.root.join(MACHINE);
        let machine = Machine::parse(&machine_text).map_err(|error| machine_error(&path, error))?;
        state_fault(&platform.state, &machine).map_err(|fault| DirectoryError::Invalid {
            path: self.root.join(STATE),
            machine: path,
            line: None,
            fault,
        })?;
        let handles: Vec<Handle> = new.iter().map(|module| module.handle).collect();
        self.check_media_unmapped(&handles)?;
        let mut staged = self.stage()?;
        new.iter().try_for_each(|module| staged.blank(module))?;
        let mut changed = Change { writes: staged.replacements()? };
        changed.writes.push(FileWrite::Whole { file: MACHINE.into(), text: machine_text });
        // Labels follow the media and label areas that they are written to.
        changed.writes.extend(self.change_to(&mut platform).writes);
        let written = write(&self.root, &changed);
        if let Err(DirectoryError::Interrupted { .. }) = written {
            staged.set_journaled();
        }
        written?;
        security::forget_keys(&self.root, &platform);
        self.platform = load(&self.root, &Pending::default())?;
        Ok(answer)
    }

    /// Checks that no process maps the media of these modules. Processes of other users are seen by root only.
    ///
    /// # Errors
    /// [`RelocateError::Mapped`] names the process.
    pub(crate) fn check_media_unmapped(&self, modules: &[Handle]) -> Result<(), RelocateError> {
        for module in modules {
            if let Some(mapper) = mappers_of(&self.root.join(media_path(*module))).into_iter().next() {
                let device = format!("the media of {module}");
                return Err(RelocateError::Mapped { device, pid: mapper.pid, program: mapper.program });
            }
        }
        Ok(())
    }

    /// Reads the machine file: its leading comments, and the machine without the changes that the state makes to it.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub(crate) fn machine_file(&self) -> Result<(Vec<String>, Machine), DirectoryError> {
        let path = self.root.join(MACHINE);
        let text = match self.pending.text(MACHINE) {
            Some(text) => text.to_owned(),
            None => fs::read_to_string(&path).map_err(|error| FileError {
                what: "reading",
                path: path.clone(),
                error,
            })?,
        };
        let machine = Machine::parse(&text).map_err(|error| machine_error(&path, error))?;
        let comments = text.lines().map_while(|line| line.strip_prefix('#'));
        Ok((comments.map(|line| line.trim().to_owned()).collect(), machine))
    }

    /// Opens the media of the modules.
    pub(crate) fn media(&self) -> Media {
        let state = &self.platform.state;
        let lost = state.lost().collect();
        let devices = self.platform.machine.cxl.devices.iter();
        let cxl_lens = devices.map(|one| one.volatile.saturating_add(one.persistent)).collect();
        Media::of_machine(&self.root, cxl_lens, lost, self.pending.clone())
    }

    /// Makes the folder for staged media.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub(crate) fn stage(&self) -> Result<Staged, FileError> {
        Staged::new(&self.root)
    }

    /// Returns the writes that store this platform in the directory.
    pub(super) fn change_to(&self, platform: &mut Platform) -> Change {
        let writes = platform.contents.take_writes();
        for write in &writes {
            match write {
                ModuleWrite::Media(module, off, bytes) => {
                    platform.state.clear_errors(*module, *off, bytes.len() as u64);
                }
                ModuleWrite::Zeros(module, off, len) => platform.state.clear_errors(*module, *off, *len),
                ModuleWrite::Labels(..) | ModuleWrite::Key(..) | ModuleWrite::CxlLabels(..) => {}
            }
        }
        let mut writes: Vec<FileWrite> = writes.iter().map(file_write).collect();
        writes.splice(0..0, self.new_media(&writes, platform));
        if platform.state != self.platform.state {
            writes.extend(change_of_state(&platform.state).writes);
        }
        Change { writes }
    }

    /// Returns the writes that make the media of those CXL devices to which `writes` are the first.
    fn new_media(&self, writes: &[FileWrite], platform: &Platform) -> Vec<FileWrite> {
        let made = (0..).zip(&platform.machine.cxl.devices).filter_map(|(device, hardware)| {
            let path = media_path(Handle::of_cxl(device));
            let is_written = writes.iter().any(|write| match write {
                FileWrite::Bytes { file, .. } | FileWrite::Zeros { file, .. } => *file == path,
                _ => false,
            });
            let len = hardware.volatile.saturating_add(hardware.persistent);
            (is_written && !self.root.join(&path).exists()).then_some(FileWrite::Made { file: path, len })
        });
        made.collect()
    }

    /// Reads the label area of a CXL device.
    ///
    /// # Errors
    /// Fails if the device does not exist, if the file of the area is damaged, or if a system call fails.
    pub(crate) fn cxl_label_area(&self, device: u32) -> Result<Vec<u8>, PlatformError> {
        let hardware = self.platform.machine.cxl.devices.get(device as usize);
        let size = hardware.ok_or(CxlError::UnknownDevice { device })?.label_area;
        let file = cxl_labels_path(device);
        let text = match self.pending.text(&file) {
            Some(text) => text.to_owned(),
            None => read_labels(&self.root, &file)?,
        };
        let corrupt = || CxlError::CorruptLabels { path: self.root.join(&file).display().to_string() }.into();
        area_of_text(&text, size).ok_or_else(corrupt)
    }

    /// Reads the label area of the module nmemN.
    ///
    /// # Errors
    /// Fails if the module does not exist, does not answer or is locked, or if a system call fails.
    pub fn label_area(&self, index: usize) -> Result<Vec<u8>, PlatformError> {
        let handle = nmem::find_usable(&self.platform, index)?;
        if let Some(device) = handle.cxl_device() {
            return self.cxl_label_area(device);
        }
        let file = labels_path(handle);
        let path = self.pending.path(&self.root, &file);
        let mut bytes = fs::read(&path).map_err(|error| FileError { what: "reading", path, error })?;
        self.pending.apply(&file, 0, &mut bytes);
        Ok(bytes)
    }

    /// Overwrites a part of a module's label area, from `off` on.
    ///
    /// # Errors
    /// Fails if the module does not exist, is dead or locked, or one of its regions is active; if the area does not have
    /// the part; or if a system call fails.
    ///
    /// # Durability
    /// That of [`change`](Directory::change).
    pub fn write_labels_at(&mut self, index: usize, off: u64, part: &[u8]) -> Result<(), PlatformError> {
        let module = nmem::find_usable(&self.platform, index)?;
        let mut area = self.label_area(index)?;
        let (size, len) = (area.len() as u64, part.len() as u64);
        let place = label_extent(size, len, off).filter(|place| place.end - place.start == len);
        let place = place.ok_or(NamespaceError::LabelExtent { module, size, off, len })?;
        area[place.start as usize..place.end as usize].copy_from_slice(part);
        self.change(|platform| write_labels(platform, index, area))
    }
}

/// Returns true if a change of the directory was interrupted.
fn is_interrupted(root: &Path) -> bool {
    [JOURNAL, JOURNAL_NEW, STAGED].iter().any(|name| root.join(name).exists())
}

/// Completes an interrupted change. A reader that can't gets the reason, and shares the lock again.
///
/// # Errors
/// Fails if the journal is corrupt, or if other commands use the directory for so long. If the directory is opened for
/// a change, fails also if a system call fails.
fn complete(
    lock: &File,
    purpose: Purpose,
    root: &Path,
    wait: Duration,
) -> Result<Option<DirectoryError>, DirectoryError> {
    let is_reader = purpose == Purpose::ReadOnly;
    // Another reader may have found the interrupted change, too, so a reader does not wait for the others.
    let exclusive = take(lock, Purpose::Change, root, if is_reader { Duration::ZERO } else { wait });
    match exclusive.and_then(|()| finish(root)) {
        Err(
            error @ (DirectoryError::Interrupted { .. }
            | DirectoryError::File(_)
            | DirectoryError::InUse { .. }),
        ) if is_reader => {
            take(lock, Purpose::ReadOnly, root, wait)?;
            Ok(is_interrupted(root).then_some(error))
        }
        finished => finished.map(|()| None),
    }
}
