//! `ipmctl show -region`.

use super::display::{Attributes, DisplayOptions, capacity, dimm_id, empty_result, print};
use super::error::ShowError;
use crate::goal::Targets;
use crate::listing::{Column, Format, Record, Records, Value};
use crate::machine::{Health, Security};
use crate::namespace::free;
use crate::platform::Platform;
use crate::region::{Origin, Region};

pub(crate) const COLUMNS: [Column; 6] = [
    Column("SocketID", 9),
    Column("ISetID", 20),
    Column("PersistentMemoryType", 24),
    Column("Capacity", 25),
    Column("FreeCapacity", 25),
    Column("HealthState", 19),
];

pub(super) fn show(
    platform: &Platform,
    targets: &Targets,
    display: &DisplayOptions,
) -> Result<String, ShowError> {
    targets.resolve(&platform.machine)?;
    let meant = |region: &Region| targets.sockets.is_empty() || targets.sockets.contains(&region.socket);
    let sets = platform.regions().into_iter().filter(|region| matches!(region.origin, Origin::Set { .. }));
    let numbered = sets.zip(1_u32..).filter(|(region, _)| meant(region));
    let records: Vec<Record> =
        numbered.filter_map(|(region, number)| region_record(platform, &region, number, display)).collect();
    if records.is_empty() {
        return Ok(empty_result("There are no Regions defined in the system.", display));
    }
    let head = Some("ISetID");
    let records = Records { list_tag: "RegionList", tag: "Region", part_tag: "", head, records };
    // XML always has all values of a region, and so has JSON.
    let all = display.format != Format::Text && display.attributes == Attributes::Default;
    let attributes = if all { Attributes::All } else { display.attributes.clone() };
    print(records, &COLUMNS, &DisplayOptions { attributes, ..*display })
}

fn region_record(
    platform: &Platform,
    region: &Region,
    number: u32,
    display: &DisplayOptions,
) -> Option<Record> {
    let Origin::Set { id, members, .. } = &region.origin else { return None };
    let kind = if members.len() == 1 { "AppDirectNotInterleaved" } else { "AppDirect" };
    let dimms = Value::list(members.iter().map(|member| dimm_id(platform, member.module)));
    let record = Record::new()
        .with("SocketID", format!("{:#06x}", region.socket))
        .with("PersistentMemoryType", kind)
        .with("Capacity", capacity(&platform.machine, region.size, display))
        .with("FreeCapacity", capacity(&platform.machine, free(platform, region), display))
        .with("HealthState", region_health(platform, region))
        .with("DimmID", dimms);
    // Text does not have the numbers of regions.
    let record = match display.format {
        Format::Text => record,
        Format::Xml | Format::Json => record.with("RegionID", format!("{number:#06x}")),
    };
    Some(record.with("ISetID", format!("{id:#018x}")))
}

fn region_health(platform: &Platform, region: &Region) -> &'static str {
    let modules = || region.members().iter().filter_map(|member| platform.machine.module(member.module));
    if modules().any(|module| module.health == Health::NonFunctional) {
        "Error"
    } else if modules().any(|module| module.security == Security::Locked) {
        "Locked"
    } else if modules().any(|module| platform.state.goal(module.handle).is_some()) {
        "Pending"
    } else {
        "Healthy"
    }
}
