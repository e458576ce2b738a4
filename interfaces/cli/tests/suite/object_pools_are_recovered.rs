//! `lode pool recover` makes a pool that a program on Lodestone's libpmemobj left in a crash one that PMDK opens.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{lode, text};
use lode_layout::{PmdkKind, PmdkPartHeader};
use lode_obj::{Pool, Request};
use lode_pmdk::{CreateOptions, PmdkPool};
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Makes an object pool in which a crash has left a transaction.
pub(crate) fn make_crashed(path: &Path) {
    let options = CreateOptions::new(PmdkKind::Objects);
    let made = PmdkPool::create::<Box<dyn Error>>(path, Some(8 << 20), &options, |medium, _| {
        Ok(Pool::format(medium, b"jobs")?)
    });
    let made = made.unwrap();
    let pool = Pool::open(Arc::clone(made.medium())).unwrap();
    for is_committed in [true, false] {
        let mut tx = pool.begin().unwrap();
        pool.allocate(&mut tx, &Request { size: 100, ..Request::default() }).unwrap();
        if is_committed {
            pool.commit(tx).unwrap();
        }
    }
}

#[test]
fn recovered_pools_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("objects");
    make_crashed(&path);
    let is_in_use = || PmdkPartHeader::decode(&fs::read(&path).unwrap()).unwrap().features.is_in_use();
    let before = fs::read(&path).unwrap();
    let checked = lode(["--json", "pool", "check", text(&path)]).json();
    assert_eq!(
        (&checked["damaged"], &checked["objects"], &checked["unclean"]),
        (&false.into(), &1.into(), &true.into())
    );
    assert_eq!(lode(["--json", "pool", "stats", text(&path)]).json()["objects"], 1);
    assert!(fs::read(&path).unwrap() == before && is_in_use(), "a check stores nothing");
    let recovered = lode(["--json", "pool", "recover", text(&path)]).json();
    assert_eq!((&recovered["recovered"], &recovered["was_in_use"]), (&true.into(), &true.into()));
    assert!(!is_in_use());
    assert!(lode(["pool", "recover", text(&path)]).success().contains("nothing to recover"));
    assert_eq!(lode(["--json", "pool", "stats", text(&path)]).json()["objects"], 1);
    if Command::new("pmempool").arg("--version").output().is_err() {
        return lode_testing::skip("object_pools_are_recovered", "pmdk-tools is not installed");
    }
    let judged = Command::new("pmempool").arg("check").arg(&path).status().unwrap();
    assert!(judged.success());
}

#[test]
fn other_pools_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    lode(["pool", "create", text(&path), "--size", "8MiB"]).success();
    lode(["pool", "recover", text(&path)]).failure(1, &["no pool of PMDK", "next program that opens it"]);
    lode(["pool", "recover", "missing"]).failure(1, &["missing"]);
}
