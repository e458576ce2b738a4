//! Moving objects to places before their own, so that chunks at the end get free.

use crate::failure::failure;
use crate::oid::Oid;
use crate::pool::OpenPool;
use lode_capi_entry::Failure;
use lode_layout::PoolOffset;
use lode_obj::{Action, ObjError, Object, Request, Reservation};
use std::cmp::Reverse;
use std::mem::offset_of;
use std::ops::Range;

/// Offset of the second word of a name, which alone changes when an object moves.
const OFF: u64 = offset_of!(Oid, off) as u64;
const CALL: &str = "pmemobj_defrag";

/// The `struct pobj_defrag_result` of the headers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DefragResult {
    /// Objects that the call looked at.
    total: usize,
    /// Objects that it moved.
    relocated: usize,
}

/// A name of an object.
#[derive(Clone, Copy, Debug)]
struct Name {
    place: Place,
    oid: Oid,
}

/// The place of a name.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In the pool.
    Pool(PoolOffset),
    /// In other memory of the program.
    Program(*mut Oid),
}

/// The names of the objects that a call looks at.
#[derive(Debug)]
pub(crate) struct Names<'p> {
    pool: &'p OpenPool,
    /// Those of an object follow each other. Objects that lie behind others come first.
    names: Vec<Name>,
    /// The names that lie in the pool: their offsets before the call, in order, and their indices.
    in_pool: Vec<(PoolOffset, usize)>,
}

impl<'p> Names<'p> {
    /// Checks names and their places, before the first object moves.
    ///
    /// # Errors
    /// EINVAL if an OID is of another pool, or names no object; EEXIST if a place is there twice.
    pub(crate) fn new(pool: &'p OpenPool, names: &[(*mut Oid, Oid)]) -> Result<Names<'p>, Failure> {
        if names.iter().any(|(_, oid)| oid.pool_uuid_lo != pool.uuid_lo) {
            let text = "Not all PMEMoids belong to the provided pool; leave the others out";
            return Err(Failure::invalid(text));
        }
        let mut places: Vec<usize> = names.iter().map(|(place, _)| place.addr()).collect();
        places.sort_unstable();
        if places.windows(2).any(|pair| pair[0] == pair[1]) {
            let text = format!("{CALL}: the address of an OID is there twice; pass each once");
            return Err(Failure::new(libc::EEXIST, text));
        }
        let name = |(place, oid): &(*mut Oid, Oid)| {
            let in_pool = pool.offset_of(place.cast());
            Name { place: in_pool.map_or(Place::Program(*place), Place::Pool), oid: *oid }
        };
        let mut names: Vec<Name> = names.iter().map(name).collect();
        names.sort_by_key(|name| Reverse(name.oid.off));
        // Before one of them moves: the place of a freed object may be that of another one afterwards.
        for of_object in names.chunk_by(|name, next| name.oid == next.oid) {
            pool.object(of_object[0].oid.offset(), CALL)?;
        }
        let mut in_pool: Vec<_> = names.iter().enumerate().filter_map(in_pool_with_index).collect();
        in_pool.sort_unstable();
        Ok(Names { pool, names, in_pool })
    }

    /// Moves each object for which a place of the same size before its own is free. All of its names change with it: those in the pool
    /// by the same publication, and the others by `rename` after it.
    ///
    /// # Errors
    /// Those of a reservation and of a publication. `counts` has what happened before.
    pub(crate) fn move_down(
        &mut self,
        rename: impl Fn(*mut Oid, Oid),
        counts: &mut DefragResult,
    ) -> Result<(), Failure> {
        let mut first = 0;
        while first < self.names.len() {
            let oid = self.names[first].oid;
            let end = first + self.names[first..].iter().take_while(|name| name.oid == oid).count();
            counts.total += 1;
            if let Some(new) = self.move_object(oid, first..end)? {
                counts.relocated += 1;
                for name in &self.names[first..end] {
                    if let Place::Program(place) = name.place {
                        rename(place, new);
                    }
                }
            }
            first = end;
        }
        Ok(())
    }

    /// Moves an object, which has the names with these indices. Returns its new name, or `None` if it stays.
    fn move_object(&mut self, oid: Oid, names: Range<usize>) -> Result<Option<Oid>, Failure> {
        let pool = self.pool;
        let old = pool.object(oid.offset(), CALL)?;
        if old.is_internal {
            return Ok(None);
        }
        let request = Request { size: old.usable_size, type_number: old.type_number, ..Request::default() };
        let new = match pool.engine.reserve(&request) {
            Ok(new) => new,
            Err(ObjError::Full { .. }) => return Ok(None),
            Err(error) => return Err(failure(&error, CALL)),
        };
        if new.usable_size != old.usable_size || new.at > old.at {
            pool.engine.cancel(&new);
            return Ok(None);
        }
        pool.move_content(&old, &new, 0, CALL).inspect_err(|_| pool.engine.cancel(&new))?;
        let mut actions = vec![Action::Allocate(new), Action::Free(old.at)];
        for name in &self.names[names] {
            if let Place::Pool(at) = name.place {
                let at = moved_with(&old, &new, at).unwrap_or(at);
                actions.push(Action::Store { at: at.plus(OFF), value: new.at.get() });
            }
        }
        pool.publish(&actions, CALL)?;
        self.follow(&old, &new);
        Ok(Some(pool.oid(new.at)))
    }

    /// Changes the places of names in an object that has moved.
    fn follow(&mut self, old: &Object, new: &Reservation) {
        let from = self.in_pool.partition_point(|(at, _)| *at < old.at);
        for (before, index) in &self.in_pool[from..] {
            let Some(at) = moved_with(old, new, *before) else { break };
            self.names[*index].place = Place::Pool(at);
        }
    }
}

/// Returns the offset of a name in the pool, and its index.
fn in_pool_with_index((index, name): (usize, &Name)) -> Option<(PoolOffset, usize)> {
    match name.place {
        Place::Pool(at) => Some((at, index)),
        Place::Program(_) => None,
    }
}

/// Returns the new offset of a byte of an object that moves. `None` if it is not one of its bytes.
fn moved_with(old: &Object, new: &Reservation, at: PoolOffset) -> Option<PoolOffset> {
    let distance = at.get().checked_sub(old.at.get())?;
    (distance < old.usable_size).then(|| new.at.plus(distance))
}
