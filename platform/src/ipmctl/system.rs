//! `ipmctl show -system -capabilities`.

use super::{Display, Values, print};
use crate::error::PlatformError;
use crate::listing::{Record, Records};
use crate::platform::Platform;

/// What is shown when nothing else is asked for.
const USUAL: [&str; 5] = [
    "PlatformConfigSupported",
    "Alignment",
    "AllowedVolatileMode",
    "CurrentVolatileMode",
    "AllowedAppDirectMode",
];

impl Platform {
    pub(super) fn show_capabilities(&self, display: &Display) -> Result<String, PlatformError> {
        let memory = if self.is_first_generation() { "2LM" } else { "Memory Mode" };
        let ways = "x1 (ByOne), x2, x3, x4, x6, x8, x12, x16";
        let record = Record::new()
            .with("PlatformConfigSupported", 1)
            .with("Alignment", self.capacity(self.machine.alignment, display))
            .with("AllowedVolatileMode", memory)
            .with("CurrentVolatileMode", if self.memory_mode() { memory } else { "1LM" })
            .with("AllowedAppDirectMode", "App Direct")
            .with("ModesSupported", format!("1LM, {memory}, App Direct"))
            .with("SupportedAppDirectSettings", ways)
            .with("RecommendedAppDirectSettings", ways)
            .with("AppDirectMirrorSupported", 0)
            .with("DimmSpareSupported", 0)
            .with("AppDirectMigrationSupported", 0)
            .with("AdrSupported", 1);
        let (list_tag, tag) = ("SystemCapabilitiesList", "SystemCapabilities");
        let mut records = Records { list_tag, tag, part_tag: "", head: None, records: vec![record] };
        if display.values == Values::Usual {
            records.keep(&USUAL, "");
        }
        print(records, &[], display)
    }
}
