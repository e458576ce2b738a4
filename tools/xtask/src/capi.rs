//! The libraries of the C ABI: cargo builds an archive for each, capi/link.sh makes the files that programs link with, and
//! capi/package.sh the Debian package.

use crate::cargo::Cargo;
use crate::log::Log;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::process::Command;

/// The libraries, each with the name of its crate's archive.
const LIBRARIES: [(&str, &str); 6] = [
    ("pmem", "lode_capi_pmem"),
    ("pmem2", "lode_capi_pmem2"),
    ("pmemlog", "lode_capi_pmemlog"),
    ("pmemblk", "lode_capi_pmemblk"),
    ("pmemobj", "lode_capi_pmemobj"),
    ("pmempool", "lode_capi_pmempool"),
];

/// Builds all libraries into `target/capi/lib`. Returns true if that succeeded.
pub(crate) fn build(workspace: &Workspace) -> Result<bool> {
    let log = Log::default();
    let folder = workspace.target.join("capi/lib");
    for (name, archive) in LIBRARIES {
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
        log.line(&format!("{}", folder.join(format!("lib{name}.so.1")).display()));
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
