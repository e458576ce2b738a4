//! Buses and modules.

use super::region;
use crate::ndctl::{NdBus, NdHealth, NdModule};
use lode_pmem::SysfsFolder;

/// Failure flags of a module: the kernel's word and ndctl's, in ndctl's order.
const FLAGS: [(&str, &str); 6] = [
    ("map_fail", "flag_failed_map"),
    ("save_fail", "flag_failed_save"),
    ("not_armed", "flag_failed_arm"),
    ("restore_fail", "flag_failed_restore"),
    ("flush_fail", "flag_failed_flush"),
    ("smart_event", "flag_smart_event"),
];

/// Reads the bus ndbusN from its folder.
pub(super) fn read(number: u32, folder: &SysfsFolder) -> NdBus {
    // The number of scrubs, followed by a plus sign while one runs.
    let scrub = folder.folder("nfit").text("scrub");
    let modules = folder.numbered("nmem");
    let regions = folder.numbered("region");
    NdBus {
        number,
        provider: folder.text("provider").unwrap_or_default(),
        scrub_active: scrub.map(|text| text.ends_with('+')),
        // Only root may ask the modules.
        firmware: None,
        modules: modules.into_iter().map(|(number, folder)| module(number, &folder)).collect(),
        regions: regions.into_iter().map(|(number, folder)| region::read(number, &folder)).collect(),
    }
}

fn module(number: u32, folder: &SysfsFolder) -> NdModule {
    let nfit = folder.folder("nfit");
    let words = nfit.text("flags").unwrap_or_default();
    let is_set = |word: &str| words.split_whitespace().any(|one| one == word);
    let commands = folder.text("commands").unwrap_or_default();
    let knows = |command| commands.split_whitespace().any(|known| known == command);
    NdModule {
        number,
        id: nfit.text("id").or_else(|| folder.folder("cxl").text("id")),
        handle: nfit.number("handle"),
        physical_id: nfit.number("phys_id"),
        enabled: folder.driver().is_some(),
        flags: FLAGS.iter().filter(|(word, _)| is_set(word)).map(|(_, name)| *name).collect(),
        security: folder.text("security"),
        security_frozen: folder.number("frozen").is_some_and(|frozen| frozen != 0),
        firmware: None,
        health: knows("smart").then_some(NdHealth::Unknown),
        has_label_area: knows("set_data"),
        free_slots: folder.number("available_slots"),
    }
}
