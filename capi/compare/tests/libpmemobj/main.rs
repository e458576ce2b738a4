//! libpmemobj.so.1 beside Debian's: the same programs, and the same answers.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod answers;
mod drawn;
mod ends;
mod examples;
mod forks;
mod full_disks;
mod growth;
mod kills;
mod linking;
mod locks;
mod object_graph;
mod own_flushes;
mod programs;
mod refusals;
mod replicas;
mod settings;
mod shutdowns;
mod stopped_repairs;
mod transactions;
