//! Reader of module media.

use super::paths::media_path;
use super::pending::Pending;
use crate::error::PlatformError;
use crate::file::error::FileError;
use crate::file::sparse;
use crate::machine::Handle;
use crate::media_error::range::first_lost;
use crate::media_error::{MediaError, MediaFault};
use crate::region::Region;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Media of modules. Each file is opened at its first read.
#[derive(Debug)]
pub(crate) struct Media {
    /// The directory of the machine, or an image.
    path: PathBuf,
    files: BTreeMap<Handle, File>,
    /// Bytes of each CXL device. Its file is missing before the first write to it.
    cxl_lens: Vec<u64>,
    /// Media errors.
    lost: Vec<MediaError>,
    /// A durable change that is not in the files.
    pending: Pending,
}

impl Media {
    /// Returns the media of the machine in a directory after a pending change. The ranges in `lost` can't be read.
    pub(super) fn of_machine(
        root: &Path,
        cxl_lens: Vec<u64>,
        lost: Vec<MediaError>,
        pending: Pending,
    ) -> Media {
        Media { path: root.to_owned(), files: BTreeMap::new(), cxl_lens, lost, pending }
    }

    /// Returns the media of one module at the start of `file`.
    pub(crate) fn of_file(path: &Path, module: Handle, file: File) -> Media {
        let files = BTreeMap::from([(module, file)]);
        let (cxl_lens, lost) = (Vec::new(), Vec::new());
        Media { path: path.to_owned(), files, cxl_lens, lost, pending: Pending::default() }
    }

    /// Reads `len` bytes of the region from `offset` on. Bytes past the end of the region are zeros.
    ///
    /// # Errors
    /// Fails if a part of the range is unreadable, or if a system call fails.
    pub(crate) fn bytes(&mut self, region: &Region, offset: u64, len: u64) -> Result<Vec<u8>, PlatformError> {
        let mut bytes = vec![0; len as usize];
        self.read(region, offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads bytes of the region from `offset` on. Bytes past the end of the region stay unchanged.
    ///
    /// # Errors
    /// Fails if a part of the range is unreadable, or if a system call fails.
    pub(crate) fn read(
        &mut self,
        region: &Region,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), PlatformError> {
        self.check(region, offset..offset + bytes.len() as u64)?;
        let Some(interleave) = region.interleave() else { return Ok(()) };
        for piece in interleave.pieces(offset..offset + bytes.len() as u64) {
            let member = region.members()[usize::from(piece.position)];
            let start = (piece.region_off - offset) as usize;
            let part = &mut bytes[start..start + piece.len as usize];
            self.read_module(member.module, member.offset + piece.module_off, part)?;
        }
        Ok(())
    }

    /// Reads bytes of a module from `off` on. Does not regard media errors.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub(crate) fn read_module(
        &mut self,
        module: Handle,
        off: u64,
        bytes: &mut [u8],
    ) -> Result<(), FileError> {
        match self.file(module)? {
            Some(file) => {
                let read = file.read_exact_at(bytes, off);
                read.map_err(|error| self.failed(module, error))?;
            }
            None => bytes.fill(0),
        }
        self.pending.apply(&media_path(module), off, bytes);
        Ok(())
    }

    /// Returns the first part of `range` of a module that is no hole; `None` if the range is a hole.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub(crate) fn next_module_data(
        &mut self,
        module: Handle,
        range: Range<u64>,
    ) -> Result<Option<Range<u64>>, FileError> {
        let data = match self.file(module)? {
            Some(file) => {
                let data = sparse::next_data(file, range.clone());
                data.map_err(|error| self.failed(module, error))?
            }
            None => None,
        };
        Ok(match self.pending.next_data(&media_path(module), range.clone()) {
            Some(start) if data.as_ref().is_none_or(|data| start < data.start) => Some(start..range.end),
            _ => data,
        })
    }

    /// Refuses a range of the region with media errors.
    ///
    /// # Errors
    /// [`MediaFault::Poisoned`].
    pub(crate) fn check(&self, region: &Region, range: Range<u64>) -> Result<(), MediaFault> {
        let Some(interleave) = region.interleave() else { return Ok(()) };
        let lost = (0..).zip(region.members()).filter_map(|(position, member)| {
            let share = interleave.share(position, range.clone());
            let share = member.offset + share.start..member.offset + share.end;
            let (off, len) = first_lost(self.lost.iter().copied(), member.module, &share)?;
            Some((interleave.region_off(position, off - member.offset)?, len, member.module))
        });
        match lost.min() {
            None => Ok(()),
            Some((offset, len, module)) => {
                Err(MediaFault::Poisoned { of: region.name(), offset, len, module })
            }
        }
    }

    /// Refuses a module with media errors.
    ///
    /// # Errors
    /// [`MediaFault::Poisoned`].
    pub(crate) fn check_module(&self, module: Handle) -> Result<(), MediaFault> {
        match first_lost(self.lost.iter().copied(), module, &(0..u64::MAX)) {
            None => Ok(()),
            Some((offset, len)) => Err(MediaFault::Poisoned { of: module.to_string(), offset, len, module }),
        }
    }

    /// Returns the offset of the first data in `range` of the region, rounded down to an interleave line; `None` if the
    /// range is a hole.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub(crate) fn next_data(&mut self, region: &Region, range: Range<u64>) -> Result<Option<u64>, FileError> {
        let Some(interleave) = region.interleave() else { return Ok(None) };
        let mut first: Option<u64> = None;
        for (position, member) in (0..).zip(region.members()) {
            let share = interleave.share(position, range.clone());
            let share = member.offset + share.start..member.offset + share.end;
            let data = self.next_module_data(member.module, share)?;
            let off = data.and_then(|data| interleave.region_off(position, data.start - member.offset));
            first = first.into_iter().chain(off).min();
        }
        Ok(first.map(|first| (first - first % region.line()).max(range.start)))
    }

    /// Returns the length of a module's media in bytes.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub(crate) fn module_len(&mut self, module: Handle) -> Result<u64, FileError> {
        let Some(file) = self.file(module)? else {
            let len = module.cxl_device().and_then(|device| self.cxl_lens.get(device as usize));
            return Ok(len.copied().unwrap_or(0));
        };
        let meta = file.metadata();
        Ok(meta.map_err(|error| self.failed(module, error))?.len())
    }

    /// Returns the file of a module's media; `None` for a CXL device to which no command has written.
    fn file(&mut self, module: Handle) -> Result<Option<&File>, FileError> {
        match self.files.entry(module) {
            Entry::Occupied(file) => Ok(Some(file.into_mut())),
            Entry::Vacant(none) => {
                let path = self.pending.path(&self.path, &media_path(module));
                match File::open(&path) {
                    Ok(file) => Ok(Some(none.insert(file))),
                    Err(error)
                        if error.kind() == io::ErrorKind::NotFound && module.cxl_device().is_some() =>
                    {
                        Ok(None)
                    }
                    Err(error) => Err(FileError { what: "reading", path, error }),
                }
            }
        }
    }

    /// Makes the error of a failed read of a module's media.
    fn failed(&self, module: Handle, error: io::Error) -> FileError {
        let path = if self.path.is_dir() { self.path.join(media_path(module)) } else { self.path.clone() };
        FileError { what: "reading", path, error }
    }
}
