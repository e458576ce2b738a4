//! A scenario: one file in `lab/scenarios`.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What a machine is made of, what it runs, and what that must print.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// The name of its file.
    #[serde(skip)]
    pub(crate) name: String,
    /// What it shows, in a line.
    pub(crate) what: String,
    /// What the machine says of its memory modules when power fails: `mem-ctrl`, `cpu`, or nothing.
    #[serde(default)]
    pub(crate) persistence: Option<String>,
    /// MiB of RAM, the modules apart.
    #[serde(default = "ram_mib")]
    pub(crate) ram_mib: u32,
    /// How many memory modules it has.
    #[serde(default)]
    pub(crate) nvdimms: u32,
    /// How many CXL memory devices it has.
    #[serde(default)]
    pub(crate) cxls: u32,
    /// How many virtio-pmem devices it has.
    #[serde(default)]
    pub(crate) virtio_pmems: u32,
    /// The kernels on which it can't be shown, each with the reason.
    #[serde(default)]
    pub(crate) not_on: BTreeMap<String, String>,
    /// The boots, one after the other, on the same modules.
    #[serde(rename = "boot")]
    pub(crate) boots: Vec<Boot>,
}

/// One time that the machine runs.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Boot {
    /// What this machine does before the boot, in the folder of the trial: a script with `set -eu` that finds `lode`, and
    /// may make the files of modules (`nvdimm0.img`, `virtio0.img`). What it puts into `host` the guest finds in
    /// `/lab/host`.
    #[serde(default)]
    pub(crate) before: Option<String>,
    /// The script.
    pub(crate) run: String,
    /// What this machine does after the boot, like `before`.
    #[serde(default)]
    pub(crate) after: Option<String>,
    /// Parts of lines that it must print, in this order; the lines of `before` come first, those of `after` last.
    #[serde(default)]
    pub(crate) prints: Vec<String>,
    /// Parts of lines that it must not print.
    #[serde(default)]
    pub(crate) never: Vec<String>,
    /// What the kernel's command line has behind what every boot has.
    #[serde(default)]
    pub(crate) append: String,
    /// More of that: the first word that the boot before printed with this beginning.
    #[serde(default)]
    pub(crate) append_printed: Option<String>,
    /// Whether the modules can't be written.
    #[serde(default)]
    pub(crate) unarmed: bool,
    /// The machine is killed once it prints a line with this text. The next boot finds all that it printed in
    /// `/lab/printed`.
    #[serde(default)]
    pub(crate) killed_at: Option<String>,
}

/// What a guest needs that does nothing special.
fn ram_mib() -> u32 {
    768
}

impl Scenario {
    /// All scenarios in a folder, in order of their names.
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
