//! Bytes that are stored over themselves.

use crate::{Fault, FaultScope, Medium};
use lode_layout::{BLOCK, PoolOffset, align_down};

/// Stores the bytes of a range over themselves, so that the next drain makes them durable. A sync that failed may have left them
/// in clean pages, which a further sync passes over. Bytes that can't be read stay as they are.
///
/// # Errors
/// The first fault. All other pages are stored again.
pub fn store_again<M: Medium + ?Sized>(medium: &M, at: PoolOffset, len: u64) -> Result<(), Fault> {
    let mut bytes = [0; BLOCK as usize];
    let (mut from, to) = (at.get(), at.get() + len);
    let mut done = Ok(());
    while from < to {
        // To the end of a page, of which all or nothing is lost.
        let end = to.min(align_down(from, BLOCK) + BLOCK);
        let (at, part) = (PoolOffset::new(from), &mut bytes[..(end - from) as usize]);
        let read = medium.memory().reading(|memory| memory.read(at, part));
        let stored = read.and_then(|()| FaultScope::run(|| medium.copy(at, part)));
        done = done.and(stored);
        from = end;
    }
    done
}
