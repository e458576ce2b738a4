//! The table on the terminal.

use super::missing;
use super::number::{show, show_or_absent};
use crate::rounds::{Comparison, EngineLaps};
use crate::run::Laps;
use crate::targets::{self, Bound, Goal, Limit};
use crate::unit::Unit;
use anyhow::Result;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{Cell, CellAlignment, Color, Table};
use std::fmt::Write;

/// Everything that goes to the terminal.
pub(super) fn render(laps: &Laps) -> Result<String> {
    let mut text = String::new();
    if laps.quick {
        writeln!(text, "A quick run: it shows that every row works. The figures mean nothing.")?;
    }
    writeln!(text, "{}", laps.machine.summary())?;
    if laps.machine.was_busy() {
        writeln!(
            text,
            "The machine was busy with other programs when the run began (load {}).",
            laps.machine.load.0
        )?;
    }
    writeln!(text, "seed {}, medians of {} rounds\n", laps.seed, laps.rounds)?;
    let (ran, alone): (Vec<_>, Vec<_>) = laps.findings.comparisons.iter().partition(|c| c.has_ours());
    if !ran.is_empty() {
        writeln!(text, "{}\n", pairs(&ran))?;
    }
    if !laps.findings.figures.is_empty() {
        writeln!(text, "{}\n", figures(laps)?)?;
    }
    if !alone.is_empty() {
        writeln!(
            text,
            "Lodestone did not run in these workloads. The figures that it has to reach:\n{}\n",
            required_figures(&alone)
        )?;
    }
    let left_out: Vec<&str> = missing(laps).iter().map(|workload| workload.name).collect();
    if !left_out.is_empty() {
        writeln!(text, "Left out, because Lodestone did not run: {}", left_out.join(", "))?;
    }
    for note in &laps.findings.notes {
        writeln!(text, "{note}")?;
    }
    for comparison in &laps.findings.comparisons {
        for absent in &comparison.absent {
            writeln!(text, "N/A: {} of {}: {}", comparison.workload, absent.engine, absent.reason)?;
        }
    }
    for comparison in &laps.findings.comparisons {
        writeln!(text, "digest of {:<24} {:016x}", comparison.workload, comparison.digest)?;
    }
    for failure in &laps.failed {
        writeln!(text, "FAILED {failure}")?;
    }
    Ok(text)
}

fn table(header: &[&str], numbers: std::ops::Range<usize>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_header(header);
    for index in numbers {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn verdict(met: Option<bool>) -> Cell {
    match met {
        Some(true) => Cell::new("yes").fg(Color::Green),
        Some(false) => Cell::new("NO").fg(Color::Red),
        None => Cell::new(""),
    }
}

fn pairs(comparisons: &[&Comparison]) -> Table {
    let mut table = table(
        &["workload", "peer", "ours", "theirs", "unit", "ours ns", "ratio", "of means", "to reach", "met"],
        2..4,
    );
    for index in 5..9 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for comparison in comparisons {
        for pair in comparison.pairs() {
            table.add_row([
                Cell::new(&comparison.workload),
                Cell::new(pair.peer.peer()),
                Cell::new(show_or_absent(pair.ours)),
                Cell::new(show_or_absent(pair.theirs)),
                Cell::new(comparison.unit().name()),
                Cell::new(show_or_absent(pair.ns.0)),
                Cell::new(show_or_absent(pair.ratio)),
                Cell::new(show_or_absent(pair.mean_ratio)),
                Cell::new(pair.goal.map(show).unwrap_or_default()),
                verdict(pair.met()),
            ]);
        }
    }
    table
}

/// Formats a limit: its sign, then its number.
pub(super) fn limit(limit: &Limit) -> String {
    let sign = match limit.bound {
        Bound::AtMost => "≤",
        Bound::AtLeast => "≥",
        Bound::Exactly => "=",
    };
    format!("{sign} {}", show(limit.limit))
}

fn figures(laps: &Laps) -> Result<Table> {
    let mut table = table(&["workload", "ours", "unit", "limit", "met"], 1..2);
    for figure in &laps.findings.figures {
        let (unit, to_reach, met) = match figure.goal()? {
            Goal::Limit(goal) => (goal.unit, limit(goal), Some(goal.met(figure.value))),
            Goal::Shown(unit) => (*unit, String::new(), None),
            Goal::Ratios(_) => continue,
        };
        table.add_row([
            Cell::new(&figure.workload),
            Cell::new(show(figure.value)),
            Cell::new(unit.name()),
            Cell::new(to_reach),
            verdict(met),
        ]);
    }
    Ok(table)
}

/// Returns the figure that Lodestone must reach against an entry, and its sign. `None` if no ratio is set.
pub(super) fn required_figure(comparison: &Comparison, peer: &EngineLaps) -> Option<(f64, &'static str)> {
    let goal = targets::ratio(&comparison.workload, peer.engine.peer())?;
    let theirs = peer.median(comparison.unit());
    Some(if comparison.unit().is_rate() { (theirs * goal, "≥") } else { (theirs / goal, "≤") })
}

fn required_figures(comparisons: &[&Comparison]) -> Table {
    let header =
        ["workload", "peer", "theirs", "unit", "least", "most", "theirs ns", "to reach", "required of ours"];
    let mut table = table(&header, 2..3);
    for index in 4..8 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for comparison in comparisons {
        let unit: Unit = comparison.unit();
        for peer in comparison.entries.iter() {
            let values = peer.values(unit);
            let goal = targets::ratio(&comparison.workload, peer.engine.peer());
            let stands = comparison.peers().iter().any(|other| other.engine == peer.engine);
            let needed = required_figure(comparison, peer).filter(|_| stands);
            table.add_row([
                comparison.workload.clone(),
                peer.engine.to_string(),
                show(peer.median(unit)),
                unit.name().to_owned(),
                show(values.iter().copied().fold(f64::INFINITY, f64::min)),
                show(values.iter().copied().fold(0.0, f64::max)),
                show_or_absent(peer.median_ns()),
                goal.filter(|_| stands).map(show).unwrap_or_default(),
                needed.map(|(value, sign)| format!("{sign} {}", show(value))).unwrap_or_default(),
            ]);
        }
    }
    table
}
