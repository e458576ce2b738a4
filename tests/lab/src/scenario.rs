//! A scenario: one file in `tests/lab/scenarios`.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The parts of a machine, the scripts that it runs, and the output that they must print.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// Name of the file.
    #[serde(skip)]
    pub(crate) name: String,
    /// Description of the scenario's purpose, in a line.
    pub(crate) what: String,
    /// Persistence that the machine reports for its memory modules at power failure: `mem-ctrl`, `cpu`, or `None`.
    #[serde(default)]
    pub(crate) persistence: Option<String>,
    /// MiB of RAM, without the modules.
    #[serde(default = "ram_mib")]
    pub(crate) ram_mib: u32,
    /// Number of memory modules.
    #[serde(default)]
    pub(crate) nvdimms: u32,
    /// True if QEMU takes the modules' files for persistent memory. It then runs on our libpmem, and notes in files `loader.*` which libraries
    /// it has loaded.
    #[serde(default)]
    pub(crate) on_libpmem: bool,
    /// Number of CXL memory devices.
    #[serde(default)]
    pub(crate) cxls: u32,
    /// Further arguments of QEMU. Without a path, a file is in the trial's folder.
    #[serde(default)]
    pub(crate) qemu: Vec<String>,
    /// True if the scenario needs the QEMU of Debian 13: that of Debian 12 has no event log of CXL devices, without which
    /// kernel 6.12 refuses them, and loses bytes that are stored on them by DAX.
    #[serde(default)]
    pub(crate) newer_qemu: bool,
    /// Number of virtio-pmem devices.
    #[serde(default)]
    pub(crate) virtio_pmems: u32,
    /// The kernels on which the scenario can't be shown, each with the reason.
    #[serde(default)]
    pub(crate) not_on: BTreeMap<String, String>,
    /// The kernels that run the scenario only in soak, or when it is named: what it shows depends on `lode` alone, and
    /// another kernel runs it in every test.
    #[serde(default)]
    pub(crate) soak_on: Vec<String>,
    /// The boots, in order, on the same modules.
    #[serde(rename = "boot")]
    pub(crate) boots: Vec<Boot>,
}

/// One boot of the machine.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Boot {
    /// Script that this machine runs before the boot, in the folder of the trial, with `set -eu` and with `lode` on the
    /// path. It may make the files of modules (`nvdimm0.img`, `virtio0.img`). The guest finds the content of its folder
    /// `host` in `/lab/host`.
    #[serde(default)]
    pub(crate) before: Option<String>,
    /// Script that the guest runs.
    pub(crate) run: String,
    /// Script that this machine runs after the boot, like `before`.
    #[serde(default)]
    pub(crate) after: Option<String>,
    /// Parts of lines that the scripts must print, in this order; the lines of `before` come first, those of `after`
    /// last.
    #[serde(default)]
    pub(crate) prints: Vec<String>,
    /// Parts of lines that the scripts must not print.
    #[serde(default)]
    pub(crate) never: Vec<String>,
    /// Words to append to the kernel's command line.
    #[serde(default)]
    pub(crate) append: String,
    /// Beginning of a word that the boot before printed. The first such word is appended to the kernel's command line,
    /// too.
    #[serde(default)]
    pub(crate) append_printed: Option<String>,
    /// True if the modules can't be written.
    #[serde(default)]
    pub(crate) unarmed: bool,
    /// Text that kills the machine: it is killed once it prints a line with this text. The next boot finds all of its
    /// output in `/lab/printed`.
    #[serde(default)]
    pub(crate) killed_at: Option<String>,
}

/// Returns the MiB of RAM that a guest without special demands needs.
fn ram_mib() -> u32 {
    768
}

impl Scenario {
    /// Reads all scenarios in a folder, sorted by name.
    pub(crate) fn read_all(folder: &Path) -> Result<Vec<Scenario>> {
        let mut scenarios = Vec::new();
        for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            scenarios.push(Scenario::read(&path).with_context(|| path.display().to_string())?);
        }
        scenarios.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(scenarios)
    }

    fn read(path: &Path) -> Result<Scenario> {
        let mut scenario: Scenario = toml::from_str(&fs::read_to_string(path)?)?;
        scenario.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        ensure!(!scenario.boots.is_empty(), "it has no boot");
        for boot in &scenario.boots {
            let judged = !boot.prints.is_empty() || boot.killed_at.is_some();
            ensure!(judged, "a boot must print something, or be killed");
        }
        Ok(scenario)
    }
}
