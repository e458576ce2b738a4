//! Figures that have no peer to be compared with.

use crate::targets::{Goal, work};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// One figure of our own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// The work.
    pub(crate) work: String,
    /// The measured value, in the unit that [`targets`](crate::targets) names.
    pub(crate) value: f64,
}

impl Figure {
    /// Its goal.
    pub(crate) fn goal(&self) -> Result<&'static Goal> {
        let work = work(&self.work).with_context(|| format!("no work is called {}", self.work))?;
        if matches!(work.goal, Goal::Ratios(_)) {
            bail!("{} is measured against peers", self.work);
        }
        Ok(&work.goal)
    }
}
