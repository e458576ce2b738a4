//! `foundation.html`: one page that needs nothing else.

use super::number::{show, show_or_absent};
use super::{chart, missing, table};
use crate::rounds::Comparison;
use crate::run::Laps;
use crate::targets::{Goal, WORKLOADS, workload};
use anyhow::Result;
use std::fmt::Write;

/// The page.
pub(super) fn render(laps: &Laps) -> Result<String> {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><title>Lodestone and its peers</title>\n<style>\n{}</style>\
         </head><body>\n",
        include_str!("page.css")
    );
    head(&mut page, laps)?;
    pairs(&mut page, laps)?;
    figures(&mut page, laps)?;
    writeln!(
        page,
        "<h2>By workload</h2><p class=\"quiet\">The bar ends at the median, each dot is one round; axes \
        are logarithmic. Dashed: what Lodestone has to reach. Under a peer's figure: how many times as good Lodestone is.</p>"
    )?;
    for comparison in laps.findings.comparisons.iter().filter(|comparison| !comparison.entries.is_empty()) {
        let what = workload(&comparison.workload).map(|workload| workload.what).unwrap_or_default();
        let svg = chart::comparison(comparison);
        writeln!(
            page,
            "<section class=\"card\"><h3><code>{}</code></h3><p>{what}</p>{svg}",
            comparison.workload
        )?;
        for absent in &comparison.absent {
            writeln!(page, "<p class=\"quiet\">N/A: {}: {}</p>", absent.engine, escape(&absent.reason))?;
        }
        writeln!(page, "</section>")?;
    }
    method(&mut page, laps)?;
    page.push_str("</body></html>\n");
    Ok(page)
}

fn head(page: &mut String, laps: &Laps) -> Result<()> {
    let machine = &laps.machine;
    writeln!(page, "<h1>Lodestone and its peers</h1>")?;
    writeln!(
        page,
        "<p class=\"quiet\">{} × {}, Linux {}, {}. Medians of {} rounds with all engines interleaved.</p>",
        machine.cores, machine.cpu, machine.kernel, machine.date, laps.rounds
    )?;
    writeln!(
        page,
        "<p class=\"notice\"><strong>DRAM stands in for persistent memory.</strong> Workloads on <code>line</code> ran on \
         {}, with cache-line flushes and fences forced on both engines; the latency of the media is not in the figures. \
         Workloads whose name begins with <code>file-</code> ran on an ordinary file on {}.</p>",
        machine.line_file_system, machine.file_file_system
    )?;
    if laps.quick {
        writeln!(
            page,
            "<p class=\"notice\">A quick run: it shows that every row works. The figures mean nothing.</p>"
        )?;
    }
    if machine.was_busy() {
        writeln!(
            page,
            "<p class=\"notice\">The machine was busy with other programs when the run began (load {}).</p>",
            machine.load.0
        )?;
    }
    for failure in &laps.failed {
        writeln!(page, "<p class=\"notice no\">Failed: {}</p>", escape(failure))?;
    }
    Ok(())
}

fn pairs(page: &mut String, laps: &Laps) -> Result<()> {
    writeln!(page, "<h2>Against peers</h2>")?;
    let comparisons = &laps.findings.comparisons;
    let left_out: Vec<&str> = missing(laps).iter().map(|workload| workload.name).collect();
    if !left_out.is_empty() {
        writeln!(
            page,
            "<p>Left out, because Lodestone did not run: <code>{}</code>.</p>",
            left_out.join("</code>, <code>")
        )?;
    }
    let Some(svg) = chart::ratios(comparisons) else { return Ok(()) };
    writeln!(page, "<section class=\"card\">{svg}</section>")?;
    writeln!(
        page,
        "<div class=\"scroll\"><table><thead><tr><th>workload<th>peer<th class=\"number\">ours<th class=\"number\">theirs\
         <th>unit<th class=\"number\">ours, ns<th class=\"number\">theirs, ns<th class=\"number\">ratio\
         <th class=\"number\">goal<th>met</tr></thead><tbody>"
    )?;
    comparisons.iter().try_for_each(|comparison| pair_rows(page, comparison))?;
    writeln!(page, "</tbody></table></div>")?;
    Ok(())
}

fn pair_rows(page: &mut String, comparison: &Comparison) -> Result<()> {
    if !comparison.has_ours() {
        return Ok(());
    }
    for pair in comparison.pairs() {
        let (class, verdict) = match pair.met() {
            Some(true) => ("yes", "yes"),
            Some(false) => ("no", "no"),
            None => ("", ""),
        };
        writeln!(
            page,
            "<tr><td><code>{}</code><td>{}<td class=\"number\">{}<td class=\"number\">{}<td>{}<td class=\"number\">{}\
             <td class=\"number\">{}<td class=\"number\">{}<td class=\"number\">{}<td class=\"{class}\">{verdict}</tr>",
            comparison.workload,
            pair.peer,
            show_or_absent(pair.ours),
            show_or_absent(pair.theirs),
            comparison.unit().name(),
            show_or_absent(pair.ns.0),
            show_or_absent(pair.ns.1),
            show_or_absent(pair.ratio),
            pair.goal.map(show).unwrap_or_default(),
        )?;
    }
    Ok(())
}

fn figures(page: &mut String, laps: &Laps) -> Result<()> {
    if laps.findings.figures.is_empty() {
        return Ok(());
    }
    writeln!(
        page,
        "<h2>Without peers</h2><div class=\"scroll\"><table><thead><tr><th>workload<th>description<th class=\"number\">measured\
         <th>unit<th class=\"number\">limit<th>met</tr></thead><tbody>"
    )?;
    for figure in &laps.findings.figures {
        let (unit, limit, class, verdict) = match figure.goal()? {
            Goal::Limit(goal) if goal.met(figure.value) => (goal.unit, table::limit(goal), "yes", "yes"),
            Goal::Limit(goal) => (goal.unit, table::limit(goal), "no", "no"),
            Goal::Shown(unit) => (*unit, String::new(), "", ""),
            Goal::Ratios(_) => continue,
        };
        writeln!(
            page,
            "<tr><td><code>{}</code><td>{}<td class=\"number\">{}<td>{}<td class=\"number\">{limit}\
             <td class=\"{class}\">{verdict}</tr>",
            figure.workload,
            workload(&figure.workload).map(|workload| workload.what).unwrap_or_default(),
            show(figure.value),
            unit.name(),
        )?;
    }
    writeln!(page, "</tbody></table></div>")?;
    if !laps.findings.notes.is_empty() {
        writeln!(page, "<ul>")?;
        for note in &laps.findings.notes {
            writeln!(page, "<li>{}</li>", escape(note))?;
        }
        writeln!(page, "</ul>")?;
    }
    Ok(())
}

fn method(page: &mut String, laps: &Laps) -> Result<()> {
    let machine = &laps.machine;
    writeln!(page, "<h2>Machine and method</h2><dl>")?;
    let rows = [
        ("CPU", format!("{} × {}, time-stamp counter at {:.3} GHz", machine.cores, machine.cpu, machine.ghz)),
        ("write-back", machine.flushes.join(", ")),
        ("memory", format!("{:.0} GiB", machine.memory_gib)),
        ("kernel", machine.kernel.clone()),
        ("file systems", format!("line: {}; file-: {}", machine.line_file_system, machine.file_file_system)),
        ("peers", machine.peers.join(", ")),
        ("load", format!("{} before, {} after (average of a minute)", machine.load.0, machine.load.1)),
        ("seed", format!("{} shuffles keys, places and slots", laps.seed)),
    ];
    for (name, value) in rows {
        writeln!(page, "<dt>{name}<dd>{}", escape(&value))?;
    }
    writeln!(
        page,
        "</dl><p>The engines of a workload run interleaved; another one begins each round. A ratio is that of the medians; above \
         1, Lodestone is better. Transactions and stores keep one pool over all rounds; trees grow from empty in a fresh \
         pool in each round, {}. All engines must end with the same result:</p>\
         <div class=\"scroll\"><table><thead><tr><th>workload<th>digest of the result</tr></thead><tbody>",
        if laps.touched { "its pages touched beforehand" } else { "first touches of its pages included" }
    )?;
    let order =
        |comparison: &&Comparison| WORKLOADS.iter().position(|workload| workload.name == comparison.workload);
    let mut comparisons: Vec<&Comparison> = laps.findings.comparisons.iter().collect();
    comparisons.sort_by_key(order);
    for comparison in comparisons {
        writeln!(
            page,
            "<tr><td><code>{}</code><td><code>{:016x}</code></tr>",
            comparison.workload, comparison.digest
        )?;
    }
    writeln!(page, "</tbody></table></div>")?;
    Ok(())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
