//! `foundation.html`: one page that needs nothing else.

use super::axis::{NARROW, WIDE};
use super::number::{show, show_or_absent};
use super::{chart, missing, ratios, table};
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
        are logarithmic. Dashed: the goal. With a peer's figure: how many times as good Lodestone is.</p>"
    )?;
    for comparison in laps.findings.comparisons.iter().filter(|comparison| !comparison.entries.is_empty()) {
        let what = workload(&comparison.workload).map(|workload| workload.what).unwrap_or_default();
        let [wide, narrow] = [WIDE, NARROW].map(|layout| chart::comparison(&layout, comparison));
        let unit = comparison.unit();
        let scale = if unit.is_rate() { "more is better →" } else { "an operation · ← less is better" };
        writeln!(
            page,
            "<section class=\"card\"><h3><code>{}</code></h3><p>{what}</p>{wide}{narrow}<p>{} {scale}</p>",
            comparison.workload,
            unit.name(),
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
    let charts = [WIDE, NARROW].map(|layout| ratios::chart(&layout, comparisons));
    let [Some(wide), Some(narrow)] = charts else { return Ok(()) };
    verdicts(page, comparisons)?;
    writeln!(
        page,
        "<section class=\"card\">{wide}{narrow}<p>Times as good as the peer. Dashed: the goal. Hollow: the goal is not \
         reached, or without a goal, the peer is better.</p></section>"
    )?;
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

/// Writes what a goal is, how many are reached, and which pairs Lodestone loses.
fn verdicts(page: &mut String, comparisons: &[Comparison]) -> Result<()> {
    let pairs = ratios::measured(comparisons);
    let met: Vec<bool> = pairs.iter().filter_map(|(_, pair, _)| pair.met()).collect();
    writeln!(
        page,
        "<p>A goal is how many times as good as a peer Lodestone has to be in a workload: a number that was set before the \
         measurement. Some pairs have none, and are only shown. Reached: {} of {}.</p>",
        met.iter().filter(|met| **met).count(),
        met.len()
    )?;
    let lost = pairs.iter().filter(|(.., ratio)| *ratio < 1.0);
    let lost: Vec<String> = lost
        .map(|(workload, pair, ratio)| {
            format!("<code>{workload}</code> {} × {}", show(*ratio), pair.peer.peer())
        })
        .collect();
    match lost.as_slice() {
        [] => writeln!(page, "<p>No peer is better in any pair.</p>")?,
        lost => writeln!(
            page,
            "<details><summary>The peer is better in {} of {} pairs</summary><p>{}</p></details>",
            lost.len(),
            pairs.len(),
            lost.join(", ")
        )?,
    }
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
            "<tr><td><code>{}</code><td class=\"text\">{}<td class=\"number\">{}<td>{}<td class=\"number\">{limit}\
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

#[cfg(test)]
mod test {
    use super::*;
    use crate::clock::Lap;
    use crate::engine::Engine;
    use crate::rounds::EngineLaps;

    #[test]
    fn page_shows_lost_pairs_with_and_without_goal() {
        let entry = |engine, cycles| EngineLaps {
            engine,
            laps: vec![Lap { ops: 1, cycles, ns: cycles, ..Lap::default() }],
        };
        let comparison = |workload: &str, theirs| Comparison {
            workload: workload.to_owned(),
            entries: vec![entry(Engine::Ours, 100), entry(Engine::Libpmemobj, theirs)],
            absent: Vec::new(),
            digest: 1,
        };
        let mut laps = Laps::sample();
        laps.rows = ["tx-1", "tx-4", "tx-16-wide"].map(str::to_owned).to_vec();
        laps.findings.comparisons = vec![comparison("tx-1", 600), comparison("tx-16-wide", 50)];
        let page = render(&laps).unwrap();
        for part in [
            "Reached: 1 of 1.",
            "The peer is better in 1 of 2 pairs",
            "<code>tx-16-wide</code> 0.50 × libpmemobj",
            "<title>tx-16-wide against libpmemobj: 0.50 (no goal)</title>",
            "class=\"plain behind\"",
            "<p>Left out, because Lodestone did not run: <code>tx-4</code>.</p>",
        ] {
            assert!(page.contains(part), "no {part} in {page}");
        }
        assert_eq!(
            page.matches("<svg class=\"narrow\"").count(),
            page.matches("<svg class=\"wide\"").count()
        );
    }
}
