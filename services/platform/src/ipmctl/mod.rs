//! Output of ipmctl.

mod change;
mod dimm;
mod display;
pub(crate) mod error;
mod error_log;
mod firmware;
mod goal;
mod operation;
mod pcd;
mod preferences;
mod refusal;
mod region;
mod resources;
mod sensor;
mod show;
mod socket;
mod syntax;
mod system;
mod topology;
mod values;
mod version;

pub use change::{ChangeCommand, Prepared};
pub(crate) use dimm::LATER as DIMM_COLUMNS;
pub use display::{Attributes, DisplayOptions};
pub(crate) use display::{empty_result, print};
pub use error::ShowError;
pub use error_log::ErrorQuery;
pub use goal::{created_goals, goals_to_confirm};
pub use operation::{
    Configuration, ConfigurationFault, DiagnosticTest, FirmwareLoad, ModuleInjection, Operation,
    OperationCommand, PreferenceChange, SensorChange, Verdict, configuration_text, diagnose,
};
pub use refusal::{Refusal, cleared_text, deleted_text, warning_text};
pub(crate) use region::COLUMNS as REGION_COLUMNS;
pub use show::{Subject, show};
pub(crate) use topology::COLUMNS as TOPOLOGY_COLUMNS;
pub use version::version;
