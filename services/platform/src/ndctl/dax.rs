//! Character devices in the format of daxctl.

use super::inventory::{DaxDevice, DaxMapping, DaxRegion, Inventory};
use super::list::print_array;
use super::order::sort_as_listed;
use crate::dax::DeviceId;
use crate::listing::{Fields, Json};

/// Parameters of `daxctl list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaxRequest {
    /// `-D`: devices, as without `-D` and `-R`.
    pub devices: bool,
    /// `-R`: regions.
    pub regions: bool,
    /// `-M`: the ranges of devices.
    pub mappings: bool,
    /// `-i`: devices of size 0, too.
    pub idle: bool,
    /// `-u`: sizes in units for users.
    pub human: bool,
    /// `-r`: only the region with this number.
    pub region: Option<u32>,
    /// `-d`: only this device.
    pub device: Option<DeviceId>,
}

impl DaxRequest {
    /// Returns the request with the objects that daxctl lists if none are selected.
    fn resolved(&self) -> DaxRequest {
        DaxRequest { devices: self.devices || !self.regions, ..self.clone() }
    }

    fn takes(&self, device: &DaxDevice) -> bool {
        let is_asked = self.device.is_none_or(|asked| device.name == asked.to_string());
        is_asked && (self.idle || device.size > 0)
    }
}

/// Formats a region of daxctl with the devices that `request` takes.
fn dax_region(region: &DaxRegion, request: &DaxRequest) -> Json {
    let mut fields = Fields::default();
    fields.add_some("path", region.path.as_ref().map(Json::text));
    fields.extend(region_fields(region));
    if request.devices {
        fields.add_array("devices", devices(region, request));
    }
    Json::Object(fields.into())
}

/// Formats the character devices of a namespace. Their listing has no path.
pub(super) fn namespace_devices(region: &DaxRegion) -> Json {
    let mut fields = region_fields(region);
    fields.add_array("devices", devices(region, &DaxRequest::default()));
    Json::Object(fields.into())
}

fn region_fields(region: &DaxRegion) -> Fields {
    let mut fields = Fields::default();
    fields.add("id", Json::Number(region.number.into()));
    fields.add_some("size", region.size.map(Json::Size));
    fields.add_some("available_size", region.available.filter(|size| *size > 0).map(Json::Size));
    fields.add_some("align", region.align.map(|align| Json::Number(align as i64)));
    fields
}

fn devices(region: &DaxRegion, request: &DaxRequest) -> Vec<Json> {
    let taken = sorted(region).into_iter().filter(|device| request.takes(device));
    taken.map(|one| device(one, request.mappings)).collect()
}

fn sorted(region: &DaxRegion) -> Vec<&DaxDevice> {
    let mut devices: Vec<&DaxDevice> = region.devices.iter().collect();
    sort_as_listed(&mut devices, |device| device.name.clone());
    devices
}

fn device(device: &DaxDevice, mappings: bool) -> Json {
    let mut fields = Fields::default();
    fields.add("chardev", Json::text(&device.name));
    fields.add("size", Json::Size(device.size));
    fields.add_some("target_node", device.target_node.map(Json::Number));
    fields.add_some("align", device.align.map(Json::Size));
    fields.add_some("mode", device.mode.map(|mode| Json::text(mode.as_str())));
    if let Some(memory) = device.memory {
        fields.add("online_memblocks", Json::Number(memory.online as i64));
        fields.add("total_memblocks", Json::Number(memory.total as i64));
        fields.add_some("movable", memory.movable.map(Json::Flag));
    }
    if !device.enabled {
        fields.add("state", Json::text("disabled"));
    }
    if mappings {
        // daxctl puts each new mapping before the others.
        fields.add_array("mappings", device.mappings.iter().rev().map(mapping).collect());
    }
    Json::Object(fields.into())
}

fn mapping(mapping: &DaxMapping) -> Json {
    let mut fields = Fields::default();
    fields.add("page_offset", Json::Hex(mapping.page_off));
    fields.add("start", Json::Hex(mapping.start));
    fields.add("end", Json::Hex(mapping.last));
    fields.add("size", Json::Size((mapping.last - mapping.start).saturating_add(1)));
    Json::Object(fields.into())
}

impl Inventory {
    /// Returns the output of `daxctl list`; empty if no object matches.
    pub fn list_dax(&self, request: &DaxRequest) -> String {
        let request = request.resolved();
        let is_asked = |region: &&DaxRegion| request.region.is_none_or(|number| number == region.number);
        let mut regions: Vec<&DaxRegion> = self.dax_regions.iter().filter(is_asked).collect();
        // daxctl names a region by the first device in its list, which it prints last.
        sort_as_listed(&mut regions, |region| {
            sorted(region).last().map_or(String::new(), |device| device.name.clone())
        });
        let listed: Vec<Json> = if request.regions {
            regions.into_iter().map(|region| dax_region(region, &request)).collect()
        } else {
            regions.into_iter().flat_map(|region| devices(region, &request)).collect()
        };
        if listed.is_empty() { String::new() } else { print_array(listed, request.human) }
    }

    /// Returns daxctl's output about these devices, as after `reconfigure-device`; empty if none exists.
    pub fn describe_dax(&self, names: &[DeviceId], human: bool) -> String {
        let all: Vec<&DaxDevice> = self.dax_regions.iter().flat_map(|region| &region.devices).collect();
        let found = names.iter().filter_map(|id| all.iter().find(|device| device.name == id.to_string()));
        let listed: Vec<Json> = found.map(|one| device(one, false)).collect();
        if listed.is_empty() { String::new() } else { print_array(listed, human) }
    }
}
