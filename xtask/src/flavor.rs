//! How the workspace is built for tests. What builds differ in stands in `.cargo/NAME.toml`.

use crate::cargo::Cargo;
use crate::workspace::Workspace;

/// A build of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavor {
    /// With every assertion and overflow check.
    Checked,
    /// Without them, as the program ships.
    Shipped,
    /// With the seeded bugs: `cfg(lode_bugs)`.
    Bugs,
    /// With loom's atomics: `cfg(loom)`.
    Loom,
}

impl Flavor {
    /// A call of cargo that builds so.
    pub(crate) fn cargo(self, workspace: &Workspace, words: &str) -> Cargo {
        let configured =
            |name: &str| Cargo::stable(workspace, &format!("--config .cargo/{name}.toml {words}"));
        match self {
            Flavor::Checked => Cargo::stable(workspace, words),
            Flavor::Shipped => configured("shipped"),
            Flavor::Bugs => configured("bugs"),
            Flavor::Loom => configured("loom"),
        }
    }
}
