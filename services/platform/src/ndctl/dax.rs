//! Character devices in the format of daxctl.

use super::inventory::{DaxDevice, DaxRegion, Inventory};
use super::list::print_array;
use super::order::sort_as_listed;
use crate::listing::{Fields, Json};

/// Devices to list with a region, and the context of the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListedDevices {
    /// All devices, in a listed namespace.
    OfNamespace,
    /// All devices, with the path of the region.
    All,
    /// No devices, with the path of the region.
    None,
}

/// Parameters of `daxctl list`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DaxRequest {
    /// `-D`: devices, as without any option.
    pub devices: bool,
    /// `-R`: regions.
    pub regions: bool,
    /// `-i`: idle devices too.
    pub idle: bool,
    /// `-u`: sizes in units for users.
    pub human: bool,
}

/// Formats the character devices of a namespace, or a region of daxctl.
pub(super) fn dax_region(region: &DaxRegion, listed: ListedDevices) -> Json {
    let mut fields = Fields::default();
    if listed != ListedDevices::OfNamespace {
        fields.add_some("path", region.path.as_ref().map(Json::text));
    }
    fields.add("id", Json::Number(region.number.into()));
    fields.add_some("size", region.size.map(Json::Size));
    fields.add_some("available_size", region.available.filter(|size| *size > 0).map(Json::Size));
    fields.add_some("align", region.align.map(|align| Json::Number(align as i64)));
    if listed != ListedDevices::None {
        let devices = devices(region, false);
        if !devices.is_empty() {
            fields.add("devices", Json::Array(devices));
        }
    }
    Json::Object(fields.into())
}

fn devices(region: &DaxRegion, idle: bool) -> Vec<Json> {
    sorted(region).into_iter().filter(|device| idle || device.size > 0).map(device).collect()
}

fn sorted(region: &DaxRegion) -> Vec<&DaxDevice> {
    let mut devices: Vec<&DaxDevice> = region.devices.iter().collect();
    sort_as_listed(&mut devices, |device| device.name.clone());
    devices
}

fn device(device: &DaxDevice) -> Json {
    let mut fields = Fields::default();
    fields.add("chardev", Json::text(&device.name));
    fields.add("size", Json::Size(device.size));
    fields.add_some("target_node", device.target_node.map(Json::Number));
    fields.add_some("align", device.align.map(Json::Size));
    fields.add_some("mode", device.mode.map(|mode| Json::text(mode.as_str())));
    if !device.enabled {
        fields.add("state", Json::text("disabled"));
    }
    Json::Object(fields.into())
}

impl Inventory {
    /// Returns the output of `daxctl list`; empty if no device matches.
    pub fn list_dax(&self, request: &DaxRequest) -> String {
        let mut regions: Vec<&DaxRegion> = self.dax_regions.iter().collect();
        // daxctl names a region by the first device in its list, which it prints last.
        sort_as_listed(&mut regions, |region| {
            sorted(region).last().map_or(String::new(), |device| device.name.clone())
        });
        let listed: Vec<Json> = if request.regions {
            let with = if request.devices { ListedDevices::All } else { ListedDevices::None };
            regions.into_iter().map(|region| dax_region(region, with)).collect()
        } else {
            regions.into_iter().flat_map(|region| devices(region, request.idle)).collect()
        };
        if listed.is_empty() { String::new() } else { print_array(listed, request.human) }
    }
}
