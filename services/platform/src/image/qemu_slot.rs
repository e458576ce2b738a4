//! The modules that QEMU emulates.

use crate::state::LabelVersion;
use lode_nvdimm::{ModuleId, SetInfo, set_cookie, set_cookie_v1_1};

/// The serial number of the module in slot 0.
const SERIAL: u32 = 0x12_3456;
/// Intel's vendor id, in the byte order of module ids.
const VENDOR: [u8; 2] = [0x86, 0x80];

/// A slot of a virtual machine and the module that QEMU puts there. The module is a region of its own, and its identity
/// is derived from the number of the slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct QemuSlot(pub u8);

impl QemuSlot {
    /// Returns the identity of the module.
    pub fn module(self) -> ModuleId {
        let serial = (SERIAL + u32::from(self.0)).to_le_bytes();
        ModuleId { vendor: VENDOR, made: None, serial }
    }

    /// Returns the set cookie in the module's labels.
    pub fn cookie(self, labels: LabelVersion) -> u64 {
        let set = [SetInfo { region_off: 0, module: self.module() }];
        match labels {
            LabelVersion::V1_1 => set_cookie_v1_1(&set),
            LabelVersion::V1_2 => set_cookie(&set),
        }
    }

    /// Returns the slot of the module whose labels have this cookie.
    pub fn of_cookie(cookie: u64, labels: LabelVersion) -> Option<QemuSlot> {
        (0..=u8::MAX).map(QemuSlot).find(|slot| slot.cookie(labels) == cookie)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// A kernel listed and wrote these for two modules: `formats/nvdimm/tests/kernel_bytes_round_trip.rs`.
    #[test]
    fn identities_match_kernel() {
        assert_eq!(QemuSlot(0).module().to_string(), "8680-56341200");
        assert_eq!(QemuSlot(1).module().to_string(), "8680-57341200");
        assert_eq!(QemuSlot(0).cookie(LabelVersion::V1_2), 0xba_9012_0012_b4dc);
        assert_eq!(QemuSlot(1).cookie(LabelVersion::V1_1), 0x24_68ae_0012_3457);
    }

    #[test]
    fn slot_is_found_by_cookie() {
        for slot in [0, 1, 77, 255].map(QemuSlot) {
            for labels in [LabelVersion::V1_1, LabelVersion::V1_2] {
                assert_eq!(QemuSlot::of_cookie(slot.cookie(labels), labels), Some(slot));
            }
        }
        assert_eq!(QemuSlot::of_cookie(0x8baa_eeb8_535e_2444, LabelVersion::V1_2), None);
    }
}
