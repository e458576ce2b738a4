//! The child of a fork can't use the handle, and its end does not affect the parent.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::fixture::{SIZE, create, folder, opening};
use lode_layout::PoolOffset;
use lode_pmem::{FaultKind, Medium};
use lode_pool::{Access, OpenOptions, PoolError, PoolFile, map_unchecked};
use std::io::Read;
use std::process;

#[test]
fn child_is_refused_and_parent_is_unaffected() {
    let folder = folder();
    let path = folder.path().join("pool");
    let pool = create(&path);
    match fork::fork().unwrap() {
        fork::Fork::Child => {
            // A panic would run the rest of the harness a second time.
            let refused = refused_in_child(&pool);
            let closed = pool.close();
            let closed = matches!(closed.as_ref().map_err(PoolError::cause), Err(PoolError::Forked { .. }));
            process::exit(if refused && closed { 0 } else { 1 })
        }
        fork::Fork::Parent(child) => {
            let status = rustix::process::waitpid(
                rustix::process::Pid::from_raw(child),
                rustix::process::WaitOptions::empty(),
            );
            let (_, status) = status.unwrap().unwrap();
            assert_eq!(status.exit_status(), Some(0));
        }
    }
    // The child's end released no lock and wrote nothing.
    let error = PoolFile::open(&path, &opening(Access::ReadWrite)).unwrap_err();
    assert!(matches!(error.cause(), PoolError::InUse { .. }), "{error}");
    pool.grow(SIZE * 2).unwrap();
    assert_eq!(pool.header().geometry.size(), SIZE * 2);
    pool.close().unwrap();
}

fn refused_in_child(pool: &PoolFile) -> bool {
    let grown = pool.grow(SIZE * 2);
    let named = matches!(grown.as_ref().map_err(PoolError::cause),
        Err(PoolError::Forked { opener }) if *opener != process::id());
    let read = pool.medium().memory().reading(|memory| memory.load8(PoolOffset::NULL));
    let faulted = read.is_err_and(|fault| fault.kind == FaultKind::Forked);
    named && faulted
}

/// A process that another thread starts has all descriptors of its parent until it runs its own program. An open right
/// after the end of a check failed then, as the loop of kills with several threads found.
#[test]
fn closed_view_is_unlocked_despite_child() {
    let folder = folder();
    let path = folder.path().join("pool");
    drop(create(&path));
    let view = map_unchecked(&path, &OpenOptions::new(Access::ReadOnly)).unwrap();
    let (mut ended, end) = std::io::pipe().unwrap();
    match fork::fork().unwrap() {
        fork::Fork::Child => {
            drop(end);
            let read = ended.read(&mut [0]);
            process::exit(i32::from(read.is_err()))
        }
        fork::Fork::Parent(child) => {
            drop(view);
            let opened = PoolFile::open(&path, &opening(Access::ReadWrite));
            drop(end);
            let pid = rustix::process::Pid::from_raw(child);
            rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()).unwrap();
            opened.unwrap();
        }
    }
}
