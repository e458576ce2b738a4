//! Configurations: what a program asks of a mapping.

use crate::code;
use crate::failure::Failure;
use crate::granularity::Granularity;
use lode_pmem::ProgramAccess;

/// PMEM2_PROT_EXEC, PMEM2_PROT_READ and PMEM2_PROT_WRITE.
const EXECUTE: u32 = 1 << 29;
const READ: u32 = 1 << 30;
const WRITE: u32 = 1 << 31;

/// The object behind `struct pmem2_config`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// Bytes of the source before the mapping.
    pub(crate) offset: usize,
    /// Bytes of the mapping; 0 for all up to the end of the source.
    pub(crate) len: usize,
    pub(crate) required: Option<Granularity>,
    pub(crate) is_private: bool,
    pub(crate) access: ProgramAccess,
    /// The handle of a reservation, and the offset in it.
    pub(crate) place: Option<(usize, usize)>,
}

impl Config {
    /// Returns a configuration without a required granularity.
    pub(crate) fn new() -> Config {
        let access = ProgramAccess { read: true, write: true, execute: false };
        Config { offset: 0, len: 0, required: None, is_private: false, access, place: None }
    }

    /// Sets the offset, which mmap(2) takes as a signed number.
    pub(crate) fn set_offset(&mut self, offset: usize) -> Result<(), Failure> {
        if i64::try_from(offset).is_err() {
            let text = "offset is greater than INT64_MAX; choose one inside of the file";
            return Err(Failure::new(code::OFFSET_OUT_OF_RANGE, text));
        }
        self.offset = offset;
        Ok(())
    }

    /// Sets the sharing: PMEM2_SHARED or PMEM2_PRIVATE.
    pub(crate) fn set_sharing(&mut self, sharing: i32) -> Result<(), Failure> {
        self.is_private = match sharing {
            0 => false,
            1 => true,
            _ => {
                let text = format!("unknown sharing value {sharing}; use PMEM2_SHARED or PMEM2_PRIVATE");
                return Err(Failure::new(code::INVALID_SHARING_VALUE, text));
            }
        };
        Ok(())
    }

    /// Sets the protection: some of PMEM2_PROT_*.
    pub(crate) fn set_protection(&mut self, protection: u32) -> Result<(), Failure> {
        if protection & !(EXECUTE | READ | WRITE) != 0 {
            let text =
                format!("invalid flag {protection}; use PMEM2_PROT_*, which differ from PROT_* of mmap(2)");
            return Err(Failure::new(code::INVALID_PROT_FLAG, text));
        }
        let has = |flag: u32| protection & flag != 0;
        self.access = ProgramAccess { read: has(READ), write: has(WRITE), execute: has(EXECUTE) };
        Ok(())
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn refused_values_change_nothing() {
        let mut config = Config::new();
        config.set_offset(4096).unwrap();
        config.set_sharing(1).unwrap();
        config.set_protection(READ).unwrap();
        assert_eq!(config.set_offset(1 << 63).unwrap_err().code, code::OFFSET_OUT_OF_RANGE);
        assert_eq!(config.set_sharing(2).unwrap_err().code, code::INVALID_SHARING_VALUE);
        assert_eq!(config.set_sharing(-1).unwrap_err().code, code::INVALID_SHARING_VALUE);
        assert_eq!(config.set_protection(READ | 1).unwrap_err().code, code::INVALID_PROT_FLAG);
        let access = ProgramAccess { read: true, write: false, execute: false };
        assert_eq!((config.offset, config.is_private, config.access), (4096, true, access));
    }
}
