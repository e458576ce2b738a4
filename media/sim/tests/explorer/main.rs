//! The explorer finds real losses, reports no false ones, and is fast.

mod aborted_runs;
mod classic_bugs;
mod poisoned_runs;
mod speed;
mod toy;
