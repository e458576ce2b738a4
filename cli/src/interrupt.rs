//! Signals. SIGINT: long work ends at a good place. A second one ends the process at once, like a crash.

use crate::failure::{Failure, INTERRUPTED};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// From now on a file that would become larger than `ulimit -f` allows is an error, and does not end the process.
pub(crate) fn survive_file_limit() {
    // Should this fail, the kernel does what it always did.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// Whether the user wants the work to end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on SIGINT and SIGTERM are heard here.
    pub(crate) fn listen() -> Result<Interrupt, Failure> {
        let heard = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal only sets the flag, the second one finds it set.
            flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), Arc::clone(&heard))
                .and_then(|_| flag::register(signal, Arc::clone(&heard)))
                .map_err(|error| Failure::new("listening for SIGINT", error))?;
        }
        Ok(Interrupt(heard))
    }

    /// Whether a signal came.
    pub(crate) fn is_heard(&self) -> bool {
        // ORDER: none: who hears it late does a little more.
        self.0.load(Ordering::Relaxed)
    }
}
