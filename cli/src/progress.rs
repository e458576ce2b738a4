//! Progress on the terminal, for what takes longer than a second. Nothing where standard error is none.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long something may take before it shows progress.
const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(120);

/// A bar that shows itself when the work takes longer than a second.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Dropped to say that the work has ended.
    ended: Option<Sender<()>>,
    watcher: Option<JoinHandle<()>>,
}

impl Progress {
    /// Work whose end is not known.
    pub(crate) fn spinner(what: &'static str) -> Progress {
        Progress::show(ProgressBar::hidden(), "{spinner} {msg} {elapsed}", what)
    }

    /// Work of `len` steps.
    pub(crate) fn of_items(what: &'static str, len: u64) -> Progress {
        let template = "   {wide_bar:.cyan/dim} {human_pos}/{human_len} {msg} {elapsed}";
        Progress::show(ProgressBar::with_draw_target(Some(len), ProgressDrawTarget::hidden()), template, what)
    }

    /// Work of `len` bytes.
    pub(crate) fn of_bytes(what: &'static str, len: u64) -> Progress {
        let template = "   {wide_bar:.cyan/dim} {binary_bytes}/{binary_total_bytes} {msg} {elapsed}";
        Progress::show(ProgressBar::with_draw_target(Some(len), ProgressDrawTarget::hidden()), template, what)
    }

    /// Work that counts things of which nobody knows how many there are.
    pub(crate) fn counter(what: &'static str) -> Progress {
        Progress::show(ProgressBar::hidden(), "{spinner} {msg} {human_pos} {elapsed} {per_sec}", what)
    }

    fn show(bar: ProgressBar, template: &str, what: &'static str) -> Progress {
        bar.set_style(ProgressStyle::with_template(template).expect("a template of this module"));
        bar.set_message(what);
        let (sender, ended) = channel();
        let shown = bar.clone();
        let watch = move || {
            let is_going_on = |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            if is_going_on(PATIENCE) {
                // Draws nothing where standard error is no terminal.
                shown.set_draw_target(ProgressDrawTarget::stderr());
                while is_going_on(TICK) {
                    shown.tick();
                }
            }
        };
        // Where there can't be a thread for it, the work is done without.
        let watcher = thread::Builder::new().spawn(watch).ok();
        Progress { bar, ended: Some(sender), watcher }
    }

    /// One more of what is counted is done.
    pub(crate) fn add(&self, count: u64) {
        self.bar.inc(count);
    }

    /// Prints a line above the bar, to standard output.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| println!("{line}"));
    }

    /// Prints a line above the bar, to standard error.
    pub(crate) fn note(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.ended.take();
        if let Some(watcher) = self.watcher.take() {
            // It can't panic, and if it did the work is done all the same.
            let _ = watcher.join();
        }
        self.bar.finish_and_clear();
    }
}
