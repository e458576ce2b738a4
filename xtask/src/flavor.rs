//! How the workspace is built for tests. What builds differ in stands in `.cargo/NAME.toml`.

use crate::cargo::Cargo;
use crate::workspace::Workspace;
use std::ffi::OsString;
use std::path::Path;

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
    /// The name of its file in `.cargo/`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Flavor::Checked => "config",
            Flavor::Shipped => "shipped",
            Flavor::Bugs => "bugs",
            Flavor::Loom => "loom",
        }
    }

    /// The options of cargo, in front of its command, for a workspace whose root is `root`, or a copy of it.
    pub(crate) fn options(self, root: &Path) -> Vec<OsString> {
        if self == Flavor::Checked {
            return Vec::new();
        }
        vec!["--config".into(), root.join(".cargo").join(self.name()).with_extension("toml").into()]
    }

    /// A call of cargo that builds so.
    pub(crate) fn cargo(self, workspace: &Workspace, words: &str) -> Cargo {
        match self {
            Flavor::Checked => Cargo::stable(workspace, words),
            _ => Cargo::stable(workspace, &format!("--config .cargo/{}.toml {words}", self.name())),
        }
    }
}
