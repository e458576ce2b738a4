//! The memory of an object pool, which may become longer while programs use it.

use crate::addresses::POOLS;
use lode_capi_entry::PoolMemory;
use lode_layout::PoolOffset;
use lode_obj::{Growth, GrowthRefusal};
use lode_pmdk::{PmdkError, SetError};
use lode_pmem::Medium;

/// Least bytes of a part: PMEMOBJ_MIN_PART of the headers.
pub(crate) const PART_MIN: u64 = 2 << 20;

/// The memory of an open pool.
#[derive(Debug)]
pub(crate) struct ObjMemory(pub(crate) PoolMemory);

impl lode_pmem::Layer for ObjMemory {
    type Inner = PoolMemory;

    #[inline]
    fn inner(&self) -> &PoolMemory {
        &self.0
    }
}

impl Growth for ObjMemory {
    fn grow(&self, len: u64) -> Result<(), GrowthRefusal> {
        self.0.grow(len).map_err(|error| refusal(&error))?;
        let memory = self.0.memory();
        if let Ok(start) = memory.locate(PoolOffset::NULL, 0) {
            POOLS.lengthen(start.as_ptr().addr(), memory.len() as usize);
        }
        Ok(())
    }
}

/// Returns the reason that the engine gives for an error of the pool's files.
fn refusal(error: &PmdkError) -> GrowthRefusal {
    match error {
        PmdkError::Set { error: SetError::Exhausted { left }, .. } => {
            GrowthRefusal::Reserved { left: *left, least: PART_MIN }
        }
        PmdkError::Io { op, errno, .. } => GrowthRefusal::Io { op, errno: *errno },
        PmdkError::Allocate { errno, .. } => GrowthRefusal::Io { op: "posix_fallocate", errno: *errno },
        _ => GrowthRefusal::SetChanged,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn refusals_say_why() {
        let set = |error| PmdkError::Set { path: "/set".into(), error };
        for (error, words) in [
            (set(SetError::Exhausted { left: 4096 }), "exceeded reservation size; 4096 bytes"),
            (
                PmdkError::Io { op: "open", path: "/d".into(), errno: 13 },
                "open of the new part: Permission denied",
            ),
            (
                PmdkError::Allocate { path: "/d".into(), size: 9, errno: 28 },
                "posix_fallocate of the new part: No space left",
            ),
            (PmdkError::Exists { path: "/d/000001.pmem".into() }, "the files of its set are not those"),
        ] {
            let text = refusal(&error).to_string();
            assert!(text.starts_with(words), "{text}");
        }
    }
}
