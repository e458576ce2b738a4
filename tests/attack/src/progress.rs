//! The current step of each thread of a worker, in a file that outlives the worker.

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a thread's slot: a counter, then the text of the step.
const SLOT: usize = 256;
/// Bytes of the counter.
const COUNTER: usize = 8;

/// A record of each step of a worker, written before the step is taken. It has one slot per thread. A worker that was
/// killed or hangs leaves the name of its step.
#[derive(Debug)]
pub struct Progress {
    file: Option<File>,
}

/// The steps of one thread.
#[derive(Debug)]
pub struct StepRecorder<'a> {
    progress: &'a Progress,
    slot: u64,
    count: u64,
}

impl Progress {
    /// Progress that records nothing.
    pub const NONE: Progress = Progress { file: None };

    /// Opens the existing file at `path` to note steps in it.
    ///
    /// # Errors
    /// Any error of opening the file.
    pub fn over(path: &Path) -> io::Result<Progress> {
        Ok(Progress { file: Some(File::options().write(true).open(path)?) })
    }

    /// Returns the steps of the thread number `slot`.
    pub fn thread(&self, slot: u64) -> StepRecorder<'_> {
        StepRecorder { progress: self, slot, count: 0 }
    }
}

impl StepRecorder<'_> {
    /// Notes that the thread begins the step `what`.
    pub fn begin(&mut self, what: impl Display) {
        self.count += 1;
        let Some(file) = &self.progress.file else { return };
        let text = what.to_string();
        let mut slot = [0; SLOT];
        slot[..COUNTER].copy_from_slice(&self.count.to_le_bytes());
        let len = text.len().min(SLOT - COUNTER);
        slot[COUNTER..][..len].copy_from_slice(&text.as_bytes()[..len]);
        // A note that can't be written makes a report poorer, but no result wrong.
        let _ = file.write_all_at(&slot, self.slot * SLOT as u64);
    }
}

/// Returns the last step of each thread that took one, from the bytes of the file.
pub(crate) fn last_steps(bytes: &[u8]) -> Vec<String> {
    let slots =
        bytes.chunks(SLOT).enumerate().filter(|(_, slot)| slot.len() > COUNTER && slot[0..8] != [0; 8]);
    slots
        .map(|(number, slot)| {
            let text = slot[COUNTER..].split(|byte| *byte == 0).next().unwrap_or_default();
            format!("thread {number}: {}", String::from_utf8_lossy(text))
        })
        .collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn last_step_of_each_thread_round_trips() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let progress = Progress::over(file.path()).unwrap();
        let (mut first, mut third) = (progress.thread(0), progress.thread(2));
        first.begin("one");
        third.begin("x".repeat(SLOT));
        first.begin("two");
        let steps = last_steps(&std::fs::read(file.path()).unwrap());
        assert_eq!(steps[0], "thread 0: two");
        assert_eq!(steps[1], format!("thread 2: {}", "x".repeat(SLOT - COUNTER)));
        assert_eq!(steps.len(), 2);
    }
}
