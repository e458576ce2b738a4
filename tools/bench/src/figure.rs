//! Figures of workloads without a peer.

use crate::targets::{Goal, workload};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// One figure of our own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// The workload.
    #[serde(rename = "work")]
    pub(crate) workload: String,
    /// The measured value, in the unit that [`targets`](crate::targets) names.
    pub(crate) value: f64,
}

impl Figure {
    /// Its goal.
    pub(crate) fn goal(&self) -> Result<&'static Goal> {
        let workload =
            workload(&self.workload).with_context(|| format!("no workload is called {}", self.workload))?;
        if matches!(workload.goal, Goal::Ratios(_)) {
            bail!("{} is measured against peers", self.workload);
        }
        Ok(&workload.goal)
    }
}
