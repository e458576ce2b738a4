//! `lode pool check` of a pool of PMDK.

use super::{PmdkPool, objects};
use crate::failure::{DAMAGED, Failure};
use crate::output::Output;
use crate::progress::Progress;
use lode_btt::PoolUuids;
use lode_layout::PmdkKind;
use lode_obj::Finding;
use serde_json::{Value, json};

/// Checks headers, links, sizes, descriptor and, of blocks and logs, the content. Nothing is written.
///
/// # Errors
/// A failure if the pool is in use, or can't be read.
pub(crate) fn check(pool: &PmdkPool) -> Result<Output, Failure> {
    let progress = Progress::spinner("checking the pool");
    let mut findings = pool.faults();
    // What can't be opened has told why.
    let mut checked = None;
    if findings.is_empty() {
        if pool.kind == PmdkKind::Objects {
            checked = Some(objects::check(pool)?);
        } else {
            findings = content_findings(pool)?;
        }
    }
    drop(progress);
    if let Some(checked) = checked {
        return Ok(report(pool, &checked));
    }
    let path = pool.inspection.path().display();
    let mut text: String = findings.iter().map(|finding| format!("damage: {finding}\n")).collect();
    let is_damaged = !findings.is_empty();
    let verdict =
        if is_damaged { "damaged; `pmempool check --repair` can help, or a copy" } else { "no damage" };
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

/// Reports the check of a heap: findings that are damage, and notes of lost space.
fn report(pool: &PmdkPool, checked: &objects::Checked) -> Output {
    let path = pool.inspection.path().display();
    let is_damaged = checked.findings.iter().any(|(finding, _)| finding.is_damage());
    let severity = |finding: &Finding| if finding.is_damage() { "damage" } else { "note" };
    let means = |is_certain: bool| is_certain.then_some("`lode pool repair` repairs it");
    let mut text = String::new();
    for (finding, is_certain) in &checked.findings {
        let hint = means(*is_certain).map_or(String::new(), |hint| format!(" ({hint})"));
        text += &format!("{}: {finding}{hint}\n", severity(finding));
    }
    if checked.is_unclean {
        text += "note: the pool was left in a crash; the next open recovers it, and so it was checked\n";
    }
    let verdict = if is_damaged { "damaged; a copy, or what `lode pool repair` can do" } else { "no damage" };
    text += &format!("{path}: {verdict}, {} objects\n", checked.objects);
    let findings: Vec<Value> = checked
        .findings
        .iter()
        .map(|(finding, is_certain)| {
            json!({
                "severity": severity(finding),
                "what": finding.to_string(),
                "at": null,
                "means": means(*is_certain),
                "path": null,
            })
        })
        .collect();
    Output::text(text)
        .with("path", path.to_string())
        .with("damaged", is_damaged)
        .with("findings", findings)
        .with("unclean", checked.is_unclean)
        .with("records", Value::Null)
        .with("objects", checked.objects)
        .with("keys", Value::Null)
        .with_exit_code(if is_damaged { DAMAGED } else { 0 })
}

/// Checks what the pool holds, in a private view.
fn content_findings(pool: &PmdkPool) -> Result<Vec<String>, Failure> {
    let opened = match objects::open_view("checking a pool", pool)? {
        Ok(opened) => opened,
        Err(error) => return Ok(vec![error]),
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
