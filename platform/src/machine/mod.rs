//! A machine: what is plugged in, and through which tools it is seen.

mod handle;
mod module;
mod profile;
mod source;
mod typo;

pub use handle::Handle;
pub use module::{Dram, Health, Memmap, Module, Security, Sensors};
pub use profile::{IpmctlGeneration, KernelVersion, PersistenceDomain, Profile};
pub use source::MachineFault;
pub use typo::nearest;

/// The machines that are included, with their files.
pub const INCLUDED: [(&str, &str); 5] = [
    ("fujitsu-primergy", include_str!("../../machines/fujitsu-primergy.toml")),
    ("e4-pmserver", include_str!("../../machines/e4-pmserver.toml")),
    ("e4-storage", include_str!("../../machines/e4-storage.toml")),
    ("lab-one", include_str!("../../machines/lab-one.toml")),
    ("lab-pair", include_str!("../../machines/lab-pair.toml")),
];

/// Bytes at the start of each module's media that firmware keeps for itself.
pub const FIRMWARE_SPACE: u64 = 256 << 20;

/// A machine: what is plugged in, and through which tools it is seen.
#[derive(Clone, Debug)]
pub struct Machine {
    /// What it is called.
    pub name: String,
    /// Which tools and which kernel it is seen through.
    pub profile: Profile,
    /// Bytes of which firmware gives capacity to goals in whole multiples.
    pub alignment: u64,
    /// The persistent memory modules, in the order of firmware's tables: the kernel numbers them so.
    pub modules: Vec<Module>,
    /// The DRAM modules, in the order of firmware's tables.
    pub dram: Vec<Dram>,
    /// DRAM that the kernel was told to take for persistent memory.
    pub memmap: Vec<Memmap>,
    /// Whether firmware looks for bad blocks; that of virtual machines does not.
    pub firmware_scrubs: bool,
}

impl Machine {
    /// The machine that a text in TOML describes.
    ///
    /// # Errors
    /// What is wrong, with its line and column where it has one.
    pub fn parse(text: &str) -> Result<Machine, MachineFault> {
        source::parse(text)
    }

    /// The text of an included machine.
    ///
    /// # Errors
    /// [`MachineFault::NotIncluded`], with the nearest name.
    pub fn included(name: &str) -> Result<&'static str, MachineFault> {
        let found = INCLUDED.iter().find(|(known, _)| *known == name);
        found.map(|(_, text)| *text).ok_or_else(|| MachineFault::NotIncluded {
            name: name.to_owned(),
            meant: nearest(name, INCLUDED.iter().map(|(known, _)| *known)).map(str::to_owned),
        })
    }

    /// The module with this handle.
    pub fn module(&self, handle: Handle) -> Option<&Module> {
        self.modules.iter().find(|module| module.handle == handle)
    }

    /// The number by which the kernel calls a module: N of nmemN.
    pub fn module_index(&self, handle: Handle) -> Option<usize> {
        self.modules.iter().position(|module| module.handle == handle)
    }

    /// The sockets, ascending.
    pub fn sockets(&self) -> Vec<u16> {
        let modules = self.modules.iter().map(|module| module.handle.socket());
        let mut sockets: Vec<u16> = modules.chain(self.dram.iter().map(|dram| dram.socket)).collect();
        sockets.sort_unstable();
        sockets.dedup();
        sockets
    }

    /// Bytes of a module that goals can give to one use or another.
    pub fn usable_capacity(&self, module: &Module) -> u64 {
        lode_layout::align_down(module.capacity.saturating_sub(FIRMWARE_SPACE), self.alignment)
    }

    /// Bytes of DRAM on a socket.
    pub fn dram_capacity(&self, socket: u16) -> u64 {
        self.dram.iter().filter(|dram| dram.socket == socket).map(|dram| dram.capacity).sum()
    }
}
