//! Staged media: new copies that replace the media of modules atomically.

use super::journal::FileWrite;
use super::media::Media;
use super::paths::{labels_path, media_path};
use crate::error::PlatformError;
use crate::file::error::FileError;
use crate::file::progress::CopyProgress;
use crate::file::sparse;
use crate::machine::{Handle, Module};
use crate::region::Region;
use rustix::fs::fsync;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Folder of the staged media. A folder that no journal names is unfinished, and the next command removes it.
pub(crate) const STAGED: &str = "staged";

/// Staged media of some modules. Dropping this removes them.
#[derive(Debug)]
pub(crate) struct Staged {
    root: PathBuf,
    files: Vec<(Handle, File)>,
    /// Label areas of new modules.
    labels: Vec<(Handle, File)>,
    /// Ranges with new data, which are readable even if the old ones had media errors.
    rewritten: Vec<(Handle, Range<u64>)>,
    /// True if the journal names the staged media, which must then be kept.
    is_journaled: bool,
}

impl Staged {
    /// Makes the folder for staged media.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub(super) fn new(root: &Path) -> Result<Staged, FileError> {
        let path = root.join(STAGED);
        fs::create_dir(&path).map_err(|error| FileError { what: "making", path, error })?;
        Ok(Staged {
            root: root.to_owned(),
            files: Vec::new(),
            labels: Vec::new(),
            rewritten: Vec::new(),
            is_journaled: false,
        })
    }

    /// Returns the path of the folder.
    pub(crate) fn folder(&self) -> PathBuf {
        self.root.join(STAGED)
    }

    /// Copies a module's media, with a hole in place of the range `without`.
    ///
    /// # Errors
    /// Fails if a system call fails, or if the user stops the copy.
    pub(crate) fn copy(
        &mut self,
        media: &mut Media,
        module: Handle,
        without: Range<u64>,
        progress: &mut CopyProgress<'_>,
    ) -> Result<(), PlatformError> {
        let path = self.root.join(staged_path(module));
        let writing = |error| FileError { what: "writing", path: path.clone(), error };
        let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(writing)?;
        let len = media.module_len(module)?;
        file.set_len(len).map_err(writing)?;
        let mut part = Vec::new();
        for range in [0..without.start, without.end..len] {
            let mut at = range.start;
            while at < range.end {
                let Some(data) = media.next_module_data(module, at..range.end)? else { break };
                part.resize((data.end - data.start).min(sparse::PART) as usize, 0);
                media.read_module(module, data.start, &mut part)?;
                sparse::fill(&file, data.start, &part).map_err(writing)?;
                at = data.start + part.len() as u64;
                progress.advance(0)?;
            }
        }
        self.files.push((module, file));
        self.rewritten.push((module, without));
        Ok(())
    }

    /// Makes blank media and a blank label area for a new module.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub(super) fn blank(&mut self, module: &Module) -> Result<(), FileError> {
        let handle = module.handle;
        let new = |path: PathBuf, size: u64| {
            let path = self.root.join(path);
            let file = File::options().write(true).create_new(true).open(&path);
            let sized = file.and_then(|file| file.set_len(size).map(|()| file));
            sized.map_err(|error| FileError { what: "making", path, error })
        };
        let media = new(staged_path(handle), module.capacity)?;
        let labels = new(staged_labels_path(handle), module.label_area)?;
        self.files.push((handle, media));
        self.labels.push((handle, labels));
        Ok(())
    }

    /// Writes bytes at `offset` of a region whose modules were copied.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub(crate) fn write(&self, region: &Region, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        self.each_piece(region, offset, bytes, |file, off, part| file.write_all_at(part, off))
    }

    /// Writes bytes to a hole at `offset` of a region, and leaves holes where the bytes are zeros.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub(crate) fn fill(&self, region: &Region, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        self.each_piece(region, offset, bytes, sparse::fill)
    }

    fn each_piece(
        &self,
        region: &Region,
        offset: u64,
        bytes: &[u8],
        write: impl Fn(&File, u64, &[u8]) -> io::Result<()>,
    ) -> Result<(), FileError> {
        let Some(interleave) = region.interleave() else { return Ok(()) };
        for piece in interleave.pieces(offset..offset + bytes.len() as u64) {
            let member = region.members()[usize::from(piece.position)];
            let start = (piece.region_off - offset) as usize;
            let part = &bytes[start..start + piece.len as usize];
            let Some((_, file)) = self.files.iter().find(|(module, _)| *module == member.module) else {
                continue;
            };
            write(file, member.offset + piece.module_off, part)
                .map_err(|error| self.failed(member.module, error))?;
        }
        Ok(())
    }

    /// Writes bytes to a hole at `off` of a copied module.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub(crate) fn fill_module(&self, module: Handle, off: u64, bytes: &[u8]) -> Result<(), FileError> {
        let Some((_, file)) = self.files.iter().find(|(of, _)| *of == module) else { return Ok(()) };
        sparse::fill(file, off, bytes).map_err(|error| self.failed(module, error))
    }

    /// Makes the staged media durable, and returns the writes that replace the old ones.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub(super) fn replacements(&self) -> Result<Vec<FileWrite>, FileError> {
        for (module, file) in self.files.iter().chain(&self.labels) {
            // ORDER: content before the journal that names the file. Stop here: the next command removes the folder.
            file.sync_all().map_err(|error| self.failed(*module, error))?;
        }
        let path = self.folder();
        // Sync the folder's own directory entry too: recovery treats a missing folder as already applied.
        for folder in [&path, &self.root] {
            let durable = File::open(folder).and_then(|folder| Ok(fsync(folder)?));
            let failed = |error| FileError { what: "writing", path: folder.clone(), error };
            durable.map_err(failed)?;
        }
        let replaced = |(module, _): &(Handle, File)| FileWrite::Replaced {
            file: media_path(*module),
            by: staged_path(*module),
        };
        let labels = |(module, _): &(Handle, File)| FileWrite::Replaced {
            file: labels_path(*module),
            by: staged_labels_path(*module),
        };
        Ok(self.files.iter().map(replaced).chain(self.labels.iter().map(labels)).collect())
    }

    /// Returns the modules whose media are replaced.
    pub(super) fn modules(&self) -> Vec<Handle> {
        self.files.iter().map(|(module, _)| *module).collect()
    }

    /// Returns the rewritten ranges of the modules' media.
    pub(super) fn rewritten(&self) -> &[(Handle, Range<u64>)] {
        &self.rewritten
    }

    /// Records that the journal names the staged media.
    pub(super) fn set_journaled(&mut self) {
        self.is_journaled = true;
    }

    fn failed(&self, module: Handle, error: io::Error) -> FileError {
        FileError { what: "writing", path: self.root.join(staged_path(module)), error }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_journaled {
            // If the folder can't be removed, the next command removes it.
            let _ = fs::remove_dir_all(self.folder());
        }
    }
}

fn staged_path(module: Handle) -> PathBuf {
    Path::new(STAGED).join(format!("{module}.media"))
}

fn staged_labels_path(module: Handle) -> PathBuf {
    Path::new(STAGED).join(format!("{module}.labels"))
}
