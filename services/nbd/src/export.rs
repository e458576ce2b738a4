//! An export: a block device with a name.

use crate::error::NbdError;
use crate::protocol::negotiation::ExportInfo;
use crate::protocol::wire::NAME_MAX;
use lode_volume::BlockDevice;
use std::fmt;
use std::sync::{Arc, RwLock};

/// A block device that clients find by its name.
pub struct Export {
    name: String,
    pub(crate) device: Arc<dyn BlockDevice>,
    is_read_only: bool,
    /// Held for reading by changes of whole blocks, and for writing while a part of a block is changed: such a change reads
    /// the block and writes it back.
    pub(crate) partial: RwLock<()>,
}

impl Export {
    /// Returns the export of `device` as `name`, which has 4096 bytes at most.
    ///
    /// # Errors
    /// [`NbdError::Name`] if the name is longer.
    pub fn new(
        name: impl Into<String>,
        device: Arc<dyn BlockDevice>,
        is_read_only: bool,
    ) -> Result<Export, NbdError> {
        let name = name.into();
        if name.len() > NAME_MAX {
            return Err(NbdError::Name { len: name.len() });
        }
        let is_read_only = is_read_only || device.is_read_only();
        Ok(Export { name, device, is_read_only, partial: RwLock::new(()) })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if a change has to be durable before it is answered. A client that connects again to a server that was
    /// killed does not send an answered change again, so no answer may depend on the memory of the process.
    pub(crate) fn is_durable_when_answered(&self) -> bool {
        self.device.has_process_cache()
    }

    /// Returns true if clients can't change it.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    pub(crate) fn info(&self) -> ExportInfo {
        ExportInfo {
            name: self.name.clone().into_bytes(),
            size: self.device.capacity(),
            block_size: self.device.block_size(),
            is_read_only: self.is_read_only,
            can_grow: self.device.can_grow(),
        }
    }
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export").field("info", &self.info()).finish_non_exhaustive()
    }
}
