//! Charts of single workloads as inline SVG.

use super::axis::{Axis, HEAD, Layout, open};
use super::number::show;
use super::table::required_figure;
use crate::engine::Engine;
use crate::rounds::{Comparison, EngineLaps, ratio};
use crate::targets;
use std::fmt::Write;

/// One workload: a row for each engine with its median as a bar and each lap as a dot, and the goals of Lodestone.
pub(super) fn comparison(layout: &Layout, comparison: &Comparison) -> String {
    let unit = comparison.unit();
    let goals: Vec<(&EngineLaps, f64)> = comparison
        .peers()
        .iter()
        .filter_map(|peer| Some((*peer, required_figure(comparison, peer)?.0)))
        .collect();
    let laps = comparison.entries.iter().flat_map(|entry| entry.values(unit));
    let axis = Axis::around(layout, laps.chain(goals.iter().map(|(_, goal)| *goal)));
    let rows = comparison.entries.len() + usize::from(comparison.ours().is_none());
    let bottom = HEAD + layout.bar_row * rows as f64;
    let mut svg = open(layout, &comparison.workload, bottom);
    axis.draw(&mut svg, bottom);
    let mut row = 0;
    if comparison.ours().is_none() {
        let (y, width) = (HEAD + 17.0, layout.width);
        let _ = write!(
            svg,
            r#"<text class="ours-text" x="0" y="{y:.1}">lodestone</text><text class="value small" x="{width}" y="{y:.1}">did not run</text>"#
        );
        row = 1;
    }
    for entry in &comparison.entries {
        engine_row(&mut svg, layout, &axis, comparison, entry, HEAD + layout.bar_row * f64::from(row));
        row += 1;
    }
    goal_marks(&mut svg, layout, &axis, unit.is_rate(), &goals);
    svg + "</svg>"
}

/// One engine of a workload, in a row whose top is `top`.
fn engine_row(
    svg: &mut String,
    layout: &Layout,
    axis: &Axis<'_>,
    comparison: &Comparison,
    entry: &EngineLaps,
    top: f64,
) {
    let Layout { width, left, bar_row, text, .. } = layout;
    let unit = comparison.unit();
    let (median, middle) = (entry.median(unit), top + text + (bar_row - text) / 2.0);
    let class = if entry.engine == Engine::Ours { "ours" } else { "" };
    let text_class = if entry.engine == Engine::Ours { "ours-text" } else { "" };
    let is_stacked = *text > 0.0;
    let (end, text_y) = (axis.x(median), if is_stacked { top + text - 2.0 } else { middle + 4.5 });
    let _ = write!(
        svg,
        r#"<text class="{text_class}" x="0" y="{text_y:.1}">{}</text><rect class="bar {class}" x="{left}" y="{:.1}" width="{:.1}" height="18" rx="3"/>"#,
        entry.engine,
        middle - 9.0,
        end - left,
    );
    for (index, value) in entry.values(unit).iter().enumerate() {
        // Dots of like laps would hide each other: they are spread over the height of the bar, in the same way always.
        let y = middle + ((index * 7) % 15) as f64 - 7.0;
        let _ = write!(
            svg,
            r#"<circle class="lap {class}" cx="{:.1}" cy="{y:.1}" r="2.1"><title>{}, round {}: {} {}</title></circle>"#,
            axis.x(*value),
            entry.engine,
            index + 1,
            show(*value),
            unit.name(),
        );
    }
    let _ = write!(
        svg,
        r#"<line class="median {class}" x1="{end:.1}" x2="{end:.1}" y1="{:.1}" y2="{:.1}"/>"#,
        middle - 13.0,
        middle + 13.0,
    );
    let verdict = comparison.ours().and_then(|ours| verdict(comparison, ours, entry));
    let ratio = verdict.map(|(ratio, class)| (format!("{} ×", show(ratio)), class));
    let value = show(median);
    let _ = match ratio {
        Some((ratio, class)) if is_stacked => write!(
            svg,
            r#"<text class="value {text_class}" x="{width}" y="{text_y:.1}">{value} <tspan class="small {class}">{ratio}</tspan></text>"#
        ),
        Some((ratio, class)) => write!(
            svg,
            r#"<text class="value {text_class}" x="{width}" y="{:.1}">{value}</text><text class="value small {class}" x="{width}" y="{:.1}">{ratio}</text>"#,
            text_y - 7.0,
            text_y + 8.0,
        ),
        None => write!(svg, r#"<text class="value {text_class}" x="{width}" y="{text_y:.1}">{value}</text>"#),
    };
}

/// Returns the ratio of Lodestone to a peer, and the CSS class that shows if it meets the goal. `None` if the peer does
/// not count in this comparison or no ratio is set.
fn verdict(comparison: &Comparison, ours: &EngineLaps, peer: &EngineLaps) -> Option<(f64, &'static str)> {
    let counts = comparison.peers().iter().any(|other| other.engine == peer.engine);
    let goal = targets::ratio(&comparison.workload, peer.engine.peer()).filter(|_| counts)?;
    let unit = comparison.unit();
    let ratio = ratio(unit, ours.median(unit), peer.median(unit));
    Some((ratio, if ratio >= goal { "good" } else { "bad" }))
}

/// The goals of Lodestone, in its row, which is the first. The hardest is named.
fn goal_marks(
    svg: &mut String,
    layout: &Layout,
    axis: &Axis<'_>,
    is_rate: bool,
    goals: &[(&EngineLaps, f64)],
) {
    let harder = |a: f64, b: f64| if is_rate { a > b } else { a < b };
    let Some(hardest) = goals.iter().copied().reduce(|a, b| if harder(a.1, b.1) { a } else { b }) else {
        return;
    };
    for (peer, goal) in goals {
        let x = axis.x(*goal);
        let _ = write!(
            svg,
            r#"<line class="goal" x1="{x:.1}" x2="{x:.1}" y1="{HEAD}" y2="{:.1}"><title>goal against {}: {}</title></line>"#,
            HEAD + layout.bar_row,
            peer.engine,
            show(*goal),
        );
    }
    let x = axis.x(hardest.1);
    let anchor = if axis.is_left(x) { "start" } else { "end" };
    let sign = if is_rate { "≥" } else { "≤" };
    let _ = write!(
        svg,
        r#"<text class="goal-text" text-anchor="{anchor}" x="{x:.1}" y="{:.1}">goal {sign} {} ({})</text>"#,
        HEAD - 7.0,
        show(hardest.1),
        hardest.0.engine.peer(),
    );
}
