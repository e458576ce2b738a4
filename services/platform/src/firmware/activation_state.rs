//! State of the activation of a bus.

use crate::machine::{FirmwareActivation, Machine};
use crate::platform::Platform;

/// Time that the platform has for an activation, in seconds. A module takes one; both are those of the kernel's test
/// module.
pub(super) const SECONDS_MAX: usize = 3;

/// State of the activation of a bus, as the kernel's `ndbusX/firmware/activate` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivationState {
    /// No module is armed.
    Idle,
    /// Modules are armed.
    Armed,
    /// The armed modules take more time than the platform has.
    Overflow,
}

impl ActivationState {
    /// Returns the kernel's word.
    pub fn as_str(self) -> &'static str {
        match self {
            ActivationState::Idle => "idle",
            ActivationState::Armed => "armed",
            ActivationState::Overflow => "overflow",
        }
    }
}

/// Returns the way in which the machine activates firmware. Kernels before 5.9 do it at a start only.
pub fn activation(machine: &Machine) -> FirmwareActivation {
    if machine.profile.kernel.activates_firmware() {
        machine.firmware_activation
    } else {
        FirmwareActivation::Reset
    }
}

/// Returns the state of the activation of the bus with the modules.
pub fn bus_state(platform: &Platform) -> ActivationState {
    match armed(platform) {
        0 => ActivationState::Idle,
        1..=SECONDS_MAX => ActivationState::Armed,
        _ => ActivationState::Overflow,
    }
}

/// Returns the number of armed modules.
pub(super) fn armed(platform: &Platform) -> usize {
    platform.state.firmware.iter().filter(|entry| entry.armed).count()
}
