//! SIGKILL in a repair, a change of a set, a change of a feature and a create: before or after, and never between.
//!
//! After each kill the files are those of before or those of after, or the same call makes the rest. Hidden files may be left by the kill,
//! and none by the call after it.

use crate::damage::Pools;
use crate::replicas::{normal, pool, write_set};
use lode_capi_compare::{Files, Killer, Library, Moment, Tool, ToolRun};
use lode_layout::BLOCK;

/// Kills of each call.
const KILLS: u64 = 2;

/// A call, and the files that it works on.
struct Case {
    name: String,
    files: Files,
    run: ToolRun,
    /// The pool as it is called afterwards.
    pool: &'static str,
}

impl Case {
    fn new(files: Files, arguments: &[&str], pool: &'static str) -> Case {
        Case { name: format!("{arguments:?}"), files, run: ToolRun::of(arguments), pool }
    }

    /// Kills the call at drawn moments.
    fn assert_before_or_after(&self, tool: &Tool, killer: &Killer, random: &mut fastrand::Rng) {
        let whole = tool.kill_at(killer, &self.files, &self.run, Moment::NEVER);
        let (before, after) = (content(&self.files), content(&tool.files()));
        assert_eq!(whole.status, Some(0), "{}: {}", self.name, whole.output);
        assert!(before.0 != after.0, "{} changes nothing", self.name);
        assert_eq!(after.1, Vec::<String>::new(), "{}", self.name);
        for _ in 0..lode_testing::scaled(KILLS) {
            let moment = Moment::draw(whole.calls, random);
            let killed = tool.kill_at(killer, &self.files, &self.run, moment);
            let context = format!("{}, {moment:?} of {} calls: {killed:?}", self.name, whole.calls);
            // A pool that was made and not closed is whole, and has another state of its shutdown.
            let is_made = self.files.is_empty() && tool.files().contains_key(self.pool);
            if !is_made && content(&tool.files()) != after {
                let again = tool.run(true, &self.run);
                assert!(again.starts_with("exit status: 0\n"), "{context}\n{again}");
                assert_same(&content(&tool.files()), &after, &context);
            }
            assert!(!is_made || content(&tool.files()).1.is_empty(), "{context}");
            let judged = tool.run(false, &ToolRun::of(&["check", "-v", self.pool]));
            assert!(judged.starts_with("exit status: 0\n"), "{context}\n{judged}");
        }
    }
}

/// Returns the files without random values, and the names of hidden ones.
fn content(files: &Files) -> (Files, Vec<String>) {
    let (hidden, shown): (Files, Files) =
        normal(files).into_iter().partition(|(name, _)| name.starts_with('.'));
    (shown, hidden.into_keys().collect())
}

fn assert_same(found: &(Files, Vec<String>), wanted: &(Files, Vec<String>), context: &str) {
    assert_eq!(found.1, wanted.1, "{context}");
    let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found.0), names(&wanted.0), "{context}");
    for (name, bytes) in &wanted.0 {
        let differs = bytes.iter().zip(&found.0[name]).position(|(left, right)| left != right);
        assert!(found.0[name].len() == bytes.len() && differs.is_none(), "{context}\n{name} {differs:?}");
    }
}

fn assert_all(tool: &Tool, cases: &[Case], seed: u64) {
    let Some(killer) = Killer::compile() else { return };
    let mut random = fastrand::Rng::with_seed(lode_testing::seed(seed));
    for case in cases {
        case.assert_before_or_after(tool, &killer, &mut random);
    }
}

#[test]
fn killed_create_leaves_no_pool_or_a_whole_one() {
    for (library, arguments) in [
        (Library::PMEMLOG, &["create", "log", "-s", "2M", "pool"][..]),
        (Library::PMEMBLK, &["create", "blk", "512", "-s", "17M", "pool"]),
    ] {
        let Some(tool) = Tool::of(library) else { return };
        assert_all(&tool, &[Case::new(Files::new(), arguments, "pool")], 1);
    }
}

#[test]
fn killed_change_of_a_feature_is_before_or_after() {
    let Some(tool) = Tool::find() else { return };
    let pools = Pools::make(&tool).pools;
    let files = |name: &str| pools.iter().find(|(other, _)| *other == name).unwrap().1.clone();
    let cases = [
        Case::new(files("log"), &["feature", "-d", "SHUTDOWN_STATE", "log"], "log"),
        Case::new(files("logset"), &["feature", "-d", "SHUTDOWN_STATE", "logset"], "logset"),
        Case::new(files("logset"), &["feature", "-d", "CHECK_BAD_BLOCKS", "logset"], "logset"),
        Case::new(files("objset"), &["feature", "-d", "SHUTDOWN_STATE", "objset"], "objset"),
    ];
    assert_all(&tool, &cases, 2);
}

#[test]
fn killed_repair_of_replicas_is_before_or_after() {
    let Some(tool) = Tool::find() else { return };
    let files = pool(&tool, &["8M a0", "8M a1", "REPLICA", "9M b0", "8M b1"]);
    let damaged = |damage: &dyn Fn(&mut Files)| {
        let mut files = files.clone();
        damage(&mut files);
        Case::new(files, &["sync", "set"], "set")
    };
    let cases = [
        damaged(&|files| drop(files.remove("a1"))),
        damaged(&|files| files.get_mut("b0").unwrap()[..BLOCK as usize].fill(0)),
        damaged(&|files| files.retain(|name, _| !name.starts_with('b'))),
    ];
    assert_all(&tool, &cases, 3);
}

#[test]
fn killed_change_of_a_set_is_before_or_after() {
    let Some(tool) = Tool::find() else { return };
    let two: &[&str] = &["8M a0", "8M a1", "REPLICA", "9M b0", "8M b1"];
    let changes: [(&[&str], &[&str]); 4] = [
        (&["8M a0", "8M a1"], two),
        (two, &["9M b0", "8M b1"]),
        (&["8M a0", "8M a1"], &["OPTION SINGLEHDR", "8M a0", "8M a1"]),
        (
            &["OPTION SINGLEHDR", "15M a0", "REPLICA", "8M b0", "8M b1"],
            &["15M a0", "REPLICA", "8M b0", "8M b1"],
        ),
    ];
    let cases = changes.map(|(old, new)| {
        let mut files = pool(&tool, old);
        write_set(&tool, "new", new);
        files.extend(tool.files());
        Case::new(files, &["transform", "set", "new"], "new")
    });
    assert_all(&tool, &cases, 4);
}

#[test]
fn killed_repair_of_a_pool_is_before_or_after() {
    let Some(tool) = Tool::find() else { return };
    let cases: Vec<Case> = Pools::make(&tool)
        .pools
        .into_iter()
        .filter(|(name, _)| !name.starts_with("obj"))
        .map(|(name, mut files)| {
            for bytes in files.values_mut().filter(|bytes| bytes.len() > 4096) {
                // A checksum, and a link.
                bytes[4090] ^= 1;
                bytes[60] ^= 1;
            }
            Case::new(files, &["check", "-v", "-r", "-y", "-a", name], name)
        })
        .collect();
    assert_all(&tool, &cases, 5);
}
