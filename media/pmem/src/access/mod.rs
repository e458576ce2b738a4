//! The instructions that touch media bytes, each with an entry in the fix-up table.
//!
//! A load that faults yields 0, a store that faults is dropped, and a loop that faults ends and reports it. Words are
//! little-endian on every medium, and so are all supported CPUs.
//!
//! All functions share one contract. # Safety: the media range lies inside of a [`Reservation`] that is entered as
//! live, so that the handler of a fault finds it. The ordinary memory is valid for its length, for reads or for writes
//! as its type says, and does not overlap the media range.
//!
//! [`Reservation`]: crate::reservation::Reservation

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[path = "x86_64.rs"]
mod instructions;

#[cfg(all(target_arch = "aarch64", not(miri)))]
#[path = "aarch64.rs"]
mod instructions;

#[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri))]
#[path = "plain.rs"]
mod instructions;

pub(crate) use instructions::*;

#[cfg(target_endian = "big")]
compile_error!("media are little-endian, and accesses don't swap bytes");
