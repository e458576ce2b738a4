//! The first bytes of a namespace or an image, in which its info blocks are.

use super::error::InfoBlockFault;
use crate::file::error::FileError;
use lode_nvdimm::{BttVersion, PAGE_MAP_OFF, StoredBtt, StoredPageMap};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use uuid::Uuid;

/// Bytes in which info blocks are.
pub const INFO_BLOCKS_LEN: usize = 8192;

/// The first bytes of a namespace or of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoBlockArea {
    /// Name of the namespace; `None` for a file.
    pub namespace: Option<String>,
    /// Name of the file; `<stdin>` for standard input.
    pub file: String,
    /// UUID of the namespace, if it has one.
    pub uuid: Option<Uuid>,
    /// The bytes: [`INFO_BLOCKS_LEN`].
    pub bytes: Vec<u8>,
}

/// An info block as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredInfoBlock {
    /// Of an arena of a BTT.
    Btt(StoredBtt),
    /// Of a page map.
    PageMap(StoredPageMap),
}

impl InfoBlockArea {
    /// Reads the first bytes of a file or a block device.
    ///
    /// # Errors
    /// Fails if the file is too short, or if a system call fails.
    pub fn read_file(path: &Path) -> Result<InfoBlockArea, InfoBlockFault> {
        let io = |error| FileError { what: "reading", path: path.to_owned(), error };
        InfoBlockArea::read(path.display().to_string(), File::open(path).map_err(io)?, path)
    }

    /// Reads the first bytes from `input`, called `name` in listings and `path` in errors.
    ///
    /// # Errors
    /// Fails if the input is too short, or if a system call fails.
    pub fn read(name: String, input: impl Read, path: &Path) -> Result<InfoBlockArea, InfoBlockFault> {
        let mut bytes = Vec::with_capacity(INFO_BLOCKS_LEN);
        let read = input.take(INFO_BLOCKS_LEN as u64).read_to_end(&mut bytes);
        read.map_err(|error| FileError { what: "reading", path: path.to_owned(), error })?;
        if bytes.len() < INFO_BLOCKS_LEN {
            return Err(InfoBlockFault::TooShort { of: name, len: bytes.len() as u64 });
        }
        Ok(InfoBlockArea { namespace: None, file: name, uuid: None, bytes })
    }

    /// Returns the info blocks by their signatures, in ndctl's order: a BTT of version 1.1, a BTT of version 2.0, and a
    /// page map.
    pub fn blocks(&self) -> impl Iterator<Item = StoredInfoBlock> {
        let at = |off: u64| self.bytes.get(off as usize..).unwrap_or_default();
        let btt = |version: BttVersion| StoredBtt::read(at(version.arenas_off())).map(StoredInfoBlock::Btt);
        let map = StoredPageMap::read(at(PAGE_MAP_OFF)).map(StoredInfoBlock::PageMap);
        [btt(BttVersion::V1_1), btt(BttVersion::V2_0), map].into_iter().flatten()
    }

    /// Checks an info block of this area: its checksum, and that it is of this namespace, if that has a UUID.
    ///
    /// # Errors
    /// [`Checksum`](InfoBlockFault::Checksum), [`Parent`](InfoBlockFault::Parent).
    pub fn verify(&self, block: &StoredInfoBlock) -> Result<(), InfoBlockFault> {
        let (sig, is_intact, parent) = match block {
            StoredInfoBlock::Btt(btt) => (btt.sig, btt.is_intact, btt.parent_uuid),
            StoredInfoBlock::PageMap(map) => (map.sig, map.is_intact, map.parent_uuid),
        };
        let of = self.namespace.clone().unwrap_or_else(|| self.file.clone());
        let signature = String::from_utf8_lossy(&sig).trim_end_matches('\0').to_owned();
        let found = Uuid::from_bytes(parent);
        match self.uuid.filter(|uuid| !uuid.is_nil()) {
            _ if !is_intact => Err(InfoBlockFault::Checksum { of, signature }),
            Some(want) if want != found => Err(InfoBlockFault::Parent { of, signature, want, found }),
            _ => Ok(()),
        }
    }
}
