//! The outputs: a table on the terminal, `foundation.json`, `volumes.json` and `capi.json`, and `foundation.html`.

mod axis;
mod chart;
mod json;
mod number;
mod page;
mod ratios;
mod table;

use crate::group::Table;
use crate::run::Laps;
use crate::targets::{WORKLOADS, Workload};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Writes all outputs. Prints JSON in place of the table if `as_json` is true.
pub(crate) fn write(laps: &Laps, out: &Path, as_json: bool) -> Result<()> {
    let mut files = Vec::new();
    for table in Table::ALL {
        let rows = json::rows(laps, table)?;
        if rows.is_empty() {
            continue;
        }
        let json = out.join(table.file_name());
        fs::write(&json, json::render(&rows)?).with_context(|| format!("writing {}", json.display()))?;
        files.push(json);
    }
    let html = out.join("foundation.html");
    fs::write(&html, page::render(laps)?).with_context(|| format!("writing {}", html.display()))?;
    files.push(html);
    if as_json {
        println!("{}", json::object(laps, &files)?);
    } else {
        println!("{}", table::render(laps)?);
        files.iter().for_each(|file| println!("{}", file.display()));
    }
    Ok(())
}

/// Workloads that should have been measured, but whose row needs an engine that did not run.
fn missing(laps: &Laps) -> Vec<&'static Workload> {
    let comparisons = &laps.findings.comparisons;
    let selected = |workload: &&Workload| {
        laps.rows.is_empty() && !workload.on_request || laps.rows.iter().any(|row| row == workload.name)
    };
    let measured = |workload: &&Workload| {
        comparisons.iter().any(|comparison| comparison.workload == workload.name && comparison.has_ours())
            || laps.findings.figures.iter().any(|figure| figure.workload == workload.name)
    };
    WORKLOADS.iter().filter(|workload| selected(workload) && !measured(workload)).collect()
}
