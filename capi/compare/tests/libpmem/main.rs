//! libpmem.so.1 beside Debian's: the same programs, and the same answers.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod answers;
mod examples;
mod linking;
mod programs;
