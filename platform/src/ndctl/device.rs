//! Modules, regions and namespaces as ndctl tells of them.

use super::json::Json;
use super::list::Included;
use crate::machine::Module;
use crate::namespace::{Namespace, Personality};
use crate::ndctl::sort_as_listed;
use crate::platform::Platform;
use crate::region::{Origin, Region};
use lode_layout::PageMapPlace;

/// From this version on, listings of regions and namespaces tell alignments of regions.
const TELLS_ALIGN: u32 = 69;
/// From this version on, regions without labels tell that nothing in them is free.
const TELLS_NOTHING_FREE: u32 = 65;

type Fields = Vec<(&'static str, Json)>;

fn text(value: impl ToString) -> Json {
    Json::Text(value.to_string())
}

impl Platform {
    pub(super) fn module_json(&self, module: &Module, included: &Included) -> Json {
        let index = self.machine.module_index(module.handle).unwrap_or(0);
        let mut fields: Fields = vec![("dev", text(format!("nmem{index}")))];
        if let Some(identity) = module.identity {
            fields.push(("id", text(identity)));
        }
        fields.push(("handle", Json::Hex(module.handle.0.into())));
        fields.push(("phys_id", Json::Hex(module.physical_id.into())));
        if !module.usable() {
            fields.push(("state", text("disabled")));
        }
        if self.machine.profile.kernel.tells_security() && module.identity.is_some() {
            fields.push(("security", text(module.security.kernel_word())));
        }
        if included.health {
            fields.push(("health", health(module)));
        }
        Json::Object(fields)
    }

    pub(super) fn region_json(&self, region: &Region, included: &Included, mappings: bool) -> Fields {
        let profile = &self.machine.profile;
        let mut fields: Fields = vec![("dev", text(region.name())), ("size", Json::Size(region.size))];
        if let (Some(align), true) = (self.region_align(region), profile.ndctl >= TELLS_ALIGN) {
            fields.push(("align", Json::Size(align)));
        }
        let is_set = matches!(region.origin, Origin::Set { .. });
        if is_set || profile.ndctl >= TELLS_NOTHING_FREE {
            fields.push(("available_size", Json::Size(self.free(region))));
            fields.push(("max_available_extent", Json::Size(self.largest_free(region))));
        }
        fields.push(("type", text("pmem")));
        if included.verbose > 0 {
            fields.push(("numa_node", Json::Number(region.socket.into())));
            fields.push(("target_node", Json::Number(self.target_node(region))));
        }
        if let Origin::Set { id, share, members } = &region.origin {
            fields.push(("iset_id", Json::Hex(*id)));
            let mapping = |(position, member): (usize, &crate::Member)| {
                let index = self.machine.module_index(member.module).unwrap_or(0);
                Json::Object(vec![
                    ("dimm", text(format!("nmem{index}"))),
                    ("offset", Json::Hex(member.offset)),
                    ("length", Json::Hex(*share)),
                    ("position", Json::Number(position as i64)),
                ])
            };
            if mappings {
                // ndctl puts each mapping that it finds before the others.
                fields
                    .push(("mappings", Json::Array(members.iter().enumerate().map(mapping).rev().collect())));
            }
        }
        if !region.enabled {
            fields.push(("state", text("disabled")));
        }
        let domain = if is_set { profile.domain.word() } else { "unknown" };
        fields.push(("persistence_domain", text(domain)));
        fields
    }

    pub(super) fn namespace_json(&self, region: &Region, namespace: &Namespace, included: &Included) -> Json {
        let mut fields: Fields =
            vec![("dev", text(namespace.device())), ("mode", text(namespace.mode().word()))];
        let map = match &namespace.personality {
            Personality::Legacy => Some("mem"),
            Personality::PageMap(info) if info.place == PageMapPlace::Dram => Some("mem"),
            Personality::PageMap(_) => Some("dev"),
            Personality::Raw | Personality::Sectors { .. } => None,
        };
        fields.extend(map.map(|map| ("map", text(map))));
        fields.push(("size", Json::Size(namespace.usable())));
        let own = match &namespace.personality {
            Personality::PageMap(info) => Some(info.uuid),
            Personality::Sectors { uuid, .. } => Some(*uuid),
            Personality::Raw | Personality::Legacy => None,
        };
        fields.extend(own.or(namespace.uuid).map(|uuid| ("uuid", text(uuid))));
        if let (Some(raw), true, true) = (namespace.uuid, own.is_some(), included.verbose > 0) {
            fields.push(("raw_uuid", text(raw)));
        }
        if let Some(device) = namespace.character_device() {
            fields.push(if included.dax {
                ("daxregion", daxregion(region, namespace, &device))
            } else {
                ("chardev", text(device))
            });
        } else {
            let size = match &namespace.personality {
                Personality::Sectors { sector_size, .. } => u64::from(*sector_size),
                _ => namespace.sector_size,
            };
            fields.push(("sector_size", Json::Number(size as i64)));
        }
        if let Personality::PageMap(info) = &namespace.personality {
            fields.push(("align", Json::Number(info.align.into())));
        }
        fields.extend(
            namespace.block_device().filter(|_| namespace.enabled).map(|device| ("blockdev", text(device))),
        );
        if !namespace.enabled {
            fields.push(("state", text("disabled")));
        }
        if !namespace.name.is_empty() {
            fields.push(("name", text(&namespace.name)));
        }
        if included.verbose > 0 {
            fields.push(("numa_node", Json::Number(region.socket.into())));
            fields.push(("target_node", Json::Number(self.target_node(region))));
        }
        Json::Object(fields)
    }

    /// The node that the memory of a region becomes if the kernel takes it as memory: nodes after those of sockets.
    fn target_node(&self, region: &Region) -> i64 {
        (self.machine.sockets().len() as i64) + i64::from(region.number)
    }

    /// The regions of one kind, as ndctl lists them.
    pub(super) fn listed_regions(&self) -> Vec<Region> {
        let mut regions = self.regions();
        sort_as_listed(&mut regions, Region::name);
        regions
    }
}

fn health(module: &Module) -> Json {
    let sensors = &module.sensors;
    let celsius = |degrees: u32| Json::Fraction(format!("{degrees}.0"));
    Json::Object(vec![
        ("health_state", text(module.health.smart_word())),
        ("temperature_celsius", celsius(sensors.media_celsius)),
        ("controller_temperature_celsius", celsius(sensors.controller_celsius)),
        ("spares_percentage", Json::Number(sensors.remaining_percent.into())),
        ("life_used_percentage", Json::Number(i64::from(100_u32.saturating_sub(sensors.remaining_percent)))),
        ("shutdown_state", text("clean")),
        ("shutdown_count", Json::Number(sensors.latched_dirty_shutdowns.into())),
    ])
}

/// The character device of a namespace, as daxctl tells of it.
pub(super) fn daxregion(region: &Region, namespace: &Namespace, device: &str) -> Json {
    let Personality::PageMap(info) = &namespace.personality else { return Json::Array(Vec::new()) };
    Json::Object(vec![
        ("id", Json::Number(region.number.into())),
        ("size", Json::Size(namespace.usable())),
        ("align", Json::Number(info.align.into())),
        (
            "devices",
            Json::Array(vec![Json::Object(vec![
                ("chardev", text(device)),
                ("size", Json::Size(namespace.usable())),
            ])]),
        ),
    ])
}
