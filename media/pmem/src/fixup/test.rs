//! Lost memory, simulated by truncating files under their mapping, which raises the same signal.
//!
//! A test that ends its process, or changes its signal handlers, runs in a child process. The child is the same test
//! once more, and a variable tells it to act as the child.

#![cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]

use super::*;
use crate::{Durability, Mapping, Medium};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

const PAGE: u64 = 4096;
const CHILD: &str = "LODE_TEST_CHILD";

fn at(bytes: u64) -> PoolOffset {
    PoolOffset::new(bytes)
}

/// Returns a mapping of three pages filled with ones, whose last two pages are cut off.
fn cut_short(durability: Durability) -> (Mapping, File) {
    let file = File::from(memfd_create("lode", MemfdFlags::CLOEXEC).unwrap());
    file.set_len(3 * PAGE).unwrap();
    let mapping =
        Mapping::options().durability(durability).map_file(file.try_clone().unwrap(), "a/pool").unwrap();
    mapping.store(at(0), &[1; 3 * PAGE as usize]);
    assert_eq!(Fault::take(), None);
    file.set_len(PAGE).unwrap();
    (mapping, file)
}

fn poison(page: u64) -> Option<Fault> {
    Some(Fault { kind: FaultKind::Poison, at: at(page * PAGE), len: PAGE })
}

/// Runs the test `name` again as the child. Returns `None` if this process is the child.
fn in_child(name: &str) -> Option<Output> {
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let name = format!("fixup::test::{name}");
    Some(child.args(["--exact", &name, "--nocapture"]).env(CHILD, "1").output().unwrap())
}

#[test]
fn loads_of_lost_memory_fault() {
    let (mapping, _file) = cut_short(Durability::Line);
    let memory = mapping.memory();
    assert_eq!(
        (memory.load8(at(PAGE - 8)), memory.load1(at(PAGE - 1)), Fault::take()),
        (0x0101_0101_0101_0101, 1, None)
    );
    assert_eq!((memory.load8(at(PAGE)), Fault::take()), (0, poison(1)));
    assert_eq!((memory.load1(at(2 * PAGE + 5)), Fault::take()), (0, poison(2)));
    assert_eq!(memory.compare_exchange8(at(PAGE), 7, 8), Ok(7));
    assert_eq!(Fault::take(), poison(1));
    // The thread keeps the first fault.
    memory.load8(at(2 * PAGE));
    memory.load8(at(PAGE));
    assert_eq!((Fault::take(), Fault::take()), (poison(2), None));
}

#[test]
fn reads_stop_at_lost_memory() {
    let (mapping, _file) = cut_short(Durability::Line);
    let memory = mapping.memory();
    for len in (1..100).chain([511, 512, 513, 1000, 4000]) {
        for before in [0, 1, 7, 8, 9, len / 2, len - 1, len] {
            let start = at(PAGE - before.min(len) as u64);
            let all_there = before >= len;
            let mut into = vec![7; len];
            memory.read(start, &mut into);
            assert_eq!(Fault::take().is_none(), all_there, "{len} {before}");
            assert_eq!(into, vec![u8::from(all_there); len], "{len} {before}");
            assert_eq!(memory.equals(start, &vec![1; len]), all_there);
            assert_eq!(Fault::take().is_none(), all_there, "{len} {before}");
        }
    }
}

#[test]
fn stores_to_lost_memory_fault() {
    for durability in [Durability::Line, Durability::Byte, Durability::None] {
        let (mapping, _file) = cut_short(durability);
        mapping.store8(at(PAGE), 5);
        assert_eq!(Fault::take(), poison(1), "{durability}");
        for (start, len) in [(PAGE - 64, 128), (PAGE, 8), (2 * PAGE - 8, 256), (PAGE - 8, 16)] {
            mapping.copy(at(start), &vec![2; len]);
            assert_eq!(
                Fault::take().map(|fault| fault.kind),
                Some(FaultKind::Poison),
                "{durability} {start}"
            );
            mapping.store(at(start + 3), &vec![2; len]);
            assert_eq!(
                Fault::take().map(|fault| fault.kind),
                Some(FaultKind::Poison),
                "{durability} {start}"
            );
        }
        assert_eq!(mapping.drain(), Ok(()));
        let refused = Err(crate::SyncError { errno: libc::EFAULT });
        assert_eq!(mapping.log_write(at(PAGE), &[3; 64]), refused);
        assert_eq!(Fault::take(), poison(1), "{durability}");
        // The medium takes no log write after a lost record.
        assert_eq!(mapping.log_write(at(0), &[3; 64]), refused);
    }
    let (mapping, _file) = cut_short(Durability::Line);
    mapping.flush(at(PAGE - 1), 2);
    assert_eq!(Fault::take(), poison(1));
}

#[test]
fn faulted_range_is_recorded_as_bad() {
    let (mapping, _file) = cut_short(Durability::Line);
    let memory = mapping.memory();
    assert_eq!(memory.bad_ranges(), []);
    memory.load8(at(2 * PAGE));
    assert_eq!(memory.bad_ranges(), std::slice::from_ref(&(2 * PAGE..3 * PAGE)));
    // SAFETY: - no thread stores, and the slice is not read.
    let lent = |start, len| unsafe { memory.get_slice(at(start), len) }.map(<[u8]>::len);
    assert_eq!(lent(0, 2 * PAGE), Ok(2 * PAGE as usize));
    assert_eq!(lent(2 * PAGE - 1, 2).err(), poison(2));
    Fault::take();
}

#[test]
fn excess_lost_ranges_are_merged() {
    let file = File::from(memfd_create("lode", MemfdFlags::CLOEXEC).unwrap());
    file.set_len(100 * PAGE).unwrap();
    let mapping =
        Mapping::options().durability(Durability::Line).map_file(file.try_clone().unwrap(), "pool").unwrap();
    file.set_len(0).unwrap();
    for page in (1..100).step_by(2) {
        mapping.memory().load8(at(page * PAGE));
    }
    Fault::take();
    let known = mapping.memory().bad_ranges();
    for page in (1..100).step_by(2) {
        let (start, end) = (page * PAGE, (page + 1) * PAGE);
        assert!(known.iter().any(|bad| bad.start <= start && end <= bad.end), "{page}: {known:?}");
    }
}

#[test]
fn fault_in_slice_aborts_with_message() {
    if let Some(ended) = in_child("fault_in_slice_aborts_with_message") {
        assert_eq!(ended.status.signal(), Some(libc::SIGBUS), "{ended:?}");
        let told = String::from_utf8(ended.stderr).unwrap();
        assert!(told.contains("lode: a/pool: bytes 0x1000 to 0x2000 can't be read"), "{told}");
        return;
    }
    let (mapping, _file) = cut_short(Durability::Line);
    // SAFETY: - no thread stores.
    let lent = unsafe { mapping.memory().get_slice(at(0), 2 * PAGE) }.unwrap();
    let sum: u64 = lent.iter().map(|byte| u64::from(*byte)).sum();
    panic!("the sum is {sum}");
}

/// The file system is too small for the file, so a page of it stays a hole. It is not lost: with space, the same store succeeds.
#[test]
fn hole_of_a_full_file_system_is_not_lost() {
    let Some(disk) = lode_testing::SmallDisk::mount("small_disk", 4 * PAGE) else { return };
    let (path, filler) = (disk.pool(), disk.folder().join("filler"));
    let file = File::create_new(&path).unwrap();
    file.set_len(64 * PAGE).unwrap();
    let mapping = Mapping::options().durability(Durability::None).open(&path).unwrap();
    mapping.store8(at(0), 5);
    // The tmpfs takes what fits.
    let _ = std::fs::write(&filler, [1; 8 * PAGE as usize]);
    let no_space = |page: u64| Some(Fault { kind: FaultKind::NoSpace, at: at(page * PAGE), len: PAGE });
    mapping.store8(at(9 * PAGE + 8), 6);
    assert_eq!(Fault::take(), no_space(9));
    mapping.copy(at(8 * PAGE), &[7; 2 * PAGE as usize]);
    assert_eq!(Fault::take(), no_space(8));
    assert_eq!((mapping.memory().load8(at(0)), Fault::take()), (5, None));
    assert_eq!(mapping.memory().bad_ranges(), []);
    std::fs::remove_file(filler).unwrap();
    mapping.store8(at(9 * PAGE + 8), 6);
    assert_eq!((mapping.memory().load8(at(9 * PAGE + 8)), Fault::take()), (6, None));
    // What is cut off is lost, full or not.
    file.set_len(PAGE).unwrap();
    mapping.store8(at(9 * PAGE), 6);
    assert_eq!(Fault::take(), poison(9));
}

static FOREIGN: AtomicU32 = AtomicU32::new(0);

/// A handler of another library, which maps a page at the missing one.
extern "C" fn foreign(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // ORDER: read by the same thread.
    FOREIGN.fetch_add(1, Ordering::Relaxed);
    // SAFETY: - the kernel passes a valid siginfo_t.
    let address = unsafe { info.cast::<MemoryFault>().read() }.address;
    let page = ptr::with_exposed_provenance_mut(address & !4095);
    let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: - only the test maps this page.
    unsafe { libc::mmap(page, 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
}

#[test]
fn foreign_faults_reach_previous_handler() {
    if let Some(ended) = in_child("foreign_faults_reach_previous_handler") {
        assert!(ended.status.success(), "{ended:?}");
        return;
    }
    // SAFETY: - sigaction is plain data, and zeros are a valid value of it.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = foreign as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: - the handler has the signature of SA_SIGINFO.
    assert_eq!(unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) }, 0);
    let (mapping, file) = cut_short(Durability::Line);
    assert_eq!((mapping.memory().load8(at(PAGE)), Fault::take()), (0, poison(1)));
    // ORDER: stored by the same thread, here and below.
    assert_eq!(FOREIGN.load(Ordering::Relaxed), 0);
    let (size, flags) = (PAGE as usize, rustix::mm::MapFlags::SHARED);
    // SAFETY: - a null hint lets the kernel choose. The file ends before this page.
    let place =
        unsafe { rustix::mm::mmap(ptr::null_mut(), size, rustix::mm::ProtFlags::READ, flags, &file, PAGE) };
    let place = place.unwrap().cast::<u64>();
    place.expose_provenance();
    // SAFETY: - aligned and mapped; the first read faults, and the foreign handler maps the page.
    assert_eq!(unsafe { place.read_volatile() }, 0);
    assert_eq!((FOREIGN.load(Ordering::Relaxed), Fault::take()), (1, None));
}

#[test]
fn sent_signal_terminates_process() {
    if let Some(ended) = in_child("sent_signal_terminates_process") {
        assert_eq!(ended.status.signal(), Some(libc::SIGBUS), "{ended:?}");
        return;
    }
    // The standard library's handler swallows the first signal that is sent, so it is removed.
    // SAFETY: - SIG_DFL is valid for the signal.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    let (_mapping, _file) = cut_short(Durability::Line);
    // SAFETY: - raise(3) has no requirement.
    unsafe { libc::raise(libc::SIGBUS) };
    panic!("still here");
}

/// Runs `child` in a fork of this process. Returns its exit status.
fn forked(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: - the child runs `child`, which neither allocates nor takes a lock, and ends.
    match unsafe { libc::fork() } {
        // SAFETY: - ends the child without running any code of the parent.
        0 => unsafe { libc::_exit(child()) },
        pid => {
            let (_, status) = waitpid(Pid::from_raw(pid), WaitOptions::empty()).unwrap().unwrap();
            status.exit_status().unwrap_or(-1)
        }
    }
}

#[test]
fn forked_child_cannot_access_memory() {
    for durability in [Durability::Line, Durability::Commit] {
        let file = File::from(memfd_create("lode", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(PAGE).unwrap();
        let mapping = Mapping::options().durability(durability).map_file(file, "pool").unwrap();
        mapping.store8(at(8), 5);
        let child = || {
            let forked = |fault: Option<Fault>| fault.is_some_and(|fault| fault.kind == FaultKind::Forked);
            let mut passed = 0;
            passed |= i32::from(mapping.memory().load8(at(8)) == 0 && forked(Fault::take()));
            mapping.store8(at(8), 6);
            passed |= i32::from(forked(Fault::take())) << 1;
            passed |= i32::from(mapping.log_write(at(0), &[7; PAGE as usize]).is_err()) << 2;
            passed |= i32::from(forked(Fault::take())) << 3;
            passed
        };
        assert_eq!(forked(child), 0b1111, "{durability}");
        assert_eq!((mapping.memory().load8(at(8)), Fault::take()), (5, None), "{durability}");
    }
}
