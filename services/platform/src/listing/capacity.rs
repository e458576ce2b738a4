//! Capacities as ipmctl prints them.

use crate::machine::IpmctlGeneration;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Unit in which capacities are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// The largest of B, MiB, GiB and TiB of which a capacity has at least one.
    #[serde(rename = "AUTO")]
    Auto,
    /// The largest of B, MB, GB and TB of which a capacity has at least one.
    #[serde(rename = "AUTO_10")]
    Auto10,
    /// Bytes.
    B,
    /// 10^6 bytes.
    MB,
    /// 2^20 bytes.
    MiB,
    /// 10^9 bytes.
    GB,
    /// 2^30 bytes.
    #[default]
    GiB,
    /// 10^12 bytes.
    TB,
    /// 2^40 bytes.
    TiB,
}

impl Unit {
    /// The units that a user can prefer, with their names.
    pub(crate) const PREFERRED: [(Unit, &'static str); 9] = [
        (Unit::Auto, "AUTO"),
        (Unit::Auto10, "AUTO_10"),
        (Unit::B, "B"),
        (Unit::MB, "MB"),
        (Unit::MiB, "MiB"),
        (Unit::GB, "GB"),
        (Unit::GiB, "GiB"),
        (Unit::TB, "TB"),
        (Unit::TiB, "TiB"),
    ];

    /// All units with their names.
    pub const ALL: [(Unit, &'static str); 7] = [
        (Unit::B, "B"),
        (Unit::MB, "MB"),
        (Unit::MiB, "MiB"),
        (Unit::GB, "GB"),
        (Unit::GiB, "GiB"),
        (Unit::TB, "TB"),
        (Unit::TiB, "TiB"),
    ];

    /// Returns the unit in which a capacity is printed.
    fn of_capacity(self, bytes: u64) -> Unit {
        let largest =
            |units: [Unit; 3]| units.into_iter().find(|unit| bytes >= unit.bytes()).unwrap_or(Unit::B);
        match self {
            Unit::Auto => largest([Unit::TiB, Unit::GiB, Unit::MiB]),
            Unit::Auto10 => largest([Unit::TB, Unit::GB, Unit::MB]),
            unit => unit,
        }
    }

    pub(crate) fn bytes(self) -> u64 {
        match self {
            Unit::Auto | Unit::Auto10 | Unit::B => 1,
            Unit::MB => 1_000_000,
            Unit::MiB => 1 << 20,
            Unit::GB => 1_000_000_000,
            Unit::GiB => 1 << 30,
            Unit::TB => 1_000_000_000_000,
            Unit::TiB => 1 << 40,
        }
    }
}

impl FromStr for Unit {
    type Err = ();

    fn from_str(word: &str) -> Result<Unit, ()> {
        Unit::ALL
            .into_iter()
            .find(|(_, known)| known.eq_ignore_ascii_case(word))
            .map(|(unit, _)| unit)
            .ok_or(())
    }
}

/// Number of decimal places, and true if the rest is rounded instead of cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Precision {
    decimals: u32,
    rounded: bool,
}

impl Precision {
    /// Returns the digits of a generation: the first cuts off after one decimal place, later ones round to three.
    pub(crate) fn of(generation: IpmctlGeneration) -> Precision {
        match generation {
            IpmctlGeneration::One => Precision { decimals: 1, rounded: false },
            IpmctlGeneration::Two | IpmctlGeneration::Three => Precision { decimals: 3, rounded: true },
        }
    }

    /// Formats a capacity of `bytes`.
    pub(crate) fn show(self, bytes: u64, unit: Unit) -> String {
        let unit = unit.of_capacity(bytes);
        let word = Unit::ALL.into_iter().find(|(known, _)| *known == unit).map_or("", |(_, word)| word);
        if unit == Unit::B {
            return format!("{bytes} {word}");
        }
        let (scale, unit) = (10_u128.pow(self.decimals), u128::from(unit.bytes()));
        let half = if self.rounded { unit / 2 } else { 0 };
        let all = (u128::from(bytes) * scale + half) / unit;
        format!("{}.{:0width$} {word}", all / scale, all % scale, width = self.decimals as usize)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn capacities_truncate_or_round() {
        let (one, three) = (Precision::of(IpmctlGeneration::One), Precision::of(IpmctlGeneration::Three));
        let module = 258_512 << 20;
        assert_eq!(one.show(module, Unit::GiB), "252.4 GiB", "252.453");
        assert_eq!(three.show(module, Unit::GiB), "252.453 GiB");
        assert_eq!(one.show(module * 12, Unit::GiB), "3029.4 GiB");
        assert_eq!(three.show(module, Unit::TB), "0.271 TB");
        assert_eq!(one.show(module, Unit::B), "271069478912 B");
        assert_eq!(three.show(0, Unit::MiB), "0.000 MiB");
        assert_eq!(one.show(u64::MAX, Unit::MiB), "17592186044415.9 MiB");
        assert_eq!(three.show(u64::MAX, Unit::TiB), "16777216.000 TiB");
        // Volatile and inaccessible memory of a server, from docs.pmem.io.
        assert_eq!(three.show(390_656 << 20, Unit::TiB), "0.373 TiB", "0.37256");
        assert_eq!(three.show(8_143 << 20, Unit::TiB), "0.008 TiB", "0.00777");
        assert_eq!(three.show(5_583 << 20, Unit::TiB), "0.005 TiB", "0.00532");
        assert_eq!(three.show(4 * 135_744_782_336, Unit::GiB), "505.689 GiB", "505.68872");
        for (bytes, binary, decimal) in [
            (0, "0 B", "0 B"),
            (999_999, "999999 B", "999999 B"),
            (1 << 20, "1.000 MiB", "1.049 MB"),
            ((1 << 30) - 1, "1024.000 MiB", "1.074 GB"),
            (1 << 40, "1.000 TiB", "1.100 TB"),
        ] {
            assert_eq!(three.show(bytes, Unit::Auto), binary);
            assert_eq!(three.show(bytes, Unit::Auto10), decimal);
        }
        assert_eq!("gib".parse(), Ok(Unit::GiB));
        assert_eq!("KiB".parse::<Unit>(), Err(()));
    }
}
