//! Format of an image.

use std::fmt;

/// Format of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageFormat {
    /// A module with labels, for `-device nvdimm`. Of a module: a raw copy of media and labels.
    #[default]
    Nvdimm,
    /// Data of a namespace without labels, for `-device virtio-pmem-pci`.
    VirtioPmem,
    /// A root file system, as Kata Containers boots it from `-device nvdimm` without labels: a partition table, an info
    /// block, and a partition table for readers of the namespace's data.
    KataRoot,
}

impl ImageFormat {
    /// Describes the sources of this format.
    pub(super) fn sources(self) -> &'static str {
        match self {
            ImageFormat::Nvdimm => "it is made of a region, a namespace or a module",
            ImageFormat::VirtioPmem => "it is made of a namespace",
            ImageFormat::KataRoot => "it is made of an fsdax namespace with a file system",
        }
    }
}

impl fmt::Display for ImageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ImageFormat::Nvdimm => "nvdimm",
            ImageFormat::VirtioPmem => "virtio-pmem",
            ImageFormat::KataRoot => "kata-root",
        })
    }
}
