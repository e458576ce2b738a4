//! `ipmctl show -system -capabilities`.

use super::display::{Attributes, DisplayOptions, capacity, is_first_generation, print};
use super::error::ShowError;
use crate::goal::WAYS;
use crate::listing::{Record, Records};
use crate::platform::Platform;

/// Names of the values in the default output.
const USUAL: [&str; 5] = [
    "PlatformConfigSupported",
    "Alignment",
    "AllowedVolatileMode",
    "CurrentVolatileMode",
    "AllowedAppDirectMode",
];

/// ipmctl's minimum size of a namespace.
const NAMESPACE_MIN: u64 = 1 << 30;

pub(super) fn show(platform: &Platform, display: &DisplayOptions) -> Result<String, ShowError> {
    let record = Record::new()
        .with("PlatformConfigSupported", 1)
        .with("Alignment", capacity(&platform.machine, platform.machine.alignment, display))
        .with("AllowedVolatileMode", "Memory Mode")
        .with("CurrentVolatileMode", if platform.memory_mode() { "Memory Mode" } else { "1LM" })
        .with("AllowedAppDirectMode", "App Direct")
        .with("ModesSupported", "1LM, Memory Mode, App Direct");
    let record = if is_first_generation(&platform.machine) { with_settings(record) } else { record };
    let record = record
        .with("MinNamespaceSize", capacity(&platform.machine, NAMESPACE_MIN, display))
        .with("AppDirectMirrorSupported", 0)
        .with("DimmSpareSupported", 0)
        .with("AppDirectMigrationSupported", 0)
        .with("RenameNamespaceSupported", 1)
        .with("GrowAppDirectNamespaceSupported", 0)
        .with("ShrinkAppDirectNamespaceSupported", 0)
        .with("InitiateScrubSupported", 0)
        .with("AdrSupported", 1)
        .with("EraseDeviceDataSupported", 0)
        .with("EnableDeviceSecuritySupported", 0)
        .with("DisableDeviceSecuritySupported", 1)
        .with("UnlockDeviceSecuritySupported", 0)
        .with("FreezeDeviceSecuritySupported", 0)
        .with("ChangeDevicePassphraseSupported", 0);
    let record = if is_first_generation(&platform.machine) {
        record
    } else {
        with_settings(
            record.with("ChangeMasterPassphraseSupported", 0).with("MasterEraseDeviceDataSupported", 0),
        )
    };
    let list_tag = "SystemCapabilities";
    let mut records = Records { list_tag, tag: "", part_tag: "", head: None, records: vec![record] };
    if display.attributes == Attributes::Default {
        records.keep(&USUAL, "");
    }
    print(records, &[], display)
}

/// Adds the supported interleavings.
fn with_settings(record: Record) -> Record {
    let ways = WAYS.iter().rev().map(|ways| match ways {
        1 => "x1 (ByOne)".to_owned(),
        ways => format!("x{ways} - 4KB iMC x 4KB Channel (4KB_4KB)"),
    });
    let ways = ways.collect::<Vec<_>>().join(", ");
    record.with("SupportedAppDirectSettings", ways.as_str()).with("RecommendedAppDirectSettings", ways)
}
