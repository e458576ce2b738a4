//! Parameters of goals.

use crate::machine::{Handle, Health, Machine, Module, ModuleError};
use crate::state::LabelVersion;

/// Parameters of `ipmctl create -goal`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoalRequest {
    /// The modules and sockets.
    pub targets: Targets,
    /// Volatile memory, in percent of each module.
    pub memory_percent: u8,
    /// Capacity that stays unmapped, in percent of each module.
    pub reserved_percent: u8,
    /// Mapping of the remaining capacity.
    pub kind: PersistentKind,
    /// Version of the labels to write.
    pub labels: LabelVersion,
}

/// Modules that a command applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// These modules; all if empty.
    pub modules: Vec<Handle>,
    /// The modules of these sockets; those of all sockets if empty.
    pub sockets: Vec<u16>,
}

/// Mapping of persistent memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PersistentKind {
    /// Interleaved over all modules of a socket.
    #[default]
    AppDirect,
    /// One set for each module.
    AppDirectNotInterleaved,
}

impl PersistentKind {
    /// Describes the mapping of the modules.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            PersistentKind::AppDirect => "interleaved",
            PersistentKind::AppDirectNotInterleaved => "each module by itself",
        }
    }
}

impl Targets {
    /// Returns the modules that the targets name, in the order of firmware's tables.
    ///
    /// # Errors
    /// [`UnknownModule`](ModuleError::UnknownModule), [`UnknownSocket`](ModuleError::UnknownSocket).
    pub fn resolve<'m>(&self, machine: &'m Machine) -> Result<Vec<&'m Module>, ModuleError> {
        if let Some(module) = self.modules.iter().find(|module| machine.module(**module).is_none()) {
            return Err(ModuleError::UnknownModule { module: *module });
        }
        let sockets = machine.sockets();
        if let Some(socket) = self.sockets.iter().find(|socket| !sockets.contains(socket)) {
            return Err(ModuleError::UnknownSocket { socket: *socket });
        }
        let meant = |module: &&Module| {
            (self.modules.is_empty() || self.modules.contains(&module.handle))
                && (self.sockets.is_empty() || self.sockets.contains(&module.handle.socket()))
        };
        Ok(machine.modules.iter().filter(meant).collect())
    }

    /// Returns the modules that answer, of those that the targets name.
    ///
    /// # Errors
    /// As [`resolve`](Targets::resolve); [`DeadModule`](ModuleError::DeadModule) if the targets name a module itself that does not
    /// answer.
    pub(crate) fn resolve_answering<'m>(&self, machine: &'m Machine) -> Result<Vec<&'m Module>, ModuleError> {
        let mut modules = self.resolve(machine)?;
        if self.modules.is_empty() {
            modules.retain(|module| module.health != Health::NonFunctional);
        }
        match modules.iter().find(|module| module.health == Health::NonFunctional) {
            Some(dead) => Err(ModuleError::DeadModule { module: dead.handle }),
            None => Ok(modules),
        }
    }
}
