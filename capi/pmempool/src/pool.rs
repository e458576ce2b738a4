//! The pool of a call.

use crate::failures::failure;
use lode_capi_entry::{Failure, flushing_instructions, variable};
use lode_pmdk::{PmdkAccess, UncheckedPool};
use lode_pmem::Sysfs;
use std::path::Path;

/// Opens the pool at `path`, in a program that has its own signal handlers.
pub(crate) fn open(path: &Path, access: PmdkAccess) -> Result<UncheckedPool, Failure> {
    let sysfs = Sysfs::default();
    let instructions = flushing_instructions(&variable, &sysfs);
    UncheckedPool::open(path, access, Some(instructions), &sysfs).map_err(|error| failure(&error))
}
