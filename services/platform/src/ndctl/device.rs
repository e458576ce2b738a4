//! Modules, regions and namespaces in the format of ndctl.

use super::dax::namespace_devices;
use super::inventory::{
    NdCapabilities, NdFirmware, NdHealth, NdMapping, NdModule, NdNamespace, NdPersonality, NdRegion,
};
use super::list::Included;
use super::media_errors::{Errors, namespace_errors, region_errors};
use crate::listing::{Fields, Json};
use crate::namespace::{MapLocation, Mode};
use crate::smart::SmartReport;

impl NdModule {
    pub(crate) fn json(&self, included: &Included) -> Json {
        let mut fields = Fields::default();
        fields.add("dev", Json::text(format!("nmem{}", self.number)));
        fields.add_some("id", self.id.as_ref().map(Json::text));
        fields.add_some("handle", self.handle.map(Json::Hex));
        fields.add_some("phys_id", self.physical_id.map(Json::Hex));
        if !self.enabled {
            fields.add("state", Json::text("disabled"));
        }
        for flag in &self.flags {
            fields.add(flag, Json::Flag(true));
        }
        fields.add_some("security", self.security.as_ref().map(Json::text));
        if self.security_frozen {
            fields.add("security_frozen", Json::Flag(true));
        }
        if included.firmware {
            fields.add_some("firmware", self.firmware.as_ref().map(firmware));
        }
        if included.health {
            fields.add_some("health", self.health.as_ref().map(health));
        }
        Json::Object(fields.into())
    }
}

fn firmware(firmware: &NdFirmware) -> Json {
    let mut fields = Fields::default();
    match firmware {
        NdFirmware::Unknown => fields.add("current_version", Json::Hex(u64::MAX)),
        NdFirmware::Known { version, can_update, next } => {
            fields.add("current_version", Json::Hex(*version));
            fields.add_some("can_update", can_update.map(Json::Flag));
            if let Some(next) = next {
                fields.add("next_version", Json::Hex(next.version));
                match next.state {
                    Some(state) => fields.add("activate_state", Json::text(state.as_str())),
                    None => fields.add("need_powercycle", Json::Flag(true)),
                }
            }
        }
    }
    Json::Object(fields.into())
}

fn health(health: &NdHealth) -> Json {
    let mut fields = Fields::default();
    match health {
        NdHealth::Unknown => fields.add("health_state", Json::text("unknown")),
        NdHealth::Known(report) => add_report(&mut fields, report),
    }
    Json::Object(fields.into())
}

fn add_report(fields: &mut Fields, report: &SmartReport) {
    let celsius = |degrees: i32| Json::Fraction(format!("{degrees}.0"));
    let percent = |share: i32| Json::Number(share.into());
    let (media, controller, spares) = (report.media_alarm, report.controller_alarm, report.spares_alarm);
    fields.add("health_state", Json::text(report.health.smart_str()));
    fields.add("temperature_celsius", celsius(report.media_celsius));
    fields.add("controller_temperature_celsius", celsius(report.controller_celsius));
    fields.add("spares_percentage", percent(report.spares_percent));
    fields.add("alarm_temperature", Json::Flag(media.tripped));
    fields.add("alarm_controller_temperature", Json::Flag(controller.tripped));
    fields.add("alarm_spares", Json::Flag(spares.tripped));
    // ndctl prints the threshold of an enabled alarm only.
    fields.add("alarm_enabled_media_temperature", Json::Flag(media.enabled));
    fields.add_some("temperature_threshold", media.enabled.then(|| celsius(media.threshold)));
    fields.add("alarm_enabled_ctrl_temperature", Json::Flag(controller.enabled));
    fields.add_some(
        "controller_temperature_threshold",
        controller.enabled.then(|| celsius(controller.threshold)),
    );
    fields.add("alarm_enabled_spares", Json::Flag(spares.enabled));
    fields.add_some("spares_threshold", spares.enabled.then(|| percent(spares.threshold)));
    fields.add("life_used_percentage", percent(100 - report.spares_percent));
    fields.add("shutdown_state", Json::text(if report.last_shutdown_dirty { "dirty" } else { "clean" }));
    fields.add("shutdown_count", Json::Number(report.dirty_shutdowns.into()));
}

impl NdRegion {
    /// Formats the region without its namespaces.
    pub(super) fn json(&self, included: &Included, mapped: impl Fn(&NdMapping) -> bool) -> Fields {
        let mut fields = Fields::default();
        fields.add("dev", Json::text(format!("region{}", self.number)));
        fields.add_some("size", self.size.map(Json::Size));
        fields.add_some("align", self.align.map(Json::Size));
        fields.add_some("available_size", self.available.map(Json::Size));
        fields.add_some("max_available_extent", self.largest_available.map(Json::Size));
        fields.add("type", Json::text("pmem"));
        if included.verbose > 0 {
            fields.add_some("numa_node", self.numa_node.map(Json::Number));
            fields.add_some("target_node", self.target_node.map(Json::Number));
        }
        fields.add_some("iset_id", self.set_id.filter(|_| self.has_labels).map(Json::Hex));
        // ndctl puts each new mapping before the others.
        let mappings: Vec<Json> = self.mappings.iter().rev().filter(|one| mapped(one)).map(mapping).collect();
        if included.modules && !mappings.is_empty() {
            fields.add("mappings", Json::Array(mappings));
        }
        if !self.enabled {
            fields.add("state", Json::text("disabled"));
        }
        fields.add_errors(region_errors(self, included.media_errors));
        if included.capabilities {
            fields.add_some("capabilities", self.capabilities.as_ref().map(capabilities));
        }
        fields.add("persistence_domain", Json::text(self.persistence_domain));
        fields
    }
}

fn mapping(mapping: &NdMapping) -> Json {
    let mut fields = Fields::default();
    fields.add("dimm", Json::text(format!("nmem{}", mapping.module)));
    fields.add("offset", Json::Hex(mapping.offset));
    fields.add("length", Json::Hex(mapping.length));
    fields.add_some("position", mapping.position.map(Json::Number));
    Json::Object(fields.into())
}

fn capabilities(capabilities: &NdCapabilities) -> Json {
    let sizes = |sizes: &[u64]| Json::Array(sizes.iter().map(|size| Json::Number(*size as i64)).collect());
    let of_mode = |mode: Mode, key, bytes: &[u64]| {
        Json::Object(vec![("mode", Json::text(mode.as_str())), (key, sizes(bytes))])
    };
    Json::Array(vec![
        of_mode(Mode::Sector, "sector_sizes", &capabilities.sector_sizes),
        of_mode(Mode::Fsdax, "alignments", &capabilities.fsdax_alignments),
        of_mode(Mode::Devdax, "alignments", &capabilities.devdax_alignments),
    ])
}

impl NdNamespace {
    pub(super) fn json(&self, region: &NdRegion, included: &Included) -> Json {
        let mut fields = Fields::default();
        fields.add("dev", Json::text(self));
        fields.add("mode", Json::text(self.mode().as_str()));
        let (map, page_map) = match &self.personality {
            NdPersonality::Raw | NdPersonality::Sector { .. } => (None, None),
            NdPersonality::Legacy => (Some("mem"), None),
            NdPersonality::Fsdax(map) | NdPersonality::Devdax(map, _) => {
                (Some(location_str(map.location)), Some(map))
            }
        };
        fields.add_some("map", map.map(Json::text));
        fields.add_some("size", self.size.map(Json::Size));
        let own = match &self.personality {
            NdPersonality::Sector { uuid } => Some(*uuid),
            _ => page_map.map(|map| map.uuid),
        };
        fields.add_some("uuid", own.or(self.uuid).map(Json::text));
        if own.is_some() && included.verbose > 0 {
            fields.add_some("raw_uuid", self.uuid.filter(|uuid| !uuid.is_nil()).map(Json::text));
        }
        if let NdPersonality::Devdax(_, Some(devices)) = &self.personality {
            if included.dax {
                fields.add("daxregion", namespace_devices(devices));
            } else if let Some(device) = devices.devices.first() {
                fields.add("chardev", Json::text(&device.name));
            }
        }
        fields.add_some("sector_size", self.sector_size.map(|size| Json::Number(size as i64)));
        let align = page_map.and_then(|map| map.align);
        fields.add_some("align", align.map(|align| Json::Number(align as i64)));
        fields.add_some("blockdev", self.block_device.as_ref().map(Json::text));
        if !self.enabled {
            fields.add("state", Json::text("disabled"));
        }
        if !self.name.is_empty() {
            fields.add("name", Json::text(&self.name));
        }
        if included.verbose > 0 {
            fields.add_some("numa_node", self.numa_node.map(Json::Number));
            fields.add_some("target_node", self.target_node.map(Json::Number));
        }
        fields.add_errors(namespace_errors(self, region, included.media_errors));
        Json::Object(fields.into())
    }
}

fn location_str(location: Option<MapLocation>) -> &'static str {
    match location {
        None => "none",
        Some(MapLocation::Mem) => "mem",
        Some(MapLocation::Dev) => "dev",
    }
}

impl Fields {
    fn add_errors(&mut self, errors: Errors) {
        if errors.sectors > 0 {
            self.add("badblock_count", Json::Number(errors.sectors as i64));
        }
        self.add_some("badblocks", errors.listed.map(Json::Array));
    }
}
