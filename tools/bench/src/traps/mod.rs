//! Fences, and those with something to wait for, counted on the instructions that a driver executes.
//!
//! A driver is the same program on both makers' libraries, and so is the count. Calls of libpmem can't be counted in place of
//! instructions: libpmemobj of PMDK makes its stores durable by calls of libpmem, and ours has that code in itself.
//!
//! Each instruction of the kinds in [`Kind`] gets a trap (`c/traps.h`) in the code of some of the files that the process has mapped. The
//! program itself may hold none: our libpmemobj opens pools of a program that makes stores durable by itself in careful mode.

mod code;
mod kind;

use crate::peers::PmemCalls;
use anyhow::{Result, ensure};
use code::MappedCode;
use kind::Kind;

/// Numbers of fences that a driver executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fences {
    /// All of them.
    pub(crate) all: u64,
    /// Those that had something to wait for: a write-back or a store past the cache after the thread's fence before.
    pub(crate) waiting: u64,
}

/// A driver whose fences are counted.
pub(crate) struct CountedCalls {
    calls: PmemCalls,
}

impl CountedCalls {
    /// Sets the traps in the process of `calls`, in the code of the files whose names begin with one of `names`.
    ///
    /// # Errors
    /// Fails if the code of one of the files is not there, or an instruction can't have a trap.
    pub(crate) fn new(mut calls: PmemCalls, names: &[&str]) -> Result<CountedCalls> {
        // The loader has mapped all files once the process answers.
        calls.lap("traps-fences", 0, 0)?;
        let codes = MappedCode::of_process(calls.process())?;
        for name in names {
            let of_name: Vec<_> = codes.iter().filter(|code| code.file_name().starts_with(name)).collect();
            ensure!(!of_name.is_empty(), "the process has no code of {name}");
            for code in of_name {
                for instruction in kind::instructions(code.bytes(), code.address())? {
                    let work = match instruction.kind {
                        Kind::Store => "traps-store",
                        Kind::Fence => "traps-fence",
                    };
                    calls.lap(work, instruction.len as u64, instruction.address)?;
                }
            }
        }
        Ok(CountedCalls { calls })
    }

    /// Takes a lap of `count` calls. Returns its fences, and the digest of the area.
    pub(crate) fn lap(&mut self, work: &str, count: u64, stamp: u64) -> Result<(Fences, u64)> {
        let before = self.fences()?;
        let (_, digest) = self.calls.lap(work, count, stamp)?;
        let after = self.fences()?;
        Ok((Fences { all: after.all - before.all, waiting: after.waiting - before.waiting }, digest))
    }

    fn fences(&mut self) -> Result<Fences> {
        let mut counted = |work| self.calls.lap(work, 0, 0).map(|(_, counted)| counted);
        Ok(Fences { all: counted("traps-fences")?, waiting: counted("traps-waiting")? })
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::peers::Driver;

    #[test]
    fn fences_without_a_store_before_them_are_not_counted() {
        let folder = tempfile::tempdir().unwrap();
        let calls = PmemCalls::start(Driver::Sample, folder.path(), None, None).unwrap();
        let mut counted = CountedCalls::new(calls, &["sample-driver", "libc.so"]).unwrap();
        // The sample (c/sample.c) has four fences, two of which have something to wait for.
        for count in [0, 1, 1000] {
            let (fences, _) = counted.lap("sample", count, 0).unwrap();
            assert_eq!(fences, Fences { all: 4 * count, waiting: 2 * count });
        }
    }
}
