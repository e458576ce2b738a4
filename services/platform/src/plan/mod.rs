//! Plans: the steps that give a machine the requested namespaces, the result, and the data that is lost.
//!
//! A plan has no rules of its own. It fulfils each request on a copy of the machine with the code that later executes
//! the plan, so every plan can be executed.
//!
//! ```text
//!   request     a requested namespace                    search      finds places for requests, or the nearest one
//!   assignment  requests by socket                       group       modules of a socket with one goal
//!   allocation  makes a namespace on a copy              emulated    the steps to an assignment
//!   step        an action       command  its command for ipmctl, ndctl or cxl
//!   fit         sizes for requests                     existing    namespaces that fulfil requests
//!   loss, note  lost data, and remarks                   table       use of the capacity afterwards
//!   impossible  the reason of a failure, and the nearest request that can be fulfilled
//!   real        plans for a real machine, as far as its kernel shows it
//! ```

mod allocation;
pub(crate) mod amount;
mod assignment;
mod command;
mod emulated;
pub(crate) mod error;
mod existing;
pub(crate) mod fit;
mod group;
mod impossible;
mod loss;
mod note;
mod real;
mod request;
mod rule;
mod search;
mod sequence;
pub(crate) mod shell;
mod step;
mod table;
mod text;

pub use amount::brief;
pub use emulated::for_emulated;
pub use error::PlanError;
pub use impossible::{Impossible, Obstacle, Unusable};
pub use loss::Loss;
pub use note::Note;
pub use real::{CxlRegion, for_real};
pub use request::{NamespaceRequest, PlanRequest, Rest};
pub use rule::RuleError;
pub use sequence::Plan;
pub use step::Step;
pub use table::{Row, Table, Usage};
