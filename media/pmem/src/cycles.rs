//! The CPU's clock, for reports.

/// Returns the CPU's time-stamp counter, which counts at a constant rate. Returns `None` on CPUs without a counter of
/// cycles.
#[inline]
pub fn cycles() -> Option<u64> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: - every CPU with 64-bit mode has the instruction, and Linux lets programs use it.
        Some(unsafe { std::arch::x86_64::_rdtsc() })
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    None
}
