//! Drawn damage, drawn options and drawn answers: `pmempool check` prints, answers and repairs the same on both libraries.

use crate::damage::{Draw, Pools, damage};
use lode_capi_compare::{Tool, ToolRun};

/// Options of `pmempool check`.
const OPTIONS: [&[&str]; 11] = [
    &[],
    &["-v"],
    &["-v", "-r", "-y"],
    &["-v", "-r", "-y", "-a"],
    &["-v", "-r", "-y", "-a"],
    &["-v", "-r", "-d", "-y", "-a"],
    &["-v", "-r", "-a"],
    &["-v", "-r"],
    &["-v", "-r", "-y", "-b", "backup"],
    &["-q"],
    &["-y"],
];
const ANSWERS: [&str; 4] = ["", "y\ny\ny\ny\ny\ny\ny\ny\ny\ny\n", "y\ny\nn\n", "n\n"];

#[test]
fn sound_pools_are_consistent() {
    let Some(tool) = Tool::find() else { return };
    for (name, files) in Pools::make(&tool).pools {
        for options in OPTIONS {
            let runs = [ToolRun::of(&[&["check"][..], options, &[name]].concat())];
            tool.compare(&files, &runs, name);
        }
    }
}

#[test]
fn damaged_pools_are_repaired_alike() {
    let Some(tool) = Tool::find() else { return };
    let pools = Pools::make(&tool).pools;
    let seed = lode_testing::seed(1);
    for number in 0..lode_testing::scaled(50) {
        let mut draw = Draw::new(seed, number);
        let (name, files) = &pools[draw.below(pools.len())];
        let mut files = files.clone();
        let count = draw.pick(&[1, 1, 2, 3]);
        let damages: Vec<String> = (0..count).map(|_| damage(&mut draw, name, &mut files)).collect();
        let options = draw.pick(&OPTIONS);
        let check = ToolRun {
            input: draw.pick(&ANSWERS),
            ..ToolRun::of(&[&["check"][..], options, &[name]].concat())
        };
        let again = ToolRun::of(&["check", "-v", name]);
        let context = format!("seed {seed}, number {number}, {name}: {damages:?}, answers {:?}", check.input);
        tool.compare(&files, &[check, again], &context);
    }
}
