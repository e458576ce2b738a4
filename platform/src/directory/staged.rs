//! Media that are written beside those that count, to take their place at once.

use super::journal::FileWrite;
use super::{Directory, Media, media_path};
use crate::error::PlatformError;
use crate::image::{Watch, sparse};
use crate::machine::Handle;
use crate::region::Region;
use rustix::fs::fsync;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Where they are written. What is in it without a journal that names it was never finished, and is removed.
pub(crate) const STAGED: &str = "staged";

/// Media of some modules, written anew beside those that count. Dropping it removes them.
#[derive(Debug)]
pub(crate) struct Staged {
    root: PathBuf,
    files: Vec<(Handle, File)>,
    /// What is new in them: it can be read, whatever was lost there.
    rewritten: Vec<(Handle, Range<u64>)>,
    /// The journal names them: they are not to be removed any more.
    is_noted: bool,
}

impl Staged {
    /// A folder for media that are to be written, without any.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn new(directory: &Directory) -> Result<Staged, PlatformError> {
        let path = directory.root.join(STAGED);
        fs::create_dir(&path).map_err(|error| PlatformError::Io { what: "making", path, error })?;
        Ok(Staged { root: directory.root.clone(), files: Vec::new(), rewritten: Vec::new(), is_noted: false })
    }

    /// The folder.
    pub(crate) fn folder(&self) -> PathBuf {
        self.root.join(STAGED)
    }

    /// Copies a module's media, without what is in the range `without` of it, which becomes a hole.
    ///
    /// # Errors
    /// The kernel refuses, or the watch wants it to stop.
    pub(crate) fn copy(
        &mut self,
        media: &mut Media,
        module: Handle,
        without: Range<u64>,
        watch: &mut Watch<'_>,
    ) -> Result<(), PlatformError> {
        let path = self.root.join(staged_path(module));
        let writing = |error| PlatformError::Io { what: "writing", path: path.clone(), error };
        let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(writing)?;
        let len = media.file(module)?.metadata().map_err(|error| media.failed(module, error))?.len();
        file.set_len(len).map_err(writing)?;
        let mut part = Vec::new();
        for range in [0..without.start, without.end..len] {
            let mut at = range.start;
            while at < range.end {
                let data = sparse::next_data(media.file(module)?, at..range.end);
                let Some(data) = data.map_err(|error| media.failed(module, error))? else { break };
                part.resize((data.end - data.start).min(sparse::PART) as usize, 0);
                let read = media.file(module)?.read_exact_at(&mut part, data.start);
                read.map_err(|error| media.failed(module, error))?;
                sparse::fill(&file, data.start, &part).map_err(writing)?;
                at = data.start + part.len() as u64;
                watch.done(0)?;
            }
        }
        self.files.push((module, file));
        self.rewritten.push((module, without));
        Ok(())
    }

    /// Writes bytes of a region whose modules were copied, from `offset` of it on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn write(&self, region: &Region, offset: u64, bytes: &[u8]) -> Result<(), PlatformError> {
        self.each_piece(region, offset, bytes, |file, off, part| file.write_all_at(part, off))
    }

    /// The same where there is a hole so far, which stays one where the bytes are zeros.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn fill(&self, region: &Region, offset: u64, bytes: &[u8]) -> Result<(), PlatformError> {
        self.each_piece(region, offset, bytes, sparse::fill)
    }

    fn each_piece(
        &self,
        region: &Region,
        offset: u64,
        bytes: &[u8],
        write: impl Fn(&File, u64, &[u8]) -> io::Result<()>,
    ) -> Result<(), PlatformError> {
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

    /// Writes bytes of a module that was copied, where there is a hole so far.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn fill_module(&self, module: Handle, off: u64, bytes: &[u8]) -> Result<(), PlatformError> {
        let Some((_, file)) = self.files.iter().find(|(of, _)| *of == module) else { return Ok(()) };
        sparse::fill(file, off, bytes).map_err(|error| self.failed(module, error))
    }

    /// What takes the places of the media that count, durable by now.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn replacements(&self) -> Result<Vec<FileWrite>, PlatformError> {
        for (module, file) in &self.files {
            // ORDER: content before the journal that names the file. Stop here: the next command removes the folder.
            file.sync_all().map_err(|error| self.failed(*module, error))?;
        }
        let path = self.folder();
        // The folder's own name, too: to who finds the journal and not the folder, all would look done.
        for folder in [&path, &self.root] {
            let durable = File::open(folder).and_then(|folder| Ok(fsync(folder)?));
            let failed = |error| PlatformError::Io { what: "writing", path: folder.clone(), error };
            durable.map_err(failed)?;
        }
        let replaced = |(module, _): &(Handle, File)| FileWrite::Replaced {
            file: media_path(*module),
            by: staged_path(*module),
        };
        Ok(self.files.iter().map(replaced).collect())
    }

    /// What was written anew of the modules' media.
    pub(super) fn rewritten(&self) -> &[(Handle, Range<u64>)] {
        &self.rewritten
    }

    /// From now on the journal names them.
    pub(super) fn set_noted(&mut self) {
        self.is_noted = true;
    }

    fn failed(&self, module: Handle, error: io::Error) -> PlatformError {
        PlatformError::Io { what: "writing", path: self.root.join(staged_path(module)), error }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_noted {
            // If it can't be removed, the next command removes it.
            let _ = fs::remove_dir_all(self.folder());
        }
    }
}

fn staged_path(module: Handle) -> PathBuf {
    Path::new(STAGED).join(format!("{module}.media"))
}
