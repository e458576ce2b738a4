//! A machine: its hardware, and the tool versions that it emulates.

use super::cxl::CxlHardware;
use super::firmware_activation::FirmwareActivation;
use super::handle::Handle;
use super::module::{Dram, Memmap, Module, SoftReserved};
use super::profile::Profile;

/// Bytes at the start of each module's media that firmware keeps for itself.
pub const FIRMWARE_SPACE: u64 = 256 << 20;

/// A machine: its hardware, and the tool versions that it emulates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name of the machine.
    pub name: String,
    /// Versions of the emulated tools and kernel.
    pub profile: Profile,
    /// Alignment in bytes of the capacity that firmware gives to goals.
    pub alignment: u64,
    /// The persistent memory modules in the order of firmware's tables, which the kernel numbers them in.
    pub modules: Vec<Module>,
    /// The DRAM modules, in the order of firmware's tables.
    pub dram: Vec<Dram>,
    /// DRAM that the kernel uses as persistent memory (`memmap=`).
    pub memmap: Vec<Memmap>,
    /// Memory that firmware reserves for applications.
    pub soft_reserved: Vec<SoftReserved>,
    /// CXL memory. Regions of it are planned for real machines only.
    pub cxl: CxlHardware,
    /// True if firmware scrubs for bad blocks. Firmware of virtual machines does not.
    pub firmware_scrubs: bool,
    /// The way in which the platform activates staged firmware of modules.
    pub firmware_activation: FirmwareActivation,
}

impl Machine {
    /// Returns the module with this handle.
    pub fn module(&self, handle: Handle) -> Option<&Module> {
        self.modules.iter().find(|module| module.handle == handle)
    }

    /// Returns the kernel's number of a module: N of nmemN.
    pub fn module_index(&self, handle: Handle) -> Option<usize> {
        self.modules.iter().position(|module| module.handle == handle)
    }

    /// Returns the sockets, ascending.
    pub fn sockets(&self) -> Vec<u16> {
        let modules = self.modules.iter().map(|module| module.handle.socket());
        let mut sockets: Vec<u16> = modules.chain(self.dram.iter().map(|dram| dram.socket)).collect();
        sockets.sort_unstable();
        sockets.dedup();
        sockets
    }

    /// Returns the bytes of a module that goals can allocate.
    pub fn usable_capacity(&self, module: &Module) -> u64 {
        lode_layout::align_down(module.capacity.saturating_sub(FIRMWARE_SPACE), self.alignment)
    }

    /// Returns the bytes of DRAM on a socket.
    pub fn dram_capacity(&self, socket: u16) -> u64 {
        self.dram.iter().filter(|dram| dram.socket == socket).map(|dram| dram.capacity).sum()
    }
}
