//! A plan: a sequence of steps, with its result.

use super::error::PlanError;
use super::loss::Loss;
use super::note::Note;
use super::step::Step;
use super::table::Table;
use crate::platform::Platform;
use uuid::Uuid;

/// The steps that give a machine the requested namespaces.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The steps, in this order.
    pub steps: Vec<Step>,
    /// The data that is lost.
    pub losses: Vec<Loss>,
    /// Remarks for the user.
    pub notes: Vec<Note>,
    /// Use of the capacity after the last step.
    pub table: Table,
}

impl Plan {
    /// Executes the plan on an emulated machine. The result is the plan's table if the machine did not change since the
    /// plan was made.
    ///
    /// # Errors
    /// Fails if a step is impossible because the machine has changed.
    pub fn run(&self, platform: &mut Platform, uuids: &mut dyn FnMut() -> Uuid) -> Result<(), PlanError> {
        self.steps.iter().try_for_each(|step| step.run(platform, uuids))?;
        Ok(())
    }
}
