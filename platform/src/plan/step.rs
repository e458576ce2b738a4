//! The steps of a plan.

use super::real::CxlRegion;
use crate::error::PlatformError;
use crate::goal::{GoalRequest, Targets};
use crate::machine::Handle;
use crate::namespace::{CreateNamespace, Mode};
use crate::platform::Platform;
use uuid::Uuid;

/// One action on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Destroys a namespace and its data.
    DestroyNamespace {
        /// The kernel's name.
        name: String,
        /// Its mode.
        mode: Mode,
        /// Size in bytes.
        size: u64,
    },
    /// Deletes goals that did not take effect yet.
    DeleteGoals {
        /// The modules with these goals.
        modules: Vec<Handle>,
    },
    /// Creates goals, which partition modules at the next reboot.
    CreateGoals {
        /// The modules and their partitioning.
        request: GoalRequest,
    },
    /// Reboots the machine.
    Reboot,
    /// On a real machine: gives labels to the modules of a region, since namespaces need them.
    LabelRegion {
        /// N of regionN.
        region: u32,
        /// Its modules: N of nmemN.
        modules: Vec<u32>,
    },
    /// On a real machine: makes a region of CXL devices.
    FormRegion {
        /// The region.
        region: CxlRegion,
    },
    /// Creates a namespace.
    CreateNamespace {
        /// Its region and size.
        wanted: CreateNamespace,
        /// The socket of the region.
        socket: u16,
        /// The kernel's name of the namespace.
        name: String,
    },
}

impl Step {
    /// Executes the step.
    ///
    /// # Errors
    /// Those of the action, and [`OnlyReal`](PlatformError::OnlyReal) for an action that emulated machines do not have.
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
