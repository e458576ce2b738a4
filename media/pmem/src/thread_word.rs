//! Words that each thread has to itself, for paths on which a call for each access would show.
//!
//! In a shared library an access to a thread-local variable is a call of `__tls_get_addr`, for the library may be loaded when threads
//! run already. A transaction through the C ABI made 26 of them. These words are taken from the space that every thread has for such
//! cases: the *initial exec* model, in which an access is two loads. The compiler has no stable option for the model, so the words are
//! declared and read in assembly. There are few, since programs share the space: glibc keeps some 1.6 KiB for all libraries
//! that are loaded late.
//!
//! Source: ELF Handling For Thread-Local Storage (Drepper), 4.4; `docs/decisions/thread-words.md`.

/// A word of the calling thread. It is 0 until the thread sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadWord {
    /// The thread as an owner of biased locks.
    Owner,
    /// 1 if a fault is pending.
    Fault,
    /// The lane of a log that the thread held last.
    Lane,
    /// The place of the thread's last transaction over covered memory.
    Place,
    /// The stage of the thread's transaction, for an interface that has one.
    Stage,
}

/// Number of the words.
const COUNT: usize = ThreadWord::Stage as usize + 1;

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(miri, loom))))]
mod words {
    use super::COUNT;
    use std::arch::{asm, global_asm};

    /// The name that the words have for the linker. The tests of this crate are linked with another copy of it.
    #[cfg(not(test))]
    macro_rules! symbol {
        () => {
            "lode_thread_words"
        };
    }
    #[cfg(test)]
    macro_rules! symbol {
        () => {
            "lode_thread_words_of_test"
        };
    }

    global_asm!(
        ".pushsection .tbss, \"awT\", @nobits",
        concat!(".globl ", symbol!()),
        concat!(".hidden ", symbol!()),
        concat!(".type ", symbol!(), ", @object"),
        concat!(".size ", symbol!(), ", {size}"),
        ".balign 8",
        concat!(symbol!(), ":"),
        ".zero {size}",
        ".popsection",
        size = const COUNT * 8,
    );

    #[inline(always)]
    pub(super) fn get(index: usize) -> u64 {
        let value: u64;
        // SAFETY: - the linker stores the distance of the words from the thread pointer in the place that the first load reads;
        // - an index is below the number of the words, and this thread alone stores to them.
        unsafe {
            asm!(
                concat!("mov {value}, qword ptr [rip + ", symbol!(), "@gottpoff]"),
                "mov {value}, qword ptr fs:[{value} + {index} * 8]",
                value = out(reg) value,
                index = in(reg) index,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        value
    }

    #[inline(always)]
    pub(super) fn set(index: usize, value: u64) {
        // SAFETY: - as for `get`.
        unsafe {
            asm!(
                concat!("mov {words}, qword ptr [rip + ", symbol!(), "@gottpoff]"),
                "mov qword ptr fs:[{words} + {index} * 8], {value}",
                words = out(reg) _,
                index = in(reg) index,
                value = in(reg) value,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(any(miri, loom)))))]
mod words {
    use super::COUNT;
    use crate::sync::thread_local;
    use std::cell::Cell;

    thread_local! {
        static WORDS: [Cell<u64>; COUNT] = const { [const { Cell::new(0) }; COUNT] };
    }

    pub(super) fn get(index: usize) -> u64 {
        WORDS.with(|words| words[index].get())
    }

    pub(super) fn set(index: usize, value: u64) {
        WORDS.with(|words| words[index].set(value));
    }
}

impl ThreadWord {
    /// Returns the word of the calling thread.
    ///
    /// # Cost
    /// Two loads.
    #[inline(always)]
    pub fn get(self) -> u64 {
        words::get(self as usize)
    }

    /// Sets the word of the calling thread.
    #[inline(always)]
    pub fn set(self, value: u64) {
        words::set(self as usize, value);
    }
}

#[cfg(all(test, not(loom)))]
mod test {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    #[test]
    fn each_thread_has_words_of_its_own() {
        let all =
            [ThreadWord::Owner, ThreadWord::Fault, ThreadWord::Lane, ThreadWord::Place, ThreadWord::Stage];
        assert_eq!(all.len(), COUNT);
        let barrier = Barrier::new(3);
        thread::scope(|scope| {
            for thread in 1..=3 {
                let barrier = &barrier;
                scope.spawn(move || {
                    assert_eq!(all.map(ThreadWord::get), [0; COUNT]);
                    barrier.wait();
                    for word in all {
                        word.set(thread * 100 + word as u64);
                    }
                    barrier.wait();
                    assert_eq!(all.map(ThreadWord::get), all.map(|word| thread * 100 + word as u64));
                    // A fault that is pending is taken at the end of a scope.
                    ThreadWord::Fault.set(0);
                });
            }
        });
    }
}
