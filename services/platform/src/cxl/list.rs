//! `cxl list`.
//!
//! The listing is a walk from the buses down. An object goes into its array of the object above it if that is listed, and
//! else into an array of the platform.

use super::filter;
use super::inventory::{
    CxlDecoder, CxlInventory, CxlListRequest, CxlMemdev, CxlPortLevel, CxlPortView, CxlRegion,
};
use super::stored::{CxlKind, CxlPoison};
use super::topology::Dport;
use crate::listing::{Fields, Json};
use crate::ndctl::print_array;

/// Fields of an object. Names of arrays have the name of the object.
type Named = Vec<(String, Json)>;

/// The arrays below an object, or those of the platform.
#[derive(Default)]
struct Arrays {
    ports: Vec<Json>,
    endpoints: Vec<Json>,
    memdevs: Vec<Json>,
    port_decoders: Vec<Json>,
    endpoint_decoders: Vec<Json>,
    regions: Vec<Json>,
    /// True if decoders of endpoints go into the array of those of ports: an object has one array of decoders.
    one_of_decoders: bool,
}

/// The arrays of the platform.
#[derive(Default)]
struct Platform {
    anonymous: Vec<Json>,
    buses: Vec<Json>,
    root_decoders: Vec<Json>,
    below: Arrays,
}

impl CxlListRequest {
    /// Returns the request with the objects that cxl lists if none are selected.
    fn resolved(&self) -> CxlListRequest {
        let mut request = self.clone();
        if self.verbose > 2 {
            (request.health, request.partition, request.alerts) = (true, true, true);
            request.media_errors = true;
        }
        request.idle |= self.verbose > 1;
        if self.verbose > 0 {
            (request.memdevs, request.regions, request.buses) = (true, true, true);
            (request.ports, request.endpoints) = (true, true);
            (request.decoders, request.targets) = (true, true);
        }
        if !request.lists_anything() {
            request.memdevs = self.memdev.is_some() || self.serial.is_some();
            request.buses = self.bus.is_some();
            request.ports = self.port.is_some();
            request.endpoints = self.endpoint.is_some();
            request.decoders = self.decoder.is_some();
            request.regions = self.region.is_some();
            request.single = true;
        }
        if !request.lists_anything() {
            (request.regions, request.memdevs) = (true, true);
        }
        let filtered = |level| request.ports && filter::has_part(request.port.as_deref(), level);
        let (buses, endpoints) = (filtered("root"), filtered("endpoint"));
        request.buses |= buses;
        request.endpoints |= endpoints;
        request
    }

    fn lists_anything(&self) -> bool {
        self.memdevs || self.buses || self.ports || self.endpoints || self.decoders || self.regions
    }

    fn filters_memdevs(&self) -> bool {
        self.memdev.is_some() || self.serial.is_some()
    }
}

/// A walk over the ports for a request.
struct Walk<'a> {
    inventory: &'a CxlInventory,
    request: CxlListRequest,
}

impl CxlInventory {
    /// Returns the output of `cxl list`.
    pub fn list(&self, request: &CxlListRequest) -> String {
        let platform = self.walk(request.resolved());
        let Platform { anonymous, buses, root_decoders, below } = platform;
        let arrays = [
            ("anon memdevs", anonymous),
            ("buses", buses),
            ("ports", below.ports),
            ("endpoints", below.endpoints),
            ("memdevs", below.memdevs),
            ("root decoders", root_decoders),
            ("port decoders", below.port_decoders),
            ("endpoint decoders", below.endpoint_decoders),
            ("regions", below.regions),
        ];
        let mut arrays: Vec<_> = arrays.into_iter().filter(|(_, array)| !array.is_empty()).collect();
        let listed = match arrays.len() {
            0 => Vec::new(),
            1 => arrays.remove(0).1,
            _ => arrays
                .into_iter()
                .map(|(name, array)| Json::Object(vec![(name, Json::Array(array))]))
                .collect(),
        };
        print_list(listed, request.human)
    }

    /// Returns the numbers of the devices that a listing has, in its order.
    pub(super) fn selected_memdevs(&self, request: &CxlListRequest) -> Vec<u32> {
        let walk = Walk { inventory: self, request: request.clone() };
        let mut found = Vec::new();
        self.roots().for_each(|root| walk.add_memdevs(root, &mut found));
        found
    }

    /// Returns what cxl prints about a region that it made.
    pub fn describe_region(&self, number: u32, human: bool) -> String {
        let mut regions = self.ports.iter().flat_map(|port| &port.decoders).flat_map(|one| &one.regions);
        let found = regions.find(|region| region.number == number);
        found.map_or(String::new(), |region| {
            Json::Object(self.region(region, true, false)).print(human) + "\n"
        })
    }

    /// Returns what cxl prints about devices whose decoders with these indexes were changed.
    pub fn describe_decoders(&self, changed: &[(u32, usize)], human: bool) -> String {
        let object = |(number, index): &(u32, usize)| {
            let memdev = self.memdevs.iter().find(|one| one.number == *number)?;
            let endpoint = self.endpoint_of(*number)?;
            let mut fields = memdev.fields(&CxlListRequest::default());
            let decoder = endpoint.decoders.get(*index)?;
            fields.push(("decoder", Json::Object(decoder_fields(endpoint, *index, decoder))));
            Some(Json::Object(fields))
        };
        print_list(changed.iter().filter_map(object).collect(), human)
    }

    /// Returns what cxl prints about devices whose capacity was divided.
    pub fn describe_partitions(&self, numbers: &[u32], human: bool) -> String {
        let request = CxlListRequest { partition: true, ..CxlListRequest::default() };
        let found = self.memdevs.iter().filter(|one| numbers.contains(&one.number));
        print_list(found.map(|one| Json::Object(one.fields(&request))).collect(), human)
    }

    fn walk(&self, request: CxlListRequest) -> Platform {
        let walk = Walk { inventory: self, request };
        let request = &walk.request;
        let mut platform = Platform::default();
        if request.idle && request.memdevs {
            let disabled = self.listed_memdevs().filter(|one| !one.enabled && walk.is_asked(one));
            platform.anonymous = disabled.map(|one| Json::Object(one.fields(request))).collect();
        }
        for root in self.roots() {
            if request.filters_memdevs()
                && !self.memdevs.iter().any(|one| walk.is_asked(one) && walk.is_below(root, one))
            {
                continue;
            }
            walk.bus(root, &mut platform);
        }
        platform
    }

    fn region(&self, region: &CxlRegion, targets: bool, poison: bool) -> Vec<(&'static str, Json)> {
        let mut fields = Fields::default();
        fields.add("region", Json::text(format!("region{}", region.number)));
        fields.add_some("resource", region.start.map(Json::Hex));
        fields.add("size", Json::Size(region.size));
        fields.add_some("type", self.lists_kind.then(|| Json::text(region.kind.as_str())));
        fields.add("interleave_ways", Json::Number(region.ways.into()));
        fields.add("interleave_granularity", Json::Number(region.granularity as i64));
        fields.add("decode_state", Json::text(if region.committed { "commit" } else { "reset" }));
        fields.add_some("state", (!region.enabled).then(|| Json::text("disabled")));
        fields.add_some("media_errors", poison.then(|| media_errors(&region.poison)).flatten());
        if targets {
            let mapping = |one: &super::inventory::CxlMapping| {
                Json::Object(vec![
                    ("position", Json::Number(one.position.into())),
                    ("memdev", Json::text(format!("mem{}", one.memdev))),
                    ("decoder", Json::text(format!("decoder{}.{}", one.endpoint, one.decoder))),
                ])
            };
            // cxl has the last position first.
            fields.add("mappings", Json::Array(region.mappings.iter().rev().map(mapping).collect()));
        }
        fields.into()
    }
}

impl Walk<'_> {
    fn is_asked(&self, memdev: &CxlMemdev) -> bool {
        filter::memdev(self.request.memdev.as_deref(), self.request.serial.as_deref(), memdev)
    }

    /// Adds the numbers of the enabled devices below a port that the filters take, in the order of listings.
    fn add_memdevs(&self, port: &CxlPortView, found: &mut Vec<u32>) {
        for endpoint in self.inventory.below(port.number, CxlPortLevel::Endpoint) {
            let memdev = self.inventory.memdevs.iter().find(|one| endpoint.memdev == Some(one.number));
            found.extend(memdev.filter(|one| one.enabled && self.takes_memdev(one)).map(|one| one.number));
        }
        for child in self.inventory.below(port.number, CxlPortLevel::Switch) {
            self.add_memdevs(child, found);
        }
    }

    /// Returns true if a port leads to a device.
    fn is_below(&self, port: &CxlPortView, memdev: &CxlMemdev) -> bool {
        self.inventory.dport_to(port, memdev.number).is_some()
    }

    /// Returns the devices that the filters for devices take; `None` without such a filter.
    fn asked(&self) -> Option<Vec<&CxlMemdev>> {
        let asked = || self.inventory.memdevs.iter().filter(|one| self.is_asked(one)).collect();
        self.request.filters_memdevs().then(asked)
    }

    /// Returns true if the filter for ports takes a port, or with `ancestry` one above it.
    fn takes_port(&self, port: &CxlPortView, ancestry: bool) -> bool {
        let count = if ancestry { usize::MAX } else { 1 };
        let names = self.request.port.as_deref();
        self.inventory.ancestry(port).take(count).any(|one| filter::port(names, one))
    }

    fn takes_bus(&self, port: &CxlPortView) -> bool {
        let root = self.inventory.ancestry(port).last();
        root.is_some_and(|root| filter::bus(self.request.bus.as_deref(), root))
    }

    fn takes_memdev(&self, memdev: &CxlMemdev) -> bool {
        let number = memdev.number;
        let is_target = |port: &CxlPortView, decoder: &CxlDecoder| {
            self.inventory.dport_to(port, number).is_some_and(|dport| decoder.targets.contains(&dport))
        };
        let by_decoder = || {
            self.inventory.ports.iter().any(|port| {
                let mut decoders = (0..).zip(&port.decoders);
                decoders.any(|(index, decoder)| {
                    filter::decoder_of(self.request.decoder.as_deref(), port, index)
                        && is_target(port, decoder)
                })
            })
        };
        let by_port = || {
            self.inventory.ports.iter().any(|port| {
                let leads = self.inventory.dport_to(port, number).is_some();
                let is_bus =
                    port.level == CxlPortLevel::Root && filter::bus(self.request.bus.as_deref(), port);
                leads && (is_bus || filter::port(self.request.port.as_deref(), port))
            })
        };
        self.is_asked(memdev)
            && (self.request.decoder.is_none() || by_decoder())
            && ((self.request.bus.is_none() && self.request.port.is_none()) || by_port())
    }

    fn bus(&self, root: &CxlPortView, platform: &mut Platform) {
        let request = &self.request;
        let is_taken = filter::bus(request.bus.as_deref(), root) && self.takes_port(root, !request.single);
        if !(is_taken && request.buses) {
            let below = &mut platform.below;
            self.decoders(root, &mut platform.root_decoders, &mut below.regions);
            self.below(root, below);
            return;
        }
        let mut own = Arrays { one_of_decoders: true, ..Arrays::default() };
        self.decoders(root, &mut own.port_decoders, &mut own.regions);
        self.below(root, &mut own);
        let mut fields = vec![
            ("bus".to_owned(), Json::text(root.name())),
            ("provider".to_owned(), Json::text(root.provider())),
        ];
        self.add_dports(&mut fields, root);
        add_array(&mut fields, "ports", &root.name(), own.ports);
        add_array(&mut fields, "endpoints", &root.name(), own.endpoints);
        add_array(&mut fields, "decoders", &root.name(), own.port_decoders);
        add_array(&mut fields, "regions", &root.name(), own.regions);
        add_array(&mut fields, "memdevs", &root.name(), own.memdevs);
        platform.buses.push(Json::Map(fields));
    }

    /// Lists what is below a bus: endpoints, then ports.
    fn below(&self, root: &CxlPortView, arrays: &mut Arrays) {
        self.endpoints(root, arrays);
        for child in self.inventory.below(root.number, CxlPortLevel::Switch) {
            self.port(child, arrays);
        }
    }

    fn port(&self, port: &CxlPortView, arrays: &mut Arrays) {
        let request = &self.request;
        if self.asked().is_some_and(|asked| !asked.iter().any(|one| self.is_below(port, one))) {
            return;
        }
        let is_taken = self.takes_port(port, !request.single) && self.takes_bus(port);
        if is_taken && !request.idle && !port.enabled {
            return;
        }
        if !(is_taken && request.ports) {
            self.of_port(port, arrays);
            return;
        }
        let mut own = Arrays { one_of_decoders: true, ..Arrays::default() };
        self.of_port(port, &mut own);
        let mut fields = self.port_fields(port, "port");
        self.add_dports(&mut fields, port);
        add_array(&mut fields, "ports", &port.name(), own.ports);
        add_array(&mut fields, "endpoints", &port.name(), own.endpoints);
        add_array(&mut fields, "decoders", &port.name(), own.port_decoders);
        add_array(&mut fields, "memdevs", &port.name(), own.memdevs);
        arrays.ports.push(Json::Map(fields));
    }

    /// Lists endpoints and decoders of a port, and the ports below it.
    fn of_port(&self, port: &CxlPortView, arrays: &mut Arrays) {
        self.endpoints(port, arrays);
        self.decoders(port, &mut arrays.port_decoders, &mut arrays.regions);
        for child in self.inventory.below(port.number, CxlPortLevel::Switch) {
            self.port(child, arrays);
        }
    }

    fn endpoints(&self, port: &CxlPortView, arrays: &mut Arrays) {
        let request = &self.request;
        if !(request.endpoints || request.memdevs || request.decoders) {
            return;
        }
        for endpoint in self.inventory.below(port.number, CxlPortLevel::Endpoint) {
            let memdev = endpoint.memdev;
            let of_asked =
                self.asked().is_none_or(|asked| asked.iter().any(|one| memdev == Some(one.number)));
            let by_port = self.takes_port(endpoint, false) || self.takes_port(port, !request.single);
            let is_taken = filter::endpoint(request.endpoint.as_deref(), endpoint)
                && self.takes_bus(endpoint)
                && by_port
                && of_asked
                && (request.idle || endpoint.enabled);
            if !is_taken {
                continue;
            }
            let mut fields = self.port_fields(endpoint, "endpoint");
            if request.memdevs {
                let found = self.inventory.memdevs.iter().find(|one| memdev == Some(one.number));
                let found = found.filter(|one| self.takes_memdev(one) && (request.idle || one.enabled));
                let Some(found) = found else {
                    // Like cxl, this leaves the decoders out, too.
                    if request.endpoints {
                        arrays.endpoints.push(Json::Map(fields));
                    }
                    continue;
                };
                let object = Json::Object(found.fields(request));
                match request.endpoints {
                    true => fields.push(("memdev".to_owned(), object)),
                    false => arrays.memdevs.push(object),
                }
            }
            let mut decoders = Vec::new();
            self.decoders(endpoint, &mut decoders, &mut Vec::new());
            if request.endpoints {
                add_array(&mut fields, "decoders", &endpoint.name(), decoders);
                arrays.endpoints.push(Json::Map(fields));
            } else if arrays.one_of_decoders {
                arrays.port_decoders.extend(decoders);
            } else {
                arrays.endpoint_decoders.extend(decoders);
            }
        }
    }

    /// Lists the decoders of a port, and the regions of its windows that no listed decoder has.
    fn decoders(&self, port: &CxlPortView, listed: &mut Vec<Json>, regions: &mut Vec<Json>) {
        for (index, decoder) in port.decoders.iter().enumerate() {
            let is_taken = self.request.decoders && self.takes_decoder(port, index as u32, decoder);
            if is_taken && !self.request.idle && decoder.size == 0 {
                continue;
            }
            let of_decoder = self.regions(port, index as u32, decoder);
            if !is_taken {
                regions.extend(of_decoder);
                continue;
            }
            let fields = decoder_fields(port, index, decoder);
            let mut fields: Named =
                fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            self.add_targets(&mut fields, port, decoder);
            add_array(&mut fields, "regions", &format!("decoder{}.{index}", port.number), of_decoder);
            listed.push(Json::Map(fields));
        }
    }

    fn takes_decoder(&self, port: &CxlPortView, index: u32, decoder: &CxlDecoder) -> bool {
        let request = &self.request;
        let leads_to = |memdev: &&CxlMemdev| {
            let dport = self.inventory.dport_to(port, memdev.number);
            dport.is_some_and(|dport| decoder.targets.contains(&dport)) || port.memdev == Some(memdev.number)
        };
        // The decoder of a window has no region of its own.
        let by_region =
            |names: &str| decoder.region.is_some_and(|number| filter::region(Some(names), number));
        filter::decoder_of(request.decoder.as_deref(), port, index)
            && self.takes_bus(port)
            && self.takes_port(port, !request.single)
            && self.asked().is_none_or(|asked| asked.iter().any(leads_to))
            && request.region.as_deref().is_none_or(by_region)
    }

    fn regions(&self, port: &CxlPortView, index: u32, decoder: &CxlDecoder) -> Vec<Json> {
        let request = &self.request;
        let is_taken = request.regions
            && self.takes_bus(port)
            && self.takes_port(port, true)
            && filter::decoder_of(request.decoder.as_deref(), port, index);
        let regions = decoder.regions.iter().filter(|region| {
            is_taken
                && filter::region(request.region.as_deref(), region.number)
                && (request.idle || region.enabled)
        });
        let fields = |region| self.inventory.region(region, request.targets, request.media_errors);
        regions.map(|region| Json::Object(fields(region))).collect()
    }

    fn port_fields(&self, port: &CxlPortView, key: &str) -> Named {
        let mut fields =
            vec![(key.to_owned(), Json::text(port.name())), ("host".to_owned(), Json::text(&port.host))];
        if port.above.is_some() {
            let depth = self.inventory.ancestry(port).count() - 1;
            fields.push(("depth".to_owned(), Json::Number(depth as i64)));
        }
        if !port.enabled {
            fields.push(("state".to_owned(), Json::text("disabled")));
        }
        fields
    }

    fn add_dports(&self, fields: &mut Named, port: &CxlPortView) {
        if !self.request.targets || port.dports.is_empty() {
            return;
        }
        fields.push(("nr_dports".to_owned(), Json::Number(port.dports.len() as i64)));
        let is_taken = |index: usize| {
            self.asked().is_none_or(|asked| {
                asked.iter().any(|one| self.inventory.dport_to(port, one.number) == Some(index))
            })
        };
        let dports = port.listed_dports().into_iter().filter(|(index, _)| is_taken(*index));
        let dports = dports.map(|(_, dport)| Json::Object(dport_fields("dport", dport, None))).collect();
        fields.push(("dports".to_owned(), Json::Array(dports)));
    }

    fn add_targets(&self, fields: &mut Named, port: &CxlPortView, decoder: &CxlDecoder) {
        if port.level == CxlPortLevel::Endpoint {
            return;
        }
        fields.push(("nr_targets".to_owned(), Json::Number(decoder.targets.len() as i64)));
        if !self.request.targets || decoder.targets.is_empty() {
            return;
        }
        let is_taken = |dport: usize| {
            self.asked().is_none_or(|asked| {
                asked.iter().any(|one| self.inventory.dport_to(port, one.number) == Some(dport))
            })
        };
        // cxl has the last position first.
        let targets = decoder.targets.iter().enumerate().rev().filter(|(_, dport)| is_taken(**dport));
        let targets = targets.filter_map(|(position, dport)| {
            let dport = port.dports.get(*dport)?;
            Some(Json::Object(dport_fields("target", dport, Some(position))))
        });
        fields.push(("targets".to_owned(), Json::Array(targets.collect())));
    }
}

/// Formats a list. cxl prints an empty one in two lines, and not at all for users.
fn print_list(listed: Vec<Json>, human: bool) -> String {
    match (listed.is_empty(), human) {
        (true, true) => String::new(),
        (true, false) => "[\n]\n".to_owned(),
        (false, _) => print_array(listed, human),
    }
}

/// Adds an array with the name of its object, if it has elements.
fn add_array(fields: &mut Named, kind: &str, of: &str, array: Vec<Json>) {
    if !array.is_empty() {
        fields.push((format!("{kind}:{of}"), Json::Array(array)));
    }
}

fn dport_fields(key: &'static str, dport: &Dport, position: Option<usize>) -> Vec<(&'static str, Json)> {
    let mut fields = Fields::default();
    fields.add(key, Json::text(&dport.name));
    fields.add_some("alias", dport.alias.as_ref().map(Json::text));
    fields.add_some("position", position.map(|position| Json::Number(position as i64)));
    fields.add("id", Json::Hex(dport.id));
    fields.into()
}

fn decoder_fields(port: &CxlPortView, index: usize, decoder: &CxlDecoder) -> Vec<(&'static str, Json)> {
    let mut fields = Fields::default();
    fields.add("decoder", Json::text(format!("decoder{}.{index}", port.number)));
    if decoder.size > 0 {
        fields.add_some("resource", decoder.start.map(Json::Hex));
        fields.add("size", Json::Size(decoder.size));
    }
    fields.add("interleave_ways", Json::Number(decoder.ways.into()));
    if decoder.ways > 1 {
        fields.add("interleave_granularity", Json::Number(decoder.granularity as i64));
    }
    fields.add_some("region", decoder.region.map(|region| Json::text(format!("region{region}"))));
    if decoder.size == 0 {
        fields.add("state", Json::text("disabled"));
    }
    if let Some((start, len)) = decoder.dpa.filter(|(_, len)| *len > 0) {
        fields.add("dpa_resource", Json::Hex(start));
        fields.add("dpa_size", Json::Size(len));
    }
    if port.level == CxlPortLevel::Endpoint {
        fields.add_some("mode", decoder.kind.map(|kind| Json::text(kind.as_str())));
    }
    if let Some(window) = decoder.window {
        if window.pmem || window.ram {
            fields.add("max_available_extent", Json::Size(window.largest_available));
        }
        fields.add_some("pmem_capable", window.pmem.then_some(Json::Flag(true)));
        fields.add_some("volatile_capable", window.ram.then_some(Json::Flag(true)));
        fields.add_some("accelmem_capable", window.accelerator.then_some(Json::Flag(true)));
    }
    fields.into()
}

impl CxlMemdev {
    fn fields(&self, request: &CxlListRequest) -> Vec<(&'static str, Json)> {
        let mut fields = Fields::default();
        fields.add("memdev", Json::text(format!("mem{}", self.number)));
        for (name, size) in [("pmem_size", self.pmem_size), ("ram_size", self.ram_size)] {
            if size > 0 {
                fields.add(name, Json::Size(size));
            }
        }
        if request.health {
            fields.add("health", health());
        }
        if request.alerts {
            fields.add("alert_config", alerts());
        }
        fields.add_some("serial", self.serial.map(Json::Hex));
        fields.add_some("numa_node", self.numa_node.map(Json::Number));
        fields.add("host", Json::text(&self.host));
        fields.add_some("state", (!self.enabled).then(|| Json::text("disabled")));
        if request.partition {
            fields.add_some("partition_info", self.partition_info());
        }
        fields.add_some("media_errors", request.media_errors.then(|| media_errors(&self.poison)).flatten());
        fields.into()
    }

    fn partition_info(&self) -> Option<Json> {
        let one = self.partition?;
        let rest = one.total - one.volatile_only - one.persistent_only;
        let mut fields = Fields::default();
        fields.add("total_size", Json::Size(one.total));
        fields.add("volatile_only_size", Json::Size(one.volatile_only));
        fields.add("persistent_only_size", Json::Size(one.persistent_only));
        fields.add("partition_alignment_size", Json::Size(one.alignment));
        if one.alignment > 0 {
            fields.add("active_volatile_size", Json::Size(one.active_volatile));
            fields.add("active_persistent_size", Json::Size(rest - one.active_volatile));
            fields.add("next_volatile_size", Json::Size(one.next_volatile));
            fields.add("next_persistent_size", Json::Size(rest - one.next_volatile));
        }
        Some(Json::Object(fields.into()))
    }
}

/// Returns the list of poisoned lines, as in version 80 of cxl; `None` if there are none. The machine has no other source of
/// poison than injections.
fn media_errors(poison: &[u64]) -> Option<Json> {
    let record = |off: &u64| {
        Json::Object(vec![
            ("offset", Json::Hex(*off)),
            ("length", Json::Size(CxlPoison::LEN)),
            ("source", Json::text("Injected")),
        ])
    };
    (!poison.is_empty()).then(|| Json::Array(poison.iter().map(record).collect()))
}

/// Returns the health of an emulated device: it has no fault.
fn health() -> Json {
    let mut fields = Fields::default();
    for name in ["maintenance_needed", "performance_degraded", "hw_replacement_needed"] {
        fields.add(name, Json::Flag(false));
    }
    fields.add("media_normal", Json::Flag(true));
    for name in [
        "media_not_ready",
        "media_persistence_lost",
        "media_data_lost",
        "media_powerloss_persistence_loss",
        "media_shutdown_persistence_loss",
        "media_persistence_loss_imminent",
        "media_powerloss_data_loss",
        "media_shutdown_data_loss",
        "media_data_loss_imminent",
    ] {
        fields.add(name, Json::Flag(false));
    }
    for name in ["ext_life_used", "ext_temperature", "ext_corrected_volatile", "ext_corrected_persistent"] {
        fields.add(name, Json::text("normal"));
    }
    fields.add("life_used_percent", Json::Number(0));
    fields.add("temperature", Json::Number(30));
    for name in ["dirty_shutdowns", "volatile_errors", "pmem_errors"] {
        fields.add(name, Json::Number(0));
    }
    Json::Object(fields.into())
}

/// Returns the alerts of an emulated device: it has none, and takes no thresholds.
fn alerts() -> Json {
    let mut fields = Fields::default();
    for name in [
        "life_used_prog_warn_threshold_valid",
        "dev_over_temperature_prog_warn_threshold_valid",
        "dev_under_temperature_prog_warn_threshold_valid",
        "corrected_volatile_mem_err_prog_warn_threshold_valid",
        "corrected_pmem_err_prog_warn_threshold_valid",
        "life_used_prog_warn_threshold_writable",
        "dev_over_temperature_prog_warn_threshold_writable",
        "dev_under_temperature_prog_warn_threshold_writable",
        "corrected_volatile_mem_err_prog_warn_threshold_writable",
        "corrected_pmem_err_prog_warn_threshold_writable",
    ] {
        fields.add(name, Json::Flag(false));
    }
    for name in [
        "life_used_crit_alert_threshold",
        "life_used_prog_warn_threshold",
        "dev_over_temperature_crit_alert_threshold",
        "dev_under_temperature_crit_alert_threshold",
        "dev_over_temperature_prog_warn_threshold",
        "dev_under_temperature_prog_warn_threshold",
        "corrected_volatile_mem_err_prog_warn_threshold",
        "corrected_pmem_err_prog_warn_threshold",
    ] {
        fields.add(name, Json::Number(0));
    }
    Json::Object(fields.into())
}

impl std::str::FromStr for CxlKind {
    type Err = ();

    fn from_str(word: &str) -> Result<CxlKind, ()> {
        match word {
            "pmem" => Ok(CxlKind::Pmem),
            "ram" | "volatile" => Ok(CxlKind::Ram),
            _ => Err(()),
        }
    }
}
