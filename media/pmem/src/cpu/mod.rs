//! The CPU's instructions for durable stores, chosen once: write-back of lines, copies past the cache, fence.
//!
//! # Cost
//! The choice is a small value that its holder matches on. The branch always goes the same way, so it costs one cycle.
//! `docs/decisions/short-records.md` has the figures of records.
//! A copy of 64 to 256 bytes and its fence cost the time in which the memory accepts them.

use crate::PmemError;
use lode_layout::{LINE, align_down};
use std::ffi::OsStr;

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[path = "x86_64.rs"]
mod instructions;

#[cfg(all(target_arch = "aarch64", not(miri)))]
#[path = "aarch64.rs"]
mod instructions;

#[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri))]
#[path = "plain.rs"]
mod instructions;

pub use instructions::Cpu;
use instructions::FEATURES;

/// The variable that hides features of the CPU: a list such as `clwb,avx512f`.
pub const MASK_VARIABLE: &str = "LODE_CPU_MASK";

impl Cpu {
    /// Chooses from the instructions that this CPU offers and [`MASK_VARIABLE`] does not hide.
    ///
    /// # Errors
    /// [`PmemError::UnknownCpuFeature`] if the variable names a feature that this kind of CPU doesn't have.
    pub fn detect() -> Result<Cpu, PmemError> {
        Cpu::without("")
    }

    /// Chooses as [`detect`](Cpu::detect), without the features of a list such as `clwb,avx512f`.
    ///
    /// # Errors
    /// [`PmemError::UnknownCpuFeature`] if the list or the variable names a feature that this kind of CPU doesn't have.
    pub fn without(features: &str) -> Result<Cpu, PmemError> {
        let masked = hidden(std::env::var_os(MASK_VARIABLE).as_deref())?;
        Ok(Cpu::choose(masked | hidden(Some(OsStr::new(features)))?))
    }

    /// Chooses as [`without`](Cpu::without), from the list alone: for programs that may not trust their environment.
    ///
    /// # Errors
    /// [`PmemError::UnknownCpuFeature`] if the list names a feature that this kind of CPU doesn't have.
    pub fn hiding(features: &OsStr) -> Result<Cpu, PmemError> {
        Ok(Cpu::choose(hidden(Some(features))?))
    }
}

/// Returns the features that `mask` hides, as bits in the order of `FEATURES`.
fn hidden(mask: Option<&OsStr>) -> Result<u32, PmemError> {
    let mask = mask.map(OsStr::to_string_lossy).unwrap_or_default();
    mask.split(',').map(str::trim).filter(|name| !name.is_empty()).try_fold(0, |hidden, name| {
        let index = FEATURES.iter().position(|feature| *feature == name);
        let index = index.ok_or_else(|| PmemError::UnknownCpuFeature { name: name.to_owned() })?;
        Ok(hidden | 1 << index)
    })
}

/// Returns the start of the first cache line, and the number of lines, that hold the `len` bytes from `start` on. Wraps
/// past the last address, so that a damaged offset can't panic.
#[inline]
pub(crate) const fn lines_of(start: u64, len: u64) -> (u64, u64) {
    if len == 0 {
        return (align_down(start, LINE), 0);
    }
    let (first, last) = (align_down(start, LINE), align_down(start.wrapping_add(len - 1), LINE));
    (first, last.wrapping_sub(first) / LINE + 1)
}

#[cfg(test)]
mod test {
    use super::*;

    /// A flush must not round the start down and add the length to the rounded start: that misses the last line. 8
    /// bytes at 0x1040 must flush line 0x1040, and 2 bytes at 0x103f two lines.
    #[test]
    fn lines_of_range_are_exact() {
        for edge in [0, 64, 4096 - 64, 4096, 1 << 21] {
            for start in edge..edge + 200 {
                for len in 0..200 {
                    let (first, count) = lines_of(start, len);
                    let covered: Vec<u64> = (0..count).map(|index| first + index * LINE).collect();
                    let mut wanted: Vec<u64> = (start..start + len).map(|byte| byte / LINE * LINE).collect();
                    wanted.dedup();
                    assert_eq!(covered, wanted, "{len} bytes at {start:#x}");
                }
            }
        }
    }

    #[test]
    fn unknown_cpu_features_are_refused() {
        assert_eq!(hidden(None).unwrap(), 0);
        assert_eq!(hidden(Some(OsStr::new(""))).unwrap(), 0);
        let all = FEATURES.join(" , ");
        assert_eq!(hidden(Some(OsStr::new(&all))).unwrap(), (1 << FEATURES.len()) - 1);
        let refused = hidden(Some(OsStr::new("clbw"))).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "LODE_CPU_MASK names clbw, which is no feature that can be hidden here"
        );
    }
}
