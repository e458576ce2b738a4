//! After a failed sync a load acknowledges no key, and all acknowledged keys are in the pool.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{PoolFixture, lode, text};
use lode_powercut::{Disk, Survival, Volume};
use lode_testing::skip;
use std::collections::HashSet;
use std::fs;

const THREADS: usize = 4;
const KEYS: usize = 5000;

/// The disk fails every request from one on, which is an error of the kernel to a program that lives on.
#[test]
fn failed_sync_stops_load() {
    let fixture = PoolFixture::new();
    let lines: String = (0..KEYS).map(|number| format!("key{number}\tvalue{number}\n")).collect();
    let input = fixture.file("in.tsv", &lines);
    for fails_at in [60, 61, 200] {
        let disk = Disk::new(fs::read(&fixture.pool).unwrap(), fails_at);
        let volume = match Volume::mount(disk, fixture.folder.path()) {
            Ok(volume) => volume,
            Err(error) => {
                return skip("failed_sync_stops_load", format_args!("no FUSE file system: {error}"));
            }
        };
        let pool = volume.path();
        let threads = THREADS.to_string();
        let loaded = lode(["kv", "load", text(&pool), text(&input), "--ack", "--threads", &threads]);
        let acknowledged: HashSet<&str> = loaded.out.lines().collect();
        assert!(!acknowledged.is_empty() && acknowledged.len() < KEYS, "{}", acknowledged.len());
        assert_eq!(loaded.code, Some(1), "{}", loaded.err);
        // The request that fails may be one of a transaction, which is in doubt then, or of a checkpoint.
        let has = |part: &str| loaded.err.contains(part);
        let says_which = has("in doubt") && has("Input/output error") || has("an earlier sync failed");
        let says_where = has(text(&pool)) && has("errors of the device in the kernel's log");
        assert!(says_which && says_where, "{}", loaded.err);
        for survival in [Survival::Old, Survival::New, Survival::Sampled(fails_at)] {
            let image = fixture.file("image", volume.disk().image(survival));
            let exported = lode(["kv", "export", text(&image)]).success();
            let there: HashSet<&str> = exported.lines().filter_map(|line| line.split('\t').next()).collect();
            assert!(acknowledged.is_subset(&there), "{survival:?}: an acknowledged key is lost");
            assert!(there.len() <= acknowledged.len() + THREADS, "{survival:?}: more than was in doubt");
            lode(["pool", "check", text(&image)]).success();
            lode(["kv", "load", text(&image), text(&input)]).success();
            assert_eq!(lode(["kv", "count", text(&image)]).success(), format!("{KEYS}\n"), "it goes on");
        }
    }
}
