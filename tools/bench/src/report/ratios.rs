//! All ratios at a glance: a dot for each pair of Lodestone and a peer, the pairs that Lodestone loses included.

use super::axis::{Axis, HEAD, Layout, open};
use super::number::show;
use crate::rounds::{Comparison, Pair};
use std::fmt::Write;

/// Returns the pairs with figures of both, each with its workload.
pub(super) fn measured(comparisons: &[Comparison]) -> Vec<(&str, Pair, f64)> {
    let of = |comparison: &'_ Comparison| comparison.pairs().into_iter();
    let all = comparisons.iter().flat_map(|one| of(one).map(|pair| (one.workload.as_str(), pair)));
    all.filter_map(|(workload, pair)| pair.ratio.map(|ratio| (workload, pair, ratio))).collect()
}

/// Returns the CSS class of a pair: that of its goal, or of the better one if it has none.
fn class(pair: &Pair, ratio: f64) -> &'static str {
    match pair.met() {
        Some(true) => "good",
        Some(false) => "bad",
        None if ratio >= 1.0 => "plain",
        None => "plain behind",
    }
}

/// Draws all ratios. `None` if there are none.
pub(super) fn chart(layout: &Layout, comparisons: &[Comparison]) -> Option<String> {
    let pairs = measured(comparisons);
    if pairs.is_empty() {
        return None;
    }
    let values = pairs.iter().flat_map(|(_, pair, ratio)| [Some(*ratio), pair.goal, Some(1.0)]);
    let axis = Axis::around(layout, values.flatten());
    let Layout { width, dot_row, text, .. } = layout;
    let bottom = HEAD + dot_row * pairs.len() as f64;
    let mut svg = open(layout, "ratios", bottom);
    axis.draw(&mut svg, bottom);
    for (index, (workload, pair, ratio)) in pairs.iter().enumerate() {
        let top = HEAD + dot_row * index as f64;
        let middle = top + text + (dot_row - text) / 2.0;
        let text_y = if *text > 0.0 { top + text } else { middle + 4.0 };
        let (class, peer, shown, x) = (class(pair, *ratio), pair.peer.peer(), show(*ratio), axis.x(*ratio));
        let goal = pair.goal.map_or("no goal".to_owned(), |goal| format!("goal {}", show(goal)));
        if let Some(goal_x) = pair.goal.map(|goal| axis.x(goal)) {
            let (from, to) = (middle - 9.0, middle + 9.0);
            let _ = write!(
                svg,
                r#"<line class="goal" x1="{goal_x:.1}" x2="{goal_x:.1}" y1="{from:.1}" y2="{to:.1}"/>"#
            );
        }
        let _ = write!(
            svg,
            r#"<text class="small" x="0" y="{text_y:.1}">{workload}</text><circle class="{class}" cx="{x:.1}" cy="{middle:.1}" r="5"><title>{workload} against {peer}: {shown} ({goal})</title></circle><text class="value small" x="{width}" y="{text_y:.1}">{shown} × {peer}</text>"#,
        );
    }
    Some(svg + "</svg>")
}
