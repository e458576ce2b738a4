//! PMDK's environment variables, as libpmem(7) describes them.

use lode_capi_entry::{Variable, leading_hexadecimal, leading_number};
use lode_pmem::{ByAddress, Sysfs};
use std::os::unix::ffi::OsStrExt;

/// Returns the instructions that the CPU offers and the variables leave.
pub(crate) fn instructions(variable: Variable<'_>, sysfs: &Sysfs) -> ByAddress {
    let by_address = lode_capi_entry::instructions(variable);
    let is_flushing = match variable("PMEM_NO_FLUSH") {
        Some(text) if text == "1" => false,
        Some(text) if text == "0" => true,
        _ => !sysfs.keeps_caches().unwrap_or(false),
    };
    if is_flushing { by_address } else { by_address.without_flush() }
}

/// Returns the answer to every pmem_is_pmem(3) that PMEM_IS_PMEM_FORCE gives; `None` if it gives none.
pub(crate) fn forced_is_pmem(variable: Variable<'_>) -> Option<bool> {
    match leading_number(variable("PMEM_IS_PMEM_FORCE")?.as_bytes()) {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Returns the address above which mappings are placed, by PMEM_MMAP_HINT.
pub(crate) fn mapping_hint(variable: Variable<'_>) -> Option<usize> {
    leading_hexadecimal(variable("PMEM_MMAP_HINT")?.as_bytes())
}

#[cfg(test)]
mod test {
    use super::*;
    use std::ffi::OsString;

    #[test]
    fn variable_leaves_out_flushes() {
        let shown = |value: Option<&str>| {
            let variable = |name: &str| value.filter(|_| name == "PMEM_NO_FLUSH").map(OsString::from);
            format!("{:?}", instructions(&variable, &Sysfs::at("/nonexistent")))
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
