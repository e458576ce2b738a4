//! Health reports of modules (SMART): injected values, thresholds with their alarms, and the events that they raise.
//!
//! ```text
//!   change.rs         inject-smart: changes the entry of a module, and counts the events
//!        |
//!   module_smart.rs   the entry in the state    report.rs   what the module reports: sensors, or what was injected
//!                                                    |
//!                                               ndctl list -H, ndctl monitor, ipmctl show -sensor
//! ```
//!
//! The rules are those of the manual pages `ndctl inject-smart` and `ipmctl set -dimm`, and of the kernel's
//! `tools/testing/nvdimm/test/nfit.c`:
//!
//! | command or start              | does                                                                        |
//! |-------------------------------|-----------------------------------------------------------------------------|
//! | inject a value                | replaces the value of the sensor until it is uninjected or the next start   |
//! | set a threshold or its alarm  | stays over starts                                                           |
//! | inject an unsafe shutdown     | the next start finds a dirty shutdown, and counts it; the start after does not |
//! | start                         | ends all injections                                                         |
//!
//! A temperature trips its alarm when it reaches the threshold from below, the spares when they reach it from above. Each
//! command after which an alarm is tripped raises its event again, as in the kernel's test module; a change of the health
//! state raises one, too. Modules have no injection of the controller's temperature in the DSM interface of Intel; here
//! they have.

mod alarm;
mod change;
mod error;
mod event;
mod module_smart;
mod report;

pub use alarm::{AlarmChange, SmartAlarm};
pub(crate) use change::start;
pub use change::{Injection, SmartChange, change, enable_alarms};
pub use error::SmartError;
pub use event::{EventCounts, SmartEvent};
pub use module_smart::ModuleSmart;
pub(crate) use module_smart::{CELSIUS, PERCENT_MAX};
pub(crate) use report::entry;
pub use report::{AlarmReport, SmartReport, events, report};
