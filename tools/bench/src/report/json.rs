//! `foundation.json`: a list of rows, medians, one row a pair.

use super::number::round;
use crate::rounds::ratio;
use crate::run::Laps;
use crate::targets::Goal;
use anyhow::Result;
use serde_json::{Value, json};

/// The rows. A work whose side did not run has none.
pub(super) fn render(laps: &Laps) -> Result<String> {
    let mut rows: Vec<Value> = Vec::new();
    for contest in &laps.findings.contests {
        let Some(ours) = contest.ours() else { continue };
        let unit = contest.unit();
        let ours = ours.median(unit);
        for peer in contest.peers() {
            let theirs = peer.median(unit);
            rows.push(json!({
                "work": contest.work,
                "peer": peer.who.peer(),
                "ours": round(ours),
                "theirs": round(theirs),
                "unit": unit.name(),
                "ratio": round(ratio(unit, ours, theirs)),
            }));
        }
    }
    for figure in &laps.findings.figures {
        let ours = round(figure.value);
        rows.push(match figure.goal()? {
            Goal::Limit(limit) => json!({
                "work": figure.work,
                "ours": ours,
                "limit": limit.limit,
                "unit": limit.unit.name(),
                "met": limit.met(figure.value),
            }),
            Goal::Shown(unit) => {
                json!({"work": figure.work, "ours": ours, "limit": null, "unit": unit.name(), "met": null})
            }
            Goal::Ratios(_) => continue,
        });
    }
    Ok(serde_json::to_string_pretty(&rows)? + "\n")
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::clock::Lap;
    use crate::contender::Who;
    use crate::rounds::{Contest, Entry};
    use crate::solo::Figure;

    #[test]
    fn a_row_a_pair_and_none_without_our_side() {
        let entry = |who, cycles| Entry { who, laps: vec![Lap { ops: 1, cycles, ns: 500 }] };
        let mut laps = Laps::sample();
        let entries = vec![entry(Who::Ours, 100), entry(Who::Libpmemobj, 700)];
        laps.findings.contests.push(Contest { work: "tx-1".to_owned(), entries, digest: 1 });
        let entries = vec![entry(Who::Libpmemobj, 700)];
        laps.findings.contests.push(Contest { work: "tx-4".to_owned(), entries, digest: 1 });
        laps.findings.figures.push(Figure { work: "reopen-1m".to_owned(), value: 51.0 });
        let rows: Value = serde_json::from_str(&render(&laps).unwrap()).unwrap();
        let wanted = json!([
            {"work": "tx-1", "peer": "libpmemobj", "ours": 100.0, "theirs": 700.0, "unit": "cycles", "ratio": 7.0},
            {"work": "reopen-1m", "ours": 51.0, "limit": 50.0, "unit": "ms", "met": false},
        ]);
        assert_eq!(rows, wanted);
    }
}
