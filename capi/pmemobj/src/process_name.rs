//! The name of a process: its number and the time of its start, which no other process has both.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// Bits of a process number; Linux has at most 22.
const NUMBER_BITS: u32 = 24;

/// A process, as a word that is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessName(u64);

/// The fields of /proc/PID/stat that tell whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessStat {
    number: u32,
    state: u8,
    threads: u64,
    /// Clock ticks from the start of the machine.
    start: u64,
    /// The kernel's PF_* of its first thread.
    flags: u64,
}

/// PF_EXITING of the kernel.
const EXITING: u64 = 4;

impl ProcessName {
    /// Returns the name of this process. Without /proc it is the number alone.
    pub(crate) fn current() -> ProcessName {
        let number = std::process::id();
        let stat = ProcessStat::read("/proc/self/stat").filter(|stat| stat.number == number);
        ProcessName(stat.map_or(0, |stat| stat.start) << NUMBER_BITS | u64::from(number))
    }

    /// Returns the name that is this word; `None` for 0.
    pub(crate) fn of_word(word: u64) -> Option<ProcessName> {
        (word != 0).then_some(ProcessName(word))
    }

    /// Returns the name as a word.
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    /// Returns the number of the process.
    pub(crate) fn number(self) -> u32 {
        (self.0 & ((1 << NUMBER_BITS) - 1)) as u32
    }

    fn start(self) -> u64 {
        self.0 >> NUMBER_BITS
    }

    /// Returns true if no thread of the process can run any more. The caller is in the [`namespaces`] in which the name was made.
    ///
    /// # Cost
    /// Some system calls.
    pub(crate) fn is_gone(self) -> bool {
        let number = self.number();
        match fs::read(format!("/proc/{number}/stat")) {
            Ok(text) => ProcessStat::parse(&text).is_some_and(|stat| self.is_not(&stat)),
            // Processes of another user may be hidden.
            Err(_) => has_no_process(number),
        }
    }

    /// Returns true if the process, or its first thread, is on the way to its end.
    ///
    /// # Cost
    /// Some system calls.
    pub(crate) fn is_ending(self) -> bool {
        let stat = ProcessStat::read(&format!("/proc/{}/stat", self.number()));
        stat.is_some_and(|stat| stat.flags & EXITING != 0)
    }

    /// Returns true if the process that has its number now is another one, or has ended.
    fn is_not(self, stat: &ProcessStat) -> bool {
        let is_other = self.start() != 0 && stat.start != self.start();
        // The first thread of a process may have ended before the others.
        let has_ended = matches!(stat.state, b'Z' | b'X' | b'x') && stat.threads <= 1;
        stat.number == self.number() && (is_other || has_ended)
    }
}

impl ProcessStat {
    fn read(path: &str) -> Option<ProcessStat> {
        ProcessStat::parse(&fs::read(path).ok()?)
    }

    /// Returns the fields of a text as proc_pid_stat(5) describes it. The name of the program may have any bytes.
    fn parse(text: &[u8]) -> Option<ProcessStat> {
        let name_end = text.iter().rposition(|byte| *byte == b')')?;
        let number = std::str::from_utf8(text).ok().or_else(|| lossless_head(text))?;
        let number = number.split(' ').next()?.parse().ok()?;
        let rest = std::str::from_utf8(&text[name_end + 1..]).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let state = *fields.first()?.as_bytes().first()?;
        Some(ProcessStat {
            number,
            state,
            threads: fields.get(17)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
            flags: fields.get(6)?.parse().ok()?,
        })
    }
}

/// Returns the bytes before the name of the program.
fn lossless_head(text: &[u8]) -> Option<&str> {
    let name = text.iter().position(|byte| *byte == b'(')?;
    std::str::from_utf8(&text[..name]).ok()
}

/// Returns true if no process has this number.
fn has_no_process(number: u32) -> bool {
    // SAFETY: - signal 0 is sent to no process.
    let sent = unsafe { libc::kill(number as libc::pid_t, 0) };
    sent != 0 && lode_capi_entry::errno() == libc::ESRCH
}

/// Returns the namespaces of process numbers and of clocks in which this process is; 0 for one that is not known.
pub(crate) fn namespaces() -> [u64; 2] {
    ["/proc/self/ns/pid", "/proc/self/ns/time"].map(|path| fs::metadata(path).map_or(0, |found| found.ino()))
}

#[cfg(test)]
mod test {
    use super::*;

    const TEXT: &str = "4711 (a) b (c) S 1 4711 4711 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 99 1 2 3";

    #[test]
    fn fields_are_found_after_any_name() {
        let wanted = ProcessStat { number: 4711, state: b'S', threads: 3, start: 99, flags: 4_194_560 };
        assert_eq!(ProcessStat::parse(TEXT.as_bytes()), Some(wanted));
        let mut text = TEXT.as_bytes().to_vec();
        text[6] = 0xff;
        assert_eq!(ProcessStat::parse(&text), Some(wanted));
        for end in 0..TEXT.len() - 6 {
            let _ = ProcessStat::parse(&TEXT.as_bytes()[..end]);
        }
        for text in ["", ")", "1 (a)", "1 (a) S", "x (a) S 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2"] {
            assert_eq!(ProcessStat::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn process_is_there_until_all_its_threads_have_ended() {
        let name = ProcessName(99 << NUMBER_BITS | 4711);
        assert_eq!((name.number(), name.start()), (4711, 99));
        for (state, threads, start, is_gone) in [
            (b'S', 1, 99, false),
            (b'R', 3, 98, true),
            (b'Z', 1, 99, true),
            (b'Z', 2, 99, false),
            (b'X', 0, 99, true),
            (b'T', 1, 99, false),
        ] {
            let stat = ProcessStat { number: 4711, state, threads, start, flags: 0 };
            assert_eq!(name.is_not(&stat), is_gone, "{stat:?}");
        }
        let nameless = ProcessName(4711);
        let other = ProcessStat { number: 4711, state: b'S', threads: 1, start: 5, flags: 0 };
        assert!(!nameless.is_not(&other));
    }

    #[test]
    fn child_is_gone_when_it_has_ended() {
        assert!(!ProcessName::current().is_gone());
        assert_ne!(ProcessName::current().start(), 0);
        assert_ne!(namespaces()[0], 0);
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let stat = ProcessStat::read(&format!("/proc/{}/stat", child.id())).unwrap();
        let name = ProcessName(stat.start << NUMBER_BITS | u64::from(child.id()));
        assert!(!name.is_gone() && !name.is_ending());
        let earlier = ProcessName(name.word() - (1 << NUMBER_BITS));
        assert!(earlier.is_gone());
        drop(child.stdin.take());
        // Ended, and not waited for.
        while !name.is_gone() {
            std::thread::yield_now();
        }
        assert!(name.is_ending());
        child.wait().unwrap();
        assert!(name.is_gone() && !name.is_ending());
    }
}
