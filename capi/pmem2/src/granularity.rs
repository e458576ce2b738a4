//! The granularity of stores: what a program has to do before they are durable.

use crate::code;
use crate::failure::Failure;
use lode_pmem::Durability;
use std::ffi::OsStr;

/// PMEM2_GRANULARITY_*: a lower one needs less work of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Granularity {
    Byte,
    CacheLine,
    Page,
}

impl Granularity {
    /// Returns the granularity with the number of the C enum.
    pub(crate) fn numbered(number: i32) -> Result<Granularity, Failure> {
        match number {
            0 => Ok(Granularity::Byte),
            1 => Ok(Granularity::CacheLine),
            2 => Ok(Granularity::Page),
            _ => Err(Failure::new(
                code::GRANULARITY_NOT_SUPPORTED,
                format!(
                    "unknown granularity value {number}; use PMEM2_GRANULARITY_BYTE, _CACHE_LINE or _PAGE"
                ),
            )),
        }
    }

    /// Returns the granularity that PMEM2_FORCE_GRANULARITY names; `None` if it names none.
    pub(crate) fn forced(variable: Option<&OsStr>) -> Option<Granularity> {
        let text = variable?.to_str()?.to_ascii_uppercase();
        match &*text {
            "BYTE" => Some(Granularity::Byte),
            "CACHE_LINE" | "CACHELINE" => Some(Granularity::CacheLine),
            "PAGE" => Some(Granularity::Page),
            _ => None,
        }
    }

    /// Returns the granularity of memory that the kernel maps directly. Memory that keeps nothing is taken, as PMDK takes
    /// it. `is_flushable` is true if the CPU has an instruction that makes stores durable.
    pub(crate) fn of_direct(durability: Durability, is_flushable: bool) -> Granularity {
        match durability {
            Durability::Byte => Granularity::Byte,
            _ if is_flushable => Granularity::CacheLine,
            _ => Granularity::Page,
        }
    }

    /// Compares the granularity that was found with the one that the program requires.
    pub(crate) fn check(self, required: Granularity) -> Result<(), Failure> {
        if self <= required {
            return Ok(());
        }
        let text = match self {
            Granularity::CacheLine => {
                "requested granularity not available because the platform doesn't support eADR; require \
                 PMEM2_GRANULARITY_CACHE_LINE, and flush"
            }
            _ => {
                "requested granularity not available because fd doesn't point to DAX-enabled file or kernel doesn't \
                 support MAP_SYNC flag (Linux >= 4.15); require PMEM2_GRANULARITY_PAGE, or use a file on a file system \
                 that is mounted with `dax`"
            }
        };
        Err(Failure::new(code::GRANULARITY_NOT_SUPPORTED, text))
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use Granularity::{Byte, CacheLine, Page};

    #[test]
    fn numbers_are_those_of_the_enum() {
        assert_eq!([0, 1, 2].map(|number| Granularity::numbered(number).unwrap()), [Byte, CacheLine, Page]);
        for number in [-1, 3, i32::MAX] {
            let failure = Granularity::numbered(number).unwrap_err();
            assert_eq!(failure.code, code::GRANULARITY_NOT_SUPPORTED);
        }
    }

    #[test]
    fn variable_is_read_in_any_case() {
        for (text, wanted) in [
            ("byte", Some(Byte)),
            ("Cache_Line", Some(CacheLine)),
            ("CACHELINE", Some(CacheLine)),
            ("pAGE", Some(Page)),
            ("PAGES", None),
            ("", None),
        ] {
            assert_eq!(Granularity::forced(Some(text.as_ref())), wanted, "{text}");
        }
        assert_eq!(Granularity::forced(None), None);
    }

    #[test]
    fn durability_decides_unless_the_cpu_cannot_flush() {
        for (durability, is_flushable, wanted) in [
            (Durability::Byte, false, Byte),
            (Durability::Line, true, CacheLine),
            (Durability::Line, false, Page),
            (Durability::None, true, CacheLine),
        ] {
            assert_eq!(Granularity::of_direct(durability, is_flushable), wanted);
        }
    }

    #[test]
    fn lower_granularity_is_accepted() {
        for found in [Byte, CacheLine, Page] {
            for required in [Byte, CacheLine, Page] {
                assert_eq!(found.check(required).is_ok(), found as u8 <= required as u8);
            }
        }
    }
}
