//! Info blocks of namespaces and files, as `ndctl read-infoblock` and `write-infoblock` handle them.
//!
//! ```text
//!   0            4096         8192
//!   | BTT 2.0    | BTT 1.1, page map (fsdax, devdax)
//! ```

mod area;
pub(crate) mod error;
mod request;

pub use area::{INFO_BLOCKS_LEN, InfoBlockArea, StoredInfoBlock};
pub use error::InfoBlockFault;
pub use request::{WriteInfoBlock, write, write_file};
