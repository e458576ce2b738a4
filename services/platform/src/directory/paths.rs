//! Names of the files in a directory.

use crate::machine::Handle;
use std::path::{Path, PathBuf};

/// The file that commands lock.
pub(super) const LOCK: &str = "lock";
/// The machine file.
pub(super) const MACHINE: &str = "machine.toml";
/// The state file.
pub(super) const STATE: &str = "state.toml";
/// The new state file before it is complete.
pub(super) const NEW_STATE: &str = "state.new";
/// The folder of the modules.
pub(super) const MODULES: &str = "modules";

/// The folder of the CXL devices.
const CXL: &str = "cxl";

/// The folder of sealed passphrases.
pub(crate) const KEYS: &str = "keys";

/// Returns the path of the media of a module or of a CXL device.
pub(super) fn media_path(module: Handle) -> PathBuf {
    let folder = if module.cxl_device().is_some() { CXL } else { MODULES };
    Path::new(folder).join(format!("{module}.media"))
}

/// Returns the path of the label area of the CXL device with this number.
pub(crate) fn cxl_labels_path(device: u32) -> String {
    format!("{CXL}/mem{device}.labels")
}

/// Returns the path of a module's label area.
pub(super) fn labels_path(module: Handle) -> PathBuf {
    Path::new(MODULES).join(format!("{module}.labels"))
}
