//! The environment variables that only libpmem(7) describes.

use lode_capi_entry::{Variable, leading_hexadecimal};
use std::os::unix::ffi::OsStrExt;

/// Returns the address above which mappings are placed, by PMEM_MMAP_HINT.
pub(crate) fn mapping_hint(variable: Variable<'_>) -> Option<usize> {
    leading_hexadecimal(variable("PMEM_MMAP_HINT")?.as_bytes())
}
