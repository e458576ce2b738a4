//! Logarithmic axes, because what is compared spans powers of ten, and the two widths of charts.

use super::number::show;
use std::fmt::Write;

/// Height above the first row, where goals are named.
pub(super) const HEAD: f64 = 24.0;

/// The places in a chart of one width.
pub(super) struct Layout {
    /// Width; charts are scaled to the page.
    pub(super) width: f64,
    /// Left end of the axis.
    pub(super) left: f64,
    /// Right end of the axis.
    pub(super) right: f64,
    /// Height of a row with a bar.
    pub(super) bar_row: f64,
    /// Height of a row with a dot.
    pub(super) dot_row: f64,
    /// Height of the texts of a row above its bar or dot; 0 if they stand beside it.
    pub(super) text: f64,
    /// CSS class of the charts.
    pub(super) class: &'static str,
}

/// Texts beside the bars, for a computer's screen.
pub(super) const WIDE: Layout = Layout {
    width: 860.0,
    left: 150.0,
    right: 742.0,
    bar_row: 40.0,
    dot_row: 24.0,
    text: 0.0,
    class: "wide",
};

/// Texts above the bars, for a telephone.
pub(super) const NARROW: Layout = Layout {
    width: 340.0,
    left: 6.0,
    right: 334.0,
    bar_row: 50.0,
    dot_row: 42.0,
    text: 18.0,
    class: "narrow",
};

/// A logarithmic axis.
pub(super) struct Axis<'l> {
    from: f64,
    to: f64,
    layout: &'l Layout,
}

impl Axis<'_> {
    /// Returns an axis with room around all values.
    pub(super) fn around(layout: &Layout, values: impl Iterator<Item = f64>) -> Axis<'_> {
        let (from, to) =
            values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        Axis { from: from / 1.6, to: to * 1.25, layout }
    }

    /// Returns the place of a value.
    pub(super) fn x(&self, value: f64) -> f64 {
        let Layout { left, right, .. } = self.layout;
        left + (value / self.from).ln() / (self.to / self.from).ln() * (right - left)
    }

    /// Returns true for a place in the left half.
    pub(super) fn is_left(&self, x: f64) -> bool {
        x < f64::midpoint(self.layout.left, self.layout.right)
    }

    /// Returns 1, 2 and 5 times the powers of ten that lie on the axis; only the powers where those would be a crowd.
    fn ticks(&self) -> Vec<f64> {
        let crowd = if self.layout.right - self.layout.left > 400.0 { 300.0 } else { 20.0 };
        let steps: &[f64] = if self.to / self.from > crowd { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let powers = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
        let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
        all.filter(|tick| (self.from..=self.to).contains(tick)).collect()
    }

    /// Draws the ticks, from the head to `bottom`.
    pub(super) fn draw(&self, svg: &mut String, bottom: f64) {
        for tick in self.ticks() {
            let (x, y) = (self.x(tick), bottom + 15.0);
            let label = label(tick);
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{x:.1}" x2="{x:.1}" y1="{HEAD}" y2="{bottom:.1}"/><text class="small" text-anchor="middle" x="{x:.1}" y="{y:.1}">{label}</text>"#
            );
        }
    }
}

/// Returns a tick without the zeros at its end.
fn label(tick: f64) -> String {
    let places = (-tick.log10()).ceil().max(0.0) as usize;
    if places > 0 {
        format!("{tick:.places$}")
    } else {
        show(tick.round()).replace(".00", "").replace(".0", "")
    }
}

/// Begins a chart of a layout, whose rows end at `bottom`.
pub(super) fn open(layout: &Layout, label: &str, bottom: f64) -> String {
    let Layout { width, class, .. } = layout;
    let height = bottom + 20.0;
    format!(r#"<svg class="{class}" viewBox="0 0 {width} {height:.0}" role="img" aria-label="{label}">"#)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn axis_covers_all_values() {
        let axis = Axis::around(&WIDE, [10.0, 1000.0].into_iter());
        assert!(axis.x(10.0) > WIDE.left && axis.x(1000.0) < WIDE.right);
        assert!((axis.x(axis.from) - WIDE.left).abs() < 1e-9 && (axis.x(axis.to) - WIDE.right).abs() < 1e-9);
        assert_eq!(axis.ticks(), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(Axis { layout: &NARROW, ..axis }.ticks(), [10.0, 100.0, 1000.0]);
    }

    #[test]
    fn wide_axis_ticks_are_powers_of_ten() {
        let axis = Axis { from: 0.5, to: 20_000.0, layout: &WIDE };
        assert_eq!([0.001, 0.2, 1.0, 20.0, 10_000.0].map(label), ["0.001", "0.2", "1", "20", "10,000"]);
        assert_eq!(axis.ticks(), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
    }
}
