//! The libraries of the C ABI: cargo builds an archive for each, capi/link.sh makes the files that programs link with, and
//! capi/package.sh the Debian package.

use crate::cargo::Cargo;
use crate::log::Log;
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use std::process::Command;

/// The libraries, each with the name of its crate's archive, and the most bytes of its shared object.
const LIBRARIES: [(&str, &str, u64); 6] = [
    ("pmem", "lode_capi_pmem", 1 << 20),
    ("pmem2", "lode_capi_pmem2", 1 << 20),
    ("pmemlog", "lode_capi_pmemlog", 1 << 20),
    ("pmemblk", "lode_capi_pmemblk", 1 << 20),
    ("pmemobj", "lode_capi_pmemobj", 2 << 20),
    ("pmempool", "lode_capi_pmempool", 1 << 20),
];

/// Builds all libraries into `target/capi/lib`. Returns true if that succeeded.
///
/// # Errors
/// Fails if a shared object is too large, or the linker can't be called.
pub(crate) fn build(workspace: &Workspace) -> Result<bool> {
    let log = Log::default();
    let folder = workspace.target.join("capi/lib");
    for (name, archive, max) in LIBRARIES {
        let words = format!("build --release --locked --package lode-capi-{name}");
        if !Cargo::stable(workspace, &words).run(log)?.success {
            return Ok(false);
        }
        let archive = workspace.target.join("release").join(format!("lib{archive}.a"));
        let script = workspace.root.join("capi/link.sh");
        let mut linker = Command::new(&script);
        linker.arg(name).arg(&archive).arg(&folder);
        if !linker.status().with_context(|| script.display().to_string())?.success() {
            return Ok(false);
        }
        let library = folder.join(format!("lib{name}.so.1"));
        let len = library.metadata().with_context(|| library.display().to_string())?.len();
        ensure!(
            len <= max,
            "{} has {len} bytes, and {max} at most: optimise a crate for size",
            library.display()
        );
        log.line(&format!("{}", library.display()));
    }
    Ok(true)
}

/// Builds all libraries, and a Debian package of them in `target/deb`. Returns true if that succeeded.
pub(crate) fn package(workspace: &Workspace) -> Result<bool> {
    if !build(workspace)? {
        return Ok(false);
    }
    let script = workspace.root.join("capi/package.sh");
    let mut packager = Command::new(&script);
    packager
        .arg(workspace.target.join("capi/lib"))
        .arg(env!("CARGO_PKG_VERSION"))
        .arg(workspace.target.join("deb"));
    Ok(packager.status().with_context(|| script.display().to_string())?.success())
}
