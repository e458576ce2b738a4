//! A command that changes a machine is killed at any moment: the machine is as before it or as after it, and the
//! command, run again, completes.
//!
//! ```text
//!   commands   each command that changes a machine, and what happened to the machine before
//!   trial      a copy of that machine, and a run that is killed
//!   observed   the bytes of a machine, and what remains of them without random identities
//! ```

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "killed_commands/commands.rs"]
mod commands;
#[path = "killed_commands/observed.rs"]
mod observed;
#[path = "killed_commands/trial.rs"]
mod trial;

use crate::json_is_structured::leaf_commands;
use crate::modules_are_locked::has_keyring;
use crate::program::lode;
use commands::{CHANGES, Start, UNCHANGING};
use fastrand::Rng;
use lode_testing::{scaled, seed};
use std::collections::BTreeSet;
use trial::{Tally, Templates};

/// The commands for machines. The name of a page begins with one of them.
const TOOLS: [&str; 5] = ["platform-", "ndctl-", "daxctl-", "cxl-", "ipmctl"];

/// Returns the commands of ipmctl that its help names, as `create -goal`, except those that only show.
fn changes_of_ipmctl() -> BTreeSet<String> {
    let help = lode(["ipmctl", "help"]).success();
    let lines = help.lines().filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let named = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        let verb = words.next().filter(|verb| !UNCHANGING.contains(&format!("ipmctl {verb}").as_str()))?;
        // Options are in brackets; the first target follows them.
        let target = words.find(|word| word.starts_with('-') && !word.ends_with(']') && word.len() > 2)?;
        verb.chars().all(|char| char.is_ascii_lowercase()).then(|| format!("{verb} {target}"))
    });
    named.collect()
}

/// A new command has to be killed here, or is one that changes no machine.
#[test]
fn each_command_is_killed_or_changes_nothing() {
    let is_of_machine = |page: &String| TOOLS.iter().any(|tool| page.starts_with(tool));
    let pages: BTreeSet<String> = leaf_commands().into_iter().filter(is_of_machine).collect();
    assert!(pages.len() > 60, "{pages:?}");
    let lines = CHANGES.iter().map(|change| change.line).chain(UNCHANGING);
    let lines: Vec<String> = lines.map(|line| line.replace(' ', "-")).collect();
    let is_listed =
        |page: &&String| lines.iter().any(|line| line == *page || line.starts_with(&format!("{page}-")));
    let missing: Vec<&String> = pages.iter().filter(|page| !is_listed(page)).collect();
    assert!(missing.is_empty(), "without a run here: {missing:?}");
    let ipmctl = changes_of_ipmctl();
    assert!(ipmctl.contains("create -goal") && ipmctl.contains("delete -pcd"), "{ipmctl:?}");
    for command in ipmctl {
        let (verb, target) = command.split_once(' ').unwrap();
        let is_killed = CHANGES.iter().any(|change| {
            let words: Vec<&str> = change.line.split(' ').collect();
            words[..2] == ["ipmctl", verb] && words.contains(&target)
        });
        assert!(is_killed, "without a run here: ipmctl {command}");
    }
}

/// A kill of each command, and ten in a round of `make soak`.
#[test]
fn killed_commands_leave_before_or_after() {
    let first = seed(13);
    let mut rng = Rng::with_seed(first);
    let has_keys = has_keyring("killed_commands_leave_before_or_after");
    let mut templates = Templates::new();
    let mut tally = Tally::default();
    for change in CHANGES.iter().filter(|change| has_keys || change.start != Start::Keys) {
        let subject = templates.subject(change);
        for _ in 0..scaled(1) {
            let said = format!("LODE_SEED={first}: {}", change.line);
            subject.kill(&mut rng, &mut tally, &said);
        }
    }
    println!("{tally:?}");
    assert!(tally.kills >= 50, "{tally:?}");
}
