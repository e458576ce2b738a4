//! The builds of the workspace for tests. Their differences are in `.cargo/NAME.toml`.

use crate::cargo::Cargo;
use crate::workspace::Workspace;
use std::ffi::OsString;
use std::path::Path;

/// A build of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavor {
    /// Build with every assertion and overflow check.
    Checked,
    /// Build without them, as the program ships.
    Shipped,
    /// Build with the seeded bugs: `cfg(lode_bugs)`.
    Bugs,
    /// Build with loom's atomics: `cfg(loom)`.
    Loom,
}

impl Flavor {
    /// Returns the name of the build's file in `.cargo/`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Flavor::Checked => "checked",
            Flavor::Shipped => "shipped",
            Flavor::Bugs => "bugs",
            Flavor::Loom => "loom",
        }
    }

    /// Returns the options of cargo for a workspace with this `root`, or a copy of it.
    pub(crate) fn options(self, root: &Path) -> Vec<OsString> {
        vec!["--config".into(), root.join(".cargo").join(self.name()).with_extension("toml").into()]
    }

    /// Returns a call of cargo for this build.
    pub(crate) fn cargo(self, workspace: &Workspace, words: &str) -> Cargo {
        Cargo::stable(workspace, &format!("--config .cargo/{}.toml {words}", self.name()))
    }
}
