//! Poison lists of devices.
//!
//! ```text
//! inject           adds a record: the line can't be read
//! clear            writes zeros to the line, and removes the record
//! write            a write that replaces the whole line removes the record, too
//! ```

use super::dpa;
use super::error::{CxlErrno, CxlError};
use super::stored::CxlPoison;
use crate::machine::Handle;
use crate::platform::Platform;

/// Records that the poison list of a device takes.
pub(super) const RECORDS_MAX: usize = 256;

/// Poisons the line at an address of a device. A poisoned line stays so.
///
/// # Errors
/// Fails if the device does not exist or is disabled, if the address is no multiple of 64 or not on the device, or if the
/// poison list of the device is full.
pub fn inject_poison(platform: &mut Platform, device: u32, address: u64) -> Result<(), CxlError> {
    check(platform, device, address, "inject")?;
    let poison = &mut platform.state.cxl.poison;
    let new = CxlPoison { device, off: address };
    let Err(at) = poison.binary_search(&new) else { return Ok(()) };
    if poison.iter().filter(|one| one.device == device).count() >= RECORDS_MAX {
        let why = "the poison list of the device is full; clear a line of it first";
        return Err(refused(device, address, "inject", CxlErrno::Busy, why));
    }
    poison.insert(at, new);
    // A load skips a block with a poisoned line.
    platform.contents.forget_blocks(Handle::of_cxl(device), &(address..address + CxlPoison::LEN));
    Ok(())
}

/// Writes zeros to the line at an address of a device, poisoned or not.
///
/// # Errors
/// Fails if the device does not exist or is disabled, or if the address is no multiple of 64 or not on the device.
pub fn clear_poison(platform: &mut Platform, device: u32, address: u64) -> Result<(), CxlError> {
    check(platform, device, address, "clear")?;
    platform.state.cxl.clear_poison(device, &(address..address + CxlPoison::LEN));
    platform.contents.write_zeros(Handle::of_cxl(device), address, CxlPoison::LEN);
    Ok(())
}

/// Checks an address as the kernel does: it shows the files of an enabled device only.
fn check(platform: &Platform, device: u32, address: u64, verb: &'static str) -> Result<(), CxlError> {
    dpa::endpoint(platform, device)?;
    let why = if address >= dpa::total(platform, device) {
        "the device ends before the address"
    } else if !address.is_multiple_of(CxlPoison::LEN) {
        "poison has an address that is a multiple of 64"
    } else {
        return Ok(());
    };
    Err(refused(device, address, verb, CxlErrno::Invalid, why))
}

fn refused(device: u32, address: u64, verb: &'static str, errno: CxlErrno, why: &'static str) -> CxlError {
    CxlError::Poison { verb, device, address: format!("{address:#x}"), errno, why }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::machine::Machine;

    const MACHINE: &str = "name = \"m\"\n[profile]\nipmctl = 3\nndctl = 76\nkernel = \"6.1\"\n[[cxl.bridge]]\nid = 0\n\
        [[cxl.device]]\nserial = \"0x1\"\nbridge = 0\npersistent = \"1GiB\"\n[[cxl.device]]\nserial = \"0x2\"\nbridge = 0\n\
        persistent = \"1GiB\"\n[[cxl.window]]\nsize = \"4GiB\"\nbridges = [0]\npersistent = true\n";

    /// A device reads a line, changes a part of it and writes it back: a write of a part does not mend the line.
    #[test]
    fn only_writes_of_whole_lines_clear_poison() {
        let mut platform = Platform::new(Machine::parse(MACHINE).unwrap());
        for (device, address) in [(0, 0), (0, 64), (0, 128), (1, 64)] {
            inject_poison(&mut platform, device, address).unwrap();
        }
        let state = &mut platform.state;
        state.clear_errors(Handle::of_cxl(0), 1, 126);
        assert_eq!(state.cxl.poison.len(), 4);
        assert_eq!(state.unreadable(Handle::of_cxl(0), &(70..200)), Some((70, 58)));
        state.clear_errors(Handle::of_cxl(0), 1, 191);
        let left: Vec<_> = state.cxl.poison.iter().map(|one| (one.device, one.off)).collect();
        assert_eq!(left, [(0, 0), (1, 64)]);
    }

    /// The loaded blocks are those that a load after the change finds.
    #[test]
    fn loaded_blocks_follow_poison() {
        let mut platform = Platform::new(Machine::parse(MACHINE).unwrap());
        let (module, other) = (Handle::of_cxl(0), Handle::of_cxl(1));
        for (of, off) in [(module, 4096), (module, 8192), (other, 4096)] {
            platform.contents.load_block(of, off, vec![7; 4096]);
        }
        clear_poison(&mut platform, 0, 4096 + 64).unwrap();
        let mut cleared = vec![7; 4096];
        cleared[64..128].fill(0);
        assert_eq!(platform.contents.block(module, 4096), Some(&cleared[..]));
        inject_poison(&mut platform, 0, 0).unwrap();
        inject_poison(&mut platform, 0, 8192 - 64).unwrap();
        assert_eq!(platform.contents.block(module, 4096), None);
        for (of, off) in [(module, 8192), (other, 4096)] {
            assert_eq!(platform.contents.block(of, off), Some(&[7; 4096][..]));
        }
    }
}
