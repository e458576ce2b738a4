//! Info blocks of page maps that are written to a namespace or a file.

use super::area::INFO_BLOCKS_LEN;
use super::error::InfoBlockFault;
use crate::contents::INFO_BLOCK;
use crate::file::error::FileError;
use crate::namespace::error::NamespaceError;
use crate::namespace::{MapLocation, write_at};
use crate::platform::Platform;
use lode_nvdimm::{PAGE_MAP_OFF, PageMapInfo, PageMapLocation, PageMapUser};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use uuid::Uuid;

/// Default alignment in bytes of the page map in a file. That in a namespace is aligned to a page.
const FILE_ALIGN: u64 = 2 << 20;
const PAGE: u64 = 4096;

/// Parameters of an info block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteInfoBlock {
    /// The user for which the pages are mapped.
    pub user: PageMapUser,
    /// Place of the page map.
    pub map: MapLocation,
    /// Size in bytes; `None` takes that of the file or namespace.
    pub size: Option<u64>,
    /// Alignment of mappings in bytes.
    pub align: Option<u64>,
    /// UUID of the page map.
    pub uuid: Uuid,
    /// UUID of the namespace; `None` takes that of the namespace, or nil for a file.
    pub parent_uuid: Option<Uuid>,
    /// Physical address of the first byte, which decides on padding.
    pub offset: u64,
}

impl WriteInfoBlock {
    /// Returns the first bytes of an image of `size` bytes, or of the requested size.
    ///
    /// # Errors
    /// [`Plan`](InfoBlockFault::Plan): the image is too small, or the alignment is invalid.
    pub fn bytes(&self, size: u64) -> Result<Vec<u8>, InfoBlockFault> {
        self.encode(self.size.unwrap_or(size), FILE_ALIGN, Uuid::nil())
    }

    fn encode(&self, size: u64, align: u64, parent: Uuid) -> Result<Vec<u8>, InfoBlockFault> {
        let location = match self.map {
            MapLocation::Mem => PageMapLocation::Dram,
            MapLocation::Dev => PageMapLocation::Namespace,
        };
        let (start, align) = (self.offset, self.align.unwrap_or(align));
        let planned = PageMapInfo::plan_image(self.user, location, start, size, align);
        let planned = planned.map_err(|error| InfoBlockFault::Plan { size, start, error })?;
        let info =
            PageMapInfo { uuid: self.uuid, parent_uuid: self.parent_uuid.unwrap_or(parent), ..planned };
        let mut bytes = vec![0; INFO_BLOCKS_LEN];
        bytes[PAGE_MAP_OFF as usize..].copy_from_slice(&info.encode());
        Ok(bytes)
    }
}

/// Writes the info block to a disabled namespace, which has this page map when it is enabled. Its other info blocks are
/// erased.
///
/// # Errors
/// Fails if the namespace does not exist, it is enabled, its region is disabled or has no modules, or the parameters do
/// not fit.
pub fn write(platform: &mut Platform, name: &str, request: &WriteInfoBlock) -> Result<(), InfoBlockFault> {
    let (region, namespace) = platform.namespace(name)?;
    if !region.enabled {
        return Err(NamespaceError::RegionDisabled { region: region.number }.into());
    }
    if namespace.enabled {
        return Err(InfoBlockFault::Enabled { name: name.to_owned() });
    }
    let align = request.align.unwrap_or(PAGE);
    if let Some(size) = request.size
        && align > 0
        && !size.is_multiple_of(align)
    {
        return Err(InfoBlockFault::Misaligned { size, align });
    }
    let size = request.size.unwrap_or(namespace.size);
    let bytes = request.encode(size, PAGE, namespace.uuid.unwrap_or_default())?;
    for (block, at) in bytes.chunks(INFO_BLOCK as usize).zip((0..).step_by(INFO_BLOCK as usize)) {
        write_at(platform, &region, namespace.offset + at, block);
    }
    Ok(())
}

/// Writes the info block to a file or a block device. Makes the file if it does not exist.
///
/// # Errors
/// Fails if the parameters do not fit the size of the file, if the file is none of these, or if a system call fails.
///
/// # Durability
/// The block is durable when this returns. A crash before leaves the old bytes, or a block with a wrong checksum.
pub fn write_file(path: &Path, request: &WriteInfoBlock) -> Result<(), InfoBlockFault> {
    let io = |error| FileError { what: "writing", path: path.to_owned(), error };
    let size = match fs::metadata(path) {
        Ok(meta) if meta.is_file() => meta.len(),
        Ok(meta) if meta.file_type().is_block_device() => {
            File::open(path).and_then(|mut device| device.seek(SeekFrom::End(0))).map_err(io)?
        }
        Ok(_) => return Err(InfoBlockFault::FileType { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(io(error).into()),
    };
    // The file is not made before the block is known to fit.
    let bytes = request.bytes(size)?;
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(io)?;
    file.write_all_at(&bytes, 0).and_then(|()| file.sync_all()).map_err(io)?;
    Ok(())
}
