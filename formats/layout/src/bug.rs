//! Seeded bugs: lines of the shipped code that a test can break on purpose, to prove that it would notice.
//!
//! An engine names each of its bugs as a static [`Bug`]. It asks [`Bug::is_active`] at the place where the correct code
//! turns wrong. In an ordinary build the answer is the constant false, and the wrong code is not compiled. A build with
//! `--cfg lode_bugs` lets a test choose one bug at a time, for each thread separately, so one build serves all bugs. A
//! test that starts a program names the active bug of all its threads in the variable `LODE_BUG`.
//!
//! ```
//! use lode_layout::bug::Bug;
//!
//! static NO_CHECKSUM: Bug = Bug::new("no-checksum", "a torn record is replayed");
//!
//! fn is_valid(found: u32, want: u32) -> bool {
//!     NO_CHECKSUM.is_active() || found == want
//! }
//! # assert!(!is_valid(1, 2));
//! ```

use std::fmt;

/// A line of the shipped code that can be broken.
#[derive(Debug)]
pub struct Bug {
    name: &'static str,
    loses: &'static str,
    #[cfg(lode_bugs)]
    reached: std::sync::atomic::AtomicBool,
}

impl Bug {
    /// Defines a bug with a unique name; `loses` describes the data that it loses.
    pub const fn new(name: &'static str, loses: &'static str) -> Bug {
        Bug {
            name,
            loses,
            #[cfg(lode_bugs)]
            reached: std::sync::atomic::AtomicBool::new(false),
        }
    }

    /// Returns the unique name of the bug.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns a short description of the loss.
    pub const fn loses(&self) -> &'static str {
        self.loses
    }

    /// Returns true if the code at this place must be wrong.
    #[cfg(not(lode_bugs))]
    #[inline(always)]
    pub const fn is_active(&self) -> bool {
        false
    }

    /// Returns true if the code at this place must be wrong.
    #[cfg(lode_bugs)]
    pub fn is_active(&self) -> bool {
        let chosen = CHOSEN.get().bug.map(|chosen| chosen.name);
        let active = chosen.or(everywhere()) == Some(self.name);
        if active {
            // ORDER: none: the flag is read after the threads that may set it have ended.
            self.reached.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        active
    }

    /// Returns true if wrong code ever ran. A chosen bug that no test reaches proves nothing.
    #[cfg(lode_bugs)]
    pub fn was_reached(&self) -> bool {
        // ORDER: as in `is_active`.
        self.reached.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Runs `test` with this bug active in the calling thread, and in the logical threads of the explorer.
    #[cfg(lode_bugs)]
    pub fn plant<T>(&'static self, test: impl FnOnce() -> T) -> T {
        struct Restore(Chosen);
        impl Drop for Restore {
            fn drop(&mut self) {
                CHOSEN.set(self.0);
            }
        }
        let _restore = Restore(CHOSEN.replace(Chosen { bug: Some(self) }));
        test()
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.loses)
    }
}

/// The bug that is active in a thread; never one in an ordinary build.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    #[cfg(lode_bugs)]
    bug: Option<&'static Bug>,
}

#[cfg(lode_bugs)]
thread_local! {
    static CHOSEN: std::cell::Cell<Chosen> = const { std::cell::Cell::new(Chosen { bug: None }) };
}

/// Returns the name of the bug that is active in all threads without a choice of their own.
#[cfg(lode_bugs)]
fn everywhere() -> Option<&'static str> {
    static NAME: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    NAME.get_or_init(|| std::env::var("LODE_BUG").ok()).as_deref()
}

/// Returns the bug that is active in the calling thread, for a thread that it starts.
pub fn chosen() -> Chosen {
    #[cfg(lode_bugs)]
    return CHOSEN.get();
    #[cfg(not(lode_bugs))]
    Chosen {}
}

/// Activates in the calling thread the bug that was active in the parent thread.
pub fn inherit(chosen: Chosen) {
    #[cfg(lode_bugs)]
    CHOSEN.set(chosen);
    #[cfg(not(lode_bugs))]
    let Chosen {} = chosen;
}
