//! The process that holds the lock on a pool, from the kernel's list of locks.

use std::fmt;
use std::fs;
use std::process;

/// Number of times to read the list of locks. The kernel gives the list out in parts. If another lock is released
/// between two parts, the reader can miss a lock that stays.
const READS_MAX: usize = 16;

/// A process that has a pool open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// Process number.
    pub pid: u32,
    /// Name of the command, empty when the kernel does not tell.
    pub command: String,
    /// True if the process has the pool open for writing.
    pub writes: bool,
}

impl LockHolder {
    /// Finds a process that holds a lock on the inode, in /proc/locks. Prefers a writer to a reader.
    pub fn find(device: u64, inode: u64) -> Option<LockHolder> {
        let (pid, writes) = (0..READS_MAX)
            .find_map(|_| parse_locks(&fs::read_to_string("/proc/locks").ok()?, device, inode))?;
        let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some(LockHolder { pid, command: command.trim_end().to_owned(), writes })
    }
}

/// Returns a holder of a lock on the inode in the text of /proc/locks, a writer before a reader. A line looks like
/// `4: FLOCK  ADVISORY  WRITE 1234 fe:00:131074 0 EOF`; the line of a waiting process begins with `4: ->`.
fn parse_locks(locks: &str, device: u64, inode: u64) -> Option<(u32, bool)> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let place = format!("{major:02x}:{minor:02x}:{inode}");
    let holders = locks.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields[..] {
            [_, "FLOCK", _, kind, pid, at, ..] if at == place => Some((pid.parse().ok()?, kind == "WRITE")),
            _ => None,
        }
    });
    holders.max_by_key(|(_, writes)| *writes)
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.writes { "writing" } else { "reading" };
        if self.pid == process::id() {
            return write!(f, "this process, for {how}");
        }
        match self.command.as_str() {
            "" => write!(f, "process {}, for {how}", self.pid),
            command => write!(f, "process {} ({command}), for {how}", self.pid),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    const LOCKS: &str = "\
1: POSIX  ADVISORY  WRITE 11 fe:00:7 0 EOF
2: FLOCK  ADVISORY  READ  12 fe:00:7 0 EOF
2: -> FLOCK  ADVISORY  WRITE 13 fe:00:7 0 EOF
3: FLOCK  ADVISORY  WRITE 14 fe:01:7 0 EOF
4: FLOCK  ADVISORY  WRITE 15 fe:00:8 0 EOF
5: OFDLCK ADVISORY  READ  -1 fe:00:9 0 EOF
";

    #[test]
    fn lock_holder_is_found_by_inode() {
        let device = rustix::fs::makedev(0xfe, 0);
        assert_eq!(parse_locks(LOCKS, device, 7), Some((12, false)));
        assert_eq!(parse_locks(LOCKS, device, 8), Some((15, true)));
        assert_eq!(parse_locks(LOCKS, device, 9), None);
        assert_eq!(parse_locks(LOCKS, rustix::fs::makedev(0xfe, 1), 7), Some((14, true)));
        assert_eq!(parse_locks("", device, 7), None);
    }

    /// Other locks come and go all the time, before and after this one in the list.
    #[test]
    fn lock_holder_is_found_beside_other_locks() {
        let others: Vec<File> = (0..300).map(|_| tempfile::tempfile().unwrap()).collect();
        let held = tempfile::tempfile().unwrap();
        let (early, late) = others.split_at(150);
        early.iter().for_each(|file| file.lock().unwrap());
        held.lock().unwrap();
        late.iter().for_each(|file| file.lock().unwrap());
        let at = held.metadata().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    for file in &others {
                        file.unlock().unwrap();
                        file.lock().unwrap();
                    }
                }
            });
            let found = (0..200).filter(|_| LockHolder::find(at.dev(), at.ino()).is_some()).count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(found, 200);
        });
    }

    #[test]
    fn lock_holder_is_displayed() {
        let other = LockHolder { pid: 1, command: "init".into(), writes: true };
        assert_eq!(other.to_string(), "process 1 (init), for writing");
        let own = LockHolder { pid: process::id(), command: "x".into(), writes: false };
        assert_eq!(own.to_string(), "this process, for reading");
    }
}
