//! The two headers of a raw volume on its medium.

use crate::error::VolumeError;
use lode_layout::{PoolOffset, RawVolume, RawVolumeError, WORD};
use lode_pmem::{FaultScope, Medium};

/// The header of a raw volume that was found, and the state of each copy of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawHeaders {
    /// The header that counts.
    pub(crate) header: RawVolume,
    /// The states of the copies at 0 and at the end.
    pub(crate) copies: [RawCopy; 2],
}

/// The state of a copy of the header of a raw volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawCopy {
    /// It is the header that counts.
    Whole,
    /// A growth or a repair that stopped was storing it, or has stored it before the other one. No damage.
    Unfinished,
    /// It is whole, and another header.
    Differs,
    /// It is none.
    Unusable(RawVolumeError),
}

impl RawHeaders {
    /// Finishes the growth that a crash stopped: at the size of the header that counts.
    ///
    /// # Errors
    /// As [`store_headers`].
    ///
    /// # Durability
    /// Both copies are durable on return if one was unfinished.
    pub(crate) fn finish<M: Medium>(&self, medium: &M) -> Result<(), VolumeError> {
        if self.copies.contains(&RawCopy::Unfinished) { settle_headers(medium, &self.header) } else { Ok(()) }
    }
}

/// Stores both copies of the header of a raw volume.
///
/// # Errors
/// Fails if the medium can't be stored to, or if its sync fails.
///
/// # Durability
/// The copies are durable on return.
pub(crate) fn store_headers<M: Medium>(medium: &M, header: &RawVolume) -> Result<(), VolumeError> {
    header.copies().into_iter().try_for_each(|at| store_header(medium, at, header))
}

/// Stores both copies of the header that counts, and takes that of a growth that stopped from the end of the file.
///
/// # Errors
/// As [`store_headers`].
///
/// # Durability
/// The copies are durable on return.
pub(crate) fn settle_headers<M: Medium>(medium: &M, header: &RawVolume) -> Result<(), VolumeError> {
    store_headers(medium, header)?;
    let at = PoolOffset::new(RawVolume::last_copy_at(medium.memory().len()));
    let mut bytes = [0; RawVolume::LEN];
    let read = medium.memory().reading(|memory| memory.read(at, &mut bytes));
    let is_grown = RawVolume::decode(&bytes).is_ok_and(|last| header.is_grown(&last));
    if read.is_ok() && is_grown && at.get() != header.copies()[1] {
        store_magic(medium, at, 0)?;
        // ORDER: gone before a write to the volume that it would replace. Stop here: the first copy counts.
        medium.drain()?;
    }
    Ok(())
}

/// Stores a copy of the header of a raw volume at `at`.
///
/// # Errors
/// As [`store_headers`].
///
/// # Durability
/// The copy is durable on return.
pub(crate) fn store_header<M: Medium>(medium: &M, at: u64, header: &RawVolume) -> Result<(), VolumeError> {
    let (at, mut bytes) = (PoolOffset::new(at), header.encode());
    if medium.memory().reading(|memory| memory.equals(at, &bytes)).unwrap_or(false) {
        // Perhaps the only copy, and perhaps not durable.
        FaultScope::run(|| medium.copy(at, &bytes))
            .map_err(|fault| VolumeError::Format { error: fault.into() })?;
        // ORDER: durable before the other copy is touched. The bytes are the same, so a crash leaves them.
        return Ok(medium.drain()?);
    }
    let magic = bytes[..WORD as usize].try_into().map(u64::from_le_bytes).expect("a word");
    bytes[..WORD as usize].fill(0);
    store_magic(medium, at, 0)?;
    // ORDER: the magic is gone before the rest changes. Stop here: the copy is absent, and no torn one.
    medium.drain()?;
    let stored = FaultScope::run(|| medium.copy(at, &bytes));
    stored.map_err(|fault| VolumeError::Format { error: fault.into() })?;
    // ORDER: the rest of the copy is durable before its magic. Stop here: the copy is absent, and no torn one.
    medium.drain()?;
    store_magic(medium, at, magic)?;
    // ORDER: the copy is durable before the other one is touched, and before a new file has its name. Stop here: the copy that is
    // there serves.
    Ok(medium.drain()?)
}

fn store_magic<M: Medium>(medium: &M, at: PoolOffset, magic: u64) -> Result<(), VolumeError> {
    FaultScope::run(|| medium.store8(at, magic))
        .map_err(|fault| VolumeError::Format { error: fault.into() })?;
    medium.flush(at, WORD);
    Ok(())
}

/// Zeros the place of the old last copy, which becomes a part of a block.
pub(crate) fn clear_last_copy<M: Medium>(
    medium: &M,
    header: &RawVolume,
    grown: &RawVolume,
) -> Result<(), VolumeError> {
    let (old, new) = (header.copies()[1], grown.copies()[1]);
    if old == new {
        return Ok(());
    }
    FaultScope::run(|| medium.copy(PoolOffset::new(old), &[0; RawVolume::LEN]))
        .map_err(|fault| VolumeError::Format { error: fault.into() })?;
    // ORDER: zeros before a header counts the block. Stop here: the first copy has the old size, and the new last copy is its
    // second.
    Ok(medium.drain()?)
}

/// Stores the headers of a volume that is open, in a file that is long enough and has zeros past the old last copy.
///
/// # Durability
/// The new size is durable on return. After a crash before that, the volume has its old size or the new one.
pub(crate) fn grow_headers<M: Medium>(
    medium: &M,
    header: &RawVolume,
    grown: &RawVolume,
) -> Result<(), VolumeError> {
    // The last copy may be the only one, and may be replaced.
    store_header(medium, header.copies()[0], header)?;
    store_header(medium, grown.copies()[1], grown)?;
    clear_last_copy(medium, header, grown)?;
    store_header(medium, grown.copies()[0], grown)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::check::findings;
    use crate::recognise::{Found, recognise};
    use lode_layout::VolumeClass;
    use lode_pmem::Mapping;
    use lode_testing::{KilledMedium, memory};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use uuid::Uuid;

    const SIZE: u64 = 1 << 20;

    fn plan(size: u64, block_size: u32) -> RawVolume {
        RawVolume::plan(size, block_size, VolumeClass::Block, Uuid::from_u128(7), 0).unwrap()
    }

    /// Returns the copies of the headers that are whole.
    fn whole(medium: &Mapping, headers: [&RawVolume; 2]) -> usize {
        let is_whole = |at: u64, header: &RawVolume| {
            let at = PoolOffset::new(at);
            medium.memory().reading(|memory| memory.equals(at, &header.encode())).unwrap()
        };
        let of = |header: &RawVolume| header.copies().into_iter().filter(|at| is_whole(*at, header)).count();
        headers.map(of).into_iter().max().unwrap_or(0)
    }

    /// Kills `change` before each of its stores, with one of the two copies damaged before. One is always whole, and a check
    /// without damage finds none.
    fn one_copy_stays(headers: [&RawVolume; 2], change: impl Fn(&KilledMedium) -> Result<(), VolumeError>) {
        for damaged in [Some(0), Some(1), None] {
            let mut stores = 0;
            loop {
                let medium = Arc::new(memory::persistent(SIZE));
                store_headers(&*medium, headers[0]).unwrap();
                if let Some(copy) = damaged {
                    medium.copy(PoolOffset::new(headers[0].copies()[copy]), &[0x5a; RawVolume::LEN]);
                }
                let killed = KilledMedium::on(&medium, stores, None);
                let ended = catch_unwind(AssertUnwindSafe(|| change(&killed)));
                assert!(
                    whole(&medium, headers) > 0,
                    "copy {damaged:?} was damaged, killed before store {stores}"
                );
                if damaged.is_none() {
                    let found = recognise(&medium).unwrap();
                    assert!(findings(&medium, &found).is_empty(), "killed before store {stores}: {found:?}");
                    let Found::Raw(found) = found else { panic!("{found:?}") };
                    found.finish(&*medium).unwrap();
                    assert_eq!(whole(&medium, headers), 2, "killed before store {stores}");
                }
                if ended.is_ok_and(|changed| changed.is_ok()) {
                    assert_eq!(whole(&medium, headers), 2);
                    break;
                }
                stores += 1;
            }
            assert!(stores > 1);
        }
    }

    #[test]
    fn killed_repair_keeps_a_copy() {
        let header = plan(SIZE, 4096);
        one_copy_stays([&header; 2], |medium| store_headers(medium, &header));
    }

    /// The last copy moves, or stays where it is.
    #[test]
    fn killed_growth_keeps_a_copy() {
        for (size, block_size) in [(SIZE / 2, 4096), (SIZE - 4096 - 512, 512)] {
            let (header, grown) = (plan(size, block_size), plan(SIZE, block_size));
            one_copy_stays([&header, &grown], |medium| grow_headers(medium, &header, &grown));
        }
    }
}
