//! Capacities in listings, which are cut off or rounded.

use crate::listing::Unit;

/// A capacity as a listing shows it: the range of bytes that are shown so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Amount {
    /// The fewest bytes.
    from: u64,
    /// The most bytes.
    to: u64,
    /// The bytes of the shown number.
    shown: u64,
}

impl Amount {
    /// Parses a number with a unit, as `252.454 GiB`. One decimal place is cut off, more are rounded.
    pub(super) fn parse(text: &str) -> Option<Amount> {
        let (number, unit) = text.split_once(' ')?;
        let unit = u128::from(unit.trim().parse::<Unit>().ok()?.bytes());
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
        if whole.is_empty() || whole.len() + decimals.len() > 21 || !digits(whole) || !digits(decimals) {
            return None;
        }
        let scale = 10_u128.pow(u32::try_from(decimals.len()).ok()?);
        let shown = format!("{whole}{decimals}").parse::<u128>().ok()?;
        let bytes = |tenths: u128| u64::try_from((tenths * unit).div_ceil(10 * scale)).ok();
        let (from, to) = match decimals.len() {
            _ if unit == 1 => (bytes(shown * 10)?, bytes(shown * 10)?),
            0 | 1 => (bytes(shown * 10)?, bytes(shown * 10 + 10)?.saturating_sub(1)),
            _ => (bytes((shown * 10).saturating_sub(5))?, bytes(shown * 10 + 5)?),
        };
        Some(Amount { from, to, shown: bytes(shown * 10)?.clamp(from, to) })
    }

    /// Returns true if the listing has all digits.
    pub(super) fn is_exact(self) -> bool {
        self.from == self.to
    }

    /// Returns true if the bytes may be shown so.
    pub(super) fn has(self, bytes: u64) -> bool {
        (self.from..=self.to).contains(&bytes)
    }

    /// Returns true if no capacity is shown both so and as `other`.
    pub(super) fn excludes(self, other: Amount) -> bool {
        self.from > other.to || other.from > self.to
    }

    /// Returns the number of further capacities that are shown so.
    pub(super) fn width(self) -> u64 {
        self.to - self.from
    }

    /// Returns the multiple of the first of these units that has one in the range, the nearest to the shown number; or
    /// the shown number.
    pub(super) fn multiple_of(self, units: &[u64]) -> u64 {
        let nearest = |unit: &u64| {
            let below = self.shown / unit * unit;
            let near = [Some(below), below.checked_add(*unit)].into_iter().flatten();
            near.filter(|bytes| self.has(*bytes)).min_by_key(|bytes| bytes.abs_diff(self.shown))
        };
        units.iter().find_map(nearest).unwrap_or(self.shown)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::listing::Precision;
    use crate::machine::IpmctlGeneration;

    const MIB: u64 = 1 << 20;

    #[test]
    fn amounts_have_what_is_shown_so() {
        for generation in [IpmctlGeneration::One, IpmctlGeneration::Three] {
            for bytes in [0, 1, 258_512 * MIB, 271_070_789_632, 1 << 30, 3_029_400 * MIB, (1 << 52) - 1] {
                for (unit, _) in Unit::ALL {
                    let text = Precision::of(generation).show(bytes, unit);
                    let amount = Amount::parse(&text).unwrap();
                    assert!(amount.has(bytes), "{text}: {amount:?}, {bytes}");
                    assert_eq!(amount.is_exact(), unit == Unit::B, "{text}");
                }
            }
        }
        let rounded = Amount::parse("252.453 GiB").unwrap();
        assert_eq!(rounded.multiple_of(&[MIB]), 258_512 * MIB);
        assert_eq!(Amount::parse("252.000 GiB").unwrap().multiple_of(&[1 << 30, MIB]), 252 << 30);
        assert!(rounded.excludes(Amount::parse("252.000 GiB").unwrap()));
        for text in ["", "GiB", "252.453", "x GiB", "1.2.3 GiB", "-1 GiB", " GiB", "99999999999999999999 TiB"]
        {
            assert_eq!(Amount::parse(text), None, "{text}");
        }
        assert!(Amount::parse("3029. GiB").is_some(), "as an article shows it");
    }
}
