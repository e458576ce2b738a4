//! A writer excludes all other handles, readers exclude writers, and the error names the process that holds the lock.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::fixture::{create, folder, opening};
use lode_pmem::Medium;
use lode_pool::{Access, LockHolder, OpenOptions, PoolError, PoolFile, map_unchecked};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};

fn holder(path: &Path, access: Access) -> LockHolder {
    match PoolFile::open(path, &opening(access)).expect_err("it was opened").cause() {
        PoolError::InUse { holder: Some(holder) } => holder.clone(),
        error => panic!("{error}"),
    }
}

/// Starts another process that has the pool open until it is killed.
fn open_in_other_process(path: &Path, access: Access) -> Child {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "one_writer_or_many_readers::other_process", "--ignored", "--nocapture"])
        .env("LODE_TEST_POOL", path)
        .env("LODE_TEST_WRITES", if access == Access::ReadWrite { "1" } else { "0" })
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(process.stdout.take().unwrap());
    assert!(output.lines().any(|line| line.unwrap().ends_with("opened")));
    process
}

#[test]
#[ignore = "the process that the other tests start"]
fn other_process() {
    let path = PathBuf::from(std::env::var_os("LODE_TEST_POOL").expect("started by another test"));
    let writes = std::env::var("LODE_TEST_WRITES").unwrap() == "1";
    let access = if writes { Access::ReadWrite } else { Access::ReadOnly };
    let _pool = PoolFile::open(&path, &opening(access)).unwrap();
    println!("opened");
    loop {
        std::thread::park();
    }
}

#[test]
fn writer_excludes_handles_of_its_process() {
    let folder = folder();
    let path = folder.path().join("pool");
    let pool = create(&path);
    for access in [Access::ReadOnly, Access::ReadWrite] {
        let holder = holder(&path, access);
        assert_eq!((holder.pid, holder.writes), (process::id(), true));
    }
    assert!(map_unchecked(&path, &OpenOptions::new(Access::ReadOnly)).is_err());
    // An engine that still has the mapping keeps the lock.
    let medium = pool.medium().clone();
    drop(pool);
    holder(&path, Access::ReadWrite);
    drop(medium);
    PoolFile::open(&path, &opening(Access::ReadWrite)).unwrap();
}

#[test]
fn lock_holder_is_named() {
    let folder = folder();
    let path = folder.path().join("pool");
    drop(create(&path));
    for access in [Access::ReadWrite, Access::ReadOnly] {
        let mut other = open_in_other_process(&path, access);
        let command = fs::read_to_string(format!("/proc/{}/comm", other.id())).unwrap();
        let found = holder(&path, Access::ReadWrite);
        let writes = access == Access::ReadWrite;
        assert_eq!(found, LockHolder { pid: other.id(), command: command.trim_end().into(), writes });
        let refused = PoolFile::open(&path, &opening(Access::ReadWrite)).unwrap_err().to_string();
        let named = format!("in use by process {} ({}), for", other.id(), command.trim_end());
        assert!(refused.contains(&named), "{refused}");
        // Any end of the process releases its lock.
        other.kill().unwrap();
        other.wait().unwrap();
        PoolFile::open(&path, &opening(Access::ReadWrite)).unwrap();
    }
}

#[test]
fn readers_share_the_lock() {
    let folder = folder();
    let path = folder.path().join("pool");
    drop(create(&path));
    let mut other = open_in_other_process(&path, Access::ReadOnly);
    let readers = [(); 3].map(|()| PoolFile::open(&path, &opening(Access::ReadOnly)).unwrap());
    assert!(!holder(&path, Access::ReadWrite).writes);
    drop(readers);
    assert_eq!(holder(&path, Access::ReadWrite).pid, other.id());
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn reader_writes_nothing() {
    let folder = folder();
    let path = folder.path().join("pool");
    drop(create(&path));
    let before = fs::read(&path).unwrap();
    let pool = PoolFile::open(&path, &opening(Access::ReadOnly)).unwrap();
    let at = pool.header().geometry.log_off();
    pool.medium().store8(at, 7);
    pool.medium().drain().unwrap();
    pool.medium().log_write(at, &[9; 4096]).unwrap();
    assert_eq!(pool.medium().memory().reading(|memory| memory.load1(at)).unwrap(), 9);
    assert!(matches!(pool.grow(1 << 20).unwrap_err().cause(), PoolError::ReadOnly));
    pool.close().unwrap();
    assert!(fs::read(&path).unwrap() == before);
}
