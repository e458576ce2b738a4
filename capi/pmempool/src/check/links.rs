//! The stage of the links: the UUIDs of the headers, each beside those of the others, and the checksums.

use super::arena;
use super::dialog::{Dialog, Flags};
use super::headers::prefix;
use super::outcome::{Outcome, Stop};
use super::pool::{CheckedPool, PoolType};
use lode_layout::{PmdkUuidField, StoredPmdkHeader};
use uuid::Uuid;

/// The place of a header: replica and part.
type Place = (usize, usize);

/// The headers around one: of the parts after and before it, and of the replicas after and before.
#[derive(Clone, Copy, Debug)]
struct Around {
    own: Place,
    /// In PMDK's order of checks, with the field of `own` that names it, and its field that names `own`.
    neighbours: [(Place, PmdkUuidField, PmdkUuidField); 4],
    is_alone: bool,
}

/// The names of the links, in the order of [`Around::neighbours`].
const LINKS: [&str; 4] = [
    "pool_hdr.next_part_uuid",
    "pool_hdr.prev_part_uuid",
    "pool_hdr.next_repl_uuid",
    "pool_hdr.prev_repl_uuid",
];
/// The neighbours that link to parts after the first one, too.
const PART_LINKS: usize = 2;

/// Checks the links of each part.
pub(crate) async fn check(pool: &mut CheckedPool, dialog: &Dialog) -> Result<(), Stop> {
    let mut is_changed = false;
    let mut poolset = None;
    for replica in 0..pool.headers.len() {
        for part in 0..pool.headers[replica].len() {
            let around = around(pool, (replica, part));
            let prefix = prefix(pool, replica, part);
            let before = pool.headers[replica][part].clone();
            if !(before.is_intact() && around.is_alone) {
                check_poolset(pool, dialog, &around, &prefix, &mut poolset).await?;
            }
            if !(header(pool, around.own).is_intact() && around.is_alone) {
                check_own(pool, dialog, &around, &prefix, before.is_intact()).await?;
            }
            if !(header(pool, around.own).is_intact() && around.is_alone) {
                check_links(pool, dialog, &around, &prefix).await?;
            }
            check_checksum(pool, dialog, &around, &prefix).await?;
            is_changed |= pool.headers[replica][part] != before;
        }
    }
    if is_changed {
        pool.take_header();
    }
    Ok(())
}

fn around(pool: &CheckedPool, own: Place) -> Around {
    let (replica, part) = own;
    let (replicas, parts) = (pool.headers.len(), pool.headers[replica].len());
    let (after, before) = ((part + 1) % parts, (part + parts - 1) % parts);
    let (replica_after, replica_before) = ((replica + 1) % replicas, (replica + replicas - 1) % replicas);
    Around {
        own,
        neighbours: [
            ((replica, after), PmdkUuidField::NextPart, PmdkUuidField::PrevPart),
            ((replica, before), PmdkUuidField::PrevPart, PmdkUuidField::NextPart),
            ((replica_after, 0), PmdkUuidField::NextReplica, PmdkUuidField::PrevReplica),
            ((replica_before, 0), PmdkUuidField::PrevReplica, PmdkUuidField::NextReplica),
        ],
        is_alone: pool.part_count == 1,
    }
}

fn header(pool: &CheckedPool, (replica, part): Place) -> &StoredPmdkHeader {
    &pool.headers[replica][part]
}

fn header_mut(pool: &mut CheckedPool, (replica, part): Place) -> &mut StoredPmdkHeader {
    &mut pool.headers[replica][part]
}

/// Checks the UUID of the pool set. `valid` is the one that was found at the first part.
async fn check_poolset(
    pool: &mut CheckedPool,
    dialog: &Dialog,
    around: &Around,
    prefix: &str,
    valid: &mut Option<[u8; 16]>,
) -> Result<(), Stop> {
    let found = header(pool, around.own).uuid(PmdkUuidField::PoolSet);
    if around.own == (0, 0) {
        if pool.kind == PoolType::Blocks
            && let Some(info) = arena::first_valid(pool, arena::BLOCKS_OFF)
        {
            *valid = Some(info.parent_uuid);
            if found != info.parent_uuid {
                let question = format!(
                    "{prefix}invalid pool_hdr.poolset_uuid.|Do you want to set it to {} from BTT Info?",
                    text(info.parent_uuid)
                );
                return set_poolset(pool, dialog, around, prefix, question, info.parent_uuid, false).await;
            }
        }
        if around.is_alone {
            return Ok(());
        }
        *valid = common_poolset(pool, dialog, *valid)?;
        if valid.is_none() {
            regenerate_poolset(pool, dialog, around, prefix).await?;
            // The other parts follow.
            *valid = Some(header(pool, around.own).uuid(PmdkUuidField::PoolSet));
            return Ok(());
        }
    }
    match *valid {
        Some(uuid) if uuid != found => {
            if !dialog.flags().has(Flags::REPAIR) {
                let text = format!("{prefix}invalid pool_hdr.poolset_uuid");
                return Err(dialog.stop(Outcome::NotConsistent, text));
            }
            let question = format!(
                "{prefix}invalid pool_hdr.poolset_uuid.|Do you want to set it to {} from a valid part file?",
                text(uuid)
            );
            set_poolset(pool, dialog, around, prefix, question, uuid, true).await
        }
        _ => Ok(()),
    }
}

/// Returns the UUID of the pool set of all intact parts, or else of all parts.
fn common_poolset(
    pool: &CheckedPool,
    dialog: &Dialog,
    of_table: Option<[u8; 16]>,
) -> Result<Option<[u8; 16]>, Stop> {
    let mut valid = of_table;
    let mut common = of_table;
    for (index, header) in pool.headers.iter().flatten().enumerate() {
        let uuid = header.uuid(PmdkUuidField::PoolSet);
        match common {
            None if index == 0 => common = Some(uuid),
            Some(other) if other != uuid => common = None,
            _ => {}
        }
        if !header.is_intact() {
            continue;
        }
        match valid {
            None => valid = Some(uuid),
            Some(other) if other != uuid => {
                let text = "the poolset contains part files from various poolsets";
                return Err(dialog.stop(Outcome::NotConsistent, text));
            }
            Some(_) => {}
        }
    }
    Ok(valid.or(common))
}

async fn set_poolset(
    pool: &mut CheckedPool,
    dialog: &Dialog,
    around: &Around,
    prefix: &str,
    question: String,
    uuid: [u8; 16],
    is_new_to_table: bool,
) -> Result<(), Stop> {
    let repair = |_| {
        dialog.info(format!("{prefix}setting pool_hdr.poolset_uuid to {}", text(uuid)));
        header_mut(pool, around.own).set_uuid(PmdkUuidField::PoolSet, uuid);
        pool.has_new_uuid = is_new_to_table;
        Ok(())
    };
    dialog.ask_and_repair(&[question], repair).await
}

/// Gives the pool set another UUID, since no two parts have the same.
async fn regenerate_poolset(
    pool: &mut CheckedPool,
    dialog: &Dialog,
    around: &Around,
    prefix: &str,
) -> Result<(), Stop> {
    let damage = format!("{prefix}no common pool_hdr.poolset_uuid");
    if !dialog.flags().has(Flags::REPAIR) {
        return Err(dialog.stop(Outcome::NotConsistent, damage));
    }
    if !dialog.flags().has(Flags::ADVANCED) {
        return Err(dialog.need_advanced(prefix, damage));
    }
    let question = format!("{damage}.|Do you want to regenerate pool_hdr.poolset_uuid?");
    let repair = |_| {
        let uuid = new_uuid();
        header_mut(pool, around.own).set_uuid(PmdkUuidField::PoolSet, uuid);
        // PMDK's word.
        dialog.info(format!("{prefix}setting pool_hdr.pooset_uuid to {}", text(uuid)));
        pool.has_new_uuid = true;
        Ok(())
    };
    dialog.ask_and_repair(&[question], repair).await
}

/// Checks the UUID of the part beside the links of its neighbours.
async fn check_own(
    pool: &mut CheckedPool,
    dialog: &Dialog,
    around: &Around,
    prefix: &str,
    was_intact: bool,
) -> Result<(), Stop> {
    let own = header(pool, around.own);
    let named: Vec<[u8; 16]> =
        around.neighbours.iter().map(|(place, _, link)| header(pool, *place).uuid(*link)).collect();
    let common = named.iter().all(|uuid| *uuid == named[0]).then(|| named[0]);
    let mut valid = own.is_intact().then(|| own.uuid(PmdkUuidField::Part));
    for (index, (place, ..)) in around.neighbours.iter().enumerate() {
        let counts_for_part = index < PART_LINKS || around.own.1 == 0;
        let is_intact = if *place == around.own { was_intact } else { header(pool, *place).is_intact() };
        if !counts_for_part || !is_intact {
            continue;
        }
        match valid {
            None => valid = Some(named[index]),
            Some(uuid) if uuid != named[index] => {
                let text = format!("{prefix}ambiguous pool_hdr.uuid");
                return Err(dialog.stop(Outcome::NotConsistent, text));
            }
            Some(_) => {}
        }
    }
    let damage = format!("{prefix}invalid pool_hdr.uuid");
    let (question, uuid) = match valid.or(common) {
        Some(uuid) if uuid == own.uuid(PmdkUuidField::Part) => return Ok(()),
        Some(uuid) => {
            let text = text(uuid);
            (format!("{damage}.|Do you want to set it to {text} from a valid part file?"), uuid)
        }
        None if dialog.flags().has(Flags::ADVANCED) => {
            (format!("{damage}.|Do you want to regenerate it?"), new_uuid())
        }
        None if dialog.flags().has(Flags::REPAIR) => return Err(dialog.need_advanced(prefix, damage)),
        None => return Err(dialog.stop(Outcome::NotConsistent, damage)),
    };
    let repair = |_| {
        dialog.info(format!("{prefix}setting pool_hdr.uuid to {}", text(uuid)));
        header_mut(pool, around.own).set_uuid(PmdkUuidField::Part, uuid);
        Ok(())
    };
    dialog.ask_and_repair(&[question], repair).await
}

/// Checks the links to the neighbours.
async fn check_links(
    pool: &mut CheckedPool,
    dialog: &Dialog,
    around: &Around,
    prefix: &str,
) -> Result<(), Stop> {
    let mut wrong = Vec::new();
    let mut questions = Vec::new();
    for (index, (place, link, _)) in around.neighbours.iter().enumerate() {
        if header(pool, around.own).uuid(*link) == header(pool, *place).uuid(PmdkUuidField::Part) {
            continue;
        }
        let damage = format!("{prefix}invalid {}", LINKS[index]);
        if !dialog.flags().has(Flags::REPAIR) {
            return Err(dialog.stop(Outcome::NotConsistent, damage));
        }
        wrong.push(index);
        questions.push(format!("{damage}.|Do you want to set it to a valid value?"));
    }
    let repair = |nth: usize| {
        let index = wrong[nth];
        let (place, link, _) = around.neighbours[index];
        let uuid = header(pool, place).uuid(PmdkUuidField::Part);
        dialog.info(format!("{prefix}setting {} to {}", LINKS[index], text(uuid)));
        header_mut(pool, around.own).set_uuid(link, uuid);
        Ok(())
    };
    dialog.ask_and_repair(&questions, repair).await
}

/// Checks the checksum, after all fields.
async fn check_checksum(
    pool: &mut CheckedPool,
    dialog: &Dialog,
    around: &Around,
    prefix: &str,
) -> Result<(), Stop> {
    if header(pool, around.own).is_intact() {
        return Ok(());
    }
    let damage = format!("{prefix}invalid pool_hdr.checksum");
    if !dialog.flags().has(Flags::REPAIR) {
        return Err(dialog.stop(Outcome::NotConsistent, damage));
    }
    if !dialog.flags().has(Flags::ADVANCED) {
        return Err(dialog.need_advanced(prefix, damage));
    }
    let question = format!("{damage}.|Do you want to regenerate checksum?");
    let repair = |_| {
        let header = header_mut(pool, around.own);
        header.store_checksum();
        dialog.info(format!("{prefix}setting pool_hdr.checksum to {:#x}", header.checksum()));
        Ok(())
    };
    dialog.ask_and_repair(&[question], repair).await
}

/// Returns a UUID as PMDK prints it: the first fields are numbers of the machine.
fn text(uuid: [u8; 16]) -> String {
    Uuid::from_bytes_le(uuid).hyphenated().to_string()
}

fn new_uuid() -> [u8; 16] {
    Uuid::new_v4().to_bytes_le()
}
