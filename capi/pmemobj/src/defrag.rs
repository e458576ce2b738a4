//! Moving objects to places before their own, so that chunks at the end get free.

use crate::allocation::name_actions;
use crate::failure::failure;
use crate::oid::Oid;
use crate::pool::OpenPool;
use lode_capi_entry::Failure;
use lode_layout::PoolOffset;
use lode_obj::{Action, ObjError, Request};

/// The place of an object after the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It stays, since no better place is free.
    Stays,
    /// Its data begins here.
    To(PoolOffset),
}

const CALL: &str = "pmemobj_defrag";

/// Checks the names of objects, and their places, before the first object moves.
///
/// # Errors
/// EINVAL if an OID is of another pool, EEXIST if a place is there twice.
pub(crate) fn check_names(pool: &OpenPool, names: &[(*mut Oid, Oid)]) -> Result<(), Failure> {
    if names.iter().any(|(_, oid)| oid.pool_uuid_lo != pool.uuid_lo) {
        return Err(Failure::invalid("Not all PMEMoids belong to the provided pool; leave the others out"));
    }
    let mut places: Vec<usize> = names.iter().map(|(place, _)| place.addr()).collect();
    places.sort_unstable();
    if places.windows(2).any(|pair| pair[0] == pair[1]) {
        let text = format!("{CALL}: the address of an OID is there twice; pass each once");
        return Err(Failure::new(libc::EEXIST, text));
    }
    Ok(())
}

/// Moves an object if a place of the same size before its own is free. Its name at `place` of the pool changes with it.
///
/// # Errors
/// EINVAL if the OID names no object of the pool.
pub(crate) fn move_down(pool: &OpenPool, oid: Oid, place: Option<PoolOffset>) -> Result<Moved, Failure> {
    let old = pool.object(oid.offset(), CALL)?;
    if old.is_internal {
        return Ok(Moved::Stays);
    }
    let request = Request { size: old.usable_size, type_number: old.type_number, ..Request::default() };
    let new = match pool.engine.reserve(&request) {
        Ok(new) => new,
        Err(ObjError::Full { .. }) => return Ok(Moved::Stays),
        Err(error) => return Err(failure(&error, CALL)),
    };
    if new.usable_size != old.usable_size || new.at > old.at {
        pool.engine.cancel(&new);
        return Ok(Moved::Stays);
    }
    pool.move_content(&old, &new, 0, CALL).inspect_err(|_| pool.engine.cancel(&new))?;
    let mut actions = vec![Action::Allocate(new), Action::Free(old.at)];
    if let Some(place) = place {
        actions.extend(name_actions(place, pool.oid(new.at)));
    }
    pool.publish(&actions, CALL)?;
    Ok(Moved::To(new.at))
}
