//! Directory with the state of a platform. Each change of it is atomic.
//!
//! ```text
//! lock            an empty file that commands lock: exclusively for a change, shared to read
//! machine.toml    the machine, as it was given
//! state.toml      the state of the machine
//! keys/           sealed passphrases, as /etc/ndctl/keys; missing until the first one
//! modules/        for each module 0x0001.media, as large as its capacity and sparse, and 0x0001.labels
//! journal         a pending change; see `journal.rs`
//! staged/         media that will replace others; see `staged.rs`
//! ```

mod check;
mod commit;
pub(crate) mod error;
mod info_blocks;
mod journal;
mod leftover;
mod load;
mod lock;
mod media;
mod paths;
mod pending;
mod staged;
mod state_dir;
mod step;
#[cfg(test)]
mod test;
mod validate;
mod watch;

pub use check::BttSummary;
pub use error::{BttError, DirectoryError, StateFault};
pub use lock::Purpose;
pub(crate) use media::Media;
pub(crate) use paths::KEYS;
pub(crate) use staged::Staged;
pub use state_dir::Directory;
pub(crate) use validate::state_fault;
pub use watch::Watch;
