//! The machine that was measured.

use crate::clock;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The machine that was measured.
#[derive(Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Model of the CPU.
    pub(crate) cpu: String,
    /// CPUs that the kernel schedules on.
    pub(crate) cores: usize,
    /// Ticks of the time-stamp counter in a nanosecond.
    pub(crate) ghz: f64,
    /// Instructions that write cache lines back.
    pub(crate) flushes: Vec<String>,
    /// Main memory.
    pub(crate) memory_gib: f64,
    /// Kernel release.
    pub(crate) kernel: String,
    /// File system of the workloads on `line`.
    pub(crate) line_file_system: String,
    /// File system of the workloads on an ordinary file.
    pub(crate) file_file_system: String,
    /// Versions of the peers.
    pub(crate) peers: Vec<String>,
    /// When, in UTC.
    pub(crate) date: String,
    /// Load averages over a minute, before and after.
    pub(crate) load: (String, String),
}

impl Machine {
    /// Describes this machine, and the file systems of two folders.
    pub(crate) fn detect(line: &Path, file: &Path) -> Result<Machine> {
        let cpu_info = read("/proc/cpuinfo")?;
        let cpu_field = |name: &str| {
            let line = cpu_info.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
        };
        let flags = cpu_field("flags").unwrap_or_default();
        let has = |name: &&str| flags.split(' ').any(|flag| flag == *name);
        let memory = read("/proc/meminfo")?;
        let kib: f64 = memory.split_whitespace().nth(1).context("/proc/meminfo")?.parse()?;
        Ok(Machine {
            // Clouds shorten the model's name, so the family says what it is.
            cpu: format!(
                "{} (family {} model {})",
                cpu_field("model name").context("/proc/cpuinfo names no CPU")?,
                cpu_field("cpu family").unwrap_or_default(),
                cpu_field("model\t").unwrap_or_default(),
            ),
            cores: std::thread::available_parallelism()?.get(),
            ghz: clock::ticks_per_second() / 1e9,
            flushes: ["clwb", "clflushopt", "clflush"]
                .iter()
                .filter(|name| has(name))
                .map(ToString::to_string)
                .collect(),
            memory_gib: kib / f64::from(1 << 20),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            line_file_system: file_system(line)?,
            file_file_system: file_system(file)?,
            peers: peers(),
            date: jiff::Timestamp::now().strftime("%F %H:%M UTC").to_string(),
            load: (load()?, String::new()),
        })
    }

    /// Notes the load at the end.
    pub(crate) fn record_final_load(&mut self) -> Result<()> {
        self.load.1 = load()?;
        Ok(())
    }

    /// Returns true if other programs loaded the machine before the run began: waiting for a CPU then counts as work.
    pub(crate) fn was_busy(&self) -> bool {
        self.load.0.parse::<f64>().is_ok_and(|load| load > 0.5 * self.cores as f64)
    }

    /// One line about the machine.
    pub(crate) fn summary(&self) -> String {
        format!(
            "{} x {}, TSC {:.3} GHz, Linux {}, {:.0} GiB; line on {} (DRAM stands in for persistent memory), files on {}",
            self.cores,
            self.cpu,
            self.ghz,
            self.kernel,
            self.memory_gib,
            self.line_file_system,
            self.file_file_system
        )
    }
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {path}"))
}

fn load() -> Result<String> {
    Ok(read("/proc/loadavg")?.split(' ').next().unwrap_or_default().to_owned())
}

/// The type of the file system that a folder is on: that of the longest mount point above it.
fn file_system(folder: &Path) -> Result<String> {
    let folder = folder.canonicalize()?;
    let mounts = read("/proc/self/mounts")?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let above = mounts.filter(|(point, _)| folder.starts_with(point));
    // Of two mounts on one point, the later one hides the earlier one, and `max_by_key` keeps the last.
    Ok(above.max_by_key(|(point, _)| point.len()).map_or("unknown", |(_, kind)| kind).to_owned())
}

/// Versions of the peers: of Debian's packages, and of the crates that this program was built with.
fn peers() -> Vec<String> {
    let lock = include_str!("../Cargo.lock");
    let crate_version = |name: &str| {
        let entry = lock.split("[[package]]").find(|entry| entry.contains(&format!("name = \"{name}\"")));
        let version = entry.and_then(|entry| entry.split("version = \"").nth(1)?.split('"').next());
        format!("{name} {}", version.unwrap_or("of unknown version"))
    };
    let package = |name: &str, label: &str| {
        let output = Command::new("dpkg-query").args(["-W", "-f", "${Version}", name]).output();
        let version = output.ok().and_then(|output| String::from_utf8(output.stdout).ok());
        format!(
            "{label} {}",
            version.filter(|v| !v.is_empty()).unwrap_or_else(|| "of unknown version".to_owned())
        )
    };
    let lmdb = heed::lmdb_version();
    vec![
        package("libpmemobj1", "libpmemobj"),
        package("libpmemblk1", "libpmemblk"),
        package("libpmemlog1", "libpmemlog"),
        package("nbdkit", "nbdkit"),
        package("qemu-utils", "qemu-nbd"),
        package("fio", "fio"),
        package("librocksdb7.8", "RocksDB"),
        format!("SQLite {}", rusqlite::version()),
        format!("LMDB {}.{}.{} ({})", lmdb.major, lmdb.minor, lmdb.patch, crate_version("heed")),
        crate_version("redb"),
        crate_version("blart"),
        crate_version("congee"),
    ]
}
