//! fio-libpmem-write-4k, fio-pmemblk-write-4k, abi-start and abi-size-mib: programs of Debian on both makers' libraries.
//!
//! A lap is a process of fio with the engine of that name; what it counts between its own begin and end counts. Its file has been
//! written and verified before the first lap. A lap of abi-start is a number of processes that end at once, with all five libraries.

use super::Findings;
use crate::clock::Lap;
use crate::engine::Engine;
use crate::figure::Figure;
use crate::peers::{installed, run_fio};
use crate::plan::{Selection, Size};
use crate::rounds::run_interleaved;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The rows of fio: name, engine, and peer.
pub(super) const FIO_ROWS: [(&str, &str, Engine); 2] = [
    ("fio-libpmem-write-4k", "libpmem", Engine::Libpmem),
    ("fio-pmemblk-write-4k", "pmemblk", Engine::Libpmemblk),
];

/// The row of programs that end at once.
const START: &str = "abi-start";

/// The row of the bytes of libraries.
const SIZE: &str = "abi-size-mib";
/// The libraries that it looks at.
const LIBRARIES: [&str; 5] = ["pmem", "pmem2", "pmemlog", "pmemblk", "pmempool"];

/// Bytes of fio's files, and MiB of the pool with as many.
const FILE_LEN: u64 = 64 << 20;
const POOL_MIB: u64 = 80;
/// Processes of a lap.
const STARTS: u64 = 40;

/// A library, and the folder of its files.
struct Maker<'a> {
    library: Option<&'a Path>,
    folder: PathBuf,
}

impl Maker<'_> {
    /// Returns a command on the library.
    fn on_library(&self, mut command: Command) -> Command {
        command.env_remove("LD_LIBRARY_PATH").envs(self.library.map(|library| ("LD_LIBRARY_PATH", library)));
        command.env("PMEM_IS_PMEM_FORCE", "1").current_dir(&self.folder);
        command
    }

    fn fio(&self, engine: &str) -> Result<Command> {
        let mut fio = self.on_library(installed("fio")?);
        let file = if engine == "pmemblk" { format!("pool,4096,{POOL_MIB}") } else { "file".to_owned() };
        fio.args([
            "--name=lap",
            "--output-format=json",
            "--thread=1",
            "--bs=4k",
            "--iodepth=1",
            "--direct=1",
        ]);
        fio.args([
            format!("--ioengine={engine}"),
            format!("--filename={file}"),
            format!("--size={FILE_LEN}"),
        ]);
        Ok(fio)
    }

    /// Writes all blocks of fio's file, and verifies them, and that fio has loaded the library.
    fn fill(&self, engine: &str) -> Result<()> {
        let mut fio = self.fio(engine)?;
        let notes = self.folder.join("loader");
        fs::create_dir_all(&notes)?;
        fio.env("LD_DEBUG", "files").env("LD_DEBUG_OUTPUT", notes.join("notes"));
        fio.args(["--rw=write", "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0"]);
        run_fio(&mut fio).with_context(|| format!("verifying {engine}"))?;
        let name = if engine == "pmemblk" { "pmemblk" } else { "pmem" };
        if let Some(library) = self.library {
            let loaded = format!("calling init: {}/lib{name}.so.1", library.display());
            let notes = fs::read_dir(&notes)?.map(|entry| fs::read_to_string(entry?.path()));
            let is_loaded = |text: std::io::Result<String>| text.is_ok_and(|text| text.contains(&loaded));
            ensure!(notes.into_iter().any(is_loaded), "fio does not run on our lib{name}");
        }
        Ok(())
    }

    fn write(&self, engine: &str, size: &Size) -> Result<Lap> {
        let mut fio = self.fio(engine)?;
        fio.args(["--rw=randwrite", "--norandommap=1", "--time_based=1"]);
        fio.arg(format!("--runtime={}ms", size.client_lap.as_millis()));
        run_fio(&mut fio)?.write.lap()
    }

    fn start_and_end(&self) -> Result<Lap> {
        let begin = Instant::now();
        for _ in 0..STARTS {
            let mut program = self.on_library(Command::new(env!("LODE_BENCH_START_DRIVER")));
            ensure!(program.status()?.success(), "a program that does nothing failed");
        }
        Ok(Lap { ops: STARTS, ns: begin.elapsed().as_nanos() as u64, ..Lap::default() })
    }
}

/// Runs the rows on the libraries in the folder `library`, and on the system's.
pub(super) fn run(library: &Path, selection: &Selection, size: &Size, folder: &Path) -> Result<Findings> {
    let make = |name: &str, library| -> Result<Maker<'_>> {
        let folder = folder.join(name);
        fs::create_dir_all(&folder)?;
        Ok(Maker { library, folder })
    };
    let mut makers = [(Engine::Ours, make("ours", Some(library))?), (Engine::Libpmem, make("theirs", None)?)];
    let mut findings = Findings::default();
    for (row, engine, peer) in FIO_ROWS.into_iter().filter(|(row, ..)| selection.has(row)) {
        makers[1].0 = peer;
        makers.iter().try_for_each(|(_, maker)| maker.fill(engine))?;
        let turn = |_, _, maker: &mut Maker<'_>| Ok(vec![maker.write(engine, size)?]);
        let mut comparisons = run_interleaved(&[row], size.long_rounds, true, &mut makers, turn)?;
        // Each library returned all that was written before the first lap.
        comparisons[0].digest = FILE_LEN;
        findings.comparisons.append(&mut comparisons);
    }
    if selection.has(START) {
        makers[1].0 = Engine::Libpmem;
        let turn = |_, _, maker: &mut Maker<'_>| Ok(vec![maker.start_and_end()?]);
        let comparisons = run_interleaved(&[START], size.rounds, true, &mut makers, turn)?;
        let [ours, theirs] = [Engine::Ours, Engine::Libpmem].map(|engine| comparisons[0].millis(engine));
        let (ours, theirs) = (ours?, theirs?);
        findings.notes.push(format!("{START}: lodestone {ours:.2} ms, PMDK {theirs:.2} ms"));
        findings.figures.push(Figure { workload: START.to_owned(), value: ours - theirs });
    }
    if selection.has(SIZE) {
        let len = |name: &str| fs::metadata(library.join(format!("lib{name}.so.1"))).map(|found| found.len());
        let largest = LIBRARIES.map(len).into_iter().try_fold(0, |most, len| len.map(|len| most.max(len)))?;
        findings
            .figures
            .push(Figure { workload: SIZE.to_owned(), value: largest as f64 / f64::from(1 << 20) });
    }
    Ok(findings)
}
