//! The explorer finds real losses, reports no false ones, and is fast.

mod classic_bugs;
mod poisoned_runs;
mod speed;
mod stopped_runs;
mod toy;
