//! Repairs that are killed.

use crate::damage::{Draw, Pools, damage};
use lode_capi_compare::{Tool, ToolRun};

/// The tool is killed while it waits for an answer: nothing was written.
#[test]
fn repair_that_is_killed_before_its_last_answer_changes_nothing() {
    let Some(tool) = Tool::find() else { return };
    let pools = Pools::make(&tool).pools;
    let mut tried = 0;
    for number in 0..40 {
        let mut draw = Draw::new(7, number);
        let (name, files) = &pools[draw.below(pools.len())];
        let mut files = files.clone();
        let damages: Vec<String> = (0..3).map(|_| damage(&mut draw, name, &mut files)).collect();
        // The tool takes the end of its input for a no.
        let run = ToolRun { input: "y\n", ..ToolRun::of(&["check", "-v", "-r", "-a", name]) };
        let results = tool.take(true, &files, &[run]);
        if results.text.contains("reverting changes") {
            assert!(results.files == files, "{damages:?}\n{}", results.text);
            tried += 1;
        }
    }
    assert!(tried > 5, "{tried}");
}
