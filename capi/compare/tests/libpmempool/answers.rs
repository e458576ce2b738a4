//! Sequences of calls have the same results, messages and files on both libraries.

use lode_capi_compare::{Library, assert_same_answers};

#[test]
fn plain_environment() {
    assert_same_answers("pmempool", Library::PMEMPOOL, "plain_environment", &[]);
}
