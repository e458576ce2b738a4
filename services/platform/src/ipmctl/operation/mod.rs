//! The commands of ipmctl that set sensors, load firmware and goals, store the configuration, and run diagnostics.
//!
//! ```text
//!   set -sensor           operation/alarm.rs            a threshold and its alarm
//!   set -dimm             operation/injection.rs        values and errors are injected
//!   set -preferences      operation/preference_change.rs  what the tool keeps for its users
//!   load -source -dimm    operation/firmware_load.rs    an image is examined or staged
//!   dump -system -config  operation/configuration.rs    partitions and sets, a line for each module
//!   load -source -goal          the same                goals of such lines
//!   start -diagnostic     operation/diagnostic.rs       what is wrong with modules
//! ```

mod alarm;
mod command;
mod configuration;
mod diagnostic;
mod firmware_load;
mod injection;
mod preference_change;

pub use alarm::SensorChange;
pub use command::{Operation, OperationCommand};
pub use configuration::{Configuration, ConfigurationFault, configuration_text};
pub use diagnostic::{DiagnosticTest, diagnose};
pub use firmware_load::{FirmwareLoad, Verdict};
pub use injection::ModuleInjection;
pub use preference_change::PreferenceChange;
