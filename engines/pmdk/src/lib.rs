//! Layer 3: what all pools of PMDK have in common, those of objects, of blocks and of a log.
//!
//! ```text
//!   engines, libraries of C           content: what the pool holds
//!        |  create, open, close             |  Medium: store, flush, drain
//!   PmdkPool ----------------------------> PoolMedium       master and replicas
//!        |  set file: SetFile, parts       |  mappings: parts back to back
//!        |  headers: chain, features, shutdown state
//!   lode-layout, lode-pmem           bytes; mappings, sysfs
//! ```
//!
//! It does: read set files, and headers in PMDK's order of checks; make all parts of a pool or none; lock parts as PMDK does;
//! map them back to back; keep the shutdown state; look for bad blocks; copy what is made durable to local replicas; append parts in
//! directories to an open pool; read the text of settings. It does not: know the content of a pool, need libndctl, start a thread, or print.
//! Replicas on other machines are refused by name.
//!
//! # From an open to its first store
//!
//! 1. [`PmdkPool::open`] reads the set file, or takes the file as its only part.
//! 2. Each part is opened and locked. If the creation of the pool was interrupted after its first part existed, the others are
//!    completed now: the head of `create.rs` has the table.
//! 3. The headers are read and compared: kind, format, features, checksum, machine, then the links between parts and replicas.
//! 4. Lost memory is looked for, if the pool asks for it. The shutdown state is compared with the modules.
//! 5. Each replica is mapped, and the mark of an open pool is stored and drained.
//!
//! # Cost
//!
//! A flush of a pool without replicas is that of its mapping. With replicas it also copies the range, under a lock.
#![forbid(unsafe_code)]

mod bad_blocks;
pub mod bugs;
mod chain;
mod change_file;
mod change_text;
mod create;
mod ctl_text;
mod error;
mod feature_change;
mod file_kind;
mod file_proof;
mod growth;
mod inspection;
mod locked_part;
mod part_content;
mod part_node;
mod plan;
mod pool;
mod pool_medium;
mod pool_parts;
mod pool_set;
mod recovery_file;
mod replica_content;
mod replica_error;
mod replica_options;
mod replica_rebuild;
mod replica_repair;
mod replica_uuids;
mod seen;
mod set_change;
mod set_comparison;
mod set_file;
mod set_health;
mod set_size;
mod shutdown_state;
mod staged_part;
mod stops;
mod transform;
mod unchecked_pool;

pub use create::NewParts;
pub use ctl_text::{
    CTL_FILE_LEN_MAX, CtlClass, CtlQuery, CtlTextError, ctl_queries, ctl_text_of_file, ctl_words,
};
pub use error::{ChainFault, PmdkError, SetError};
pub use feature_change::{FeatureError, PmdkFeature};
pub use growth::PoolGrowth;
pub use inspection::{InspectedPart, Inspection};
pub use locked_part::PmdkAccess;
pub use plan::CreateOptions;
pub use pool::PmdkPool;
pub use pool_medium::PoolMedium;
pub use pool_parts::{OpenOptions, PoolParts, store_shutdown_state};
pub use pool_set::{Part, PoolSet, Replica, begins_as_set};
pub use recovery_file::{Unsorted, parse as parse_recovery_file};
pub use replica_error::{ReplicaError, ReplicaFault};
pub use replica_options::ReplicaOptions;
pub use replica_repair::{check_set_file, repair_replicas};
pub use set_change::{SetChange, remove_left_change};
pub use set_file::{SetFault, SetFile, SetFileError, SetPart};
pub use set_size::parse_size;
#[cfg(feature = "explore")]
pub use stops::{DurableContents, NameChange, noting_contents, stopping_after, take_name_changes};
pub use transform::transform;
pub use unchecked_pool::UncheckedPool;
