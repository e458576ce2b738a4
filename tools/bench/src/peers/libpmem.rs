//! Calls of PMDK's C libraries, in a process of a driver, `c/pmem.c`, `c/pools.c` or `c/objects.c`: those of PMDK 1.12, or ours in their place.

use crate::clock::Lap;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The drivers, which build.rs links with Debian's shared objects.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Driver {
    /// libpmem and libpmem2.
    Pmem,
    /// libpmemlog and libpmemblk.
    Pools,
    /// libpmemobj.
    Objects,
    /// No library: instructions whose fences are known.
    #[cfg(test)]
    Sample,
}

/// A process of a driver on the libraries of one maker.
pub(crate) struct PmemCalls {
    child: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl PmemCalls {
    /// Starts the driver with its files in `folder`, on the libraries in the folder `library`, or on the system's. The
    /// environment of the process has the variable `setting`, a name and a value, if there is one.
    pub(crate) fn start(
        driver: Driver,
        folder: &Path,
        library: Option<&Path>,
        setting: Option<(&str, &str)>,
    ) -> Result<PmemCalls> {
        let program = match driver {
            Driver::Pmem => env!("LODE_BENCH_PMEM_DRIVER"),
            Driver::Pools => env!("LODE_BENCH_POOLS_DRIVER"),
            Driver::Objects => env!("LODE_BENCH_OBJECTS_DRIVER"),
            #[cfg(test)]
            Driver::Sample => env!("LODE_BENCH_SAMPLE_DRIVER"),
        };
        let mut command = Command::new(program);
        command.arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).env_remove("LD_LIBRARY_PATH");
        command.env("PMEM2_FORCE_GRANULARITY", "CACHE_LINE").env_remove("LODE_OBJ").envs(setting);
        if let Some(library) = library {
            command.env("LD_LIBRARY_PATH", library);
        }
        let mut child = command.spawn().with_context(|| format!("starting {program}"))?;
        let requests = child.stdin.take().context("no standard input")?;
        let replies = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(PmemCalls { child, requests, replies })
    }

    /// Returns the number of the process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Takes a lap of `count` calls. Returns it and the digest of the area.
    pub(crate) fn lap(&mut self, work: &str, count: u64, stamp: u64) -> Result<(Lap, u64)> {
        writeln!(self.requests, "{work} {count} {stamp}")?;
        self.requests.flush()?;
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        ensure!(numbers.len() == 3, "the driver answered {line:?}");
        Ok((Lap { ops: count, cycles: numbers[0], ns: numbers[1], bytes: 0 }, numbers[2]))
    }
}

impl Drop for PmemCalls {
    fn drop(&mut self) {
        // The driver has nothing to finish, and the run goes on without it.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}
