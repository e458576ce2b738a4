//! Media errors: injected, found by a scrub, and cleared by a write.
//!
//! ```text
//! inject               the medium has the error; the kernel is told, or not (--no-notify)
//! scrub, start         the kernel knows all errors of the medium
//! uninject             the medium is repaired; the kernel still reports the error
//! write, clear         both are cleared
//! ```

mod clear;
pub(crate) mod error;
mod inject;
pub(crate) mod range;

pub use clear::clear;
pub use error::MediaFault;
pub(crate) use inject::region_bad_blocks;
pub use inject::{Injection, inject, injected, scrub};
pub use range::MediaError;
