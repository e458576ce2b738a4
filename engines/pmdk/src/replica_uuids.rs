//! The UUIDs of the parts of a set: those that sound parts have, and for the others those by which their neighbours know them.

use crate::replica_error::ReplicaFault;
use crate::set_health::SetHealth;
use lode_layout::{PmdkUuidField, StoredPmdkHeader};
use uuid::Uuid;

/// The UUIDs of the parts of a replica that have headers.
pub(crate) type Uuids = Vec<[u8; 16]>;

/// Returns a random UUID as PMDK stores it: the first fields as numbers of the machine.
pub(crate) fn new_uuid() -> [u8; 16] {
    Uuid::new_v4().to_bytes_le()
}

/// Returns the UUIDs of all parts. Broken parts get new ones if `are_new`, or if no neighbour knows them.
pub(crate) fn uuids(health: &SetHealth, counts: &[usize], are_new: bool) -> Result<Vec<Uuids>, ReplicaFault> {
    let sound = |replica: usize, part: usize| -> Option<&StoredPmdkHeader> {
        health.replicas[replica % health.replicas.len()].sound_header(part)
    };
    let of_part = |replica: usize, part: usize| {
        sound(replica, part).map_or([0; 16], |header| header.uuid(PmdkUuidField::Part))
    };
    let mut all: Vec<Uuids> = counts
        .iter()
        .enumerate()
        .map(|(replica, count)| (0..*count).map(|part| of_part(replica, part)).collect())
        .collect();
    for (replica, count) in counts.iter().copied().enumerate() {
        for part in (0..count).filter(|part| sound(replica, *part).is_none()) {
            // Parts in a circle: the one before the first is the last.
            let [before, after] = [part + count - 1, part + 1];
            let from_part = sound(replica, before)
                .map(|header| header.uuid(PmdkUuidField::NextPart))
                .or_else(|| sound(replica, after).map(|header| header.uuid(PmdkUuidField::PrevPart)));
            let replica_before = replica + counts.len() - 1;
            let from_replica = || {
                sound(replica_before, 0)
                    .map(|header| header.uuid(PmdkUuidField::NextReplica))
                    .or_else(|| sound(replica + 1, 0).map(|header| header.uuid(PmdkUuidField::PrevReplica)))
            };
            let uuid = match from_part {
                _ if are_new => None,
                None if part == 0 => from_replica(),
                found => found,
            };
            let is_of_replica = from_part.is_none() && part == 0;
            if let Some(uuid) = uuid.filter(|_| is_of_replica)
                && all[..replica].iter().any(|uuids| uuids.first() == Some(&uuid))
            {
                return Err(ReplicaFault::RepeatedUuid);
            }
            all[replica][part] = uuid.unwrap_or_else(new_uuid);
        }
    }
    Ok(all)
}

/// Returns the elements before and after the one at `index`, in a circle.
fn neighbours(uuids: &[[u8; 16]], index: usize) -> [[u8; 16]; 2] {
    let len = uuids.len();
    [uuids[(index + len - 1) % len], uuids[(index + 1) % len]]
}

/// Stores all UUIDs in the header of a part. The checksum is wrong then.
pub(crate) fn link(
    header: &mut StoredPmdkHeader,
    pool: [u8; 16],
    uuids: &[Uuids],
    replica: usize,
    part: usize,
) {
    let firsts: Uuids = uuids.iter().filter_map(|uuids| uuids.first().copied()).collect();
    let [prev_part, next_part] = neighbours(&uuids[replica], part);
    let [prev_replica, next_replica] = neighbours(&firsts, replica);
    header.set_uuid(PmdkUuidField::PoolSet, pool);
    header.set_uuid(PmdkUuidField::Part, uuids[replica][part]);
    header.set_uuid(PmdkUuidField::PrevPart, prev_part);
    header.set_uuid(PmdkUuidField::NextPart, next_part);
    header.set_uuid(PmdkUuidField::PrevReplica, prev_replica);
    header.set_uuid(PmdkUuidField::NextReplica, next_replica);
}
