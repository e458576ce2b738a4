//! The outputs: a table on the terminal, `foundation.json`, and `foundation.html`.

mod chart;
mod json;
mod number;
mod page;
mod table;

use crate::run::Laps;
use crate::targets::{WORKS, Work};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Writes all outputs.
pub(crate) fn write(laps: &Laps, out: &Path) -> Result<()> {
    println!("{}", table::render(laps)?);
    let json = out.join("foundation.json");
    fs::write(&json, json::render(laps)?).with_context(|| format!("writing {}", json.display()))?;
    let html = out.join("foundation.html");
    fs::write(&html, page::render(laps)?).with_context(|| format!("writing {}", html.display()))?;
    println!("{}\n{}", json.display(), html.display());
    Ok(())
}

/// Works that should have been measured, but whose row needs a side that did not run.
fn missing(laps: &Laps) -> Vec<&'static Work> {
    let contests = &laps.findings.contests;
    let measured = |work: &&Work| {
        contests.iter().any(|contest| contest.work == work.name && contest.ours().is_some())
            || laps.findings.figures.iter().any(|figure| figure.work == work.name)
    };
    WORKS.iter().filter(|work| !measured(work)).collect()
}
