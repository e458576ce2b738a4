//! Verification of the answers that a damaged pool gives.

use crate::files::access::{Failure, Pair, PoolAccess, RepairResult, Response, ScanRequest};
use crate::files::{Damage, Tally, TargetPool};
use anyhow::Result;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::Path;

/// Receiver of findings: the class, and the description.
pub(crate) type Report<'a> = dyn FnMut(&'static str, String) + 'a;

/// Uses the pool at `path`, which is `target` with `damage`, in all ways in which a user does. Tells each wrong
/// answer.
pub(crate) fn verify_pool(
    rng: &mut Rng,
    target: &TargetPool,
    damage: &Damage,
    path: &Path,
    access: &dyn PoolAccess,
    tally: &mut Tally,
    report: &mut Report<'_>,
) -> Result<()> {
    let exported = access.export(path);
    verify_pairs("export", &exported, &ScanRequest::default(), target, report);
    tally.exported += u64::from(exported.is_ok());
    for request in request(rng, target) {
        verify_pairs("scan", &access.scan(path, &request), &request, target, report);
    }
    verify_lookups(&lookups(rng, target, damage, access.lookups()), target, path, access, report);
    match access.count(path) {
        Ok(count) if count != target.pairs.len() as u64 => {
            report("wrong-count", format!("count says {count}, and {} keys are there", target.pairs.len()));
        }
        response => report_crash("count", &response, report),
    }
    let checked = access.check(path);
    report_crash("check", &checked, report);
    tally.detected += u64::from(checked != Ok(false));
    if checked == Ok(false)
        && let Err(failure) = &exported
    {
        report("check-missed", format!("check finds no damage, and export says {failure:?}"));
    }
    if fs::read(path)? != damage.apply(&target.image) {
        report("written", "the file has changed, and it was only read".into());
    }
    if rng.u8(..3) == 0 {
        let repaired = access.repair(path);
        report_crash("repair", &repaired, report);
        if let Ok(repaired) = repaired {
            tally.repaired += 1;
            verify_repair(target, path, access, &repaired, report);
        }
    }
    Ok(())
}

/// Tells a finding if the answer is a panic, a signal or a hang.
fn report_crash<T>(command: &str, response: &Response<T>, report: &mut Report<'_>) {
    if let Err(Failure::Crash(how)) = response {
        report("broke", format!("{command}: {how}"));
    }
}

/// Draws scans: a prefix, a part, the first and last few, all in reverse.
fn request(rng: &mut Rng, target: &TargetPool) -> Vec<ScanRequest> {
    let any = |rng: &mut Rng| key(rng, target).filter(|key| !key.contains(&0));
    let prefix = any(rng).map_or(Vec::new(), |key| key[..rng.usize(..=key.len())].to_vec());
    let (mut from, mut to) = (any(rng), any(rng));
    if from > to && to.is_some() {
        (from, to) = (to, from);
    }
    let (reverse, limit, verify) = (rng.bool(), Some(rng.usize(1..50)), rng.bool());
    vec![
        ScanRequest { prefix, reverse, verify: !verify, ..ScanRequest::default() },
        ScanRequest { from, to, verify, ..ScanRequest::default() },
        ScanRequest { limit, reverse, verify, ..ScanRequest::default() },
        ScanRequest { reverse: true, ..ScanRequest::default() },
    ]
}

fn key(rng: &mut Rng, target: &TargetPool) -> Option<Vec<u8>> {
    target.pairs.keys().nth(rng.usize(..target.pairs.len())).cloned()
}

fn verify_pairs(
    command: &str,
    response: &Response<Vec<Pair>>,
    request: &ScanRequest,
    target: &TargetPool,
    report: &mut Report<'_>,
) {
    report_crash(command, response, report);
    let Ok(pairs) = response else { return };
    if !request.verify && !request.is_unbounded() {
        // It is not proved that a part is complete. The pairs that it has must be right, and in order.
        let all = ScanRequest { limit: None, ..request.clone() }.of(target.pairs.iter());
        let mut rest = all.iter();
        if let Some((key, value)) = pairs.iter().find(|pair| !rest.any(|other| other == *pair)) {
            let what = format!("{command} succeeds, with {} = {} ({request:?})", short(key), short(value));
            report("wrong-pairs", what);
        }
        return;
    }
    let want = request.of(target.pairs.iter());
    if let Some(difference) = difference(&want, pairs) {
        let class = if pairs.len() < want.len() { "silent-loss" } else { "wrong-pairs" };
        report(class, format!("{command} succeeds, and {difference} ({request:?})"));
    }
}

/// Describes the difference between `found` and `want`.
fn difference(want: &[Pair], found: &[Pair]) -> Option<String> {
    if want == found {
        return None;
    }
    let at = want.iter().zip(found).position(|(want, found)| want != found);
    let lens = format!("{} pairs of {}", found.len(), want.len());
    let at = at.unwrap_or(want.len().min(found.len()));
    let show = |pair: Option<&Pair>| {
        pair.map_or("none".to_owned(), |(key, value)| format!("{} = {}", short(key), short(value)))
    };
    Some(format!("{lens}; number {at} is {}, and should be {}", show(found.get(at)), show(want.get(at))))
}

/// Returns the first bytes, as text.
fn short(bytes: &[u8]) -> impl Display {
    format!("{:?}[{}]", String::from_utf8_lossy(&bytes[..bytes.len().min(24)]), bytes.len())
}

/// Draws keys to look up: some whose leaves are damaged, others, and some that are absent.
fn lookups(rng: &mut Rng, target: &TargetPool, damage: &Damage, count: usize) -> Vec<Vec<u8>> {
    let hit = target.leaves.iter().filter(|leaf| damage.touches(leaf)).filter_map(|leaf| target.key_of(leaf));
    let mut keys: Vec<Vec<u8>> = hit.take(count / 2).collect();
    while keys.len() < count {
        let Some(mut key) = key(rng, target) else { break };
        if rng.u8(..8) == 0 {
            key.push(rng.u8(1..));
        }
        keys.push(key);
    }
    keys
}

fn verify_lookups(
    keys: &[Vec<u8>],
    target: &TargetPool,
    path: &Path,
    access: &dyn PoolAccess,
    report: &mut Report<'_>,
) {
    for verify in [false, true] {
        for (key, response) in keys.iter().zip(access.get(path, keys, verify)) {
            report_crash("get", &response, report);
            let want = target.pairs.get(key);
            match response {
                Ok(Some(value)) if want != Some(&value) => {
                    let want = want.map_or("absent".to_owned(), |want| short(want).to_string());
                    report(
                        "wrong-value",
                        format!("get {} is {}, and it is {want}", short(key), short(&value)),
                    );
                }
                Ok(None) if verify && want.is_some() => {
                    report("wrong-absence", format!("get --verify says that {} is not there", short(key)));
                }
                _ => {}
            }
        }
    }
}

/// Checks a repaired pool. Each pair that is left must be as it was before. Each missing key must lie in a range that
/// the repair reports.
fn verify_repair(
    target: &TargetPool,
    path: &Path,
    access: &dyn PoolAccess,
    repaired: &RepairResult,
    report: &mut Report<'_>,
) {
    let checked = access.check(path);
    report_crash("check after a repair", &checked, report);
    if checked == Ok(true) && !repaired.is_damaged {
        report("repair", format!("{repaired:?}, and a check finds damage"));
    }
    let exported = match access.export(path) {
        Ok(exported) => exported,
        Err(failure) if repaired.is_damaged => {
            return report_crash("export after a repair", &Response::<()>::Err(failure), report);
        }
        Err(failure) => return report("repair", format!("{repaired:?}, and export says {failure:?}")),
    };
    if repaired.lost_transactions || repaired.is_damaged {
        return;
    }
    let found: BTreeMap<Vec<u8>, Vec<u8>> = exported.into_iter().collect();
    for (key, value) in &found {
        if target.pairs.get(key) != Some(value) {
            let was = target.pairs.get(key).map_or("absent".to_owned(), |value| short(value).to_string());
            report(
                "repair-wrong",
                format!("{} = {} after a repair, and it was {was}", short(key), short(value)),
            );
        }
    }
    let is_reported = |key: &Vec<u8>| {
        repaired.lost.iter().any(|(after, before)| {
            after.as_ref().is_none_or(|after| key > after)
                && before.as_ref().is_none_or(|before| key < before)
        })
    };
    let silent = target.pairs.keys().filter(|key| !found.contains_key(*key) && !is_reported(key));
    if let Some(key) = silent.clone().next() {
        let count = silent.count();
        report("repair-silent", format!("{count} keys are gone after {repaired:?}, such as {}", short(key)));
    }
}
