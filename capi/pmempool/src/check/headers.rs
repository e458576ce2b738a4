//! The stage of the headers: each by itself.

use super::arena;
use super::dialog::{Dialog, Flags};
use super::outcome::{Outcome, Stop};
use super::pool::{CheckedPool, PoolType};
use lode_layout::{PmdkFeatures, PmdkKind, StoredPmdkHeader};

/// A field that has one value in every new pool.
#[derive(Clone, Copy, Debug)]
enum Field {
    Signature,
    Major,
    Compat,
    Incompat,
    ReadOnlyCompat,
    Unused,
}

/// A field whose value is the pool's own.
#[derive(Clone, Copy, Debug)]
enum OwnField {
    Created,
    Machine,
}

/// The values that the header of a new pool has.
#[derive(Clone, Copy, Debug)]
struct NewHeader {
    kind: PmdkKind,
    features: PmdkFeatures,
}

/// Checks the header of each part.
pub(crate) async fn check(
    pool: &mut CheckedPool,
    dialog: &Dialog,
    time_text: fn(i64) -> String,
) -> Result<(), Stop> {
    let mut is_changed = false;
    // As with PMDK, that of the master's first sound part is looked up once.
    let mut machine = None;
    for replica in 0..pool.headers.len() {
        for part in 0..pool.headers[replica].len() {
            if machine.is_none() || replica > 0 {
                let intact = pool.headers[replica].iter().find(|header| header.is_intact());
                machine = Some(intact.map(StoredPmdkHeader::machine));
            }
            let prefix = prefix(pool, replica, part);
            if is_sound(pool, dialog, &pool.headers[replica][part].clone(), &prefix)? {
                continue;
            }
            let before = pool.headers[replica][part].clone();
            // The check of the header has ensured a kind.
            let Some(kind) = pool.kind.repaired_kind() else { continue };
            let new = NewHeader { kind, features: features(pool) };
            repair_defaults(&mut pool.headers[replica][part], new, dialog, &prefix).await?;
            if pool.headers[replica][part] == before || !pool.headers[replica][part].is_intact() {
                let (modified, machine) = (pool.modified, machine.flatten());
                let header = &mut pool.headers[replica][part];
                repair_own(header, modified, machine, time_text, dialog, &prefix).await?;
            }
            is_changed |= pool.headers[replica][part] != before;
        }
    }
    if is_changed {
        pool.take_header();
    }
    Ok(())
}

/// Returns the words before each message of a part of several.
pub(crate) fn prefix(pool: &CheckedPool, replica: usize, part: usize) -> String {
    match pool.part_count {
        1 => String::new(),
        _ => format!("replica {replica} part {part}: "),
    }
}

/// Returns true if the header is sound. Ends the check unless it can be repaired.
fn is_sound(
    pool: &mut CheckedPool,
    dialog: &Dialog,
    header: &StoredPmdkHeader,
    prefix: &str,
) -> Result<bool, Stop> {
    dialog.info(format!("{prefix}checking pool header"));
    let damage = if header.is_zero() {
        "empty pool hdr"
    } else if !header.is_intact() {
        "incorrect pool header"
    } else if header.kind().is_none() {
        "invalid signature"
    } else {
        dialog.info(format!("{prefix}pool header correct"));
        return Ok(true);
    };
    if !dialog.flags().has(Flags::REPAIR) {
        return Err(dialog.stop(Outcome::NotConsistent, format!("{prefix}{damage}")));
    }
    if !header.is_zero() {
        dialog.info(format!("{prefix}{damage}"));
    }
    if pool.kind == PoolType::Unknown && arena::first_valid(pool, arena::BLOCKS_OFF).is_some() {
        pool.kind = PoolType::Blocks;
    }
    if pool.kind == PoolType::Unknown {
        return Err(dialog.stop(Outcome::CannotRepair, "cannot determine pool type"));
    }
    if pool.kind.repaired_kind().is_none() {
        let text = format!("the repair of {} pools is not supported", pool.kind.word());
        return Err(dialog.stop(Outcome::CannotRepair, text));
    }
    Ok(false)
}

/// Returns the features of a new pool. The set file decides about SINGLEHDR.
fn features(pool: &CheckedPool) -> PmdkFeatures {
    let mut features = PmdkFeatures::DEFAULT;
    if pool.parts().is_some_and(|parts| parts.set().has_single_header()) {
        features.incompat |= PmdkFeatures::SINGLE_HEADER;
    }
    features
}

/// Gives fields the values of a new pool.
async fn repair_defaults(
    header: &mut StoredPmdkHeader,
    new: NewHeader,
    dialog: &Dialog,
    prefix: &str,
) -> Result<(), Stop> {
    let wrong = wrong_defaults(header, new);
    let questions: Vec<String> = wrong.iter().map(|(_, text)| format!("{prefix}{text}")).collect();
    let repair = |index: usize| {
        let (name, value) = set_default(header, new, wrong[index].0);
        dialog.info(format!("{prefix}setting pool_hdr.{name} to {value}"));
        Ok(())
    };
    dialog.ask_and_repair(&questions, repair).await
}

/// Returns the fields that are not those of a new pool, each with its question.
fn wrong_defaults(header: &StoredPmdkHeader, new: NewHeader) -> Vec<(Field, String)> {
    let NewHeader { kind, features: default } = new;
    let found = header.features();
    let mut wrong = Vec::new();
    if header.kind() != Some(kind) {
        let signature = signature(kind);
        let text = format!("pool_hdr.signature is not valid.|Do you want to set it to {signature}?");
        wrong.push((Field::Signature, text));
    }
    let mut ask = |field, name: &str, default: u32| {
        let text =
            format!("pool_hdr.{name} is not valid.|Do you want to set it to default value {default:#x}?");
        wrong.push((field, text));
    };
    if header.major() != kind.major() {
        ask(Field::Major, "major", kind.major());
    }
    if found.compat & !default.compat != 0 {
        ask(Field::Compat, "features.compat", default.compat);
    }
    let is_single_lost = default.has_single_header() && !found.has_single_header();
    if found.incompat & !default.incompat != 0 || is_single_lost {
        ask(Field::Incompat, "features.incompat", default.incompat);
    }
    if found.ro_compat & !default.ro_compat != 0 {
        ask(Field::ReadOnlyCompat, "features.ro_compat", default.ro_compat);
    }
    if !header.is_unused_zero() {
        let text = "unused area is not filled by zeros.|Do you want to fill it up?".to_owned();
        wrong.push((Field::Unused, text));
    }
    wrong
}

/// Gives a field the value of a new pool. Returns its name, and the value as a text.
fn set_default(header: &mut StoredPmdkHeader, new: NewHeader, field: Field) -> (&'static str, String) {
    let NewHeader { kind, features: default } = new;
    let mut features = header.features();
    let named = match field {
        Field::Signature => {
            header.set_kind(kind);
            ("signature", signature(kind))
        }
        Field::Major => {
            header.set_major(kind.major());
            ("major", format!("{:#x}", kind.major()))
        }
        Field::Compat => {
            features.compat = default.compat;
            ("features.compat", format!("{:#x}", default.compat))
        }
        Field::Incompat => {
            features.incompat = default.incompat;
            ("features.incompat", format!("{:#x}", default.incompat))
        }
        Field::ReadOnlyCompat => {
            features.ro_compat = default.ro_compat;
            ("features.ro_compat", format!("{:#x}", default.ro_compat))
        }
        Field::Unused => {
            header.clear_unused();
            ("unused", "zeros".to_owned())
        }
    };
    header.set_features(features);
    named
}

/// Repairs the fields that are the pool's own.
async fn repair_own(
    header: &mut StoredPmdkHeader,
    modified: i64,
    machine: Option<[u64; 2]>,
    time_text: fn(i64) -> String,
    dialog: &Dialog,
    prefix: &str,
) -> Result<(), Stop> {
    let mut fields = Vec::new();
    let mut questions = Vec::new();
    if header.created() > modified as u64 {
        if !dialog.flags().has(Flags::ADVANCED) {
            return Err(dialog.need_advanced(prefix, format!("{prefix}pool_hdr.crtime is not valid")));
        }
        fields.push(OwnField::Created);
        questions.push(format!(
            "{prefix}pool_hdr.crtime is not valid.|Do you want to set it to file's modtime [{}]?",
            time_text(modified)
        ));
    }
    let other_machine = machine.filter(|machine| *machine != header.machine());
    if other_machine.is_some() {
        fields.push(OwnField::Machine);
        questions.push(format!(
            "{prefix}pool_hdr.arch_flags is not valid.|Do you want to copy it from a valid part?"
        ));
    }
    let repair = |index: usize| {
        match (fields[index], other_machine) {
            (OwnField::Machine, Some(machine)) => {
                header.set_machine(machine);
                let [first, second] = machine;
                dialog.info(format!("{prefix}setting pool_hdr.arch_flags to 0x{first:08x}{second:08x}"));
            }
            _ => {
                header.set_created(modified as u64);
                let text = time_text(modified);
                dialog.info(format!("{prefix}setting pool_hdr.crtime to file's modtime: {text}"));
            }
        }
        Ok(())
    };
    dialog.ask_and_repair(&questions, repair).await
}

/// Returns the signature without its zero.
fn signature(kind: PmdkKind) -> String {
    String::from_utf8_lossy(&kind.signature()).trim_end_matches('\0').to_owned()
}
