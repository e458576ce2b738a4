//! The steps of a plan.

use super::real::CxlRegion;
use crate::error::PlatformError;
use crate::goal::{GoalRequest, Targets};
use crate::machine::Handle;
use crate::namespace::{CreateNamespace, Mode};
use crate::platform::Platform;
use uuid::Uuid;

/// One thing that is done to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A namespace is unmade: its data is gone.
    DestroyNamespace {
        /// Its name in the kernel.
        name: String,
        /// What was made of it.
        mode: Mode,
        /// Its bytes.
        size: u64,
    },
    /// Goals that did not take effect yet are taken back.
    DeleteGoals {
        /// The modules that have them.
        modules: Vec<Handle>,
    },
    /// Modules are to be divided anew at the next start.
    CreateGoals {
        /// Which, and how.
        request: GoalRequest,
    },
    /// The machine is started anew.
    Reboot,
    /// Of a real machine: the modules of a region without labels get labels, so that namespaces can be made in it.
    LabelRegion {
        /// N of regionN.
        region: u32,
        /// Its modules: N of nmemN.
        modules: Vec<u32>,
    },
    /// Of a real machine: CXL devices become a region.
    FormRegion {
        /// Which.
        region: CxlRegion,
    },
    /// A namespace is made.
    CreateNamespace {
        /// In which region, how large.
        wanted: CreateNamespace,
        /// The socket of the region.
        socket: u16,
        /// What it is called when it is made.
        name: String,
    },
}

impl Step {
    /// Does it.
    ///
    /// # Errors
    /// Those of what is done, and [`OnlyReal`](PlatformError::OnlyReal) where an emulated machine has no such thing.
    pub fn run(&self, platform: &mut Platform, uuids: &mut dyn FnMut() -> Uuid) -> Result<(), PlatformError> {
        match self {
            Step::DestroyNamespace { name, .. } => platform.destroy_namespace(name, true),
            Step::DeleteGoals { modules } => {
                let targets = Targets { modules: modules.clone(), ..Targets::default() };
                platform.delete_goals(&targets).map(drop)
            }
            Step::CreateGoals { request } => {
                let goals = platform.plan_goals(request)?;
                platform.create_goals(goals);
                Ok(())
            }
            Step::Reboot => {
                platform.reboot();
                Ok(())
            }
            Step::LabelRegion { .. } | Step::FormRegion { .. } => Err(PlatformError::OnlyReal),
            Step::CreateNamespace { wanted, .. } => platform.create_namespace(wanted, uuids).map(drop),
        }
    }
}
