//! Seeded bugs: lines of the shipped code that a test can break, to see whether it is believed.
//!
//! An engine names each of its bugs as a static [`Bug`] and asks [`Bug::is_active`] where the right code
//! turns wrong. In an ordinary build the answer is the constant false and the wrong code is not compiled in.
//! A build with `--cfg lode_bugs` answers by the choice of the test, one bug at a time and for each thread
//! on its own, so that one build serves all bugs. For a program that a test starts, the variable `LODE_BUG` names
//! the bug that is active in all of its threads.
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
    /// A bug with a unique name, which loses data in this way.
    pub const fn new(name: &'static str, loses: &'static str) -> Bug {
        Bug {
            name,
            loses,
            #[cfg(lode_bugs)]
            reached: std::sync::atomic::AtomicBool::new(false),
        }
    }

    /// Its unique name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What it loses, in a few words.
    pub const fn loses(&self) -> &'static str {
        self.loses
    }

    /// Whether the code at this place is to be wrong.
    #[cfg(not(lode_bugs))]
    #[inline(always)]
    pub const fn is_active(&self) -> bool {
        false
    }

    /// Whether the code at this place is to be wrong.
    #[cfg(lode_bugs)]
    pub fn is_active(&self) -> bool {
        let chosen = CHOSEN.get().bug.map(|chosen| chosen.name);
        let active = chosen.or(everywhere()) == Some(self.name);
        if active {
            // ORDER: none needed, it is read after the threads that may set it have ended.
            self.reached.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        active
    }

    /// Whether wrong code was run, ever. A chosen bug that no test reaches proves nothing.
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

/// Which bug is active in a thread: never one in an ordinary build.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    #[cfg(lode_bugs)]
    bug: Option<&'static Bug>,
}

#[cfg(lode_bugs)]
thread_local! {
    static CHOSEN: std::cell::Cell<Chosen> = const { std::cell::Cell::new(Chosen { bug: None }) };
}

/// The name of the bug that is active in all threads that have not chosen one.
#[cfg(lode_bugs)]
fn everywhere() -> Option<&'static str> {
    static NAME: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    NAME.get_or_init(|| std::env::var("LODE_BUG").ok()).as_deref()
}

/// What is active in the calling thread, to be handed to a thread that it starts.
pub fn chosen() -> Chosen {
    #[cfg(lode_bugs)]
    return CHOSEN.get();
    #[cfg(not(lode_bugs))]
    Chosen {}
}

/// Makes active in the calling thread what was active in the one that started it.
pub fn inherit(chosen: Chosen) {
    #[cfg(lode_bugs)]
    CHOSEN.set(chosen);
    #[cfg(not(lode_bugs))]
    let Chosen {} = chosen;
}
