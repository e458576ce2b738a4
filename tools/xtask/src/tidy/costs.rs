//! The rule that a test measures each golden file of costs.

use super::Finding;
use crate::workspace::Workspace;

/// Finds golden files that no test compares with anything.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let unmeasured =
        workspace.packages.iter().filter(|package| !package.tests.iter().any(|test| test == "cost"));
    let goldens = unmeasured.map(|package| package.folder.join("tests/cost.golden"));
    let left = goldens.filter(|golden| workspace.root.join(golden).exists());
    left.map(|golden| {
        Finding::new(&golden.display().to_string(), 1, "costs", "no tests/cost.rs measures it: delete it")
    })
    .collect()
}
