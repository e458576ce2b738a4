//! PMDK's environment variables that choose instructions, as libpmem(7) and libpmem2(7) describe them.

use crate::ascii_number::leading_number;
use lode_pmem::{ByAddress, Cpu, MASK_VARIABLE, Sysfs};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Reads a variable of the environment.
pub type Variable<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Returns the instructions that the CPU offers and the variables leave. Flushes are not left out.
pub fn instructions(variable: Variable<'_>) -> ByAddress {
    let is = |name: &str, value: &str| variable(name).is_some_and(|text| text == value);
    let mut hidden = Vec::new();
    for (name, value, feature) in [
        ("PMEM_NO_CLWB", "1", "clwb"),
        ("PMEM_NO_CLFLUSHOPT", "1", "clflushopt"),
        ("PMEM_AVX512F", "0", "avx512f"),
        ("PMEM_AVX", "0", "avx2"),
    ] {
        if is(name, value) {
            hidden.push(feature);
        }
    }
    // PMEM_MOVDIR64B and PMEM_WC_WORKAROUND choose among instructions that this library does not use, and
    // PMEM_NO_GENERIC_MEMCPY among two copies that store the same bytes.
    let features = if cfg!(target_arch = "x86_64") { hidden.join(",") } else { String::new() };
    let mut masked = OsString::from(&features);
    if let Some(mask) = variable(MASK_VARIABLE) {
        masked.push(",");
        masked.push(mask);
    }
    // A library can't refuse to load: a mask that can't be read hides nothing.
    let cpu = Cpu::hiding(&masked).or_else(|_| Cpu::hiding(features.as_ref()));
    let cpu = cpu.unwrap_or_else(|_| Cpu::oldest());
    let by_address = ByAddress::new(cpu);
    stream_min(variable).map_or(by_address, |len| by_address.streaming_from(len))
}

/// Returns the instructions as [`instructions`] does. Flushes are left out where PMEM_NO_FLUSH says so, or the kernel says that
/// the caches survive a power failure.
pub fn flushing_instructions(variable: Variable<'_>, sysfs: &Sysfs) -> ByAddress {
    let by_address = instructions(variable);
    let is_flushing = match variable("PMEM_NO_FLUSH") {
        Some(text) if text == "1" => false,
        Some(text) if text == "0" => true,
        _ => !sysfs.keeps_caches().unwrap_or(false),
    };
    if is_flushing { by_address } else { by_address.without_flush() }
}

/// Returns the answer to every pmem_is_pmem(3) that PMEM_IS_PMEM_FORCE gives; `None` if it gives none.
pub fn forced_is_pmem(variable: Variable<'_>) -> Option<bool> {
    match leading_number(variable("PMEM_IS_PMEM_FORCE")?.as_bytes()) {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Returns the least length, in bytes, of a copy past the cache; `None` if the variables do not choose it.
fn stream_min(variable: Variable<'_>) -> Option<usize> {
    if variable("PMEM_NO_MOVNT").is_some_and(|text| text == "1") {
        return Some(usize::MAX);
    }
    usize::try_from(leading_number(variable("PMEM_MOVNT_THRESHOLD")?.as_bytes())).ok()
}

#[cfg(test)]
mod test {
    use super::*;

    fn shown(variables: &[(&str, &str)]) -> String {
        let variable = |name: &str| {
            let found = variables.iter().find(|(of, _)| *of == name);
            found.map(|(_, value)| OsString::from(value))
        };
        format!("{:?}", instructions(&variable))
    }

    #[test]
    fn variables_choose_instructions() {
        let plain = shown(&[]);
        assert!(plain.contains("is_flushing: true") && plain.contains("stream_min: 256"), "{plain}");
        assert_eq!(shown(&[("PMEM_NO_CLWB", "0"), ("PMEM_NO_MOVNT", "2")]), plain);
        assert!(shown(&[("PMEM_MOVNT_THRESHOLD", "0")]).contains("stream_min: 0"));
        assert_eq!(shown(&[("PMEM_MOVNT_THRESHOLD", "-1")]), plain);
        assert!(shown(&[("PMEM_MOVNT_THRESHOLD", "9"), ("PMEM_NO_MOVNT", "1")]).contains("1844674407370955"));
        let oldest = shown(&[
            ("PMEM_NO_CLWB", "1"),
            ("PMEM_NO_CLFLUSHOPT", "1"),
            ("PMEM_AVX", "0"),
            ("PMEM_AVX512F", "0"),
        ]);
        assert!(
            !cfg!(target_arch = "x86_64") || (oldest.contains("Clflush,") && oldest.contains("Sse2")),
            "{oldest}"
        );
    }

    #[test]
    fn mask_that_cannot_be_read_hides_nothing() {
        let plain = shown(&[]);
        assert_eq!(shown(&[("LODE_CPU_MASK", "clwb,clbw")]), plain);
        assert_eq!(shown(&[("LODE_CPU_MASK", "")]), plain);
        let masked =
            shown(&[("LODE_CPU_MASK", "clwb, clflushopt"), ("PMEM_AVX", "0"), ("PMEM_AVX512F", "0")]);
        assert!(
            !cfg!(target_arch = "x86_64") || (masked.contains("Clflush,") && masked.contains("Sse2")),
            "{masked}"
        );
        let unreadable = shown(&[("LODE_CPU_MASK", "clbw"), ("PMEM_AVX", "0"), ("PMEM_AVX512F", "0")]);
        assert_eq!(unreadable, shown(&[("PMEM_AVX", "0"), ("PMEM_AVX512F", "0")]));
    }

    #[test]
    fn variable_leaves_out_flushes() {
        let shown = |value: Option<&str>| {
            let variable = |name: &str| value.filter(|_| name == "PMEM_NO_FLUSH").map(OsString::from);
            format!("{:?}", flushing_instructions(&variable, &Sysfs::at("/nonexistent")))
        };
        for value in [None, Some("0"), Some("yes")] {
            assert!(shown(value).contains("is_flushing: true"), "{value:?}");
        }
        assert!(shown(Some("1")).contains("is_flushing: false"));
    }

    #[test]
    fn forced_answers_are_zero_and_one() {
        let forced =
            |value: &str| forced_is_pmem(&|name| (name == "PMEM_IS_PMEM_FORCE").then(|| value.into()));
        assert_eq!(
            [forced("0"), forced("1"), forced("2"), forced("x")],
            [Some(false), Some(true), None, Some(false)]
        );
        assert_eq!(forced_is_pmem(&|_| None), None);
    }
}
