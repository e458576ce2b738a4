//! blk-*, btt-*, dax-*: blocks of a volume that are written and read at random, by one thread; file-blk-* on a file.
//!
//! In each round every engine opens its blocks anew, so that its free blocks and lanes begin alike, and writes all of
//! them once before the clock, so that no page is touched first within a lap. The order is drawn from the seed, the round
//! and the row, so all engines write the same blocks, and must end with the same content.

use crate::clock::{Lap, lap};
use crate::engine::{BlockStore, Engine};
use crate::group::Durability;
use crate::ours;
use crate::peers::{FloorBlocks, OdsyncFile, PmemBlocks};
use crate::plan::{Selection, Size};
use crate::rounds::{Comparison, common_digest, run_interleaved};
use anyhow::{Result, ensure};
use fastrand::Rng;
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of a file on top of its blocks, for all that a format needs beside them.
const ROOM: u64 = 32 << 20;
/// Bytes that are read and written at a time when a file is filled.
const CHUNK: usize = 1 << 20;

/// One access of a row.
#[derive(Clone, Copy)]
enum Access {
    /// Write blocks, and make them durable after so many.
    Write(usize),
    Read,
    ReadChecked,
}

/// The blocks of an engine.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Atomic,
    Table,
    Dax,
    Pmemblk,
    Floor,
    Odsync,
}

/// Rows on the same blocks.
struct Set {
    rows: &'static [(&'static str, Access)],
    block_size: usize,
    engines: &'static [(Engine, Kind)],
}

const LINE_SETS: [Set; 5] = [
    Set {
        rows: &[
            ("blk-write-512", Access::Write(1)),
            ("blk-read-512", Access::Read),
            ("blk-read-512-checked", Access::ReadChecked),
        ],
        block_size: 512,
        engines: &[
            (Engine::Ours, Kind::Atomic),
            (Engine::Libpmemblk, Kind::Pmemblk),
            (Engine::Copy512, Kind::Floor),
        ],
    },
    Set {
        rows: &[
            ("blk-write-4k", Access::Write(1)),
            ("blk-read-4k", Access::Read),
            ("blk-read-4k-checked", Access::ReadChecked),
        ],
        block_size: 4096,
        engines: &[
            (Engine::Ours, Kind::Atomic),
            (Engine::Libpmemblk, Kind::Pmemblk),
            (Engine::Copy4k, Kind::Floor),
        ],
    },
    Set {
        rows: &[("btt-write-512", Access::Write(1))],
        block_size: 512,
        engines: &[(Engine::Ours, Kind::Table), (Engine::Libpmemblk, Kind::Pmemblk)],
    },
    Set {
        rows: &[("btt-write-4k", Access::Write(1))],
        block_size: 4096,
        engines: &[(Engine::Ours, Kind::Table), (Engine::Libpmemblk, Kind::Pmemblk)],
    },
    Set {
        rows: &[("dax-write-4k", Access::Write(1))],
        block_size: 4096,
        engines: &[(Engine::Ours, Kind::Dax), (Engine::Libpmemblk, Kind::Pmemblk)],
    },
];

const FILE_SET: Set = Set {
    rows: &[("file-blk-write-4k", Access::Write(1)), ("file-blk-write-4k-32", Access::Write(32))],
    block_size: 4096,
    engines: &[
        (Engine::Ours, Kind::Atomic),
        (Engine::Libpmemblk, Kind::Pmemblk),
        (Engine::Odsync, Kind::Odsync),
    ],
};

/// The rows on tmpfs.
pub(super) fn line(selection: &Selection, size: &Size, seed: u64, folder: &Path) -> Result<Vec<Comparison>> {
    let mut comparisons = Vec::new();
    for set in &LINE_SETS {
        let run = Run { set, size, seed, durability: Durability::Line };
        comparisons.append(&mut run.of_rows(selection, size.block_accesses, folder)?);
    }
    Ok(comparisons)
}

/// The rows on an ordinary file.
pub(super) fn file(selection: &Selection, size: &Size, seed: u64, folder: &Path) -> Result<Vec<Comparison>> {
    let run = Run { set: &FILE_SET, size, seed, durability: Durability::Commit };
    run.of_rows(selection, size.file_transactions, folder)
}

struct Run<'r> {
    set: &'r Set,
    size: &'r Size,
    seed: u64,
    durability: Durability,
}

impl Run<'_> {
    /// Runs those rows of the set that are selected; a lap has `count` accesses.
    fn of_rows(&self, selection: &Selection, count: usize, folder: &Path) -> Result<Vec<Comparison>> {
        let selected = |(row, _): &&(&'static str, Access)| selection.has(row);
        let rows: Vec<(&str, Access)> = self.set.rows.iter().filter(selected).copied().collect();
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let mut engines = Vec::new();
        for (engine, kind) in self.set.engines {
            let path = folder.join(format!("{engine}-blocks"));
            self.create(*kind, &path)?;
            engines.push((*engine, (*kind, path)));
        }
        let names: Vec<&str> = rows.iter().map(|(row, _)| *row).collect();
        let mut block = self.block();
        let mut found = HashMap::new();
        let turn = |round: usize, _: Engine, (kind, path): &mut (Kind, PathBuf)| {
            let mut blocks = self.open(*kind, path)?;
            if self.durability == Durability::Line {
                blocks.write(&self.all(), 1, &mut block, stamp(round, rows.len()))?;
            }
            let mut laps = Vec::new();
            for (row, (_, access)) in rows.iter().enumerate() {
                let order = self.order(*access, count, (round, row));
                let (lap, digest) = one_lap(blocks.as_mut(), *access, &order, &mut block, stamp(round, row));
                let digest = digest?;
                let first = *found.entry((round, row)).or_insert(digest);
                ensure!(first == digest, "it reads {digest:016x}, the one before it {first:016x}");
                laps.push(lap);
            }
            blocks.close()?;
            Ok(laps)
        };
        let mut comparisons = run_interleaved(&names, self.size.rounds, true, &mut engines, turn)?;
        let digests = engines.iter().map(|(engine, (kind, path))| Ok((*engine, self.digest(*kind, path)?)));
        let digest = common_digest(names[0], &digests.collect::<Result<Vec<_>>>()?)?;
        comparisons.iter_mut().for_each(|comparison| comparison.digest = digest);
        engines.iter().try_for_each(|(_, (_, path))| fs::remove_file(path))?;
        Ok(comparisons)
    }

    /// Number of blocks.
    fn count(&self) -> u32 {
        (self.size.blocks_len / self.set.block_size as u64) as u32
    }

    fn all(&self) -> Vec<u32> {
        (0..self.count()).collect()
    }

    /// A buffer for one block, with bytes that are not zero.
    fn block(&self) -> Vec<u8> {
        let mut block = vec![0; self.set.block_size];
        Rng::with_seed(self.seed).fill(&mut block);
        block
    }

    /// The blocks of a lap, whole batches.
    fn order(&self, access: Access, count: usize, (round, row): (usize, usize)) -> Vec<u32> {
        let mut rng = Rng::with_seed(self.seed ^ (round as u64) << 32 ^ (row as u64) << 56);
        let batch = if let Access::Write(batch) = access { batch } else { 1 };
        (0..count.next_multiple_of(batch)).map(|_| rng.u32(..self.count())).collect()
    }

    fn create(&self, kind: Kind, path: &Path) -> Result<()> {
        let Set { block_size, .. } = *self.set;
        let (len, durability) = (self.size.blocks_len + ROOM, self.durability.of_pool());
        match kind {
            Kind::Atomic => ours::Atomic::create(path, block_size, len, durability)?,
            Kind::Table => ours::Table::create(path, block_size, len, durability)?,
            Kind::Dax => ours::Dax::create(path, block_size, len, durability)?,
            Kind::Pmemblk => PmemBlocks::create(path, block_size, len)?,
            Kind::Floor => {}
            Kind::Odsync => File::create_new(path)?.set_len(self.size.blocks_len)?,
        }
        if self.durability == Durability::Commit { fill(path) } else { Ok(()) }
    }

    fn open(&self, kind: Kind, path: &Path) -> Result<Box<dyn BlockStore>> {
        let Set { block_size, .. } = *self.set;
        let durability = self.durability.of_pool();
        Ok(match kind {
            Kind::Atomic => Box::new(ours::Atomic::open(path, durability)?),
            Kind::Table => Box::new(ours::Table::open(path, durability)?),
            Kind::Dax => Box::new(ours::Dax::open(path, durability)?),
            Kind::Pmemblk => Box::new(PmemBlocks::open(path, block_size)?),
            Kind::Floor => Box::new(FloorBlocks::open(path, block_size, self.count() as usize)?),
            Kind::Odsync => Box::new(OdsyncFile::open(path)?),
        })
    }

    /// A digest of the content of all blocks.
    fn digest(&self, kind: Kind, path: &Path) -> Result<u64> {
        let blocks = self.open(kind, path)?;
        let (mut block, mut digest) = (self.block(), 0);
        for lba in self.all() {
            blocks.read(&[lba], &mut block)?;
            digest = crc32c::crc32c_append(digest, &block);
        }
        blocks.close()?;
        Ok(digest.into())
    }
}

/// The first word that a lap writes: no other lap writes it.
fn stamp(round: usize, row: usize) -> u64 {
    (round as u64) << 48 | (row as u64) << 40
}

fn one_lap(
    blocks: &mut dyn BlockStore,
    access: Access,
    order: &[u32],
    block: &mut [u8],
    stamp: u64,
) -> (Lap, Result<u64>) {
    lap(order.len() as u64, || match access {
        Access::Write(batch) => blocks.write(order, batch, block, stamp).map(|()| 0),
        Access::Read => blocks.read(order, block),
        Access::ReadChecked => blocks.read_checked(order, block),
    })
}

/// Writes the whole file over itself, so that no sync within a lap has to allocate space for it.
fn fill(path: &Path) -> Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let (mut chunk, len) = (vec![0; CHUNK], file.metadata()?.len());
    for at in (0..len).step_by(CHUNK) {
        let part = &mut chunk[..CHUNK.min((len - at) as usize)];
        file.read_exact_at(part, at)?;
        file.write_all_at(part, at)?;
    }
    Ok(file.sync_all()?)
}
