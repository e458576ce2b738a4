//! Judging the answers that a damaged pool gives.

use crate::files::way::{Answer, Pair, Refusal, Repaired, Wanted, Way};
use crate::files::{Damage, Tally, Victim};
use anyhow::Result;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::Path;

/// Receiver of findings: the class, and the description.
pub(crate) type Tell<'a> = dyn FnMut(&'static str, String) + 'a;

/// Uses the pool at `path`, which is `victim` with `damage`, in all ways in which a user does. Tells each wrong
/// answer.
pub(crate) fn judge(
    rng: &mut Rng,
    victim: &Victim,
    damage: &Damage,
    path: &Path,
    way: &dyn Way,
    tally: &mut Tally,
    tell: &mut Tell<'_>,
) -> Result<()> {
    let exported = way.export(path);
    judge_pairs("export", &exported, &Wanted::default(), victim, tell);
    tally.exported += u64::from(exported.is_ok());
    for wanted in wanted(rng, victim) {
        judge_pairs("scan", &way.scan(path, &wanted), &wanted, victim, tell);
    }
    judge_lookups(&lookups(rng, victim, damage, way.lookups()), victim, path, way, tell);
    match way.count(path) {
        Ok(count) if count != victim.pairs.len() as u64 => {
            tell("wrong-count", format!("count says {count}, and {} keys are there", victim.pairs.len()));
        }
        answer => broke("count", &answer, tell),
    }
    let checked = way.check(path);
    broke("check", &checked, tell);
    tally.noticed += u64::from(checked != Ok(false));
    if checked == Ok(false)
        && let Err(refusal) = &exported
    {
        tell("check-missed", format!("check finds no damage, and export says {refusal:?}"));
    }
    if fs::read(path)? != damage.apply(&victim.image) {
        tell("written", "the file has changed, and it was only read".into());
    }
    if rng.u8(..3) == 0 {
        let repaired = way.repair(path);
        broke("repair", &repaired, tell);
        if let Ok(repaired) = repaired {
            tally.repaired += 1;
            judge_repair(victim, path, way, &repaired, tell);
        }
    }
    Ok(())
}

/// Tells a finding if the answer is a panic, a signal or a hang.
fn broke<T>(command: &str, answer: &Answer<T>, tell: &mut Tell<'_>) {
    if let Err(Refusal::Broke(how)) = answer {
        tell("broke", format!("{command}: {how}"));
    }
}

/// Draws scans: a prefix, a part, the first and last few, all in reverse.
fn wanted(rng: &mut Rng, victim: &Victim) -> Vec<Wanted> {
    let any = |rng: &mut Rng| key(rng, victim).filter(|key| !key.contains(&0));
    let prefix = any(rng).map_or(Vec::new(), |key| key[..rng.usize(..=key.len())].to_vec());
    let (mut from, mut to) = (any(rng), any(rng));
    if from > to && to.is_some() {
        (from, to) = (to, from);
    }
    let (reverse, limit, verify) = (rng.bool(), Some(rng.usize(1..50)), rng.bool());
    vec![
        Wanted { prefix, reverse, verify: !verify, ..Wanted::default() },
        Wanted { from, to, verify, ..Wanted::default() },
        Wanted { limit, reverse, verify, ..Wanted::default() },
        Wanted { reverse: true, ..Wanted::default() },
    ]
}

fn key(rng: &mut Rng, victim: &Victim) -> Option<Vec<u8>> {
    victim.pairs.keys().nth(rng.usize(..victim.pairs.len())).cloned()
}

fn judge_pairs(
    command: &str,
    answer: &Answer<Vec<Pair>>,
    wanted: &Wanted,
    victim: &Victim,
    tell: &mut Tell<'_>,
) {
    broke(command, answer, tell);
    let Ok(pairs) = answer else { return };
    if !wanted.verify && !wanted.is_whole() {
        // It is not proved that a part is complete. The pairs that it has must be right, and in order.
        let all = Wanted { limit: None, ..wanted.clone() }.of(victim.pairs.iter());
        let mut rest = all.iter();
        if let Some((key, value)) = pairs.iter().find(|pair| !rest.any(|other| other == *pair)) {
            let what = format!("{command} succeeds, with {} = {} ({wanted:?})", short(key), short(value));
            tell("wrong-pairs", what);
        }
        return;
    }
    let want = wanted.of(victim.pairs.iter());
    if let Some(difference) = difference(&want, pairs) {
        let class = if pairs.len() < want.len() { "silent-loss" } else { "wrong-pairs" };
        tell(class, format!("{command} succeeds, and {difference} ({wanted:?})"));
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
fn lookups(rng: &mut Rng, victim: &Victim, damage: &Damage, count: usize) -> Vec<Vec<u8>> {
    let hit = victim.leaves.iter().filter(|leaf| damage.touches(leaf)).filter_map(|leaf| victim.key_of(leaf));
    let mut keys: Vec<Vec<u8>> = hit.take(count / 2).collect();
    while keys.len() < count {
        let Some(mut key) = key(rng, victim) else { break };
        if rng.u8(..8) == 0 {
            key.push(rng.u8(1..));
        }
        keys.push(key);
    }
    keys
}

fn judge_lookups(keys: &[Vec<u8>], victim: &Victim, path: &Path, way: &dyn Way, tell: &mut Tell<'_>) {
    for verify in [false, true] {
        for (key, answer) in keys.iter().zip(way.get(path, keys, verify)) {
            broke("get", &answer, tell);
            let want = victim.pairs.get(key);
            match answer {
                Ok(Some(value)) if want != Some(&value) => {
                    let want = want.map_or("absent".to_owned(), |want| short(want).to_string());
                    tell("wrong-value", format!("get {} is {}, and it is {want}", short(key), short(&value)));
                }
                Ok(None) if verify && want.is_some() => {
                    tell("wrong-absence", format!("get --verify says that {} is not there", short(key)));
                }
                _ => {}
            }
        }
    }
}

/// Checks a repaired pool. Each pair that is left must be as it was before. Each missing key must lie in a range that
/// the repair reports.
fn judge_repair(victim: &Victim, path: &Path, way: &dyn Way, repaired: &Repaired, tell: &mut Tell<'_>) {
    let checked = way.check(path);
    broke("check after a repair", &checked, tell);
    if checked == Ok(true) && !repaired.is_damaged {
        tell("repair", format!("{repaired:?}, and a check finds damage"));
    }
    let exported = match way.export(path) {
        Ok(exported) => exported,
        Err(refusal) if repaired.is_damaged => {
            return broke("export after a repair", &Answer::<()>::Err(refusal), tell);
        }
        Err(refusal) => return tell("repair", format!("{repaired:?}, and export says {refusal:?}")),
    };
    if repaired.lost_transactions || repaired.is_damaged {
        return;
    }
    let found: BTreeMap<Vec<u8>, Vec<u8>> = exported.into_iter().collect();
    for (key, value) in &found {
        if victim.pairs.get(key) != Some(value) {
            let was = victim.pairs.get(key).map_or("absent".to_owned(), |value| short(value).to_string());
            tell(
                "repair-wrong",
                format!("{} = {} after a repair, and it was {was}", short(key), short(value)),
            );
        }
    }
    let is_told = |key: &Vec<u8>| {
        repaired.lost.iter().any(|(after, before)| {
            after.as_ref().is_none_or(|after| key > after)
                && before.as_ref().is_none_or(|before| key < before)
        })
    };
    let silent = victim.pairs.keys().filter(|key| !found.contains_key(*key) && !is_told(key));
    if let Some(key) = silent.clone().next() {
        let count = silent.count();
        tell("repair-silent", format!("{count} keys are gone after {repaired:?}, such as {}", short(key)));
    }
}
