//! Actions in a program's memory: reservations, frees and words that a publication makes durable together.

use lode_capi_entry::Failure;
use lode_layout::PoolOffset;
use lode_obj::{Action, Reservation};

/// POBJ_ACTION_TYPE_HEAP.
const HEAP: u32 = 0;
/// POBJ_ACTION_TYPE_MEM.
const MEMORY: u32 = 1;

/// The `struct pobj_action` of the headers: 128 bytes, which programs copy, and keep where they like.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramAction {
    /// The type that programs see.
    kind: u32,
    /// The type that is decoded, and two words without a use.
    data: [u32; 3],
    /// Words of the action. Programs see the first as `heap.offset`, and the second as `heap.usable_size`.
    words: [u64; 14],
}

const _: () = assert!(size_of::<ProgramAction>() == 128);

/// The types that are decoded. No one is 0, which memory that was never an action may hold.
const ALLOCATE: u32 = 1;
const FREE: u32 = 2;
const STORE: u32 = 3;

impl ProgramAction {
    /// Returns an action as programs keep it.
    pub(crate) fn encode(action: &Action) -> ProgramAction {
        let mut words = [0; 14];
        let (kind, decoded) = match action {
            Action::Allocate(reservation) => {
                words[..Reservation::WORDS].copy_from_slice(&reservation.encode());
                (HEAP, ALLOCATE)
            }
            Action::Free(at) => {
                words[0] = at.get();
                (HEAP, FREE)
            }
            Action::Store { at, value } => {
                (words[0], words[1]) = (at.get(), *value);
                (MEMORY, STORE)
            }
        };
        ProgramAction { kind, data: [decoded, 0, 0], words }
    }

    /// Returns the action that a program kept.
    ///
    /// # Errors
    /// EINVAL if it is none. The engine checks its words.
    pub(crate) fn decode(&self) -> Result<Action, Failure> {
        match self.data[0] {
            ALLOCATE => {
                let mut words = [0; Reservation::WORDS];
                words.copy_from_slice(&self.words[..Reservation::WORDS]);
                Ok(Action::Allocate(Reservation::decode(words)))
            }
            FREE => Ok(Action::Free(PoolOffset::new(self.words[0]))),
            STORE => Ok(Action::Store { at: PoolOffset::new(self.words[0]), value: self.words[1] }),
            other => Err(Failure::invalid(format!(
                "the action has the unknown type {other}; pass what pmemobj_reserve, pmemobj_set_value or pmemobj_defer_free stored"
            ))),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn actions_round_trip() {
        let reservation = Reservation::decode([4096, 112, 5 | 6 << 32, 7 | 1 << 32]);
        for action in [
            Action::Allocate(reservation),
            Action::Free(PoolOffset::new(64)),
            Action::Store { at: PoolOffset::new(72), value: u64::MAX },
        ] {
            assert_eq!(ProgramAction::encode(&action).decode(), Ok(action));
        }
        let seen = ProgramAction::encode(&Action::Allocate(reservation));
        assert_eq!((seen.kind, seen.words[0], seen.words[1]), (HEAP, 4096, 112));
        let none = ProgramAction { kind: 0, data: [0; 3], words: [0; 14] };
        assert_eq!(none.decode().unwrap_err().errno, libc::EINVAL);
    }
}
