//! Damage of a file.

use crate::files::TargetPool;
use crate::files::target::LINE;
use fastrand::Rng;
use std::fmt;
use std::ops::Range;

const PAGE: u64 = 4096;

/// A kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One flipped bit.
    Bit,
    /// Eight flipped bits, close together or anywhere.
    EightBits,
    /// A line of 64 bytes is random.
    LineRandom,
    /// A line is all zeros.
    LineZero,
    /// A line is all ones.
    LineOnes,
    /// A page of 4 KiB is random.
    PageRandom,
    /// A page is all zeros.
    PageZero,
    /// A page is all ones.
    PageOnes,
    /// Two pages have changed places.
    PagesSwapped,
    /// A sound line is copied over another one.
    LineCopied,
    /// A digit of a key or value is replaced by another one.
    Digit,
    /// The file is shorter.
    Truncated,
    /// The file is longer.
    Extended,
}

/// All kinds.
pub(crate) const KINDS: [Kind; 13] = [
    Kind::Bit,
    Kind::EightBits,
    Kind::LineRandom,
    Kind::LineZero,
    Kind::LineOnes,
    Kind::PageRandom,
    Kind::PageZero,
    Kind::PageOnes,
    Kind::PagesSwapped,
    Kind::LineCopied,
    Kind::Digit,
    Kind::Truncated,
    Kind::Extended,
];

/// One damage: new bytes at some offsets, and a new length.
#[derive(Clone, Debug)]
pub struct Damage {
    /// The kind of the damage.
    pub kind: Kind,
    edits: Vec<(u64, Vec<u8>)>,
    len: u64,
}

impl Damage {
    /// Draws a damage of any kind at a place of any kind. It always changes the file.
    pub fn draw(rng: &mut Rng, target: &TargetPool) -> Damage {
        loop {
            let kind = KINDS[rng.usize(..KINDS.len())];
            let damage = Damage::of(kind, rng, target);
            if damage.apply(&target.image) != target.image {
                return damage;
            }
        }
    }

    fn of(kind: Kind, rng: &mut Rng, target: &TargetPool) -> Damage {
        let image = &target.image;
        let all = image.len() as u64;
        let mut len = all;
        let line = |at: u64| at / LINE * LINE;
        let page = |at: u64| at / PAGE * PAGE;
        let flip = |rng: &mut Rng, at: u64| (at, vec![image[at as usize] ^ (1 << rng.u8(..8))]);
        let copy = |at: u64, len: u64| image[at as usize..][..len as usize].to_vec();
        let random = |rng: &mut Rng, len: u64| (0..len).map(|_| rng.u8(..)).collect::<Vec<u8>>();
        let at = place(rng, target);
        let edits = match kind {
            Kind::Bit => vec![flip(rng, at)],
            Kind::EightBits => {
                let near = rng.bool();
                let any = |rng: &mut Rng| if near { page(at) + rng.u64(..PAGE) } else { place(rng, target) };
                let mut places: Vec<u64> = (0..8).map(|_| any(rng)).collect();
                // Two flips in one byte would be two edits, and the second would overwrite the first.
                places.sort_unstable();
                places.dedup();
                places.into_iter().map(|at| flip(rng, at)).collect()
            }
            Kind::LineRandom => vec![(line(at), random(rng, LINE))],
            Kind::LineZero => vec![(line(at), vec![0; LINE as usize])],
            Kind::LineOnes => vec![(line(at), vec![0xFF; LINE as usize])],
            Kind::PageRandom => vec![(page(at), random(rng, PAGE))],
            Kind::PageZero => vec![(page(at), vec![0; PAGE as usize])],
            Kind::PageOnes => vec![(page(at), vec![0xFF; PAGE as usize])],
            Kind::PagesSwapped => {
                let (one, other) = (page(at), page(place(rng, target)));
                vec![(one, copy(other, PAGE)), (other, copy(one, PAGE))]
            }
            Kind::LineCopied => {
                let from = place_like(rng, target, at);
                vec![(line(at), copy(line(from), LINE))]
            }
            Kind::Digit => digit(rng, target).into_iter().collect(),
            Kind::Truncated => {
                len = match rng.u8(..4) {
                    0 => rng.u64(..all),
                    1 => all - rng.u64(1..=PAGE),
                    2 => page(rng.u64(..all)),
                    _ => place(rng, target),
                };
                Vec::new()
            }
            Kind::Extended => {
                let more = if rng.bool() { rng.u64(1..=PAGE) } else { rng.u64(1..=all) };
                let zeros = rng.bool();
                len = all + more;
                vec![(all, if zeros { vec![0; more as usize] } else { random(rng, more) })]
            }
        };
        Damage { kind, edits, len }
    }

    /// Returns true if the damage changes a byte of `range`.
    pub(crate) fn touches(&self, range: &Range<u64>) -> bool {
        range.end > self.len
            || self.edits.iter().any(|(at, bytes)| *at < range.end && range.start < at + bytes.len() as u64)
    }

    /// Returns `image` with the damage done.
    pub fn apply(&self, image: &[u8]) -> Vec<u8> {
        let mut damaged = image.to_vec();
        damaged.resize(self.len as usize, 0);
        for (at, bytes) in &self.edits {
            damaged[*at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        damaged
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places: Vec<String> = self.edits.iter().map(|(at, _)| format!("{at:#x}")).collect();
        match self.kind {
            Kind::Truncated => write!(f, "Truncated to {} bytes", self.len),
            Kind::Extended => write!(f, "Extended to {} bytes", self.len),
            kind => write!(f, "{kind:?} at {}", places.join(" ")),
        }
    }
}

/// Draws an offset in the file: anywhere, or in one of the structures, each structure of a kind equally likely.
fn place(rng: &mut Rng, target: &TargetPool) -> u64 {
    let all = target.image.len() as u64;
    let inside = |rng: &mut Rng, ranges: &[Range<u64>]| {
        let range = ranges.get(rng.usize(..ranges.len().max(1)))?;
        Some(rng.u64(range.clone()))
    };
    let drawn = match rng.u8(..12) {
        0 => None,
        1 => Some(rng.u64(..target.log.start)),
        2 => Some(rng.u64(target.log.clone())),
        3..6 => rng.choice(&target.tables).map(|line| line + rng.u64(..LINE)),
        6 => inside(rng, &target.root),
        7..9 => inside(rng, &target.nodes),
        _ => inside(rng, &target.leaves),
    };
    drawn.unwrap_or_else(|| rng.u64(..all)).min(all - 1)
}

/// Draws an offset in a structure of the same kind as the one at `at`, at the same distance from its start.
fn place_like(rng: &mut Rng, target: &TargetPool, at: u64) -> u64 {
    for ranges in [&target.nodes, &target.leaves] {
        if let Some(range) = ranges.iter().find(|range| range.contains(&at)) {
            let other = &ranges[rng.usize(..ranges.len())];
            return (other.start + (at - range.start)).min(other.end - 1);
        }
    }
    place(rng, target)
}

/// Replaces a digit in a leaf by another one.
fn digit(rng: &mut Rng, target: &TargetPool) -> Option<(u64, Vec<u8>)> {
    let leaf = rng.choice(&target.leaves)?;
    let digits: Vec<u64> = leaf.clone().filter(|at| target.image[*at as usize].is_ascii_digit()).collect();
    let at = *rng.choice(&digits)?;
    Some((at, vec![rng.u8(b'0'..=b'9')]))
}
