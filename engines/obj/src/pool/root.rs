//! The root object: it is made when it is first asked for, and grows.

use super::{Action, Pool, Request};
use crate::begin::begin;
use crate::error::ObjError;
use lode_layout::PoolOffset;
use lode_pmem::{FaultScope, Medium, hold};

/// Bytes that are copied at a time.
const STEP: u64 = 4096;

impl<M: Medium> Pool<M> {
    /// Returns the root object, and its size as the program asked for it. `None` if the pool has none.
    ///
    /// # Errors
    /// [`ObjError::Memory`].
    pub fn root(&self) -> Result<Option<(PoolOffset, u64)>, ObjError> {
        let word = |at| self.cover.medium().memory().reading(|memory| memory.load8(at));
        let at = PoolOffset::new(word(self.words.root())?);
        Ok(if at.is_null() { None } else { Some((at, word(self.words.root_size())?)) })
    }

    /// Returns the root object, which gets at least `size` bytes: it is made or made larger if it must be. It may move. New bytes are
    /// zeros, and `construct` may store to them before the root is one; an error of it gives all up.
    ///
    /// # Errors
    /// Those of [`reserve`](Pool::reserve) and [`publish`](Pool::publish); that of `construct`.
    ///
    /// # Durability
    /// The root and its content are durable on return. After a crash before the return, it is the old one or the new one.
    ///
    /// # Cost
    /// A few loads if it is large enough; otherwise two drains, and a copy.
    pub fn root_of<E: From<ObjError>>(
        &self,
        size: u64,
        construct: impl FnOnce(PoolOffset) -> Result<(), E>,
    ) -> Result<PoolOffset, E> {
        let medium = self.cover.medium();
        let _growth = hold(&self.root, medium);
        let old = self.root()?;
        if let Some((at, found)) = old
            && found >= size
        {
            return Ok(at);
        }
        let request = Request { size, is_zeroed: true, is_internal: true, ..Request::default() };
        let new = self.heap.reserve(&self.cover, &request)?;
        let filled = match old {
            None => Ok(()),
            Some((from, len)) => copy(medium, from, new.at, len.min(new.usable_size)),
        };
        if let Err(error) = filled.map_err(E::from).and_then(|()| construct(new.at)) {
            self.heap.cancel(&new);
            return Err(error);
        }
        let mut actions = vec![Action::Allocate(new)];
        actions.extend(old.map(|(at, _)| Action::Free(at)));
        let published = self.publish_root(&actions, new.at, new.usable_size, size);
        if let Err(error) = published {
            self.heap.cancel(&new);
            return Err(error.into());
        }
        Ok(new.at)
    }

    fn publish_root(&self, actions: &[Action], at: PoolOffset, len: u64, size: u64) -> Result<(), ObjError> {
        let mut publication = self.heap.prepare(&self.cover, actions)?;
        publication.push_object(at, len);
        publication.push_word(self.words.root(), at.get());
        publication.push_word(self.words.root_size(), size);
        self.cover.commit(begin(&self.cover)?, publication.changes())?;
        publication.done();
        Ok(())
    }
}

/// Copies the old content, whose length the heap's bounds limit.
fn copy<M: Medium>(medium: &M, from: PoolOffset, to: PoolOffset, len: u64) -> Result<(), ObjError> {
    let mut bytes = [0; STEP as usize];
    let mut done = 0;
    while done < len {
        let part = &mut bytes[..STEP.min(len - done) as usize];
        medium.memory().reading(|memory| memory.read(from.plus(done), part))?;
        FaultScope::run(|| medium.store(to.plus(done), part))?;
        done += part.len() as u64;
    }
    Ok(())
}
