//! The pair of header copies: choosing the current one, and updating both.
//!
//! An update first writes the copy that is not the newest valid one, then the other; a drain follows each. So at every
//! moment one copy is whole. A change that the header allows, such as the use of new space, happens only after both
//! copies have it. The crash table is in `header.md` of `lode-layout`.

use crate::zero::zero_range;
use crate::{DirtyShutdown, HeaderCopy, HeaderCopyError, PoolError};
use lode_layout::{Durability, Extent, Geometry, Header, HeaderError, LayoutName, PoolOffset, header};
use lode_pmem::Medium;

/// Checks that pools of a layout hold a heap.
///
/// # Errors
/// [`PoolError::NoHeap`].
pub fn check_heap(layout: &LayoutName) -> Result<(), PoolError> {
    match layout.is_of_heap() {
        true => Ok(()),
        false => Err(PoolError::NoHeap { layout: Box::new(*layout) }),
    }
}

/// Makes the header name a new geometry, in both copies.
pub type Publish<'a> = dyn FnMut() -> Result<(), PoolError> + 'a;

/// The header of a pool, read from the newer valid copy.
#[derive(Debug)]
pub struct Headers {
    current: Header,
    /// The copy to overwrite last.
    newest: HeaderCopy,
    /// Fault of the other copy, if it is damaged.
    damage: Option<(HeaderCopy, HeaderCopyError)>,
    /// True if the other copy is whole but older, because a crash interrupted an update.
    stale: bool,
    /// Set once a drain failed: the content of the medium is then unknown.
    poisoned: bool,
}

impl Headers {
    /// Reads both copies and takes the newer valid one.
    ///
    /// # Errors
    /// [`PoolError::Headers`] when no copy is valid, [`PoolError::Incompatible`] when one was written by a program
    /// that knows more than this one, [`PoolError::TwoPools`], [`PoolError::CopiesDiffer`], and
    /// [`PoolError::Truncated`].
    pub fn read<M: Medium>(medium: &M) -> Result<Headers, PoolError> {
        let headers = Headers::read_any_len(medium)?;
        match headers.current.fits(medium.memory().len()) {
            Err(HeaderError::PoolCutShort { want, found }) => Err(PoolError::Truncated { want, found }),
            _ => Ok(headers),
        }
    }

    /// Reads as [`read`](Headers::read) does, but accepts a pool that does not fit on its medium.
    pub(crate) fn read_any_len<M: Medium>(medium: &M) -> Result<Headers, PoolError> {
        Headers::from_copies([HeaderCopy::A, HeaderCopy::B].map(|copy| copy.read(medium)))
    }

    /// Chooses between copies A and B as they were read.
    pub(crate) fn from_copies([a, b]: [Result<Header, HeaderCopyError>; 2]) -> Result<Headers, PoolError> {
        // A whole copy of an unknown format may be the newer one, so the other copy must not be used instead.
        for (copy, read) in [(HeaderCopy::A, &a), (HeaderCopy::B, &b)] {
            if let Err(HeaderCopyError::Invalid(error)) = read
                && HeaderCopyError::Invalid(*error).is_incompatible()
            {
                return Err(PoolError::Incompatible { copy, error: *error });
            }
        }
        let single = |current, newest: HeaderCopy, fault| Headers {
            current,
            newest,
            damage: Some((newest.other(), fault)),
            stale: false,
            poisoned: false,
        };
        match (a, b) {
            (Err(a), Err(b)) => Err(PoolError::Headers { a, b }),
            (Ok(a), Err(fault)) => Ok(single(a, HeaderCopy::A, fault)),
            (Err(fault), Ok(b)) => Ok(single(b, HeaderCopy::B, fault)),
            (Ok(a), Ok(b)) if a.uuid != b.uuid => Err(PoolError::TwoPools { a: a.uuid, b: b.uuid }),
            (Ok(a), Ok(b)) if a.generation == b.generation && a != b => {
                Err(PoolError::CopiesDiffer { generation: a.generation })
            }
            (Ok(a), Ok(b)) => {
                let (current, newest) =
                    if a.generation > b.generation { (a, HeaderCopy::A) } else { (b, HeaderCopy::B) };
                let stale = a.generation != b.generation;
                Ok(Headers { current, newest, damage: None, stale, poisoned: false })
            }
        }
    }

    /// Returns the headers after `format` wrote both copies.
    pub(crate) fn after_format(current: Header) -> Headers {
        Headers { current, newest: HeaderCopy::B, damage: None, stale: false, poisoned: false }
    }

    /// Returns the current header.
    pub fn current(&self) -> &Header {
        &self.current
    }

    /// Returns the damaged copy and its fault, if any. The pool can be read without that copy. The
    /// next update rewrites it, and fails if the copy lies in lost memory.
    pub fn damage(&self) -> Option<(HeaderCopy, HeaderCopyError)> {
        self.damage
    }

    /// Returns true if a crash stopped an update of the header half-way. This is harmless;
    /// [`complete_update`](Headers::complete_update) completes the update.
    pub fn is_stale(&self) -> bool {
        self.stale
    }

    /// Changes the header, in both copies.
    ///
    /// # Errors
    /// [`PoolError::Drain`] when a drain failed: the header is then in doubt, and this handle refuses every further
    /// update with [`PoolError::Poisoned`]. [`PoolError::Memory`] when a copy lies in lost memory.
    /// [`PoolError::UnknownRoCompat`] when the pool has features that a writer must know and this program does not
    /// know.
    ///
    /// # Durability
    /// Both copies hold the change when it returns. After a crash before that, the pool has the old or the new header.
    ///
    /// # Cost
    /// Two copies of 4096 bytes and two drains.
    pub fn update<M: Medium>(
        &mut self,
        medium: &M,
        change: impl FnOnce(&mut Header),
    ) -> Result<(), PoolError> {
        self.check_writable()?;
        let mut next = self.current;
        change(&mut next);
        next.generation = self.current.generation.checked_add(1).ok_or(PoolError::GenerationsExhausted)?;
        debug_assert!(next.generation > self.current.generation, "a change has a greater generation");
        let bytes = next.encode();
        for copy in [self.newest.other(), self.newest] {
            self.write(medium, copy, &bytes)?;
            // ORDER: one copy is durable before the other is touched. Stop before this drain: the other copy is current
            // (crash table, rows 2 and 4). Stop after it: this copy is current (rows 3 and 5).
            self.drain(medium)?;
        }
        self.current = next;
        self.damage = None;
        self.stale = false;
        Ok(())
    }

    /// Rewrites the older copy after an interrupted update. Does nothing otherwise. A damaged copy is left to `repair`
    /// or to the next update.
    ///
    /// # Errors
    /// As [`update`](Headers::update).
    pub fn complete_update<M: Medium>(&mut self, medium: &M) -> Result<(), PoolError> {
        self.check_not_poisoned()?;
        if self.stale { self.rewrite_other(medium) } else { Ok(()) }
    }

    /// Copies the newest copy over the other one.
    pub(crate) fn rewrite_other<M: Medium>(&mut self, medium: &M) -> Result<(), PoolError> {
        self.check_writable()?;
        self.write(medium, self.newest.other(), &self.current.encode())?;
        // ORDER: nothing follows. Stop before this drain: the newest copy is still current (row 4).
        self.drain(medium)?;
        self.damage = None;
        self.stale = false;
        Ok(())
    }

    /// Grows the pool to `size` bytes, rounded down to chunks, on a medium that has grown already. A record may name
    /// the new space only after this returned.
    ///
    /// # Errors
    /// [`PoolError::Geometry`] when a pool can't have this size, [`PoolError::Truncated`] when the medium is too short,
    /// and those of [`update`](Headers::update).
    ///
    /// # Durability
    /// The new space, its chunk table and both header copies are durable when it returns. After a crash
    /// before that, the pool has its old or its new size, whole either way.
    ///
    /// # Cost
    /// Writes the chunk table of a new extent (1/256 of the new space), three drains.
    pub fn grow<M: Medium>(&mut self, medium: &M, size: u64) -> Result<(), PoolError> {
        let new = self.current.geometry.grow(size).map_err(PoolError::Geometry)?;
        self.grow_to(medium, new, |_, publish| publish())
    }

    /// Grows the pool to `new` as [`grow`](Headers::grow) does. The log may lie at another place there. `install` gets
    /// the new geometry and a function that makes the header name it, which it calls once. An engine that has the
    /// log in use stops all commits and empties the log before that call, and uses the new area and the new space
    /// after it.
    ///
    /// # Errors
    /// As [`grow`](Headers::grow), and those of `install`.
    ///
    /// # Durability
    /// As [`grow`](Headers::grow). The new area of the log is all zeros durably when `install` is called.
    ///
    /// # Cost
    /// As [`grow`](Headers::grow). Writes the new area of the log, too.
    pub fn grow_to<M: Medium, E: From<PoolError>>(
        &mut self,
        medium: &M,
        new: Geometry,
        install: impl FnOnce(&Geometry, &mut Publish<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.change_geometry(medium, new, install)
    }

    /// Shrinks the pool to the least size that keeps all chunks before `end`. Those from there on are free, and the log
    /// is closed: no engine has the pool open. The medium keeps its length.
    ///
    /// # Errors
    /// Those of [`update`](Headers::update), and [`PoolError::Memory`].
    ///
    /// # Durability
    /// Durable on return. After a crash before that, the pool has its old or its new size, whole either way: what is
    /// written before the header lies in free chunks.
    ///
    /// # Cost
    /// None if the pool can't shrink. Otherwise three drains. Writes the log if it moves, a sixteenth of the new size.
    pub fn shrink<M: Medium>(&mut self, medium: &M, end: PoolOffset) -> Result<(), PoolError> {
        let new = self.current.geometry.shrink(end);
        self.change_geometry(medium, new, |_, publish| publish())
    }

    /// Gives the pool the geometry `new`. `install` makes the header name it, as for [`grow_to`](Headers::grow_to).
    fn change_geometry<M: Medium, E: From<PoolError>>(
        &mut self,
        medium: &M,
        new: Geometry,
        install: impl FnOnce(&Geometry, &mut Publish<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.check_not_poisoned()?;
        let old = self.current.geometry;
        if new == old {
            return Ok(());
        }
        let found = medium.memory().len();
        if found < new.size() {
            return Err(PoolError::Truncated { want: new.size(), found }.into());
        }
        self.check_writable()?;
        let is_old = |extent: &Extent| old.extents().iter().any(|old| old.start == extent.start);
        for extent in new.extents().iter().filter(|extent| !is_old(extent)) {
            zero_range(medium, extent.start, extent.table_len)?;
        }
        if new.log_off() != old.log_off() {
            // Written even on a file's new blocks, so a synced write to the log never has to allocate.
            zero_range(medium, new.log_off(), new.log_len())?;
        }
        // ORDER: the new chunk tables, and the zeros of the new log, before the header that names them. Stop here: the
        // pool has its old size, and these are free space of it, or lie beyond it.
        self.drain(medium)?;
        install(&new, &mut || self.update(medium, |header| header.geometry = new))
    }

    /// Records the size in bytes up to which the pool grows by itself; 0 if it does not.
    ///
    /// # Errors
    /// As [`update`](Headers::update).
    pub fn set_size_max<M: Medium>(&mut self, medium: &M, size_max: u64) -> Result<(), PoolError> {
        self.check_not_poisoned()?;
        if self.current.size_max == size_max {
            return Ok(());
        }
        self.update(medium, |header| header.size_max = size_max)
    }

    /// Returns the dirty shutdown since a writer opened the pool. `None` if there was none, if the writer closed the
    /// pool, or if the modules do not count them.
    pub fn dirty_shutdown<M: Medium>(&self, medium: &M) -> Option<DirtyShutdown> {
        let (was, now) = (self.current.dirty_shutdowns?, medium.dirty_shutdowns()?);
        (was != now).then_some(DirtyShutdown { was, now })
    }

    /// Records the count of dirty shutdowns at open; `None` records that no writer has the pool open any more.
    ///
    /// # Errors
    /// As [`update`](Headers::update).
    pub fn set_dirty_shutdowns<M: Medium>(
        &mut self,
        medium: &M,
        dirty_shutdowns: Option<u64>,
    ) -> Result<(), PoolError> {
        self.check_not_poisoned()?;
        if self.current.dirty_shutdowns == dirty_shutdowns {
            return Ok(());
        }
        self.update(medium, |header| header.dirty_shutdowns = dirty_shutdowns)
    }

    /// Records that a user forced `durability`, so that every later open can tell.
    ///
    /// # Errors
    /// As [`update`](Headers::update).
    pub fn force_durability<M: Medium>(
        &mut self,
        medium: &M,
        durability: Durability,
    ) -> Result<(), PoolError> {
        self.check_not_poisoned()?;
        if self.current.durability_forced == Some(durability) {
            return Ok(());
        }
        self.update(medium, |header| header.durability_forced = Some(durability))
    }

    /// Returns the geometry of the pool: the offsets and lengths of its parts.
    pub fn geometry(&self) -> &Geometry {
        &self.current.geometry
    }

    /// Returns the current copy, which an update overwrites last.
    pub(crate) fn newest(&self) -> HeaderCopy {
        self.newest
    }

    /// Checks that this handle may write to the pool.
    ///
    /// # Errors
    /// [`PoolError::UnknownRoCompat`] when the pool has features that a writer must know and this program does not
    /// know; [`PoolError::Poisoned`] after a failed drain.
    pub fn check_writable(&self) -> Result<(), PoolError> {
        self.check_not_poisoned()?;
        match self.current.ro_compat_unknown() {
            0 => Ok(()),
            unknown => Err(PoolError::UnknownRoCompat { unknown }),
        }
    }

    /// Fails when the header is in doubt: even a call that changes nothing could not tell the content of the medium.
    fn check_not_poisoned(&self) -> Result<(), PoolError> {
        if self.poisoned { Err(PoolError::Poisoned) } else { Ok(()) }
    }

    fn write<M: Medium>(
        &mut self,
        medium: &M,
        copy: HeaderCopy,
        bytes: &[u8; header::LEN],
    ) -> Result<(), PoolError> {
        copy.write(medium, bytes).map_err(|fault| {
            // The other copy is written first. Without it the newest one still counts.
            self.poisoned |= copy == self.newest;
            PoolError::Memory { fault }
        })
    }

    fn drain<M: Medium>(&mut self, medium: &M) -> Result<(), PoolError> {
        // ORDER: told at each call.
        medium.drain().map_err(|error| {
            self.poisoned = true;
            PoolError::Drain { error }
        })
    }
}
