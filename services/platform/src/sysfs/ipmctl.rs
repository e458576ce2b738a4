//! Output of ipmctl, from the values that sysfs has.

use super::error::SysfsError;
use super::tree::Sysfs;
use crate::goal::Targets;
use crate::ipmctl::{
    DIMM_COLUMNS, DisplayOptions, REGION_COLUMNS, ShowError, Subject, TOPOLOGY_COLUMNS, empty_result, print,
};
use crate::listing::{Precision, Record, Records, Value};
use crate::machine::{Handle, IpmctlGeneration, ModuleError};
use crate::ndctl::{Inventory, NdModule, NdRegion};

const UNKNOWN: Value = Value::absent("N/A");

impl Sysfs {
    /// Returns ipmctl's output for the subject. Values that sysfs does not have are `N/A`.
    ///
    /// # Errors
    /// Fails if modules, sockets or values do not exist, or if sysfs has no values for the subject.
    pub fn show(
        &self,
        subject: &Subject,
        targets: &Targets,
        display: &DisplayOptions,
    ) -> Result<String, SysfsError> {
        let inventory = self.inventory();
        let known = |what, ask| Err(SysfsError::NotInSysfs { what, ask });
        match subject {
            Subject::Topology => Ok(topology(&inventory, targets, display)?),
            Subject::Dimm => Ok(dimms(&inventory, targets, display)?),
            Subject::Region => Ok(regions(&inventory, targets, display)?),
            Subject::MemoryResources => known("what capacity is used for", "ipmctl show -memoryresources"),
            Subject::Goal => known("goals", "ipmctl show -goal"),
            Subject::Pcd => known("what firmware keeps on modules", "ipmctl show -dimm -pcd Config"),
            Subject::Error(_) => known("the error logs of modules", "ipmctl show -error"),
            Subject::Sensor(_) => known("sensors", "ipmctl show -sensor"),
            Subject::Capabilities => known("what firmware can do", "ipmctl show -system -capabilities"),
            Subject::Firmware => known("staged firmware", "ipmctl show -firmware"),
            Subject::Socket => known("what sockets map", "ipmctl show -socket"),
            Subject::Preferences => known("preferences of a tool", "ipmctl show -preferences"),
        }
    }
}

fn handle(module: &NdModule) -> Option<Handle> {
    Handle::of_number(module.handle?).ok()
}

/// Returns the modules with an NFIT handle, or those of them that the targets name.
fn targeted<'a>(
    inventory: &'a Inventory,
    targets: &Targets,
) -> Result<Vec<(Handle, &'a NdModule)>, ModuleError> {
    let all = inventory.modules().into_iter().filter_map(|module| Some((handle(module)?, module)));
    let all: Vec<_> = all.collect();
    if let Some(module) = targets.modules.iter().find(|asked| all.iter().all(|(handle, _)| handle != *asked))
    {
        return Err(ModuleError::UnknownModule { module: *module });
    }
    let has = |socket: &u16| all.iter().any(|(handle, _)| handle.socket() == *socket);
    if let Some(socket) = targets.sockets.iter().find(|socket| !has(socket)) {
        return Err(ModuleError::UnknownSocket { socket: *socket });
    }
    let meant = |(handle, _): &(Handle, &NdModule)| {
        (targets.modules.is_empty() || targets.modules.contains(handle))
            && (targets.sockets.is_empty() || targets.sockets.contains(&handle.socket()))
    };
    Ok(all.into_iter().filter(meant).collect())
}

fn hex(number: impl Into<u64>) -> String {
    format!("{:#06x}", number.into())
}

fn with_location(record: Record, handle: Handle) -> Record {
    record
        .with("SocketID", hex(handle.socket()))
        .with("MemControllerID", hex(handle.controller()))
        .with("ChannelID", hex(handle.channel()))
        .with("ChannelPos", handle.slot())
}

fn physical_id(module: &NdModule) -> Value {
    module.physical_id.map_or(UNKNOWN, |id| hex(id).into())
}

fn topology(inventory: &Inventory, targets: &Targets, display: &DisplayOptions) -> Result<String, ShowError> {
    let record = |(handle, module): (Handle, &NdModule)| {
        let record = Record::new()
            .with("DimmID", handle)
            .with("MemoryType", "Logical Non-Volatile Device")
            .with("Capacity", UNKNOWN)
            .with("PhysicalID", physical_id(module))
            .with("DeviceLocator", UNKNOWN);
        with_location(record, handle)
    };
    let records: Vec<Record> = targeted(inventory, targets)?.into_iter().map(record).collect();
    if records.is_empty() {
        return Ok(empty_result("No DIMMs in the system.", display));
    }
    let head = Some("DimmID");
    let records = Records { list_tag: "DimmTopologyList", tag: "DimmTopology", part_tag: "", head, records };
    print(records, &TOPOLOGY_COLUMNS, display)
}

fn dimms(inventory: &Inventory, targets: &Targets, display: &DisplayOptions) -> Result<String, ShowError> {
    let regions = inventory.regions();
    let record = |(handle, module): (Handle, &NdModule)| {
        let mapped = regions.iter().flat_map(|region| &region.mappings);
        let mapped: u64 = mapped.filter(|part| part.module == module.number).map(|part| part.length).sum();
        let record = Record::new()
            .with("DimmID", handle)
            .with("Capacity", UNKNOWN)
            .with("LockState", lock_state(module))
            .with("HealthState", if module.flags.is_empty() { "Unknown" } else { "Critical failure" })
            .with("HealthStateReason", module.flags.join(", "))
            .with("FWVersion", UNKNOWN)
            .with("PhysicalID", physical_id(module))
            .with("DimmHandle", handle)
            .with("DimmUID", module.id.as_deref().map_or(UNKNOWN, Value::from));
        with_location(record, handle).with("AppDirectCapacity", capacity(mapped, display))
    };
    let records: Vec<Record> = targeted(inventory, targets)?.into_iter().map(record).collect();
    if records.is_empty() {
        return Ok(empty_result("No DIMMs in the system.", display));
    }
    let records = Records { list_tag: "DimmList", tag: "Dimm", part_tag: "", head: Some("DimmID"), records };
    print(records, &DIMM_COLUMNS, display)
}

/// Formats a capacity like the newest ipmctl.
fn capacity(bytes: u64, display: &DisplayOptions) -> Value {
    Value::number(bytes, Precision::of(IpmctlGeneration::Three).show(bytes, display.unit.unwrap_or_default()))
}

/// Returns ipmctl's word for the kernel's security state.
fn lock_state(module: &NdModule) -> Value {
    match module.security.as_deref() {
        Some("disabled") => "Disabled".into(),
        Some("unlocked") => "Unlocked".into(),
        Some("locked") => "Locked".into(),
        Some("frozen") => "Frozen".into(),
        _ => UNKNOWN,
    }
}

fn regions(inventory: &Inventory, targets: &Targets, display: &DisplayOptions) -> Result<String, ShowError> {
    targeted(inventory, targets)?;
    let numbers = |region: &NdRegion| -> Vec<Handle> {
        let module = |number: u32| inventory.modules().into_iter().find(|module| module.number == number);
        region.mappings.iter().filter_map(|part| handle(module(part.module)?)).collect()
    };
    let known = |bytes: Option<u64>| bytes.map_or(UNKNOWN, |bytes| capacity(bytes, display));
    let mut records = Vec::new();
    for region in inventory.regions() {
        let handles = numbers(region);
        let (Some(id), Some(first)) = (region.set_id, handles.first()) else { continue };
        if !targets.sockets.is_empty() && !targets.sockets.contains(&first.socket()) {
            continue;
        }
        let kind = if region.mappings.len() == 1 { "AppDirectNotInterleaved" } else { "AppDirect" };
        records.push(
            Record::new()
                .with("SocketID", hex(first.socket()))
                .with("PersistentMemoryType", kind)
                .with("Capacity", known(region.size))
                .with("FreeCapacity", known(region.available))
                .with("HealthState", "Unknown")
                .with("DimmID", Value::list(handles.iter().map(ToString::to_string)))
                .with("ISetID", format!("{id:#018x}")),
        );
    }
    if records.is_empty() {
        return Ok(empty_result("There are no Regions defined in the system.", display));
    }
    let head = Some("ISetID");
    let records = Records { list_tag: "RegionList", tag: "Region", part_tag: "", head, records };
    print(records, &REGION_COLUMNS, display)
}
