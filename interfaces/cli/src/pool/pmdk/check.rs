//! `lode pool check` of a pool of PMDK.

use super::PmdkPool;
use crate::failure::{DAMAGED, Failure};
use crate::output::Output;
use crate::progress::Progress;
use lode_btt::PoolUuids;
use lode_layout::PmdkKind;
use lode_pmdk::{OpenOptions, PmdkAccess, PmdkError};
use serde_json::{Value, json};

/// Checks headers, links, sizes, descriptor and, of blocks and logs, the content. Nothing is written.
///
/// # Errors
/// A failure if the pool is in use, or can't be read.
pub(crate) fn check(pool: &PmdkPool) -> Result<Output, Failure> {
    let progress = Progress::spinner("checking the pool");
    let mut findings = pool.faults();
    // What can't be opened has told why.
    if findings.is_empty() {
        findings = content_findings(pool)?;
    }
    drop(progress);
    let path = pool.inspection.path().display();
    let mut text: String = findings.iter().map(|finding| format!("damage: {finding}\n")).collect();
    let is_damaged = !findings.is_empty();
    let verdict = match (is_damaged, pool.kind) {
        (false, PmdkKind::Objects) => {
            "no damage of headers and descriptor; the objects in it were not checked"
        }
        (false, _) => "no damage",
        (true, _) => "damaged; `pmempool check --repair` can help, or a copy",
    };
    text += &format!("{path}: {verdict}\n");
    let findings: Vec<Value> = findings
        .into_iter()
        .map(|what| json!({ "severity": "damage", "what": what, "at": null, "means": null, "path": null }))
        .collect();
    Ok(Output::text(text)
        .with("path", path.to_string())
        .with("damaged", is_damaged)
        .with("findings", findings)
        .with("unclean", Value::Null)
        .with("records", Value::Null)
        .with("objects", Value::Null)
        .with("keys", Value::Null)
        .with_exit_code(if is_damaged { DAMAGED } else { 0 }))
}

/// Checks what the pool holds, in a private view.
fn content_findings(pool: &PmdkPool) -> Result<Vec<String>, Failure> {
    let path = pool.inspection.path();
    let options = OpenOptions {
        // Modules that lost data are a finding of their own library, and no damage that can be seen.
        ignores_shutdown_state: true,
        ..OpenOptions::new(pool.kind, PmdkAccess::ReadOnly)
    };
    let opened = match lode_pmdk::PmdkPool::open(path, &options) {
        Ok(opened) => opened,
        Err(error @ (PmdkError::Io { .. } | PmdkError::InUse { .. })) => {
            return Err(Failure::new("checking a pool", error));
        }
        Err(error) => return Ok(vec![error.to_string()]),
    };
    let medium = opened.medium();
    Ok(match pool.kind {
        PmdkKind::Objects => Vec::new(),
        PmdkKind::Blocks => {
            let header = opened.header();
            let uuids = PoolUuids { poolset: header.poolset_uuid, part: header.uuid };
            lode_btt::check_pool(medium, uuids).iter().map(ToString::to_string).collect()
        }
        PmdkKind::Log => lode_log::pmdk::check_content(medium).iter().map(ToString::to_string).collect(),
    })
}
