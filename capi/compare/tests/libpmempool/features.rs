//! `pmempool feature` on both libraries.

use crate::damage::{Draw, Pools};
use lode_capi_compare::{Tool, ToolRun};

const FEATURES: [&str; 4] = ["SINGLEHDR", "CKSUM_2K", "SHUTDOWN_STATE", "CHECK_BAD_BLOCKS"];

#[test]
fn features_are_turned_alike() {
    let Some(tool) = Tool::find() else { return };
    let pools = Pools::make(&tool).pools;
    let seed = lode_testing::seed(2);
    for number in 0..lode_testing::scaled(16) {
        let mut draw = Draw::new(seed, number);
        let (name, files) = &pools[draw.below(pools.len())];
        let runs: Vec<ToolRun> = (0..4)
            .map(|_| {
                let action = draw.pick(&["-e", "-d", "-d", "-q"]);
                ToolRun::of(&["feature", action, draw.pick(&FEATURES), name])
            })
            .collect();
        tool.compare(files, &runs, &format!("seed {seed}, number {number}"));
    }
}
