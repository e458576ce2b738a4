//! pmempool_sync(3) and pmempool_transform(3).

use crate::failures::failure;
use lode_capi_entry::{Failure, flushing_instructions, variable};
use lode_pmdk::{PmdkError, ReplicaError, ReplicaOptions, check_set_file, repair_replicas, transform};
use lode_pmem::Sysfs;
use std::path::Path;

/// PMEMPOOL_SYNC_DRY_RUN and PMEMPOOL_TRANSFORM_DRY_RUN: nothing is written.
const DRY_RUN: u32 = 1 << 1;
/// PMEMPOOL_SYNC_FIX_BAD_BLOCKS: lost ranges are restored.
const FIX_BAD_BLOCKS: u32 = 1 << 0;

/// Repairs the replicas of the set at `path`.
pub(crate) fn repair(path: &Path, flags: u32) -> Result<(), Failure> {
    check_set_file(path, "").map_err(|error| refused(&error))?;
    check_flags(flags, DRY_RUN | FIX_BAD_BLOCKS)?;
    repair_replicas(path, &options(flags)).map_err(|error| refused(&error))
}

/// Changes the set at `source` into that at `target`.
pub(crate) fn change(source: &Path, target: &Path, flags: u32) -> Result<(), Failure> {
    for (path, which) in [(source, "source "), (target, "destination ")] {
        check_set_file(path, which).map_err(|error| refused(&error))?;
    }
    check_flags(flags, DRY_RUN)?;
    transform(source, target, &options(flags)).map_err(|error| refused(&error))
}

fn check_flags(flags: u32, known: u32) -> Result<(), Failure> {
    match flags & !known {
        0 => Ok(()),
        unknown => Err(Failure::invalid(format!(
            "unsupported flags: {unknown:#x}; pass a combination of {known:#x}"
        ))),
    }
}

/// Returns the options in a program that has its own signal handlers.
fn options(flags: u32) -> ReplicaOptions {
    let sysfs = Sysfs::default();
    let program = Some(flushing_instructions(&variable, &sysfs));
    let (is_dry_run, fixes_bad_blocks) = (flags & DRY_RUN != 0, flags & FIX_BAD_BLOCKS != 0);
    ReplicaOptions { is_dry_run, fixes_bad_blocks, program, sysfs }
}

/// Returns the failure of a repair or change. PMDK says EINVAL, also where a call of the kernel has failed.
fn refused(error: &ReplicaError) -> Failure {
    let text = error.to_string();
    let errno = match error {
        ReplicaError::NotASet { errno, .. } | ReplicaError::Folder { errno, .. } if *errno != 0 => *errno,
        ReplicaError::Remote { .. } => libc::ENOTSUP,
        ReplicaError::Parse { error, .. } => failure(error).errno,
        ReplicaError::Pool(PmdkError::InUse { .. }) => libc::EINVAL,
        ReplicaError::Pool(error) => return failure(error),
        _ => libc::EINVAL,
    };
    Failure::new(errno, text)
}
