//! What cargo and the root `Cargo.toml` tell about the workspace.

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, MetadataCommand, TargetKind};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace: where it is, its packages, and the rules in its metadata.
#[derive(Default)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Where cargo builds.
    pub(crate) target: PathBuf,
    /// Libraries of the toolchain.
    pub(crate) libraries: PathBuf,
    pub(crate) packages: Vec<Package>,
    pub(crate) rules: Rules,
}

/// A package of the workspace.
#[derive(Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// What cargo calls it in its messages.
    pub(crate) id: String,
    /// Its folder, relative to the root.
    pub(crate) folder: PathBuf,
    pub(crate) features: Vec<String>,
    /// The names of its integration tests: `tests/NAME.rs`.
    pub(crate) tests: Vec<String>,
    pub(crate) dependencies: Vec<Dependency>,
}

/// What a package says that it needs.
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) only_for_tests: bool,
}

/// `workspace.metadata` of the root `Cargo.toml`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Rules {
    /// The floor of each crate, those to come included.
    pub(crate) floors: BTreeMap<String, u32>,
    /// Crates outside of the floors.
    pub(crate) tools: Crates,
    /// Tests to run in Miri.
    pub(crate) miri: Interpreted,
    /// Tests to run in a build with the seeded bugs.
    pub(crate) bugs: Tests,
    /// Tests that are not run without assertions.
    pub(crate) release: LeftOut,
    /// Files and folders that may hold unsafe code.
    #[serde(rename = "unsafe")]
    pub(crate) unsafe_code: Allowed,
    /// Identifiers that may hold a banned word.
    pub(crate) words: Allowed,
}

/// A list of crates.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Crates {
    pub(crate) crates: Vec<String>,
}

/// A list of tests, each by its package and what in it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Tests {
    pub(crate) tests: Vec<String>,
}

/// Tests to run in Miri, each by its package and the module of its library.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Interpreted {
    pub(crate) tests: Vec<String>,
    /// Those that are too long for `make test`, which leaves them out by `ignore`.
    pub(crate) soak: Vec<String>,
}

/// Test programs by how their names begin: `-p PACKAGE --test TEST`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct LeftOut {
    #[serde(rename = "left-out")]
    pub(crate) left_out: Vec<String>,
}

/// A list of exceptions.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Allowed {
    pub(crate) allowed: Vec<String>,
}

impl Workspace {
    /// Asks cargo about the workspace that this program was built from.
    pub(crate) fn load() -> Result<Workspace> {
        let metadata = MetadataCommand::new().no_deps().other_options(vec!["--locked".into()]).exec()?;
        let root = metadata.workspace_root.as_std_path();
        let rustc = Command::new("rustc").current_dir(root).args(["--print", "target-libdir"]).output();
        let libraries = rustc.context("rustc")?.stdout;
        let rules = serde_json::from_value(metadata.workspace_metadata.clone())
            .context("Cargo.toml: workspace.metadata is not as xtask/src/workspace.rs reads it")?;
        let packages = metadata.workspace_packages().into_iter().map(|package| read(root, package)).collect();
        Ok(Workspace {
            root: root.to_path_buf(),
            target: metadata.target_directory.into_std_path_buf(),
            libraries: String::from_utf8(libraries)?.trim_end().into(),
            packages,
            rules,
        })
    }

    /// The packages that have an integration test of this name.
    pub(crate) fn with_test<'a>(&'a self, test: &'a str) -> impl Iterator<Item = &'a Package> {
        self.packages.iter().filter(move |package| package.tests.iter().any(|name| name == test))
    }
}

fn read(root: &Path, package: &cargo_metadata::Package) -> Package {
    let folder = package.manifest_path.as_std_path().parent().unwrap_or(root);
    let dependencies = package.dependencies.iter().map(|dependency| Dependency {
        name: dependency.name.clone(),
        only_for_tests: dependency.kind == DependencyKind::Development,
    });
    let tests = package.targets.iter().filter(|target| target.kind.contains(&TargetKind::Test));
    Package {
        name: package.name.to_string(),
        id: package.id.repr.clone(),
        folder: folder.strip_prefix(root).unwrap_or(folder).to_path_buf(),
        features: package.features.keys().cloned().collect(),
        tests: tests.map(|target| target.name.clone()).collect(),
        dependencies: dependencies.collect(),
    }
}
