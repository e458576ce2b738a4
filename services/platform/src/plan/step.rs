//! The steps of a plan.

use super::real::cxl::CxlRegion;
use super::rule::RuleError;
use crate::boot::reboot;
use crate::goal::{self, GoalRequest, Targets};
use crate::machine::Handle;
use crate::namespace::{self, CreateNamespace, Mode};
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
    /// Deletes the configuration data of modules, which count as not configured from then on.
    ClearConfiguration {
        /// The modules.
        modules: Vec<Handle>,
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
        parameters: CreateNamespace,
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
    /// Those of the action, and [`RealMachineOnly`](RuleError::RealMachineOnly) for an action that emulated machines do
    /// not have.
    pub fn run(&self, platform: &mut Platform, uuids: &mut dyn FnMut() -> Uuid) -> Result<(), RuleError> {
        match self {
            Step::DestroyNamespace { name, .. } => namespace::destroy(platform, name, true)?,
            Step::DeleteGoals { modules } => {
                let targets = Targets { modules: modules.clone(), ..Targets::default() };
                goal::delete(platform, &targets)?;
            }
            Step::CreateGoals { request } => {
                let goals = goal::plan(platform, request)?;
                goal::create(platform, goals);
            }
            Step::ClearConfiguration { modules } => {
                let targets = Targets { modules: modules.clone(), ..Targets::default() };
                goal::clear(platform, &targets)?;
            }
            Step::Reboot => drop(reboot(platform)),
            Step::LabelRegion { .. } | Step::FormRegion { .. } => return Err(RuleError::RealMachineOnly),
            Step::CreateNamespace { parameters, .. } => drop(namespace::create(platform, parameters, uuids)?),
        }
        Ok(())
    }
}
