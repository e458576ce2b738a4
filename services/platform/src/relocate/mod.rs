//! Moves of namespaces away from their modules and back, so that modules can be exchanged, and additions of modules.
//!
//! ```text
//!   record    a move, as the state has it          evacuate   plans what goes where
//!   origin    records made of namespaces, and back
//!   carry     the steps of a move                  exchange   plans and does the exchange of a module
//!   extend    plans and adds modules               grow       plans the growth of a namespace
//!   script    the commands for a real machine      real       plans evacuations of a real machine
//! ```
//!
//! A plan is made by carrying it out on a copy of the machine, as in [`plan`](crate::plan).

mod carry;
pub(crate) mod error;
mod evacuate;
mod exchange;
mod extend;
mod grow;
mod origin;
mod real;
mod record;
mod script;

pub use error::RelocateError;
pub use evacuate::{Destination, Evacuation, EvacuationRequest, PlannedMove};
pub use exchange::{Exchange, ExchangeRequest};
pub use extend::{Extension, ExtensionRequest, extension};
pub use grow::Growth;
pub use real::{RealEvacuation, real_evacuation};
pub use record::{Place, Relocation, Stage};
pub use script::{evacuation_script, exchange_script, extension_script, growth_script};
