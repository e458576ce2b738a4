//! `ipmctl show -firmware`.

use super::display::{DisplayOptions, dimm_id, is_first_generation, print};
use super::error::ShowError;
use crate::firmware::{self, FirmwareImage};
use crate::goal::Targets;
use crate::listing::{Column, Record, Records, Value};
use crate::machine::{FirmwareActivation, Module};
use crate::platform::Platform;

const COLUMNS: [Column; 3] =
    [Column("DimmID", 22), Column("ActiveFWVersion", 15), Column("StagedFWVersion", 15)];
/// Milliseconds that a module takes for an activation, as the kernel's test module does.
const ACTIVATION_MS: u64 = 1000;
const NOT_APPLICABLE: Value = Value::absent("N/A");

pub(super) fn show(
    platform: &Platform,
    targets: &Targets,
    display: &DisplayOptions,
) -> Result<String, ShowError> {
    let modules = targets.resolve_answering(&platform.machine)?;
    let records = modules.into_iter().map(|module| record(platform, module)).collect();
    let (list_tag, tag) = ("DimmFirmwareList", "DimmFirmware");
    print(Records { list_tag, tag, part_tag: "", head: Some("DimmID"), records }, &COLUMNS, display)
}

fn record(platform: &Platform, module: &Module) -> Record {
    let staged = firmware::entry(platform, module).staged;
    let version = |version: Option<String>| version.map_or(NOT_APPLICABLE, Value::from);
    let record = Record::new()
        .with("DimmID", dimm_id(platform, module.handle))
        .with("ActiveFWVersion", version(module.firmware.clone()))
        .with("StagedFWVersion", version(staged.map(|staged| staged.to_string())));
    let activates = firmware::activation(&platform.machine) != FirmwareActivation::Reset;
    let first = is_first_generation(&platform.machine);
    let record = if first {
        record
    } else {
        record.with("StagedFWActivatable", u16::from(activates && staged.is_some()))
    };
    let status = if staged.is_some() { "Staged successfully" } else { "Update loaded successfully" };
    let len = FirmwareImage::len_max();
    let record =
        record.with("FWUpdateStatus", status).with("FWImageMaxSize", Value::number(len, len.to_string()));
    if first {
        return record;
    }
    // An activation while the machine runs stops its traffic, and without one there is no time to tell.
    let time =
        if activates { Value::number(ACTIVATION_MS, ACTIVATION_MS.to_string()) } else { NOT_APPLICABLE };
    record.with("QuiesceRequired", u16::from(activates)).with("ActivationTime", time)
}
