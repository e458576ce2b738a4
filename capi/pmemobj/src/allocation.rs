//! Allocations outside of transactions: what a program asks for, and the change that makes an object and its name durable together.

use crate::failure::{failure, is_undone};
use crate::fatal::fatal;
use crate::oid::Oid;
use crate::pool::OpenPool;
use lode_capi_entry::Failure;
use lode_layout::{PoolOffset, WORD};
use lode_obj::{Action, ObjError, Object, Request, Reservation};
use lode_pmem::Medium;

/// PMEMOBJ_MAX_ALLOC_SIZE of the headers.
pub(crate) const ALLOC_SIZE_MAX: u64 = 0x3_FFDF_FFC0;

/// POBJ_XALLOC_ZERO of the headers.
const ZERO: u64 = 1;
/// Place of a class in flags, as POBJ_CLASS_ID of the headers has it.
const CLASS_SHIFT: u32 = 48;
/// Place of an arena in flags, as POBJ_ARENA_ID of the headers has it.
const ARENA_SHIFT: u32 = 32;
/// Bits of a class or an arena.
const ID_MASK: u64 = 0xffff;

/// Bytes of an OID.
pub(crate) const OID_LEN: u64 = 2 * WORD;

/// Returns the request for an object of this size, with the flags of pmemobj_xalloc(3), of which `others` are for other parts of the
/// call.
///
/// # Errors
/// EINVAL for unknown flags, for a class that no pool can have, and for no bytes; ENOMEM for more bytes than any object has.
pub(crate) fn request(size: usize, type_number: u64, flags: u64, others: u64) -> Result<Request, Failure> {
    if size == 0 {
        return Err(Failure::invalid("allocation with size 0; ask for one byte or more"));
    }
    let unknown = flags & !(ZERO | ID_MASK << CLASS_SHIFT | ID_MASK << ARENA_SHIFT | others);
    if unknown != 0 {
        return Err(Failure::invalid(format!("unknown flags 0x{unknown:x}; this call does not take them")));
    }
    let size = size as u64;
    if size > ALLOC_SIZE_MAX {
        return Err(too_large(size));
    }
    let class = u8::try_from(flags >> CLASS_SHIFT & ID_MASK);
    let class = class.map_err(|_| {
        Failure::invalid(format!(
            "there is no allocation class {}; the last one is 254",
            flags >> CLASS_SHIFT
        ))
    })?;
    let arena = (flags >> ARENA_SHIFT & ID_MASK) as u32;
    Ok(Request {
        size,
        type_number,
        is_zeroed: flags & ZERO != 0,
        class: (class != 0).then_some(class),
        arena: (arena != 0).then_some(arena),
        is_internal: false,
    })
}

/// Returns the failure of a request for more bytes than any object has.
#[cold]
pub(crate) fn too_large(size: u64) -> Failure {
    let text = format!("requested size too large; {size} bytes are more than {ALLOC_SIZE_MAX}");
    Failure::new(libc::ENOMEM, text)
}

/// Returns the changes that store a name at this place of the pool.
pub(crate) fn name_actions(at: PoolOffset, oid: Oid) -> [Action; 2] {
    [Action::Store { at, value: oid.pool_uuid_lo }, Action::Store { at: at.plus(WORD), value: oid.off }]
}

impl OpenPool {
    /// Reserves space for an object for `call`. Zeros that were asked for are durable.
    pub(crate) fn reserve(&self, request: &Request, call: &str) -> Result<Reservation, Failure> {
        self.check_owner(call)?;
        let reservation = self.engine.reserve(request).map_err(|error| match error {
            ObjError::NoClass { .. } => {
                Failure::invalid(format!("no allocation class for size {} bytes; {error}", request.size))
            }
            _ => failure(&error, call),
        })?;
        if !request.is_zeroed {
            self.fill_pattern(&reservation);
        } else if let Err(failure) = self.persist_object(reservation.at, reservation.usable_size, call) {
            self.engine.cancel(&reservation);
            return Err(failure);
        }
        Ok(reservation)
    }

    /// Fills a new object with the byte of `debug.heap.alloc_pattern`.
    pub(crate) fn fill_pattern(&self, new: &Reservation) {
        let Some(byte) = self.settings.alloc_pattern() else { return };
        let bytes = [byte; 4096];
        let mut done = 0;
        while done < new.usable_size {
            let len = (new.usable_size - done).min(bytes.len() as u64);
            self.engine.medium().store(new.at.plus(done), &bytes[..len as usize]);
            done += len;
        }
    }

    /// Makes the content of a new object durable.
    pub(crate) fn persist_object(&self, at: PoolOffset, len: u64, call: &str) -> Result<(), Failure> {
        self.engine.persist(at, len).map_err(|error| failure(&error, call))
    }

    /// Publishes the actions for `call`. If that fails, the reservations among them are given up.
    pub(crate) fn publish(&self, actions: &[Action], call: &str) -> Result<(), Failure> {
        self.publish_program(actions, call).inspect_err(|_| self.cancel(actions))
    }

    /// Publishes the actions of a program for `call`. If that fails, the reservations among them are the program's still. Ends the
    /// process if the outcome is in doubt, which only the next open decides.
    pub(crate) fn publish_program(&self, actions: &[Action], call: &str) -> Result<(), Failure> {
        self.check_owner(call)?;
        self.engine.publish(actions).map_err(|error| {
            if !is_undone(&error) {
                fatal(&format!("{call} is in doubt: {error}; open the pool again"));
            }
            failure(&error, call)
        })
    }

    /// Gives the reservations among the actions up.
    pub(crate) fn cancel(&self, actions: &[Action]) {
        for action in actions {
            if let Action::Allocate(reservation) = action {
                self.engine.cancel(reservation);
            }
        }
    }

    /// Makes a reserved object one, and stores its name at `place` of the pool.
    pub(crate) fn publish_object(
        &self,
        reservation: &Reservation,
        place: Option<PoolOffset>,
        call: &str,
    ) -> Result<(), Failure> {
        let allocate = Action::Allocate(*reservation);
        match place {
            None => self.publish(&[allocate], call),
            Some(place) => {
                let [number, off] = name_actions(place, self.oid(reservation.at));
                self.publish(&[allocate, number, off], call)
            }
        }
    }

    /// Frees the object at `at`, and clears its name at `place` of the pool.
    pub(crate) fn free_object(
        &self,
        at: PoolOffset,
        place: Option<PoolOffset>,
        call: &str,
    ) -> Result<(), Failure> {
        match place {
            None => self.publish(&[Action::Free(at)], call),
            Some(place) => {
                let [number, off] = name_actions(place, Oid::NULL);
                self.publish(&[Action::Free(at), number, off], call)
            }
        }
    }

    /// Returns the object at `at`.
    pub(crate) fn object(&self, at: PoolOffset, call: &str) -> Result<Object, Failure> {
        self.engine.object(at).map_err(|error| failure(&error, call))
    }

    /// Gives the object at `at` another size, and stores its new name at `place` of the pool. Bytes after the old ones are zeros if the
    /// request says so. Returns the offset of its data: another one if it has moved.
    ///
    /// # Cost
    /// None if the object has the size and the type already; otherwise the allocation of another one, a copy and two drains.
    pub(crate) fn resize_object(
        &self,
        at: PoolOffset,
        request: &Request,
        place: Option<PoolOffset>,
        call: &str,
    ) -> Result<PoolOffset, Failure> {
        self.check_owner(call)?;
        let old = self.object(at, call)?;
        if old.usable_size == request.size {
            // As PMDK does, which leaves the type number, too.
            return Ok(at);
        }
        let is_zeroed = request.is_zeroed;
        let request = Request { is_zeroed: false, ..*request };
        let new = self.engine.reserve(&request).map_err(|error| failure(&error, call))?;
        if new.usable_size == old.usable_size && request.type_number == old.type_number {
            self.engine.cancel(&new);
            return Ok(at);
        }
        let pattern = if is_zeroed { None } else { self.settings.alloc_pattern() };
        let moved = self.move_content(&old, &new, pattern.unwrap_or(0), call);
        if let Err(failure) = moved {
            self.engine.cancel(&new);
            return Err(failure);
        }
        let (allocate, free) = (Action::Allocate(new), Action::Free(at));
        match place {
            None => self.publish(&[allocate, free], call)?,
            Some(place) => {
                let [number, off] = name_actions(place, self.oid(new.at));
                self.publish(&[allocate, free, number, off], call)?;
            }
        }
        Ok(new.at)
    }

    /// Copies the content of an object to reserved space. Bytes after it have the value `fill`. It is durable on return.
    pub(crate) fn move_content(
        &self,
        old: &Object,
        new: &Reservation,
        fill: u8,
        call: &str,
    ) -> Result<(), Failure> {
        const BUFFER: usize = 4096;
        let medium = self.engine.medium();
        let mut buffer = [0; BUFFER];
        let both = old.usable_size.min(new.usable_size);
        let mut done = 0;
        while done < new.usable_size {
            let len = (new.usable_size - done).min(BUFFER as u64);
            let copied = both.saturating_sub(done).min(len) as usize;
            buffer[copied..].fill(fill);
            if copied != 0 {
                let from = old.at.plus(done);
                let read = medium.memory().reading(|memory| memory.read(from, &mut buffer[..copied]));
                read.map_err(|fault| failure(&fault.into(), call))?;
            }
            medium.store(new.at.plus(done), &buffer[..len as usize]);
            done += len;
        }
        self.persist_object(new.at, new.usable_size, call)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn flags_are_parsed_as_the_headers_make_them() {
        let plain = request(7, 9, 0, 0).unwrap();
        assert_eq!(plain, Request { size: 7, type_number: 9, ..Request::default() });
        let all = request(1, 0, 1 | 0x81 << 48 | 0x3 << 32, 0).unwrap();
        assert_eq!((all.is_zeroed, all.class, all.arena), (true, Some(0x81), Some(3)));
        for (size, flags, errno, words) in [
            (0, 0, libc::EINVAL, "allocation with size 0"),
            (1, 0x401, libc::EINVAL, "unknown flags 0x400; this call does not take them"),
            (ALLOC_SIZE_MAX as usize + 1, 0, libc::ENOMEM, "requested size too large"),
            (1, 0x100 << 48, libc::EINVAL, "there is no allocation class 256"),
        ] {
            let failure = request(size, 0, flags, 0).unwrap_err();
            assert!(failure.errno == errno && failure.text.starts_with(words), "{failure:?}");
        }
        assert!(request(ALLOC_SIZE_MAX as usize, 0, 0x400, 0x400).is_ok());
    }
}
