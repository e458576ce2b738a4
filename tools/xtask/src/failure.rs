//! The failed tests and their reasons, read from the output of cargo and the tests.

use std::fmt;

/// A failed test, or another failed step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) name: String,
    /// Reason in one line, if there is one.
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

/// Returns the reason in the output of one test: its panic message, or else its first error line.
pub(crate) fn reason_in(output: &str) -> Option<String> {
    let mut lines = output.lines();
    let said = lines.by_ref().find(|line| is_panic(line)).and_then(|_| lines.next());
    let complaint = || output.lines().find(|line| line.starts_with("Error: ") || line.starts_with("note: "));
    said.or_else(complaint).map(|line| line.trim().to_owned())
}

fn is_panic(line: &str) -> bool {
    line.starts_with("thread '") && line.contains(" panicked at ")
}

/// Collector of the failures in the output of a program, which may run tests.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    found: Vec<Failure>,
    /// The test whose output is being read.
    inside: Option<String>,
    /// True if the next line is the panic message of that test.
    at_reason: bool,
    /// The first error that is not a failed test.
    error: Option<String>,
}

impl Failures {
    /// Reads a line.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some((name, reason)) = line.strip_prefix("FAIL ").and_then(|text| text.split_once(": ")) {
            self.found.push(Failure { name: name.to_owned(), reason: Some(reason.to_owned()) });
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|text| text.strip_suffix(" ... FAILED"))
        {
            let name = name.trim_end_matches(" - should panic");
            self.found.push(Failure { name: name.to_owned(), reason: None });
        } else if let Some(name) =
            line.strip_prefix("---- ").and_then(|text| text.strip_suffix(" stdout ----"))
        {
            self.inside = Some(name.to_owned());
        } else if self.at_reason || line.starts_with("Error: ") {
            self.at_reason = false;
            self.explain(line);
        } else if is_panic(line) {
            self.at_reason = true;
        } else if line.starts_with("error") && !line.contains("to rerun pass") && !line.ends_with(" failed:")
        {
            self.error.get_or_insert_with(|| line.to_owned());
        }
    }

    /// Notes the reason for the failed test whose output is being read.
    fn explain(&mut self, line: &str) {
        let inside = self.inside.as_ref();
        let failed = self.found.iter_mut().find(|failure| inside.is_some_and(|name| *name == failure.name));
        if let Some(failure) = failed {
            failure.reason.get_or_insert_with(|| line.trim().to_owned());
        }
    }

    /// Returns all failures, and the first error that is not a failed test.
    pub(crate) fn into_parts(self) -> (Vec<Failure>, Option<String>) {
        (self.found, self.error)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn failures(text: &str) -> Vec<String> {
        let mut failures = Failures::default();
        text.lines().for_each(|line| failures.read(line));
        failures.into_parts().0.iter().map(Failure::to_string).collect()
    }

    #[test]
    fn failure_reason_is_panic_message() {
        let output = "running 1 test\nsome output\n\nthread 'test::bad' (742) panicked at a/src/lib.rs:10:89:\n\
                      assertion `left == right` failed: one is\n  left: 1\n right: 2\nstack backtrace:\n";
        assert_eq!(reason_in(output).as_deref(), Some("assertion `left == right` failed: one is"));
        let output = "running 1 test\nError: \"no such\\nthing\"\n";
        assert_eq!(reason_in(output).as_deref(), Some(r#"Error: "no such\nthing""#));
        let output = "note: test did not panic as expected at a/src/lib.rs:10:223\n";
        assert_eq!(
            reason_in(output).as_deref(),
            Some("note: test did not panic as expected at a/src/lib.rs:10:223")
        );
        assert_eq!(reason_in("running 1 test\n"), None);
    }

    #[test]
    fn failed_tests_have_names_and_reasons() {
        let printed = "
running 3 tests
test test::good ... ok
test test::sp - should panic ... FAILED
test test::bad ... FAILED

failures:

---- test::bad stdout ----
some output
thread 'test::bad' (742) panicked at a/src/lib.rs:10:89:
assertion `left == right` failed: one is
  left: 1

failures:
    test::bad
    test::sp

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.56s
";
        assert_eq!(failures(printed), ["test::sp", "test::bad: assertion `left == right` failed: one is"]);
    }

    #[test]
    fn lab_failures_are_parsed() {
        let printed =
            "FAIL lab/sysfs-6.12: it printed nothing for 120 s\ntest result: FAILED. 42 passed; 1 failed";
        assert_eq!(failures(printed), ["lab/sysfs-6.12: it printed nothing for 120 s"]);
    }

    #[test]
    fn compiler_error_is_kept() {
        let mut failures = Failures::default();
        for line in [
            "error: test failed, to rerun pass `-p demo-a --lib`",
            "error: 3 targets failed:",
            "error[E0308]: mismatched types",
            "error: could not compile `demo-a` (lib) due to 1 previous error",
        ] {
            failures.read(line);
        }
        assert_eq!(failures.into_parts().1.as_deref(), Some("error[E0308]: mismatched types"));
    }
}
