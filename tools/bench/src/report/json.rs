//! `foundation.json`, `volumes.json` and `capi.json`: a list of rows, medians, one row a pair. With `--json` all are in one object.

use super::number::round;
use crate::group::Table;
use crate::rounds::{Absent, Comparison};
use crate::run::Laps;
use crate::targets::{Goal, workload};
use anyhow::Result;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The rows of a table. A workload whose engine did not run has none. A figure that could not be had is null.
pub(super) fn rows(laps: &Laps, table: Table) -> Result<Vec<Value>> {
    let is_of_table = |name: &str| workload(name).is_some_and(|workload| workload.group.table() == table);
    let mut rows: Vec<Value> = Vec::new();
    for comparison in &laps.findings.comparisons {
        if !comparison.has_ours() || !is_of_table(&comparison.workload) {
            continue;
        }
        for pair in comparison.pairs() {
            rows.push(json!({
                "work": comparison.workload,
                "peer": pair.peer.peer(),
                "ours": pair.ours.map(round),
                "theirs": pair.theirs.map(round),
                "unit": comparison.unit().name(),
                "ratio": pair.ratio.map(round),
                "mean_ratio": pair.mean_ratio.map(round),
            }));
        }
    }
    for figure in laps.findings.figures.iter().filter(|figure| is_of_table(&figure.workload)) {
        let ours = round(figure.value);
        rows.push(match figure.goal()? {
            Goal::Limit(limit) => json!({
                "work": figure.workload,
                "ours": ours,
                "limit": limit.limit,
                "unit": limit.unit.name(),
                "met": limit.met(figure.value),
            }),
            Goal::Shown(unit) => {
                json!({"work": figure.workload, "ours": ours, "limit": null, "unit": unit.name(), "met": null})
            }
            Goal::Ratios(_) => continue,
        });
    }
    Ok(rows)
}

/// Returns the object that `--json` prints.
pub(super) fn object(laps: &Laps, files: &[PathBuf]) -> Result<Value> {
    let absent = |comparison: &Comparison| {
        let of = |absent: &Absent| json!({"work": comparison.workload, "engine": absent.engine.to_string(), "reason": absent.reason});
        comparison.absent.iter().map(of).collect::<Vec<_>>()
    };
    Ok(json!({
        "machine": laps.machine,
        "seed": laps.seed,
        "quick": laps.quick,
        "rounds": laps.rounds,
        "long_rounds": laps.long_rounds,
        "load_rounds": laps.load_rounds,
        "scale": laps.scale,
        "foundation": rows(laps, Table::Foundation)?,
        "volumes": rows(laps, Table::Volumes)?,
        "capi": rows(laps, Table::Capi)?,
        "absent": laps.findings.comparisons.iter().flat_map(absent).collect::<Vec<_>>(),
        "notes": laps.findings.notes,
        "failed": laps.failed,
        "files": files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>(),
    }))
}

/// The text of a file with these rows.
pub(super) fn render(rows: &[Value]) -> Result<String> {
    Ok(serde_json::to_string_pretty(rows)? + "\n")
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::clock::Lap;
    use crate::engine::Engine;
    use crate::figure::Figure;
    use crate::rounds::EngineLaps;

    #[test]
    fn one_row_per_compared_pair() {
        let entry = |engine, cycles| EngineLaps {
            engine,
            laps: vec![Lap { ops: 1, cycles, ns: 500, ..Lap::default() }],
        };
        let mut laps = Laps::sample();
        let mut entries = vec![entry(Engine::Ours, 100), entry(Engine::Libpmemobj, 700)];
        // The median of three stays, and the mean does not.
        entries[0].laps = [100, 100, 100].map(|cycles| Lap { cycles, ..entries[0].laps[0] }).to_vec();
        entries[1].laps = [700, 700, 550].map(|cycles| Lap { cycles, ..entries[1].laps[0] }).to_vec();
        laps.findings.comparisons.push(Comparison {
            workload: "tx-1".to_owned(),
            entries,
            absent: Vec::new(),
            digest: 1,
        });
        let entries = vec![entry(Engine::Libpmemobj, 700)];
        laps.findings.comparisons.push(Comparison {
            workload: "tx-4".to_owned(),
            entries,
            absent: Vec::new(),
            digest: 1,
        });
        let absent = vec![Absent { engine: Engine::Ours, reason: "too slow".to_owned() }];
        let entries = vec![entry(Engine::Redb, 700)];
        laps.findings.comparisons.push(Comparison {
            workload: "tx-puts-1m".to_owned(),
            entries,
            absent,
            digest: 1,
        });
        laps.findings.figures.push(Figure { workload: "reopen-1m".to_owned(), value: 51.0 });
        laps.findings.figures.push(Figure { workload: "atomic-open".to_owned(), value: 20.0 });
        let of = |table| -> Value {
            serde_json::from_str(&render(&rows(&laps, table).unwrap()).unwrap()).unwrap()
        };
        let wanted = json!([
            {"work": "tx-1", "peer": "libpmemobj", "ours": 100.0, "theirs": 700.0, "unit": "cycles", "ratio": 7.0, "mean_ratio": 6.5},
            {"work": "tx-puts-1m", "peer": "redb", "ours": null, "theirs": 0.5, "unit": "us", "ratio": null, "mean_ratio": null},
            {"work": "reopen-1m", "ours": 51.0, "limit": 50.0, "unit": "ms", "met": false},
        ]);
        assert_eq!(of(Table::Foundation), wanted);
        let wanted =
            json!([{"work": "atomic-open", "ours": 20.0, "limit": 200.0, "unit": "ms", "met": true}]);
        assert_eq!(of(Table::Volumes), wanted);
        let object = object(&laps, &[PathBuf::from("a.json")]).unwrap();
        assert_eq!((&object["volumes"], &object["files"][0]), (&wanted, &"a.json".into()));
        assert_eq!(object["absent"][0]["work"], "tx-puts-1m");
    }
}
