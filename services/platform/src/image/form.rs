//! Form of an image.

use std::fmt;

/// Form of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageForm {
    /// A module with labels, for `-device nvdimm`. Of a module: a raw copy of media and labels.
    #[default]
    Nvdimm,
    /// Data of a namespace without labels, for `-device virtio-pmem-pci`.
    VirtioPmem,
    /// A root file system, as Kata Containers boots it from `-device nvdimm` without labels: a partition table, an info
    /// block, and a partition table for readers of the namespace's data.
    KataRoot,
}

impl ImageForm {
    /// Describes the sources of this form.
    pub(super) fn wants(self) -> &'static str {
        match self {
            ImageForm::Nvdimm => "it is made of a region, a namespace or a module",
            ImageForm::VirtioPmem => "it is made of a namespace",
            ImageForm::KataRoot => "it is made of an fsdax namespace with a file system",
        }
    }
}

impl fmt::Display for ImageForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ImageForm::Nvdimm => "nvdimm",
            ImageForm::VirtioPmem => "virtio-pmem",
            ImageForm::KataRoot => "kata-root",
        })
    }
}
