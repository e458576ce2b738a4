//! The CPU's clock, for reports.

/// The CPU's time-stamp counter, which counts at one rate whatever the CPU's own clock does; where there is none
/// that counts cycles, nothing.
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
