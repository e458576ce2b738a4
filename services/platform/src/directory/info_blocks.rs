//! Reader of the info blocks of a namespace.

use super::state_dir::Directory;
use crate::error::PlatformError;
use crate::info_block::{INFO_BLOCKS_LEN, InfoBlockArea, InfoBlockFault};
use crate::namespace::NamespaceError;

impl Directory {
    /// Reads the first bytes of a disabled namespace.
    ///
    /// # Errors
    /// Fails if the namespace does not exist, it is enabled or its region is disabled, if the bytes are poisoned, or if
    /// a system call fails.
    pub fn info_blocks(&self, name: &str) -> Result<InfoBlockArea, PlatformError> {
        let (region, namespace) = self.platform().namespace(name)?;
        if !region.enabled {
            return Err(NamespaceError::RegionDisabled { region: region.number }.into());
        }
        if namespace.enabled {
            return Err(InfoBlockFault::Enabled { name: name.to_owned() }.into());
        }
        let bytes = self.media().bytes(&region, namespace.offset, INFO_BLOCKS_LEN as u64)?;
        let namespace_name = Some(name.to_owned());
        Ok(InfoBlockArea { namespace: namespace_name, file: String::new(), uuid: namespace.uuid, bytes })
    }
}
