//! The workloads, group by group.

mod appends;
mod blocks;
mod containers;
mod databases;
mod later;
mod libpmem;
mod load;
mod nbd;
mod object_fences;
mod object_large;
mod object_private;
mod object_reopen;
mod object_threads;
mod opening;
mod past_ram;
mod platform;
mod pmem_programs;
mod read_while_writing;
mod reopen;
mod store;
mod stores;
mod transactions;
mod trees;
mod tx_puts;

pub(crate) use opening::write_and_wait;
pub(crate) use past_ram::get_and_print;
pub(crate) use reopen::commit_and_wait;

use crate::figure::Figure;
use crate::group::Group;
use crate::ours;
use crate::plan::{Selection, Size};
use crate::rounds::Comparison;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The results of a group.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Findings {
    /// Workloads with peers.
    #[serde(rename = "contests")]
    pub(crate) comparisons: Vec<Comparison>,
    /// Workloads without peers.
    pub(crate) figures: Vec<Figure>,
    /// Remarks for the report, a line each.
    pub(crate) notes: Vec<String>,
}

/// Runs the selected rows of one group, with its files in `folder`.
pub(crate) fn run(selection: &Selection, size: &Size, seed: u64, folder: &Path) -> Result<Findings> {
    let comparisons = match selection.group {
        Group::Transactions => transactions::line(selection, size, seed, folder)?,
        Group::Floors => transactions::floors(selection, size, seed, folder)?,
        Group::Covered => transactions::covered(selection, size, seed, folder)?,
        Group::Random => trees::random(size, seed, folder)?,
        Group::Words => trees::words(size, seed, folder)?,
        Group::Containers => containers::run(size, seed, folder)?,
        Group::File => {
            let mut comparisons = transactions::file(size, seed, folder)?;
            comparisons.extend(trees::file(size, seed, folder)?);
            comparisons
        }
        Group::Put => stores::one_thread(size, seed, folder)?,
        Group::Later => later::one_thread(size, seed, folder)?,
        Group::PutMany => stores::many_threads(selection, size, seed, folder)?,
        Group::Counter => stores::counter(size, folder)?,
        Group::TxPuts => return tx_puts::run(selection, size, seed, folder),
        Group::Load => return load::run(selection, size, folder),
        Group::Platform => return platform::run(selection, size, folder),
        Group::Store => return store::run(selection, size, seed, folder),
        Group::Blocks => blocks::line(selection, size, seed, folder)?,
        Group::FileBlocks => blocks::file(selection, size, seed, folder)?,
        Group::Appends => appends::run(selection, size, folder)?,
        Group::Libpmem => libpmem::run(selection, size, folder)?,
        Group::Libpools => libpmem::run_pools(selection, size, folder)?,
        Group::FileLibpools => libpmem::run_file_pools(selection, size, folder)?,
        Group::Libpmemobj => return libpmem::run_objects(selection, size, folder),
        Group::FileLibpmemobj => libpmem::run_file_objects(selection, size, folder)?,
        Group::PmemPrograms => return libpmem::run_programs(selection, size, folder),
        Group::Nbd => nbd::run(selection, size, folder)?,
        Group::Opening => {
            let figures = vec![opening::run(size, folder)?];
            return Ok(Findings { figures, ..Findings::default() });
        }
        Group::Reopen => reopen::run(size, seed, folder)?,
        Group::PastRam => past_ram::run(size, seed, folder)?,
        Group::ReadWhileWriting => read_while_writing::run(size, seed, folder)?,
        Group::Alone => {
            let (figures, notes) = ours::figures(folder, size)?;
            return Ok(Findings { comparisons: Vec::new(), figures, notes });
        }
    };
    Ok(Findings { comparisons, ..Findings::default() })
}
