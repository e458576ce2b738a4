//! The explorer finds what is lost, finds nothing where nothing is lost, and is fast.

mod classic_bugs;
mod speed;
mod stopped_runs;
mod toy;
