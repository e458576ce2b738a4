//! Bytes of a part that is a device-DAX node, which is mapped for each of them: nodes have no calls of the kernel for them.

use crate::error::PmdkError;
use crate::locked_part::LockedPart;
use lode_layout::{Durability, PoolOffset};
use lode_pmem::{
    ByAddress, DaxDevice, FaultScope, Mapping, Medium, Memory, PmemError, ProgramMedium, ProgramShare, Sysfs,
};
use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

impl LockedPart {
    /// Returns true for a device-DAX node.
    pub(crate) fn is_node(&self) -> Result<bool, PmdkError> {
        let metadata = self.file().metadata().map_err(PmdkError::io("fstat", self.path()))?;
        Ok(metadata.file_type().is_char_device())
    }

    /// Reads bytes of the node.
    pub(crate) fn read_node(&self, at: u64, bytes: &mut [u8]) -> Result<(), PmdkError> {
        match self.program() {
            Some(instructions) => read(self.map_in_program(instructions)?.memory(), self.path(), at, bytes),
            None => read_view(self.duplicate()?, self.path(), at, bytes),
        }
    }

    /// Writes bytes of the node, durably.
    pub(crate) fn write_node(&self, at: u64, bytes: &[u8]) -> Result<(), PmdkError> {
        if let Some(instructions) = self.program() {
            return store(&self.map_in_program(instructions)?, at, bytes, self.path());
        }
        let options = Mapping::options();
        let medium = match options.clone().map_file(self.duplicate()?, self.path()) {
            Err(PmemError::Volatile { .. }) => {
                options.durability(Durability::None).map_file(self.duplicate()?, self.path())
            }
            mapped => mapped,
        }?;
        store(&medium, at, bytes, self.path())
    }

    /// Maps a node as a program of PMDK does: without a signal handler.
    fn map_in_program(&self, instructions: ByAddress) -> Result<ProgramMedium, PmdkError> {
        let metadata = self.file().metadata().map_err(PmdkError::io("stat", self.path()))?;
        let device = DaxDevice::numbered(&Sysfs::default(), metadata.rdev())
            .ok_or_else(|| PmdkError::NotDax { path: self.path().to_owned() })?;
        ProgramMedium::map(self.file(), Some(&device), device.len(), ProgramShare::Shared, None, instructions)
            .map_err(PmdkError::io("mmap", self.path()))
    }
}

/// Reads bytes of a node through a private view.
pub(crate) fn read_view(node: File, path: &Path, at: u64, bytes: &mut [u8]) -> Result<(), PmdkError> {
    let view = Mapping::options().private_view().map_file(node, path)?;
    read(view.memory(), path, at, bytes)
}

fn read(memory: &Memory, path: &Path, at: u64, bytes: &mut [u8]) -> Result<(), PmdkError> {
    let read = memory.reading(|memory| memory.read(PoolOffset::new(at), bytes));
    read.map_err(PmdkError::memory(path))
}

/// Stores bytes durably.
fn store<M: Medium>(medium: &M, at: u64, bytes: &[u8], path: &Path) -> Result<(), PmdkError> {
    let stored = FaultScope::run(|| {
        medium.store(PoolOffset::new(at), bytes);
        medium.flush(PoolOffset::new(at), bytes.len() as u64);
    });
    stored.map_err(PmdkError::memory(path))?;
    // ORDER: the bytes before the caller's next step. Stop here: the place is as before, or has any of them.
    medium.drain().map_err(PmdkError::drain(path))
}
