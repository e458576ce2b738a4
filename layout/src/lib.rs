//! Floor 0: every on-media format of Lodestone, as bytes and as validated values.
//!
//! It does: offsets and alignment, headers, checkpoint slots, log records, heap words, tree nodes and
//! leaves, each both ways. It does not: read a file, map memory, or know an instruction; so a broken pool
//! can be printed without opening it.
#![forbid(unsafe_code)]

mod drawing;
mod geometry;
pub mod header;
mod layout_name;
mod offset;
mod rung;

pub use drawing::{DRAWINGS, Drawing, Field};
pub use geometry::{CHUNK, Contradiction, Extent, Geometry, GeometryError, Want};
pub use header::{Header, HeaderError};
pub use layout_name::{LayoutName, LayoutNameError};
pub use offset::{BLOCK, LINE, PoolOffset, WORD, align_down, align_up};
pub use rung::Rung;
