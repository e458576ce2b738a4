//! Content that is recognised in the place of a new volume.

use crate::format::VolumeFormat;
use std::fmt;

/// The content that is recognised in the place of a new volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Occupant {
    /// A volume.
    Volume(VolumeFormat),
    /// A pool with other content than blocks.
    Pool,
    /// A volume or a pool that can't be opened.
    Damaged,
    /// A pool of PMDK.
    Pmdk,
    /// The info block of a namespace of mode fsdax or devdax.
    PageMap,
    /// The label area of an image of a memory module.
    Labels,
    /// Content of another program.
    Other(&'static str),
}

impl fmt::Display for Occupant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Occupant::Volume(format) => write!(f, "a volume of the format {format}"),
            Occupant::Pool => f.write_str("a pool"),
            Occupant::Damaged => f.write_str("a volume or a pool, which is damaged"),
            Occupant::Pmdk => f.write_str("a pool of PMDK"),
            Occupant::PageMap => f.write_str("the info block of a namespace of mode fsdax or devdax"),
            Occupant::Labels => f.write_str("the label area of a memory module"),
            Occupant::Other(what) => f.write_str(what),
        }
    }
}
