//! Which tests failed, and why, in what cargo and the tests print.
//!
//! Standard output has the tests' names, program after program; standard error has what to pass to `cargo test` to
//! run such a program again. Two streams tell nothing of the time between them, but both keep the order of the
//! programs: so the first program with a failure is the first one that cargo would run again.

use std::collections::BTreeMap;
use std::fmt;
use std::mem;

/// A test, or something else that had to go well, and did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) name: String,
    /// One line, if there is one.
    pub(crate) reason: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Some(reason) => write!(f, "{}: {reason}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// What standard output tells.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    /// The failures of each program that had some; none of one that ended in the middle of its tests.
    programs: Vec<Vec<Failure>>,
    /// What is no test of a program: a line `FAIL NAME: why`.
    others: Vec<Failure>,
    /// Whether a program runs its tests.
    is_running: bool,
    names: Vec<String>,
    reasons: BTreeMap<String, String>,
    place: Place,
}

/// Where in the output of a test program a line stands.
#[derive(Debug, Default)]
enum Place {
    #[default]
    Elsewhere,
    /// In what this test printed.
    Test(String),
    /// Behind the line that says where this test panicked.
    Panic(String),
    /// In the list of names that failed.
    List,
}

impl Printed {
    /// Reads a line of standard output.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some((name, reason)) = line.strip_prefix("FAIL ").and_then(|text| text.split_once(": ")) {
            self.others.push(Failure { name: name.to_owned(), reason: Some(reason.to_owned()) });
        } else if is_start(line) {
            self.end_program();
            self.is_running = true;
        } else if line.starts_with("test result: ") {
            if mem::take(&mut self.is_running) && line.contains("FAILED") {
                let mut reasons = mem::take(&mut self.reasons);
                let names = mem::take(&mut self.names).into_iter();
                self.programs
                    .push(names.map(|name| Failure { reason: reasons.remove(&name), name }).collect());
            }
        } else if let Some(name) =
            line.strip_prefix("---- ").and_then(|text| text.strip_suffix(" stdout ----"))
        {
            self.place = Place::Test(name.to_owned());
        } else if line == "failures:" {
            self.names.clear();
            self.place = Place::List;
        } else {
            self.read_inside(line);
        }
    }

    fn read_inside(&mut self, line: &str) {
        self.place = match mem::take(&mut self.place) {
            Place::List => match line.strip_prefix("    ") {
                Some(name) => {
                    self.names.push(name.to_owned());
                    Place::List
                }
                None => Place::Elsewhere,
            },
            Place::Test(name) if line.starts_with("thread '") && line.contains(" panicked at ") => {
                Place::Panic(name)
            }
            // A test that returns an error has no better line.
            Place::Test(name) => {
                if !line.is_empty() {
                    self.reasons.entry(name.clone()).or_insert_with(|| line.to_owned());
                }
                Place::Test(name)
            }
            Place::Panic(name) => {
                self.reasons.insert(name, line.to_owned());
                Place::Elsewhere
            }
            Place::Elsewhere => Place::Elsewhere,
        };
    }

    /// Notes a program that printed no result.
    fn end_program(&mut self) {
        if mem::take(&mut self.is_running) {
            self.programs.push(Vec::new());
        }
        self.names.clear();
        self.reasons.clear();
        self.place = Place::Elsewhere;
    }

    /// All failures, each with what to pass to `cargo test` in front of its name, and how many of them are programs that
    /// printed no result.
    pub(crate) fn failures(mut self, complaints: Complaints) -> (Vec<Failure>, u64) {
        self.end_program();
        let mut failures = self.others;
        let is_doc =
            |program: &Vec<Failure>| program.first().is_some_and(|test| test.name.contains(" (line "));
        // Their names tell the file already, and cargo runs them last.
        let (docs, programs): (Vec<_>, Vec<_>) = self.programs.into_iter().partition(is_doc);
        let unfinished = programs.iter().filter(|program| program.is_empty()).count() as u64;
        if programs.len() == complaints.again.len() {
            for (program, again) in programs.into_iter().zip(complaints.again) {
                let target = again.name.clone();
                let tests = program.iter().map(|test| Failure {
                    name: format!("{target} {}", test.name),
                    reason: test.reason.clone(),
                });
                failures.extend(tests);
                failures.extend(program.is_empty().then_some(again));
            }
        } else {
            failures.extend(complaints.again);
            failures.extend(programs.into_iter().flatten());
        }
        failures.extend(docs.into_iter().flatten());
        (failures, unfinished)
    }
}

/// Whether a test program begins: `running 3 tests`.
fn is_start(line: &str) -> bool {
    let count = line
        .strip_prefix("running ")
        .and_then(|text| text.strip_suffix(" tests").or_else(|| text.strip_suffix(" test")));
    count.is_some_and(|count| count.parse::<u64>().is_ok())
}

/// What standard error tells.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    /// What to pass to `cargo test`, in turn, to run each program again that failed; and how it ended if not by itself.
    again: Vec<Failure>,
    /// The first error that is no failed test.
    pub(crate) error: Option<String>,
}

impl Complaints {
    /// Reads a line of standard error.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(words) = line.strip_prefix("error: test failed, to rerun pass `") {
            self.again.push(Failure { name: words.trim_end_matches('`').to_owned(), reason: None });
        } else if let Some(end) = line.strip_prefix("  process didn't exit successfully: ") {
            let how = end.rsplit_once("` (").map(|(_, how)| how.trim_end_matches(')').to_owned());
            if let Some(last) = self.again.last_mut() {
                last.reason = how;
            }
        } else if line.starts_with("error")
            && !line.contains(" to rerun pass ")
            && !line.ends_with(" failed:")
        {
            self.error.get_or_insert_with(|| line.to_owned());
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn failures(printed: &str, complained: &str) -> (Vec<String>, u64) {
        let (mut output, mut errors) = (Printed::default(), Complaints::default());
        printed.lines().for_each(|line| output.read(line));
        complained.lines().for_each(|line| errors.read(line));
        let (failures, unfinished) = output.failures(errors);
        (failures.iter().map(Failure::to_string).collect(), unfinished)
    }

    /// What a program prints in which one test panicked, one returned an error, and one did not panic.
    const MIXED: &str = "
running 4 tests
test test::err ... FAILED
test test::good ... ok
test test::sp - should panic ... FAILED
test test::bad ... FAILED

failures:

---- test::err stdout ----
Error: \"no such\\nthing\"

---- test::sp stdout ----
note: test did not panic as expected at a/src/lib.rs:10:223
---- test::bad stdout ----
some
output

thread 'test::bad' (742) panicked at a/src/lib.rs:10:89:
assertion `left == right` failed: one is
  left: 1
 right: 2
stack backtrace:
   0: __rustc::rust_begin_unwind


failures:
    test::bad
    test::err
    test::sp

test result: FAILED. 1 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.56s
";
    const GOOD: &str = "
running 1 test
test fine ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
    const ABORTED: &str = "
running 2 tests
test fine ... ok
";
    const DOC: &str = "
running 1 test
test a/src/lib.rs - f (line 2) ... FAILED

failures:

---- a/src/lib.rs - f (line 2) stdout ----
Test executable failed (exit status: 101).

failures:
    a/src/lib.rs - f (line 2)

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.08s

all doctests ran in 0.46s; merged doctests compilation took 0.26s
";
    const COMPLAINTS: &str = "
     Running unittests src/lib.rs (target/debug/deps/demo_a-bb1ef0a51a137049)
error: test failed, to rerun pass `-p demo-a --lib`
     Running tests/crash.rs (target/debug/deps/crash-da8fb995e6dc2198)
error: test failed, to rerun pass `-p demo-a --test crash`

Caused by:
  process didn't exit successfully: `target/debug/deps/crash-da8fb995e6dc2198` (signal: 6, SIGABRT: process abort signal)
   Doc-tests demo_a
error: doctest failed, to rerun pass `-p demo-a --doc`
error: 3 targets failed:
    `-p demo-a --lib`
";

    #[test]
    fn each_failed_test_is_named_with_its_program_and_a_reason() {
        let (names, unfinished) = failures(&[MIXED, GOOD, ABORTED, GOOD, DOC].concat(), COMPLAINTS);
        let want = [
            "-p demo-a --lib test::bad: assertion `left == right` failed: one is",
            r#"-p demo-a --lib test::err: Error: "no such\nthing""#,
            "-p demo-a --lib test::sp: note: test did not panic as expected at a/src/lib.rs:10:223",
            "-p demo-a --test crash: signal: 6, SIGABRT: process abort signal",
            "a/src/lib.rs - f (line 2): Test executable failed (exit status: 101).",
        ];
        assert_eq!(names, want);
        assert_eq!(unfinished, 1);
    }

    #[test]
    fn a_test_is_named_even_if_its_program_is_not_known() {
        let (names, unfinished) = failures(MIXED, "");
        assert_eq!((names.len(), unfinished), (3, 0));
        assert!(names[1].starts_with("test::err: "), "{names:?}");
    }

    #[test]
    fn a_program_that_ends_without_a_result_at_last_is_named() {
        let complaint = "error: test failed, to rerun pass `-p demo-a --test exits`";
        assert_eq!(
            failures(&[GOOD, ABORTED].concat(), complaint),
            (vec!["-p demo-a --test exits".into()], 1)
        );
    }

    #[test]
    fn a_trial_of_the_lab_is_named_by_a_line_of_its_own() {
        let printed =
            "FAIL lab/sysfs-6.12: it had not ended after 120 s\ntest result: FAILED. 42 passed; 1 failed";
        assert_eq!(failures(printed, ""), (vec!["lab/sysfs-6.12: it had not ended after 120 s".into()], 0));
    }

    #[test]
    fn an_error_that_is_no_test_is_kept() {
        let mut errors = Complaints::default();
        COMPLAINTS.lines().for_each(|line| errors.read(line));
        assert_eq!(errors.error, None);
        errors.read("error[E0308]: mismatched types");
        errors.read("error: could not compile `demo-a` (lib) due to 1 previous error");
        assert_eq!(errors.error.as_deref(), Some("error[E0308]: mismatched types"));
    }
}
