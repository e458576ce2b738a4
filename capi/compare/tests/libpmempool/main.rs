//! libpmempool.so.1 beside Debian's: the same programs, and the same answers.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod answers;
mod backups;
mod damage;
mod drawn;
mod examples;
mod features;
mod kills;
mod linking;
mod repairs;
mod replicas;
