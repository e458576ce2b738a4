//! The stage of the shutdown states.

use super::dialog::{Answer, Dialog, Flags};
use super::outcome::{Outcome, Stop};
use super::pool::CheckedPool;
use lode_layout::PmdkShutdownRecord;

const DIRTY: &str = "shutdown state is dirty";
const FAILED: &str = "an ADR failure was detected - your pool might be corrupted";
const RESET: &str = "Do you want to reset shutdown state at your own risk? If you have more then one replica you will have \
                     to synchronize your pool after this operation.";

/// Checks the state of each replica. One that is sound is enough for pmempool_sync(3).
pub(crate) async fn check(pool: &mut CheckedPool, dialog: &Dialog) -> Result<(), Stop> {
    let count = pool.headers.len();
    let mut sound = Vec::new();
    for replica in 0..count {
        sound.push(is_sound(pool, dialog, replica)?);
    }
    let prefix = |replica: usize| match count {
        1 => String::new(),
        _ => format!("replica {replica}: "),
    };
    match sound.iter().filter(|is_sound| **is_sound).count() {
        healthy if healthy == count => {
            for replica in 0..count {
                dialog.info(format!("{}checking shutdown state", prefix(replica)));
                dialog.info(format!("{}shutdown state correct", prefix(replica)));
            }
            return Ok(());
        }
        0 => {}
        _ => {
            pool.is_sync_required = true;
            return Ok(());
        }
    }
    let mut healthy = 0;
    for replica in 0..count {
        let prefix = prefix(replica);
        dialog.info(format!("{prefix}checking shutdown state"));
        let is_kept = pool.headers[replica][0].features().has_shutdown_state();
        let (damage, repair) =
            if is_kept { (FAILED, RESET) } else { (DIRTY, "Do you want to zero shutdown state?") };
        if !dialog.flags().has(Flags::REPAIR) {
            return Err(dialog.stop(Outcome::NotConsistent, format!("{prefix}{damage}")));
        }
        let answers = dialog.ask(&[format!("{prefix}{damage}.|{repair}")]).await;
        // Another replica may be reset instead.
        match answers.first() {
            Some(Answer::No) => dialog.set_outcome(Outcome::Repaired),
            answer => {
                dialog.agreed(answer.copied().unwrap_or(Answer::Other))?;
                dialog.info(format!("{prefix}resetting pool_hdr.sds"));
                pool.headers[replica][0].clear_shutdown();
                dialog.set_outcome(Outcome::Repaired);
                healthy += 1;
                break;
            }
        }
    }
    if healthy == 0 {
        return Err(dialog.stop(Outcome::NotConsistent, "cannot complete repair, reverting changes"));
    }
    pool.is_sync_required = healthy < count;
    Ok(())
}

fn is_sound(pool: &CheckedPool, dialog: &Dialog, replica: usize) -> Result<bool, Stop> {
    let (Some(header), Some(parts)) = (pool.headers[replica].first(), pool.parts()) else { return Ok(true) };
    if !header.features().has_shutdown_state() {
        return Ok(header.shutdown() == PmdkShutdownRecord::Empty);
    }
    // PMDK takes devices that it can't read for a failure.
    Ok(parts.is_shutdown_sound(replica, header.shutdown()).unwrap_or_else(|error| {
        dialog.info(error.to_string());
        false
    }))
}
