//! For what an image is.

use std::fmt;

/// For what an image is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageForm {
    /// A module with labels, for `-device nvdimm`; of a module, its media and labels as they are.
    #[default]
    Nvdimm,
    /// What the user of a namespace sees, for `-device virtio-pmem-pci`: without labels.
    VirtioPmem,
    /// A root file system as Kata Containers boots it from `-device nvdimm` without labels: a partition table, an info
    /// block, and a partition table for those who see what the info block leaves.
    KataRoot,
}

impl ImageForm {
    /// What an image of this form is made of.
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
