//! A scan of a served tree, from both ends.

use crate::connection::{Connection, ScanItem};
use crate::error::FollowError;
use lode_index::{Direction, Entry};
use lode_layout::PoolOffset;
use std::collections::VecDeque;
use std::ops::Bound;

/// Entries of the first batch, and of the longest one.
const BATCH: (u32, u32) = (8, 4096);

/// The entries of a range of keys of a served tree, from both ends. It borrows nothing.
///
/// Damage is an error that [`is_damage`](FollowError::is_damage), and the next call goes on after it. After any other error
/// there are no more entries.
///
/// # Cost
/// A round trip for each batch. The first batches are short.
#[derive(Debug)]
pub struct ServedScan {
    root: PoolOffset,
    /// The part of the range that no batch has.
    rest: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    is_done: bool,
    /// Items that were read from the front, ascending, and from the back, descending.
    front: VecDeque<ScanItem>,
    back: VecDeque<ScanItem>,
    batch: u32,
}

impl ServedScan {
    /// Returns a scan of the keys between the bounds in the tree at `root`.
    pub fn over(root: PoolOffset, bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> ServedScan {
        let (front, back) = Default::default();
        ServedScan { root, rest: bounds, is_done: false, front, back, batch: BATCH.0 }
    }

    /// Returns the next entry in a direction, as `connection` serves it, which is the same in all calls.
    pub fn next(
        &mut self,
        connection: &Connection,
        direction: Direction,
    ) -> Option<Result<Entry, FollowError>> {
        while !self.is_done && self.ends(direction).0.is_empty() {
            if let Err(error) = self.fill(connection, direction) {
                self.is_done = true;
                self.front.clear();
                self.back.clear();
                return Some(Err(error));
            }
        }
        // The items that the other end has read and not returned come last.
        let (own, other) = self.ends(direction);
        let is_own = !own.is_empty();
        let item = if is_own { own.front_mut() } else { other.back_mut() };
        if let Some(ScanItem::Damage { message, count }) = item
            && *count > 1
        {
            *count -= 1;
            return Some(Err(connection.damage(message.clone())));
        }
        Some(match if is_own { own.pop_front() } else { other.pop_back() }? {
            ScanItem::Entry(entry) => Ok(entry),
            ScanItem::Damage { message, .. } => Err(connection.damage(message)),
        })
    }

    /// Returns the items that were read in this direction, and those that were read in the other.
    fn ends(&mut self, direction: Direction) -> (&mut VecDeque<ScanItem>, &mut VecDeque<ScanItem>) {
        match direction {
            Direction::Forward => (&mut self.front, &mut self.back),
            Direction::Backward => (&mut self.back, &mut self.front),
        }
    }

    fn fill(&mut self, connection: &Connection, direction: Direction) -> Result<(), FollowError> {
        let batch = connection.scan(self.root, &self.rest, direction, self.batch)?;
        self.batch = (self.batch * 2).min(BATCH.1);
        self.is_done = batch.is_last;
        let last = batch.items.iter().rev().find_map(|item| match item {
            ScanItem::Entry(entry) => Some(entry.key.clone()),
            ScanItem::Damage { .. } => None,
        });
        if let Some(last) = last {
            let bound = match direction {
                Direction::Forward => &mut self.rest.0,
                Direction::Backward => &mut self.rest.1,
            };
            *bound = Bound::Excluded(last);
        }
        self.ends(direction).0.extend(batch.items);
        Ok(())
    }
}
