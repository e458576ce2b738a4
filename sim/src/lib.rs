//! Floor 2: a medium that loses power, and the explorer that checks what every power cut may leave behind.
#![forbid(unsafe_code)]

mod choice;
mod explore;
mod history;
mod image;
mod machine;
mod medium;
mod model;
pub mod oracle;
mod report;
mod run;
mod schedule;
mod seen;
mod subject;
mod tape;
mod touched;
mod versions;

pub use explore::{Budget, Setup, explore, replay};
pub use history::{Actor, Moment, Operation, Outcome, Ticket};
pub use image::Breach;
pub use machine::{Cpu, Machine};
pub use medium::SimMedium;
pub use report::{Cut, Fate, NoReplay, Replay, Report, Violation};
pub use schedule::Stop;
pub use subject::Subject;
