//! The explorer finds real losses and reports no false ones.

mod aborted_runs;
mod classic_bugs;
mod poisoned_runs;
mod toy;
