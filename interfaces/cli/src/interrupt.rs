//! Signals. SIGINT and SIGTERM stop long work at a consistent point. A second signal kills the process at once.

use crate::failure::{Failure, INTERRUPTED};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest wait for a pipe before a signal is noticed.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Handles SIGXFSZ. A file that grows beyond `ulimit -f` then causes an error and does not end the process.
pub(crate) fn ignore_sigxfsz() {
    // If this fails, SIGXFSZ still ends the process.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// A flag that the first SIGINT or SIGTERM sets.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Handles SIGINT and SIGTERM, which set the flag from now on.
    pub(crate) fn listen() -> Result<Interrupt, Failure> {
        let [flag, is_second] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        for signal in [SIGINT, SIGTERM] {
            // A signal runs these in this order. The flag comes first: a signal between two registrations is not lost.
            flag::register(signal, Arc::clone(&flag))
                .and_then(|_| {
                    flag::register_conditional_shutdown(
                        signal,
                        i32::from(INTERRUPTED),
                        Arc::clone(&is_second),
                    )
                })
                .and_then(|_| flag::register(signal, Arc::clone(&is_second)))
                .map_err(|error| Failure::new("listening for SIGINT", error))?;
        }
        Ok(Interrupt(flag))
    }

    /// Returns true once a signal has set the flag.
    pub(crate) fn is_set(&self) -> bool {
        // ORDER: none: a caller that reads the flag late does a little more work.
        self.0.load(Ordering::Relaxed)
    }

    /// Waits until `file` can be read or written.
    ///
    /// # Errors
    /// Fails if a signal has set the flag.
    pub(crate) fn wait_for(&self, file: impl AsFd, flags: PollFlags) -> io::Result<()> {
        while !self.is_set() {
            match poll(&mut [PollFd::new(&file, flags)], Some(&POLL_INTERVAL)) {
                Ok(0) | Err(Errno::INTR) => {}
                // If the kernel can't tell, the call that follows will.
                Ok(_) | Err(_) => return Ok(()),
            }
        }
        Err(io::Error::other("stopped by a signal"))
    }
}
