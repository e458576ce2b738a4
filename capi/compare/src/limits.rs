//! Limits of a process: what a library of pools answers in one with little of everything.

use crate::{Library, Program};

/// Compares the answers of both libraries to the calls of `c/NAME.c`, a program of `c/pool_limits.h`. Debian's dies of the signal of a
/// file that gets too long, and leaves that.
///
/// # Panics
/// If the answers differ otherwise.
pub fn assert_same_under_limits(name: &str, library: Library) {
    let Some(program) = Program::compile(name, library) else { return };
    let [theirs, ours] = [false, true].map(|is_ours| {
        let output = program.run::<&str>(is_ours, &[], &[]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    });
    assert_eq!(theirs.replace("signal 25\nnew there\n", "create errno 27\nnew absent\n"), ours);
    assert!(
        ours.ends_with(
            "== few descriptors\nopen errno 0\nopen set errno 0\ncheck 1 errno 0\ncreate errno 0\nnew there\n"
        ),
        "{ours}"
    );
}
