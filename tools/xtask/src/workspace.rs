//! The workspace, as cargo and the root `Cargo.toml` describe it.

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, MetadataCommand, TargetKind};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace: its folder, its packages, and the rules in its metadata.
#[derive(Default)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// The folder in which cargo builds.
    pub(crate) target: PathBuf,
    /// Folder of the toolchain's libraries.
    pub(crate) libraries: PathBuf,
    pub(crate) packages: Vec<Package>,
    pub(crate) rules: Rules,
}

/// A package of the workspace.
#[derive(Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Identifier of the package in cargo's messages.
    pub(crate) id: String,
    /// Folder of the package, relative to the root.
    pub(crate) folder: PathBuf,
    pub(crate) features: Vec<String>,
    /// Names of the package's integration tests: `tests/NAME.rs`.
    pub(crate) tests: Vec<String>,
    pub(crate) dependencies: Vec<Dependency>,
    /// The oldest Rust with which the package compiles.
    pub(crate) rust_version: Option<String>,
    /// Fields that the manifest lacks, and that a registry asks for or shows.
    pub(crate) lacks: Vec<&'static str>,
}

/// A dependency in a package's manifest.
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) only_for_tests: bool,
}

/// `workspace.metadata` of the root `Cargo.toml`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Rules {
    /// The layer of each crate, including planned ones.
    pub(crate) layers: BTreeMap<String, u32>,
    /// Crates outside of the layers.
    pub(crate) tools: Crates,
    /// Tests to run in Miri.
    pub(crate) miri: Interpreted,
    /// Tests to run in a build with the seeded bugs.
    pub(crate) bugs: Tests,
    /// Tests that run in the build without assertions, too.
    pub(crate) release: Release,
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

/// A list of tests, each by its package and its name there.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Tests {
    pub(crate) tests: Vec<String>,
}

/// Tests to run in Miri, each by its package and the module of its library.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Interpreted {
    pub(crate) tests: Vec<String>,
    /// Tests that take too long for `make test`, which `ignore` leaves out.
    pub(crate) soak: Vec<String>,
}

/// Tests that run in the build without assertions, beside the unit tests of all libraries.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Release {
    /// Crates whose test programs run there.
    pub(crate) crates: Vec<String>,
    /// Tests that do not, each by the beginning of its name: `-p PACKAGE --test PROGRAM TEST`.
    #[serde(rename = "left-out")]
    pub(crate) left_out: Vec<String>,
    /// Tests that do so only in soak, named in the same way.
    #[serde(rename = "left-to-soak")]
    pub(crate) left_to_soak: Vec<String>,
}

/// A list of exceptions.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Allowed {
    pub(crate) allowed: Vec<String>,
}

impl Workspace {
    /// Asks cargo about the workspace that this program was built from.
    pub(crate) fn load() -> Result<Workspace> {
        Workspace::load_from(&mut MetadataCommand::new())
    }

    /// Asks cargo about a copy of this workspace in `folder`, which is built in the target folder of this one.
    pub(crate) fn copy_in(&self, folder: &Path) -> Result<Workspace> {
        let copy = Workspace::load_from(MetadataCommand::new().current_dir(folder))?;
        Ok(Workspace { target: self.target.clone(), ..copy })
    }

    fn load_from(command: &mut MetadataCommand) -> Result<Workspace> {
        let metadata = command.no_deps().other_options(vec!["--locked".into()]).exec()?;
        let root = metadata.workspace_root.as_std_path();
        let rustc = Command::new("rustc").current_dir(root).args(["--print", "target-libdir"]).output();
        let libraries = rustc.context("rustc")?.stdout;
        let rules = serde_json::from_value(metadata.workspace_metadata.clone())
            .context("Cargo.toml: workspace.metadata is not as tools/xtask/src/workspace.rs reads it")?;
        let packages = metadata.workspace_packages().into_iter().map(|package| read(root, package)).collect();
        Ok(Workspace {
            root: root.to_path_buf(),
            target: metadata.target_directory.into_std_path_buf(),
            libraries: String::from_utf8(libraries)?.trim_end().into(),
            packages,
            rules,
        })
    }

    /// Returns true if the package has a layer: it is for users, and not a tool of this workspace.
    pub(crate) fn has_layer(&self, package: &Package) -> bool {
        self.rules.layers.contains_key(&package.name)
    }

    /// Returns the packages that have an integration test of this name.
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
        rust_version: package.rust_version.as_ref().map(ToString::to_string),
        lacks: lacks(package),
    }
}

/// Returns the fields that the manifest lacks.
fn lacks(package: &cargo_metadata::Package) -> Vec<&'static str> {
    let is_versioned = |dependency: &cargo_metadata::Dependency| {
        dependency.kind == DependencyKind::Development || dependency.req.to_string() != "*"
    };
    let fields = [
        ("description", package.description.is_some()),
        ("license", package.license.is_some()),
        ("rust-version", package.rust_version.is_some()),
        ("keywords, 1 to 5", (1..=5).contains(&package.keywords.len())),
        ("categories, 1 to 5", (1..=5).contains(&package.categories.len())),
        ("[package.metadata.docs.rs]", package.metadata.pointer("/docs/rs").is_some()),
        ("the versions of its dependencies", package.dependencies.iter().all(is_versioned)),
        ("no `publish = false`", package.publish.is_none()),
    ];
    fields.into_iter().filter(|(_, is_there)| !is_there).map(|(field, _)| field).collect()
}
