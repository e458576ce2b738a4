//! The outputs: a table on the terminal, `foundation.json` and `volumes.json`, and `foundation.html`.

mod chart;
mod json;
mod number;
mod page;
mod table;

use crate::group::Table;
use crate::run::Laps;
use crate::targets::{WORKLOADS, Workload};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Writes all outputs.
pub(crate) fn write(laps: &Laps, out: &Path) -> Result<()> {
    println!("{}", table::render(laps)?);
    for table in Table::ALL {
        let rows = json::rows(laps, table)?;
        if rows.is_empty() {
            continue;
        }
        let json = out.join(table.file_name());
        fs::write(&json, json::render(&rows)?).with_context(|| format!("writing {}", json.display()))?;
        println!("{}", json.display());
    }
    let html = out.join("foundation.html");
    fs::write(&html, page::render(laps)?).with_context(|| format!("writing {}", html.display()))?;
    println!("{}", html.display());
    Ok(())
}

/// Workloads that should have been measured, but whose row needs an engine that did not run.
fn missing(laps: &Laps) -> Vec<&'static Workload> {
    let comparisons = &laps.findings.comparisons;
    let measured = |workload: &&Workload| {
        comparisons.iter().any(|comparison| comparison.workload == workload.name && comparison.has_ours())
            || laps.findings.figures.iter().any(|figure| figure.workload == workload.name)
    };
    WORKLOADS.iter().filter(|workload| !workload.on_request && !measured(workload)).collect()
}
