//! The identity of an interleave set: the cookie that firmware reports as its id and that every label carries.
#![doc = include_str!("set_info.md")]

use lode_layout::fletcher64;
use lode_layout::format_table;
use lode_layout::format_table::FormatTable;
use std::fmt;
use std::str::FromStr;
use zerocopy::byteorder::little_endian::U64;
use zerocopy::{Immutable, IntoBytes, Unaligned};

pub(crate) const TABLE: FormatTable = format_table!(
    "set_info",
    SetInfoBytes,
    [region_off, serial, vendor, manufacturing_date, manufacturing_location, reserved]
);

#[derive(IntoBytes, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct SetInfoBytes {
    region_off: U64,
    serial: [u8; 4],
    vendor: [u8; 2],
    manufacturing_date: [u8; 2],
    manufacturing_location: u8,
    reserved: [u8; 31],
}

/// Bytes of a `SetInfoBytes` that labels 1.1 cover: offset and serial number. Zeros follow.
const COMPAT_LEN: usize = core::mem::offset_of!(SetInfoBytes, vendor);
const COMPAT_PAD: [u8; 4] = [0; 4];

/// The identity of a module as firmware reports it, like `8089-a2-1834-000016b0`. Each field is stored in the byte
/// order of that text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId {
    /// The vendor's JEDEC number.
    pub vendor: [u8; 2],
    /// Manufacturing location, and date as year and week; `None` for modules that do not report it, such as QEMU's.
    pub made: Option<(u8, [u8; 2])>,
    /// The serial number.
    pub serial: [u8; 4],
}

/// Text that is not the identity of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the id of a module is vendor-serial or vendor-location-date-serial in 4, 2, 4 and 8 hexadecimal \
     digits"
)]
pub struct ModuleIdError;

impl fmt::Display for ModuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}-", u16::from_be_bytes(self.vendor))?;
        if let Some((location, date)) = self.made {
            write!(f, "{location:02x}-{:04x}-", u16::from_be_bytes(date))?;
        }
        write!(f, "{:08x}", u32::from_be_bytes(self.serial))
    }
}

impl FromStr for ModuleId {
    type Err = ModuleIdError;

    /// # Errors
    /// Fails if the text has another form than the one that [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<ModuleId, ModuleIdError> {
        let parts: Vec<&str> = text.split('-').collect();
        match *parts {
            [vendor, serial] => Ok(ModuleId { vendor: hex(vendor)?, made: None, serial: hex(serial)? }),
            [vendor, location, date, serial] => {
                let [location] = hex(location)?;
                let made = Some((location, hex(date)?));
                Ok(ModuleId { vendor: hex(vendor)?, made, serial: hex(serial)? })
            }
            _ => Err(ModuleIdError),
        }
    }
}

/// Returns the `N` bytes that `text` shows in hexadecimal digits.
fn hex<const N: usize>(text: &str) -> Result<[u8; N], ModuleIdError> {
    if text.len() != 2 * N || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(ModuleIdError);
    }
    let number = u64::from_str_radix(text, 16).map_err(|_| ModuleIdError)?;
    let mut bytes = [0; N];
    bytes.copy_from_slice(&number.to_be_bytes()[8 - N..]);
    Ok(bytes)
}

/// A module in an interleave set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetInfo {
    /// Offset in the region of the module's first line, in bytes: its position times the line.
    pub region_off: u64,
    /// Identity of the module.
    pub module: ModuleId,
}

/// Returns the cookie of the set of these modules for labels 1.2; their order does not matter. Firmware, ipmctl and
/// ndctl show it as the id of the set.
pub fn set_cookie(modules: &[SetInfo]) -> u64 {
    cookie(modules, |info| info.as_bytes().to_vec())
}

/// Returns the cookie of the same set for labels 1.1.
pub fn set_cookie_v1_1(modules: &[SetInfo]) -> u64 {
    cookie(modules, |info| [&info.as_bytes()[..COMPAT_LEN], &COMPAT_PAD].concat())
}

/// Returns the Fletcher-64 over the bytes that `fields` makes of each module's information.
fn cookie(modules: &[SetInfo], fields: impl Fn(&SetInfoBytes) -> Vec<u8>) -> u64 {
    let mut sorted = modules.to_vec();
    sorted.sort_by_key(|module| module.region_off);
    let bytes: Vec<u8> = sorted.iter().flat_map(|info| fields(&info.raw())).collect();
    fletcher64(&bytes)
}

impl SetInfo {
    fn raw(&self) -> SetInfoBytes {
        let (manufacturing_location, manufacturing_date) = self.module.made.unwrap_or_default();
        SetInfoBytes {
            region_off: self.region_off.into(),
            serial: self.module.serial,
            vendor: self.module.vendor,
            manufacturing_date,
            manufacturing_location,
            reserved: [0; 31],
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const LINE: u64 = 4096;

    fn set(ids: &[&str]) -> Vec<SetInfo> {
        let module = |(position, id): (usize, &&str)| SetInfo {
            region_off: position as u64 * LINE,
            module: id.parse().unwrap(),
        };
        ids.iter().enumerate().map(module).collect()
    }

    /// The two sets of the PRIMERGY machine whose listings `ipmctl show -region` and `ndctl list` printed.
    #[test]
    fn cookies_match_real_sets() {
        let pair = set(&["8089-a2-1834-000016b0", "8089-a2-1834-0000173b"]);
        assert_eq!(set_cookie(&pair), 0x8baa_eeb8_535e_2444);
        assert_eq!(set_cookie(&set(&["8089-a2-1834-00001a91"])), 0x7fe0_da90_c532_8a22);
        let turned: Vec<SetInfo> = pair.into_iter().rev().collect();
        assert_eq!(set_cookie(&turned), 0x8baa_eeb8_535e_2444, "the order of the list does not matter");
    }

    #[test]
    fn cookie_depends_on_position() {
        let ids = ["8089-a2-1834-000016b0", "8089-a2-1834-0000173b"];
        assert_ne!(set_cookie(&set(&ids)), set_cookie(&set(&[ids[1], ids[0]])));
        assert_ne!(set_cookie_v1_1(&set(&ids)), set_cookie_v1_1(&set(&[ids[1], ids[0]])));
    }

    #[test]
    fn v1_1_cookie_covers_offset_and_serial() {
        let with = set(&["8089-a2-1834-000016b0"]);
        assert_eq!(set_cookie_v1_1(&with), set_cookie_v1_1(&set(&["8086-000016b0"])));
        // Two words of offset, the serial number in the byte order of its id, one word of zeros.
        assert_eq!(
            set_cookie_v1_1(&with),
            fletcher64(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16, 0xb0, 0, 0, 0, 0])
        );
    }

    #[test]
    fn module_ids_round_trip_as_text() {
        for id in ["8089-a2-1834-000016b0", "8680-56341200", "ffff-00-0000-ffffffff"] {
            assert_eq!(id.parse::<ModuleId>().unwrap().to_string(), id);
        }
        for bad in [
            "",
            "8089",
            "8089-a2-1834",
            "8089-a2-1834-16b0",
            "8089-a2-1834-000016b0-",
            "+089-000016b0",
            "80 9-000016b0",
        ] {
            assert_eq!(bad.parse::<ModuleId>(), Err(ModuleIdError), "{bad:?}");
        }
    }
}
