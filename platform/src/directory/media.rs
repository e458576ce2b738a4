//! Reading the media of the modules.

use super::{Directory, media_path};
use crate::error::PlatformError;
use crate::machine::Handle;
use crate::region::{INTERLEAVE_LINE, Region};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The media of the modules, each opened when it is first read.
#[derive(Debug)]
pub(crate) struct Media<'d> {
    directory: &'d Directory,
    files: BTreeMap<Handle, File>,
}

impl<'d> Media<'d> {
    pub(crate) fn new(directory: &'d Directory) -> Media<'d> {
        Media { directory, files: BTreeMap::new() }
    }

    /// The `len` bytes of the region from the start of a line on; what is behind the region is zeros.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn bytes(&mut self, region: &Region, offset: u64, len: u64) -> Result<Vec<u8>, PlatformError> {
        let mut bytes = vec![0; len as usize];
        let lines = (offset..).step_by(INTERLEAVE_LINE as usize);
        for (line, at) in bytes.chunks_mut(INTERLEAVE_LINE as usize).zip(lines) {
            let Some((module, off)) = region.place(at) else { continue };
            let path = self.directory.root.join(media_path(module));
            let io = |error| PlatformError::Io { what: "reading", path: path.clone(), error };
            let file = match self.files.entry(module) {
                Entry::Occupied(file) => file.into_mut(),
                Entry::Vacant(none) => none.insert(File::open(&path).map_err(io)?),
            };
            file.read_exact_at(line, off).map_err(io)?;
        }
        Ok(bytes)
    }
}
