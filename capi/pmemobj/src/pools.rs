//! The table of open pools: from the program's handle, an address or an OID to the pool.

use crate::addresses::POOLS;
use crate::pool::OpenPool;
use lode_capi_entry::{AddressRange, Failure, NotInserted};
use std::ptr;

/// Adds a pool, which stays where it is until [`remove`]. Returns the program's handle.
///
/// # Errors
/// Fails with the pool if it is not added: EEXIST if another one with its number is open, EINVAL in a signal handler that interrupted the
/// same call.
pub(crate) fn insert(pool: Box<OpenPool>) -> Result<usize, (Box<OpenPool>, Failure)> {
    let (start, len, number) = (pool.base, pool.len() as usize, pool.uuid_lo);
    let pool = Box::into_raw(pool);
    let range = AddressRange { start, len, number, word: pool.expose_provenance() };
    let Err(reason) = POOLS.insert_numbered(range) else { return Ok(start) };
    // SAFETY: - the pointer is of the box above, and nothing else has it.
    let pool = unsafe { Box::from_raw(pool) };
    let failure = match reason {
        NotInserted::NumberTaken => Failure::new(
            libc::EEXIST,
            "pool initialization failed; a pool with the same UUID is open, of which this one is a copy: their OIDs \
             can't be told apart, so close that one first",
        ),
        NotInserted::Nested => Failure::invalid(
            "a signal handler can't open a pool in the middle of another opening; open it later",
        ),
    };
    Err((pool, failure))
}

/// Takes the pool with this handle out of the table. `None` if there is none.
///
/// # Safety
/// No reference to the pool is in use.
pub(crate) unsafe fn remove(handle: usize) -> Option<Box<OpenPool>> {
    let range = POOLS.remove(handle)?;
    // SAFETY: - `insert` took the word from a box, and this call alone has taken it out of the table.
    //         - the caller promises that there is no reference.
    Some(unsafe { Box::from_raw(ptr::with_exposed_provenance_mut(range.word)) })
}

/// Puts a pool in the place of the one with the same handle, which is never dropped: threads may have it still.
pub(crate) fn replace(handle: usize, pool: Box<OpenPool>) {
    POOLS.set_word(handle, Box::into_raw(pool).expose_provenance());
}

/// Calls `with` for each pool that this process owns. The caller is between [`before_fork`] and [`after_fork`].
pub(crate) fn for_each_own(with: impl Fn(&OpenPool)) {
    for range in POOLS.ranges() {
        // SAFETY: - a pool is dropped when it is out of the table, which does not change now.
        let pool = unsafe { found(range.start) };
        pool.filter(|pool| pool.is_own()).into_iter().for_each(&with);
    }
}

/// Returns the pool with this handle, as it is.
///
/// # Safety
/// Nothing closes the pool while the reference is in use.
#[inline]
pub(crate) unsafe fn found<'a>(handle: usize) -> Option<&'a OpenPool> {
    let range = POOLS.starting_at(handle)?;
    // SAFETY: - `insert` took the word from a box, which the caller promises to be there.
    Some(unsafe { &*ptr::with_exposed_provenance::<OpenPool>(range.word) })
}

/// Returns the handle of the pool whose OIDs have this number.
#[inline]
pub(crate) fn numbered(uuid_lo: u64) -> Option<usize> {
    POOLS.numbered(uuid_lo).map(|range| range.start)
}

/// Returns the handle and the number of the pool in which an address lies.
#[inline]
pub(crate) fn holding(address: usize) -> Option<(usize, u64)> {
    POOLS.holding(address).map(|range| (range.start, range.number))
}

/// Takes the table's lock, so that a child finds it whole.
pub(crate) fn before_fork() {
    POOLS.before_fork();
}

/// Releases the lock, in the parent and in the child.
pub(crate) fn after_fork() {
    POOLS.after_fork();
}
