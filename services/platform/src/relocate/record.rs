//! Namespaces that leave their modules and come back, as the state has them.

use crate::machine::Handle;
use crate::namespace::{MapLocation, Mode};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use uuid::Uuid;

/// A namespace whose data is moved to another place, has been moved there, or comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relocation {
    /// UUID of the namespace at home, before and after.
    pub uuid: Uuid,
    /// The kernel's name of it when the move began.
    pub device: String,
    /// The module that it leaves; `None` if it only grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<Handle>,
    /// Size in bytes that it gets when it comes back; `None` for one that has room for the same data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grow_to: Option<u64>,
    /// The user's name.
    pub name: String,
    /// Its mode.
    pub mode: Mode,
    /// Number of modules of its region at home.
    pub ways: usize,
    /// Size in bytes, including page map and BTT metadata.
    pub size: u64,
    /// Bytes that are available to its user.
    pub usable: u64,
    /// Place of its page map.
    pub map: MapLocation,
    /// Alignment of its page map, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<u64>,
    /// Sector size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sector_size: Option<u64>,
    /// The other place.
    pub place: Place,
    /// The step that was done last.
    pub stage: Stage,
    /// True once it is to come back: its module was exchanged, or the user asked for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub returns: bool,
    /// The module that was exchanged before it comes back; `None` if the user asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchanged: Option<Handle>,
    /// Digest of the data, once it was copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The place of data that is away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Place {
    /// The namespace with this UUID.
    Namespace(Uuid),
    /// A file with the user's data, as an image without labels. That of a growth is relative to the directory of the machine.
    File(PathBuf),
}

/// The step of a move that was done last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The other place is chosen, and the namespace there was made.
    Leaving,
    /// The data was copied to the other place. It is still at home, too.
    Copied,
    /// The copy was read back and compared, and the namespace at home destroyed.
    Away,
    /// The namespace at home was made again.
    Returning,
    /// The data was copied home. It is still in the other place, too.
    Returned,
}

impl Relocation {
    /// Returns the number of its region at home when the move began.
    pub fn region(&self) -> u32 {
        let numbers = self.device.strip_prefix("namespace").and_then(|rest| rest.split_once('.'));
        numbers.and_then(|(region, _)| region.parse().ok()).unwrap_or(0)
    }

    /// Returns true if the move is a growth in place.
    pub fn is_growth(&self) -> bool {
        self.grow_to.is_some()
    }
}

/// Records that the namespace at home is destroyed. If it was itself the copy of a namespace that is away, the data of that
/// one is now in the new place.
pub(super) fn set_away(relocations: &mut Vec<Relocation>, moved: &Relocation) {
    let original = relocations
        .iter_mut()
        .find(|one| one.uuid != moved.uuid && one.place == Place::Namespace(moved.uuid));
    if let Some(original) = original {
        original.place = moved.place.clone();
        original.digest.clone_from(&moved.digest);
        relocations.retain(|one| one.uuid != moved.uuid);
    } else if let Some(one) = relocations.iter_mut().find(|one| one.uuid == moved.uuid) {
        one.stage = Stage::Away;
    }
}

/// Returns true if the namespace may leave: neither it nor a copy that it is takes part in a move that is not done.
pub(super) fn is_settled(relocations: &[Relocation], namespace: Uuid) -> bool {
    relocations.iter().all(|one| {
        one.uuid != namespace && (one.place != Place::Namespace(namespace) || one.stage == Stage::Away)
    })
}
