//! Charts as inline SVG, on logarithmic axes, because what is compared spans powers of ten.

use super::number::show;
use super::table::required_figure;
use crate::engine::Engine;
use crate::rounds::{Comparison, EngineLaps, ratio};
use crate::targets;
use std::fmt::Write;

/// Width of all charts; they are scaled to the page.
const WIDTH: f64 = 860.0;
/// Left end of the axis.
const LEFT: f64 = 118.0;
/// Right end of the axis.
const RIGHT: f64 = 742.0;
/// Height of a row.
const ROW: f64 = 40.0;
/// Height above the first row, where goals are named.
const HEAD: f64 = 24.0;

/// A logarithmic axis.
struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis with room around all values.
    fn around(values: impl Iterator<Item = f64>) -> Axis {
        let (from, to) =
            values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        Axis { from: from / 1.6, to: to * 1.25 }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (value / self.from).ln() / (self.to / self.from).ln() * (RIGHT - LEFT)
    }

    /// 1, 2 and 5 times the powers of ten that lie on the axis; only the powers where those would be a crowd.
    fn ticks(&self) -> Vec<f64> {
        let steps: &[f64] = if self.to / self.from > 300.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let powers = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
        let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
        all.filter(|tick| (self.from..=self.to).contains(tick)).collect()
    }

    fn draw(&self, svg: &mut String, bottom: f64, caption: &str) {
        for tick in self.ticks() {
            let x = self.x(tick);
            let _ =
                write!(svg, r#"<line class="grid" x1="{x:.1}" x2="{x:.1}" y1="{HEAD}" y2="{bottom:.1}"/>"#);
            let label =
                if tick >= 1.0 { show(tick).replace(".00", "").replace(".0", "") } else { show(tick) };
            let y = bottom + 15.0;
            let _ = write!(
                svg,
                r#"<text class="small" text-anchor="middle" x="{x:.1}" y="{y:.1}">{label}</text>"#
            );
        }
        let (x, y) = ((LEFT + RIGHT) / 2.0, bottom + 32.0);
        let _ =
            write!(svg, r#"<text class="small" text-anchor="middle" x="{x:.1}" y="{y:.1}">{caption}</text>"#);
    }
}

fn open(label: &str, bottom: f64) -> String {
    let height = bottom + 38.0;
    format!(r#"<svg viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-label="{label}">"#)
}

/// One workload: a row for each engine with its median as a bar and each lap as a dot, and the goals of Lodestone.
pub(super) fn comparison(comparison: &Comparison) -> String {
    let unit = comparison.unit();
    let goals: Vec<(&EngineLaps, f64)> = comparison
        .peers()
        .iter()
        .filter_map(|peer| Some((*peer, required_figure(comparison, peer)?.0)))
        .collect();
    let laps = comparison.entries.iter().flat_map(|entry| entry.values(unit));
    let axis = Axis::around(laps.chain(goals.iter().map(|(_, goal)| *goal)));
    let rows = comparison.entries.len() + usize::from(comparison.ours().is_none());
    let bottom = HEAD + ROW * rows as f64;
    let mut svg = open(&comparison.workload, bottom);
    let better = if unit.is_rate() { "more is better →" } else { "← less is better" };
    let name = if unit.is_rate() { unit.name().to_owned() } else { format!("{} an operation", unit.name()) };
    axis.draw(&mut svg, bottom, &format!("{name} · {better}"));
    let mut row = 0;
    if comparison.ours().is_none() {
        let y = HEAD + ROW / 2.0;
        let _ = write!(
            svg,
            r#"<text class="ours-text" x="0" y="{:.1}">lodestone</text><text class="small" x="{:.1}" y="{:.1}">did not run</text>"#,
            y + 4.5,
            LEFT + 6.0,
            y + 4.0,
        );
        row = 1;
    }
    for entry in &comparison.entries {
        engine_row(&mut svg, &axis, comparison, entry, HEAD + ROW * f64::from(row));
        row += 1;
    }
    goal_marks(&mut svg, &axis, unit.is_rate(), &goals);
    svg + "</svg>"
}

/// One engine of a workload, in a row whose top is `top`.
fn engine_row(svg: &mut String, axis: &Axis, comparison: &Comparison, entry: &EngineLaps, top: f64) {
    let unit = comparison.unit();
    let (median, middle) = (entry.median(unit), top + ROW / 2.0);
    let class = if entry.engine == Engine::Ours { "ours" } else { "" };
    let text_class = if entry.engine == Engine::Ours { "ours-text" } else { "" };
    let (end, text_y) = (axis.x(median), middle + 4.5);
    let _ = write!(
        svg,
        r#"<text class="{text_class}" x="0" y="{text_y:.1}">{}</text><rect class="bar {class}" x="{LEFT}" y="{:.1}" width="{:.1}" height="18" rx="3"/>"#,
        entry.engine,
        middle - 9.0,
        end - LEFT,
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
    let value_y = if verdict.is_some() { text_y - 7.0 } else { text_y };
    let _ = write!(
        svg,
        r#"<text class="value {text_class}" x="{WIDTH}" y="{value_y:.1}">{}</text>"#,
        show(median)
    );
    if let Some((ratio, class)) = verdict {
        let y = text_y + 8.0;
        let _ = write!(
            svg,
            r#"<text class="value small {class}" x="{WIDTH}" y="{y:.1}">{} ×</text>"#,
            show(ratio)
        );
    }
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
fn goal_marks(svg: &mut String, axis: &Axis, is_rate: bool, goals: &[(&EngineLaps, f64)]) {
    let harder = |a: f64, b: f64| if is_rate { a > b } else { a < b };
    let Some(hardest) = goals.iter().copied().reduce(|a, b| if harder(a.1, b.1) { a } else { b }) else {
        return;
    };
    for (peer, goal) in goals {
        let x = axis.x(*goal);
        let _ = write!(
            svg,
            r#"<line class="goal" x1="{x:.1}" x2="{x:.1}" y1="{HEAD}" y2="{:.1}"><title>goal against {}: {}</title></line>"#,
            HEAD + ROW,
            peer.engine,
            show(*goal),
        );
    }
    let x = axis.x(hardest.1);
    let anchor = if x > (LEFT + RIGHT) / 2.0 { "end" } else { "start" };
    let sign = if is_rate { "≥" } else { "≤" };
    let _ = write!(
        svg,
        r#"<text class="goal-text" text-anchor="{anchor}" x="{x:.1}" y="{:.1}">goal {sign} {} ({})</text>"#,
        HEAD - 7.0,
        show(hardest.1),
        hardest.0.engine.peer(),
    );
}

/// All ratios at a glance: a dot for each pair, and the mark that it has to reach.
pub(super) fn ratios(comparisons: &[Comparison]) -> Option<String> {
    let mut pairs = Vec::new();
    for comparison in comparisons {
        let Some(ours) = comparison.ours() else { continue };
        let unit = comparison.unit();
        for peer in comparison.peers() {
            let ratio = ratio(unit, ours.median(unit), peer.median(unit));
            let Some(goal) = targets::ratio(&comparison.workload, peer.engine.peer()) else { continue };
            pairs.push((comparison.workload.as_str(), peer.engine.peer(), ratio, goal));
        }
    }
    if pairs.is_empty() {
        return None;
    }
    let row_height = 24.0;
    let axis = Axis::around(pairs.iter().flat_map(|pair| [pair.2, pair.3, 1.0]));
    let bottom = HEAD + row_height * pairs.len() as f64;
    let mut svg = open("ratios", bottom);
    axis.draw(&mut svg, bottom, "times as good as the peer; dashed: the goal; hollow: not reached");
    for (index, (workload, peer, ratio, goal)) in pairs.iter().enumerate() {
        let middle = HEAD + row_height * (index as f64 + 0.5);
        let class = if ratio >= goal { "good" } else { "bad" };
        let (goal_x, ratio_x) = (axis.x(*goal), axis.x(*ratio));
        let _ = write!(
            svg,
            r#"<text class="small" x="0" y="{:.1}">{workload}</text><line class="goal" x1="{goal_x:.1}" x2="{goal_x:.1}" y1="{:.1}" y2="{:.1}"/><circle class="{class}" cx="{ratio_x:.1}" cy="{middle:.1}" r="5"><title>{workload} against {peer}: {} (goal {})</title></circle><text class="value small" x="{WIDTH}" y="{:.1}">{} × {peer}</text>"#,
            middle + 4.0,
            middle - 9.0,
            middle + 9.0,
            show(*ratio),
            show(*goal),
            middle + 4.0,
            show(*ratio),
        );
    }
    Some(svg + "</svg>")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn axis_covers_all_values() {
        let axis = Axis::around([10.0, 1000.0].into_iter());
        assert!(axis.x(10.0) > LEFT && axis.x(1000.0) < RIGHT);
        assert!((axis.x(axis.from) - LEFT).abs() < 1e-9 && (axis.x(axis.to) - RIGHT).abs() < 1e-9);
        assert_eq!(axis.ticks(), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
    }

    #[test]
    fn wide_axis_ticks_are_powers_of_ten() {
        assert_eq!(Axis { from: 0.5, to: 20_000.0 }.ticks(), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
    }
}
