//! Progress on the terminal, for work that takes longer than a second. Hidden if standard error is not a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lode_pmem::Counter;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time after which work shows its progress.
const SHOW_AFTER: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(120);

/// A bar that appears when the work takes longer than a second.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Steps, bytes or items that are done. The bar, which looks at the clock for each change, gets them from time to
    /// time.
    done: Arc<Counter>,
    /// Dropped when the work has ended, which stops the watcher.
    ended: Option<Sender<()>>,
    watcher: Option<JoinHandle<()>>,
}

impl Progress {
    /// Returns a spinner, for work of unknown length.
    pub(crate) fn spinner(what: &'static str) -> Progress {
        Progress::show(ProgressBar::hidden(), "{spinner} {msg} {elapsed}", what)
    }

    /// Returns a bar for work of `len` steps.
    pub(crate) fn of_items(what: &'static str, len: u64) -> Progress {
        let template =
            "   {wide_bar:.cyan/dim} {percent}% {human_pos}/{human_len} {msg} {per_sec}, {eta} left";
        Progress::show(ProgressBar::with_draw_target(Some(len), ProgressDrawTarget::hidden()), template, what)
    }

    /// Returns a bar for work of `len` bytes.
    pub(crate) fn of_bytes(what: &'static str, len: u64) -> Progress {
        let template = "   {wide_bar:.cyan/dim} {percent}% {binary_bytes}/{binary_total_bytes} {msg} \
                        {binary_bytes_per_sec}, {eta} left";
        Progress::show(ProgressBar::with_draw_target(Some(len), ProgressDrawTarget::hidden()), template, what)
    }

    /// Returns a counter, for work on an unknown number of items.
    pub(crate) fn counter(what: &'static str) -> Progress {
        Progress::show(ProgressBar::hidden(), "{spinner} {msg} {human_pos} {elapsed} {per_sec}", what)
    }

    fn show(bar: ProgressBar, template: &str, what: &'static str) -> Progress {
        bar.set_style(ProgressStyle::with_template(template).expect("a template of this module"));
        bar.set_message(what);
        let (sender, ended) = channel();
        let (shown, done) = (bar.clone(), Arc::new(Counter::default()));
        let counted = Arc::clone(&done);
        let watch = move || {
            let is_running = |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            if is_running(SHOW_AFTER) {
                // Draws nothing if standard error is not a terminal.
                shown.set_draw_target(ProgressDrawTarget::stderr());
                while is_running(TICK) {
                    shown.set_position(counted.get());
                    shown.tick();
                }
            }
        };
        // If the thread can't be started, the work runs without progress.
        let watcher = thread::Builder::new().spawn(watch).ok();
        Progress { bar, done, ended: Some(sender), watcher }
    }

    /// Begins with `count` steps, bytes or items, which count for no rate.
    pub(crate) fn start_at(&self, count: u64) {
        self.done.add(count);
        self.bar.set_position(count);
        self.bar.reset_eta();
    }

    /// Adds `count` steps, bytes or items to those that are done.
    pub(crate) fn add(&self, count: u64) {
        self.done.add(count);
    }

    /// Prints a line above the bar, to standard output.
    pub(crate) fn println(&self, line: &str) {
        self.bar.suspend(|| println!("{line}"));
    }

    /// Prints a line above the bar, to standard error.
    pub(crate) fn eprintln(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.ended.take();
        if let Some(watcher) = self.watcher.take() {
            // The watcher can't panic. If it did, the work would be done all the same.
            let _ = watcher.join();
        }
        self.bar.finish_and_clear();
    }
}
