//! The fields that labels of all kinds share, and their checks.

use crate::label_error::{LabelDamage, LabelError};
use lode_layout::fletcher64_with_hole;
use lode_layout::{InvalidField, Want};
use std::borrow::Cow;
use std::fmt;
use uuid::{Uuid, uuid};

/// Alignment of the ranges of labels, in bytes.
const DPA_UNIT: u64 = 4096;

/// The name of a namespace, chosen by a user.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LabelName([u8; LabelName::LEN]);

impl LabelName {
    /// Bytes of the field; the longest name is one byte shorter.
    pub const LEN: usize = 64;
    /// No name.
    pub const NONE: LabelName = LabelName([0; LabelName::LEN]);

    /// Returns the name `text`.
    ///
    /// # Errors
    /// Fails if `text` has more than 63 bytes or contains a zero character.
    pub fn new(text: &str) -> Result<LabelName, LabelError> {
        if text.len() >= LabelName::LEN || text.contains('\0') {
            return Err(LabelError::Name { len: text.len() });
        }
        let mut field = [0; LabelName::LEN];
        field[..text.len()].copy_from_slice(text.as_bytes());
        Ok(LabelName(field))
    }

    /// Returns the name stored as `field`, without checks.
    pub(crate) const fn from_field(field: [u8; LabelName::LEN]) -> LabelName {
        LabelName(field)
    }

    /// Returns the field as stored, the inverse of [`from_field`](LabelName::from_field).
    pub(crate) const fn field(&self) -> [u8; LabelName::LEN] {
        self.0
    }

    /// Returns the name up to its first zero. Replaces bytes that are not UTF-8.
    pub fn text(&self) -> Cow<'_, str> {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(LabelName::LEN);
        String::from_utf8_lossy(&self.0[..end])
    }
}

impl fmt::Debug for LabelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

/// The flags of a label, including bits without a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LabelFlags(pub u32);

impl LabelFlags {
    /// The label must not be changed.
    pub const READ_ONLY: LabelFlags = LabelFlags(1);
    /// The namespace lies inside of one module: a block-window namespace. Current kernels do not support it.
    pub const LOCAL: LabelFlags = LabelFlags(2);
    /// The labels of the set are being written. The namespace is complete when all of them are written without this
    /// flag.
    pub const UPDATING: LabelFlags = LabelFlags(8);

    /// Returns true if all bits of `flags` are set.
    pub const fn has(self, flags: LabelFlags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// The user of a namespace, which determines the kind of info block in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abstraction {
    /// No user: a raw namespace, or a label from before labels named a user.
    None,
    /// A BTT with its info block at 4096.
    Btt,
    /// A BTT with its info block at 0.
    Btt2,
    /// A page map: fsdax.
    PageMap,
    /// A character device: devdax.
    DeviceDax,
    /// A user that this code does not know.
    Other(Uuid),
}

impl Abstraction {
    const KNOWN: [(Abstraction, Uuid); 5] = [
        (Abstraction::None, Uuid::nil()),
        (Abstraction::Btt, uuid!("8aed63a2-29a2-4c66-8b12-f05d15d3922a")),
        (Abstraction::Btt2, uuid!("18633bfc-1735-4217-8ac9-17239282d3f8")),
        (Abstraction::PageMap, uuid!("266400ba-fb9f-4677-bcb0-968f11d0d225")),
        (Abstraction::DeviceDax, uuid!("97a86d9c-3cdd-4eda-986f-5068b4f80088")),
    ];

    /// Returns the GUID of the user.
    pub fn uuid(self) -> Uuid {
        match self {
            Abstraction::Other(uuid) => uuid,
            known => Abstraction::KNOWN
                .iter()
                .find(|(one, _)| *one == known)
                .map_or(Uuid::nil(), |(_, uuid)| *uuid),
        }
    }

    /// Returns the user with this GUID.
    pub fn from_uuid(uuid: Uuid) -> Abstraction {
        let known = Abstraction::KNOWN.iter().find(|(_, one)| *one == uuid);
        known.map_or(Abstraction::Other(uuid), |(abstraction, _)| *abstraction)
    }
}

/// The kind of memory that is persistent and byte-addressable, as in the range type of the NFIT.
pub const PERSISTENT_MEMORY: Uuid = uuid!("66f0d379-b4f3-4074-ac43-0d3318b78cdb");

/// Checks the checksum `found` of a label, stored at `hole` in its `bytes`.
pub(crate) fn check_sum(bytes: &[u8], hole: usize, found: u64) -> Result<(), LabelDamage> {
    let want = fletcher64_with_hole(bytes, hole);
    if want == found { Ok(()) } else { Err(LabelDamage::Checksum { want, found }) }
}

/// Checks the slot number and the range that the label in slot `slot` states.
pub(crate) fn check_place(found: u32, slot: u32, dpa: u64, raw_size: u64) -> Result<(), InvalidField> {
    Want::Exactly(slot.into()).check("slot", 0, found.into())?;
    Want::MultipleOf(DPA_UNIT).check("dpa", 0, dpa)?;
    Want::MultipleOf(DPA_UNIT).check("raw_size", 0, raw_size)?;
    Want::AtMost(u64::MAX - dpa).check("raw_size", 0, raw_size)?;
    Ok(())
}
