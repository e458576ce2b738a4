//! libpmempool.so.1: the calls of PMDK's libpmempool 1.12.1, on `lode-pmdk`.
//!
//! ```text
//!   program, compiled against PMDK's <libpmempool.h>
//!        |  pmempool_check_init, pmempool_check     | pmempool_feature_enable, pmempool_rm, pmempool_sync, ...
//!   exports: C arguments become checked ones        |
//!        |                                          |
//!   Check: stages, dialog, pool                   feature, removal, replicas
//!        |                                          |
//!   lode_pmdk::UncheckedPool ----------------------+ repair_replicas, transform
//! ```
//!
//! It does: answer each call with the results, messages, questions and the errno of the manual pages; keep a message for each
//! thread. It does not: start a thread, install a signal handler, keep a descriptor, or print. Replicas on other machines are refused
//! by name.
//!
//! # From a question to the repair
//!
//! A check is a future that the calls of pmempool_check(3) poll: it waits where it asks the program. Repairs are changes in
//! memory. When the last stage has ended, the check writes: first the content, then the headers, the first one last. If a stage ends the
//! check before, as "cannot repair", the headers alone are written, as with PMDK. If the program refused a repair, none is. A process that
//! is killed before the writes leaves the pool as it was, and one that is killed in between a pool that the same repair repairs.
//!
//! # Panics
//!
//! None leaves the library, and none prints: a broken invariant is an error of the call, with EIO.

mod check;
pub mod exports;
mod failures;
mod feature;
mod pool;
mod removal;
mod replicas;

use check::{Answer, Arguments, Check, Flags, PoolType, Status};
use std::path::Path;

/// Checks the pool at `path`, or a table alone, and makes all repairs. Returns all messages and the result of
/// pmempool_check_end(3); `None` if the pool can't be opened. For the fuzz target.
#[doc(hidden)]
pub fn repair_everything(path: &Path, is_table: bool) -> Option<(Vec<String>, i32)> {
    let flags = Flags::REPAIR | Flags::ADVANCED | Flags::ALWAYS_YES | Flags::VERBOSE | Flags::FORMAT_STR;
    let mut check = Check::begin(Arguments {
        path: path.to_owned(),
        backup: None,
        pool_type: if is_table { PoolType::Table } else { PoolType::Unknown },
        flags: Flags(flags),
        time_text: |seconds| seconds.to_string(),
    })
    .ok()?;
    let mut texts = Vec::new();
    while let Some(status) = check.next(Answer::Yes) {
        let (Status::Info(text) | Status::Error(text) | Status::Question(text)) = status;
        texts.push(text);
    }
    Some((texts, check.end() as i32))
}
