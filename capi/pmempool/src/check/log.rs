//! The stage of a log's descriptor.

use super::dialog::{Dialog, Flags};
use super::outcome::{Outcome, Stop};
use super::pool::{Change, CheckedPool};
use lode_layout::PmdkLog;

/// The words of the descriptor, in their order.
const NAMES: [&str; 3] = ["start_offset", "end_offset", "write_offset"];

/// Checks the descriptor of a log pool.
pub(crate) async fn check(pool: &mut CheckedPool, dialog: &Dialog) -> Result<(), Stop> {
    dialog.info("checking pmemlog header");
    let mut bytes = [0; PmdkLog::LEN];
    if !pool.read(PmdkLog::OFF.get(), &mut bytes) {
        return Err(dialog.stop(Outcome::Error, "cannot read pmemlog structure"));
    }
    let (words, _) = bytes.as_chunks::<8>();
    let mut found = [0; 3];
    found.iter_mut().zip(words).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
    let (start, end) = (PmdkLog::START.get(), pool.size);
    let [found_start, found_end, found_write] = found;
    let mut wrong = Vec::new();
    if found_start != start {
        let question = format!("Do you want to set pmemlog.start_offset to default {start:#x}?");
        wrong.push((0, question, start, format!("{start:#x}")));
    }
    if found_end != end {
        let question = format!("Do you want to set pmemlog.end_offset to {end:#x}?");
        wrong.push((1, question, end, format!("{end:#x}")));
    }
    if found_write < start || found_write > end {
        let question = "Do you want to set pmemlog.write_offset to pmemlog.end_offset?".to_owned();
        wrong.push((2, question, end, "pmemlog.end_offset".to_owned()));
    }
    let damage = |index: usize| format!("invalid pmemlog.{}: {:#x}", NAMES[index], found[index]);
    if let (Some((index, ..)), false) = (wrong.first(), dialog.flags().has(Flags::REPAIR)) {
        return Err(dialog.stop(Outcome::NotConsistent, damage(*index)));
    }
    let questions: Vec<String> =
        wrong.iter().map(|(index, question, ..)| format!("{}.|{question}", damage(*index))).collect();
    if questions.is_empty() {
        dialog.info("pmemlog header correct");
    }
    let mut repaired = found;
    let repair = |nth: usize| {
        let (index, _, value, text) = &wrong[nth];
        dialog.info(format!("setting pmemlog.{} to {text}", NAMES[*index]));
        repaired[*index] = *value;
        Ok(())
    };
    dialog.ask_and_repair(&questions, repair).await?;
    let changes = (0..3).filter(|index| repaired[*index] != found[*index]);
    let change = |index: usize| Change {
        off: PmdkLog::OFF.get() + 8 * index as u64,
        bytes: repaired[index].to_le_bytes().to_vec(),
    };
    pool.add_changes(changes.map(change).collect());
    Ok(())
}
