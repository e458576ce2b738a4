//! `lode pool info`, `check`, `repair`, `stats` and `dump` of pools of PMDK: single files, device-DAX nodes and pool sets.

mod check;
mod dump;
mod info;
mod objects;
mod pieces;
mod recover;
mod repair;
mod stats;

pub(crate) use check::check;
pub(crate) use dump::dump;
pub(crate) use info::{FIELDS, info};
pub(crate) use pieces::{PmdkPart, PmdkPiece, object_of, pieces_in, places_in_set};
pub(crate) use recover::{FIELDS as RECOVER_FIELDS, recover};
pub(crate) use repair::{FIELDS as REPAIR_FIELDS, repair};
pub(crate) use stats::{FIELDS as STATS_FIELDS, stats};

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use lode_layout::{BLOCK, PmdkBlk, PmdkKind, PmdkLog, PmdkObj, PoolOffset};
use lode_pmdk::{Inspection, OpenOptions, PmdkAccess, PmdkError};
use lode_pmem::Sysfs;
use std::path::Path;
use uuid::Uuid;

/// A pool of PMDK at a path.
pub(crate) struct PmdkPool {
    inspection: Inspection,
    kind: PmdkKind,
}

/// The content of a pool, as the descriptor of its library tells.
enum Content {
    /// A pool of objects, with the name of its layout.
    Objects { layout: String },
    /// Blocks of so many bytes.
    Blocks { size: u32 },
    /// A log, with its bytes that are used and those that it can hold.
    Log { used: u64, capacity: u64 },
}

/// Looks for a pool of PMDK at `path`, for the command `what`. `None` if there is none, or if the path can't be read: who opens a
/// pool there says why.
///
/// # Errors
/// The fault of a set file.
pub(crate) fn find(what: &str, path: &Path) -> Result<Option<PmdkPool>, Failure> {
    let inspection = match Inspection::read(path, &Sysfs::default()) {
        Ok(inspection) => inspection,
        Err(error @ (PmdkError::SetFile { .. } | PmdkError::Set { .. })) => {
            return Err(Failure::new(what, error));
        }
        Err(_) => return Ok(None),
    };
    if let (None, true, Some(fault)) = (inspection.kind(), inspection.is_set(), inspection.faults().next()) {
        return Err(Failure::damage(what, fault));
    }
    Ok(inspection.kind().map(|kind| PmdkPool { inspection, kind }))
}

impl PmdkPool {
    /// Returns the library of the pool.
    fn library(&self) -> &'static str {
        match self.kind {
            PmdkKind::Objects => "libpmemobj",
            PmdkKind::Blocks => "libpmemblk",
            PmdkKind::Log => "libpmemlog",
        }
    }

    /// Decodes the descriptor of the pool's library. `Err` has the reason why it can't be used.
    fn content(&self) -> Result<Content, String> {
        let Some(page) = self.inspection.descriptor() else { return Err("it can't be read".into()) };
        let size = self.inspection.size().map_err(|error| error.to_string())?;
        let decoded = match self.kind {
            PmdkKind::Objects => PmdkObj::decode(&start_of(page)).map(|PmdkObj { layout, .. }| {
                Content::Objects { layout: String::from_utf8_lossy(&layout).into_owned() }
            }),
            PmdkKind::Blocks => PmdkBlk::decode(start_of(page))
                .map(|PmdkBlk { block_size: size, .. }| Content::Blocks { size }),
            PmdkKind::Log => PmdkLog::decode(start_of(page), size).map(|PmdkLog { end, write }| {
                let bytes_to = |at: PoolOffset| at.get() - PmdkLog::START.get();
                Content::Log { used: bytes_to(write), capacity: bytes_to(end) }
            }),
        };
        decoded.map_err(|error| error.to_string())
    }

    /// Opens the pool for the command `what`, which changes it.
    ///
    /// # Errors
    /// A failure if the pool is in use, can't be opened, or may only be read.
    fn open_to_change(
        &self,
        what: &str,
        durability: DurabilityOption,
    ) -> Result<lode_pmdk::PmdkPool, Failure> {
        let options = OpenOptions {
            durability: durability.forced(),
            ..OpenOptions::new(self.kind, PmdkAccess::ReadWrite)
        };
        let path = self.inspection.path();
        let opened = lode_pmdk::PmdkPool::open(path, &options).map_err(|error| Failure::new(what, error))?;
        // Its view is private: no change would reach the pool.
        if opened.is_read_only() {
            let path = path.display();
            let why = format!("{path}: it has features (ro_compat) that only a newer program may change");
            return Err(Failure::new(what, why));
        }
        Ok(opened)
    }

    /// Returns all that is wrong with the pool, a sentence each, as far as headers and descriptor tell.
    fn faults(&self) -> Vec<String> {
        let mut faults: Vec<String> = self.inspection.faults().map(ToString::to_string).collect();
        // A damaged first part has told it.
        if self.inspection.header().is_some() {
            faults.extend(
                self.content().err().map(|error| format!("the descriptor of {}: {error}", self.library())),
            );
        }
        faults
    }
}

/// Returns the first bytes of a page.
fn start_of<const N: usize>(page: &[u8; BLOCK as usize]) -> [u8; N] {
    *page.first_chunk().unwrap_or(&[0; N])
}

/// Formats a UUID as PMDK's tools do: the first three of its fields are numbers of this machine, whose last byte comes first.
fn uuid_text(uuid: Uuid) -> String {
    Uuid::from_bytes_le(*uuid.as_bytes()).to_string()
}
