//! A check of a pool, and its repair: pmempool_check(3).
//!
//! ```text
//!   next: answer, status <-----> Dialog <----- stages, one after the other
//!                                              bad blocks, backup, shutdown state, headers, links,
//!                                              log | blocks | table: info blocks, map and flog, write
//! ```

mod arena;
mod backup;
#[cfg(test)]
mod backup_tests;
mod blocks;
mod dialog;
#[cfg(test)]
mod header_tests;
mod headers;
#[cfg(test)]
mod interruptions;
mod links;
mod log;
mod outcome;
mod pool;
mod shutdown;
mod stops;
mod table;
mod table_info;
#[cfg(test)]
mod table_info_tests;
mod table_map;

pub(crate) use dialog::{Answer, Flags, Status};
pub(crate) use outcome::Outcome;
pub(crate) use pool::PoolType;

use crate::failures::failure;
use dialog::Dialog;
use lode_capi_entry::Failure;
use outcome::Stop;
use pool::CheckedPool;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// The result of pmempool_check_end(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Consistent = 0,
    NotConsistent = 1,
    Repaired = 2,
    CannotRepair = 3,
    Error = 4,
    SyncRequired = 5,
}

/// The arguments of a check.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    pub(crate) path: PathBuf,
    pub(crate) backup: Option<PathBuf>,
    pub(crate) pool_type: PoolType,
    pub(crate) flags: Flags,
    /// Returns a time, in seconds since 1970-01-01 UTC, as text in the user's time zone.
    pub(crate) time_text: fn(i64) -> String,
}

/// A check that has begun.
pub(crate) struct Check {
    dialog: Dialog,
    /// `None` once the last stage has ended.
    stages: Option<Pin<Box<dyn Future<Output = Ended>>>>,
    /// True while the program has a question.
    is_asking: bool,
    ended: Option<Ended>,
}

/// The end of the stages.
#[derive(Clone, Copy, Debug)]
struct Ended {
    outcome: Outcome,
    is_sync_required: bool,
}

impl Check {
    /// Opens the pool.
    ///
    /// # Errors
    /// EINVAL for arguments that contradict each other, and for a pool of another type than was declared; those of the pool.
    pub(crate) fn begin(arguments: Arguments) -> Result<Check, Failure> {
        let flags = arguments.flags;
        if !flags.has(Flags::REPAIR) && flags.has(Flags::DRY_RUN | Flags::ADVANCED | Flags::ALWAYS_YES) {
            return Err(Failure::invalid(
                "dry_run, advanced and always_yes are applicable only if repair is set; set \
                 PMEMPOOL_CHECK_REPAIR, too",
            ));
        }
        if flags.has(Flags::DRY_RUN) && arguments.backup.is_some() {
            return Err(Failure::invalid(
                "dry run does not allow one to perform backup; leave one of the two out",
            ));
        }
        if !flags.has(Flags::FORMAT_STR) {
            return Err(Failure::invalid(
                "PMEMPOOL_CHECK_FORMAT_STR flag must be set: there is no other format",
            ));
        }
        let pool = CheckedPool::open(&arguments.path, arguments.pool_type, flags)?;
        let dialog = Dialog::new(flags);
        let stages = Box::pin(run(pool, dialog.clone(), arguments));
        Ok(Check { dialog, stages: Some(stages), is_asking: false, ended: None })
    }

    /// Takes the answer to the last question, and returns the next status; `None` at the end.
    pub(crate) fn next(&mut self, answer: Answer) -> Option<Status> {
        if std::mem::take(&mut self.is_asking) {
            self.dialog.answer(answer);
        }
        loop {
            if let Some(status) = self.dialog.take() {
                self.is_asking = matches!(status, Status::Question(_));
                return Some(status);
            }
            let stages = self.stages.as_mut()?;
            let mut context = Context::from_waker(Waker::noop());
            let polled = catch_unwind(AssertUnwindSafe(|| stages.as_mut().poll(&mut context)));
            match polled {
                Ok(Poll::Pending) => {}
                Ok(Poll::Ready(ended)) => self.end_stages(ended),
                Err(_) => {
                    self.dialog.error("internal error of Lodestone; report it");
                    self.end_stages(Ended { outcome: Outcome::Error, is_sync_required: false });
                }
            }
        }
    }

    /// Returns the number of the error of the system that the last statuses were about.
    pub(crate) fn take_errno(&self) -> Option<i32> {
        self.dialog.take_errno()
    }

    fn end_stages(&mut self, ended: Ended) {
        self.stages = None;
        self.ended = Some(ended);
    }

    /// Ends the check. One that has not come to its end has written nothing into the pool, but perhaps a backup.
    pub(crate) fn end(self) -> Verdict {
        let outcome = match (self.ended, self.dialog.outcome()) {
            (Some(ended), _) => ended.outcome,
            // As with PMDK: a question is open, or a repair was agreed to and not written.
            (None, Outcome::Repaired) => Outcome::Error,
            (None, _) if self.is_asking => Outcome::Error,
            (None, outcome) => outcome,
        };
        let is_sync_required = self.ended.is_some_and(|ended| ended.is_sync_required);
        match outcome {
            Outcome::Consistent | Outcome::Repaired if is_sync_required => Verdict::SyncRequired,
            Outcome::Consistent => Verdict::Consistent,
            Outcome::NotConsistent => Verdict::NotConsistent,
            Outcome::Repaired => Verdict::Repaired,
            Outcome::CannotRepair => Verdict::CannotRepair,
            Outcome::Error => Verdict::Error,
        }
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check")
            .field("dialog", &self.dialog)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

/// Runs all stages, and writes what they have repaired.
async fn run(mut pool: CheckedPool, dialog: Dialog, arguments: Arguments) -> Ended {
    let checked = stages(&mut pool, &dialog, &arguments).await;
    if checked.is_err() {
        pool.drop_changes();
    }
    let outcome = checked.map_or_else(|Stop(outcome)| outcome, |()| dialog.outcome());
    // Repairs of headers are kept unless the user has refused one, as PMDK keeps them where a later stage ends the check.
    let is_kept = dialog.flags().keeps_repairs() && !dialog.is_refused();
    let written = if is_kept { pool.write() } else { Ok(()) };
    let outcome = written.map_or_else(
        |failure| {
            dialog.note_errno(failure.errno);
            dialog.error(failure.text);
            Outcome::Error
        },
        |()| outcome,
    );
    Ended { outcome, is_sync_required: pool.is_sync_required }
}

async fn stages(pool: &mut CheckedPool, dialog: &Dialog, arguments: &Arguments) -> Result<(), Stop> {
    check_bad_blocks(pool, dialog, arguments)?;
    dialog.seen().await;
    if let Some(path) = &arguments.backup {
        backup::make(pool, dialog, path).await?;
        dialog.seen().await;
    }
    if pool.has_kind() {
        shutdown::check(pool, dialog).await?;
        dialog.seen().await;
    }
    if pool.kind != PoolType::Table {
        headers::check(pool, dialog, arguments.time_text).await?;
        dialog.seen().await;
        links::check(pool, dialog).await?;
        dialog.seen().await;
    }
    if pool.is_part {
        return Ok(());
    }
    match pool.kind {
        PoolType::Log => log::check(pool, dialog).await?,
        PoolType::Blocks => {
            blocks::check(pool, dialog).await?;
            dialog.seen().await;
            table::check(pool, dialog).await?;
        }
        PoolType::Table => table::check(pool, dialog).await?,
        PoolType::Objects | PoolType::Unknown => {}
    }
    dialog.seen().await;
    Ok(())
}

/// Looks for lost memory, if the pool asks for it.
fn check_bad_blocks(pool: &CheckedPool, dialog: &Dialog, arguments: &Arguments) -> Result<(), Stop> {
    use lode_pmdk::PmdkError;
    let (true, Some(parts)) = (pool.features.checks_bad_blocks(), pool.parts()) else { return Ok(()) };
    match parts.check_bad_blocks() {
        Ok(()) => Ok(()),
        Err(PmdkError::BadBlocks { .. }) => Err(dialog.stop(
            Outcome::CannotRepair,
            "poolset contains bad blocks, use 'pmempool info --bad-blocks=yes' to print or 'pmempool sync \
             --bad-blocks' to clear them",
        )),
        Err(error) => Err(dialog.stop(
            Outcome::Error,
            format!(
                "checking poolset for bad blocks failed -- '{}': {}",
                arguments.path.display(),
                failure(&error).text
            ),
        )),
    }
}
