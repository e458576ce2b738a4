//! `ndctl list`.

use super::device_number::device_number;
use super::inventory::{Inventory, NdBus, NdModule, NdNamespace, NdRegion};
use super::order::sort_as_listed;
use crate::listing::{Fields, Json};
use crate::namespace::Mode;

/// Objects to include in a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Included {
    /// `-B`
    pub buses: bool,
    /// `-D`
    pub modules: bool,
    /// `-R`
    pub regions: bool,
    /// `-N`
    pub namespaces: bool,
    /// `-H`: health of the modules.
    pub health: bool,
    /// `-F`: firmware of the modules, and of buses that can activate firmware.
    pub firmware: bool,
    /// `-C`: parameters that the regions support.
    pub capabilities: bool,
    /// `-X`: character devices in detail.
    pub dax: bool,
    /// `-M`: ranges of media errors.
    pub media_errors: bool,
    /// `-i`: disabled objects too.
    pub idle: bool,
    /// `-c`: disabled objects too, but for namespaces without a size.
    pub configured: bool,
    /// `-v`, counted.
    pub verbose: u8,
}

/// Filter of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// Only this bus.
    pub bus: Option<String>,
    /// Only this module, by name or number.
    pub module: Option<String>,
    /// Only this region, by name or number.
    pub region: Option<String>,
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only namespaces of this mode.
    pub mode: Option<Mode>,
    /// Only regions of this type, and their namespaces.
    pub region_type: Option<RegionType>,
    /// Only devices of this NUMA node.
    pub numa_node: Option<i64>,
}

/// Type of a region. All regions of this crate are of memory that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionType {
    /// Memory that is mapped.
    Pmem,
    /// Block windows, which kernels since 6.0 do not have.
    Blk,
}

/// Parameters of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// Objects to include.
    pub included: Included,
    /// Objects to keep.
    pub filter: ListFilter,
    /// `-u`: sizes and addresses in units for users.
    pub human: bool,
}

/// The arrays of a listing. Empty ones are not printed.
#[derive(Default)]
struct Arrays {
    modules: Vec<Json>,
    regions: Vec<Json>,
    namespaces: Vec<Json>,
    /// True if the last region contains namespaces. ndctl then prints an object even around regions alone.
    nested: bool,
}

impl Arrays {
    fn fields(self) -> Vec<(&'static str, Json)> {
        let all = [("dimms", self.modules), ("regions", self.regions), ("namespaces", self.namespaces)];
        all.into_iter()
            .filter(|(_, array)| !array.is_empty())
            .map(|(name, array)| (name, Json::Array(array)))
            .collect()
    }
}

impl ListRequest {
    /// Adds the defaults of ndctl.
    fn resolved(&self) -> ListRequest {
        let mut request = self.clone();
        let (included, filter) = (&mut request.included, &request.filter);
        let nothing = |included: &Included| {
            !(included.buses || included.modules || included.regions || included.namespaces)
        };
        if nothing(included) {
            included.buses = filter.bus.is_some();
            included.regions = filter.region.is_some();
            included.modules = filter.module.is_some();
            if included.dax && filter.mode.is_none() {
                request.filter.mode = Some(Mode::Devdax);
            }
        }
        let included = &mut request.included;
        if included.verbose > 2 {
            (included.idle, included.health) = (true, true);
            (included.firmware, included.capabilities) = (true, true);
        }
        if included.verbose > 1 {
            (included.modules, included.buses, included.regions) = (true, true, true);
        }
        if included.verbose > 0 {
            (included.namespaces, included.dax, included.media_errors) = (true, true, true);
        }
        if nothing(included) {
            included.namespaces = true;
        }
        request
    }
}

impl ListFilter {
    fn matches_bus(&self, bus: &NdBus) -> bool {
        let called = |asked: &String| bus.is_called(asked);
        let has = |asked: &String| bus.modules.iter().any(|module| has_name(asked, "nmem", module.number));
        self.bus.as_ref().is_none_or(called)
            && self.module.as_ref().is_none_or(|asked| asked == "all" || has(asked))
            && (self.region.is_none() || bus.regions.iter().any(|region| self.matches_region_name(region)))
            && (self.namespace.is_none()
                || bus.regions.iter().any(|region| self.matches_name_in_region(region)))
    }

    fn matches_module(&self, bus: &NdBus, module: &NdModule) -> bool {
        let asked = self.module.as_ref().is_none_or(|asked| has_name(asked, "nmem", module.number));
        let part_of = |region: &&NdRegion| region.mappings.iter().any(|part| part.module == module.number);
        let mut regions = bus.regions.iter().filter(part_of);
        let filtered = self.region.is_some() || self.namespace.is_some();
        let of_node =
            |node: i64| bus.regions.iter().filter(part_of).any(|region| region.numa_node == Some(node));
        asked
            && self.numa_node.is_none_or(of_node)
            && (!filtered
                || regions
                    .any(|region| self.matches_region_name(region) && self.matches_name_in_region(region)))
    }

    /// Returns true if the region is listed, or its namespaces are. Kernels before 5.4 do not show the node of a region,
    /// so with namespaces those are filtered instead.
    fn matches_region(&self, region: &NdRegion, with_namespaces: bool) -> bool {
        let node = self.numa_node.is_none_or(|node| match region.numa_node {
            Some(found) => found == node,
            None => with_namespaces,
        });
        let module = self.module.as_ref().is_none_or(|asked| {
            asked == "all" || region.mappings.iter().any(|part| has_name(asked, "nmem", part.module))
        });
        node && self.region_type != Some(RegionType::Blk)
            && module
            && self.matches_region_name(region)
            && self.matches_name_in_region(region)
    }

    fn matches_region_name(&self, region: &NdRegion) -> bool {
        self.region.as_ref().is_none_or(|asked| has_name(asked, "region", region.number))
    }

    fn matches_name_in_region(&self, region: &NdRegion) -> bool {
        self.namespace.is_none() || region.namespaces.iter().any(|namespace| self.matches_name(namespace))
    }

    fn matches_name(&self, namespace: &NdNamespace) -> bool {
        let name = namespace.to_string();
        let is_called =
            |one: &str| one == "all" || one == name || name.strip_prefix("namespace") == Some(one);
        self.namespace.as_ref().is_none_or(|asked| asked.split(' ').any(is_called))
    }

    fn matches_namespace(&self, namespace: &NdNamespace) -> bool {
        self.matches_name(namespace)
            && self.mode.is_none_or(|mode| mode == namespace.mode())
            && self.numa_node.is_none_or(|node| namespace.numa_node == Some(node))
    }
}

/// Returns true if `asked` has the name or number of this device. ndctl takes several names, with spaces in between.
fn has_name(asked: &str, prefix: &str, number: u32) -> bool {
    asked.split(' ').any(|one| one == "all" || device_number(one, prefix) == Some(number))
}

impl Inventory {
    /// Returns the output of `ndctl list`; empty if no object matches.
    pub fn list(&self, request: &ListRequest) -> String {
        let request = request.resolved();
        let human = request.human;
        let mut buses: Vec<&NdBus> = self.buses.iter().collect();
        // ndctl orders buses by their control devices.
        sort_as_listed(&mut buses, |bus| format!("ndctl{}", bus.number));
        let mut all = Arrays::default();
        let mut listed = Vec::new();
        for bus in buses.into_iter().filter(|bus| request.filter.matches_bus(bus)) {
            let arrays = bus.arrays(&request);
            if request.included.buses {
                let mut fields = bus.fields(&request.included);
                fields.extend(arrays.fields());
                listed.push(Json::Object(fields));
            } else {
                all.modules.extend(arrays.modules);
                all.regions.extend(arrays.regions);
                all.namespaces.extend(arrays.namespaces);
                all.nested = arrays.nested;
            }
        }
        let nested = all.nested;
        let mut fields = all.fields();
        let array = match fields.len() {
            _ if !listed.is_empty() => listed,
            0 => return String::new(),
            1 if !nested => match fields.remove(0).1 {
                Json::Array(array) => array,
                one => vec![one],
            },
            _ => return Json::Object(fields).print(human) + "\n",
        };
        print_array(array, human)
    }

    /// Returns the numbers of the modules that a filter selects, ascending.
    pub fn selected_modules(&self, filter: &ListFilter) -> Vec<u32> {
        let buses = self.buses.iter().filter(|bus| filter.matches_bus(bus));
        let modules =
            buses.flat_map(|bus| bus.modules.iter().filter(|module| filter.matches_module(bus, module)));
        let mut numbers: Vec<u32> = modules.map(|module| module.number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Returns the output of `ndctl activate-firmware` on these buses: an array with their modules, with the numbers for
    /// users; empty if there is none.
    pub fn list_activation(&self, numbers: &[u32]) -> String {
        let included =
            Included { buses: true, modules: true, firmware: true, idle: true, ..Included::default() };
        let request = ListRequest { included, ..ListRequest::default() };
        let buses = self.buses.iter().filter(|bus| numbers.contains(&bus.number));
        let object = |bus: &NdBus| {
            let mut fields = bus.fields(&request.included);
            fields.extend(bus.arrays(&request).fields());
            Json::Object(fields)
        };
        let listed: Vec<Json> = buses.map(object).collect();
        if listed.is_empty() { String::new() } else { Json::Array(listed).print(true) + "\n" }
    }

    /// Returns ndctl's output for one namespace, as after `create-namespace`; empty if the name does not exist.
    pub fn describe(&self, name: &str, included: &Included, human: bool) -> String {
        let regions = self.buses.iter().flat_map(|bus| &bus.regions);
        let mut all = regions.flat_map(|region| region.namespaces.iter().map(move |one| (region, one)));
        let found = all.find(|(_, namespace)| namespace.to_string() == name);
        found
            .map_or(String::new(), |(region, namespace)| namespace.json(region, included).print(human) + "\n")
    }
}

impl NdBus {
    /// Returns true if `asked` is its provider, its name or its number, or `all`.
    pub fn is_called(&self, asked: &str) -> bool {
        asked.split(' ').any(|one| one == self.provider) || has_name(asked, "ndbus", self.number)
    }

    fn fields(&self, included: &Included) -> Vec<(&'static str, Json)> {
        let mut fields = Fields::default();
        fields.add("provider", Json::text(&self.provider));
        fields.add("dev", Json::text(format!("ndbus{}", self.number)));
        let scrub = self.scrub_active.map(|active| if active { "active" } else { "idle" });
        fields.add_some("scrub_state", scrub.map(Json::text));
        // ndctl takes a bus without scrubs for one without firmware.
        if let Some(activation) = self.firmware.filter(|_| included.firmware && scrub.is_some()) {
            let mut firmware = Fields::default();
            firmware.add("activate_method", Json::text(activation.method.as_str()));
            firmware.add_some("activate_state", activation.state.map(|state| Json::text(state.as_str())));
            fields.add("firmware", Json::Object(firmware.into()));
        }
        fields.into()
    }

    fn arrays(&self, request: &ListRequest) -> Arrays {
        let mut arrays = Arrays::default();
        let ListRequest { included, filter, .. } = request;
        let with_disabled = included.idle || included.configured;
        let shown = |module: &NdModule| with_disabled || module.enabled;
        if included.modules {
            let mut modules: Vec<&NdModule> = self.modules.iter().collect();
            sort_as_listed(&mut modules, |module| format!("nmem{}", module.number));
            let modules = modules.into_iter().filter(|one| shown(one) && filter.matches_module(self, one));
            arrays.modules = modules.map(|module| module.json(included)).collect();
        }
        let mut regions: Vec<&NdRegion> = self.regions.iter().collect();
        sort_as_listed(&mut regions, |region| format!("region{}", region.number));
        let with_namespaces = included.namespaces;
        for region in regions.into_iter().filter(|region| filter.matches_region(region, with_namespaces)) {
            let namespaces = if included.namespaces { region.namespaces_json(request) } else { Vec::new() };
            if !included.regions {
                arrays.namespaces.extend(namespaces);
            } else if with_disabled || region.enabled {
                let mapped = |number: u32| {
                    filter.module.as_ref().is_none_or(|asked| has_name(asked, "nmem", number))
                        && self.modules.iter().any(|module| module.number == number && shown(module))
                };
                let mut fields: Vec<_> = region.json(included, |part| mapped(part.module)).into();
                arrays.nested = !namespaces.is_empty();
                if arrays.nested {
                    fields.push(("namespaces", Json::Array(namespaces)));
                }
                arrays.regions.push(Json::Object(fields));
            }
        }
        arrays
    }
}

impl NdRegion {
    fn namespaces_json(&self, request: &ListRequest) -> Vec<Json> {
        let mut namespaces: Vec<&NdNamespace> = self.namespaces.iter().collect();
        sort_as_listed(&mut namespaces, |namespace| namespace.to_string());
        let Included { idle, configured, .. } = request.included;
        let shown = namespaces.into_iter().filter(|namespace| {
            idle || namespace.enabled || (configured && namespace.span.is_some_and(|size| size > 0))
        });
        let taken = shown.filter(|namespace| request.filter.matches_namespace(namespace));
        taken.map(|namespace| namespace.json(self, &request.included)).collect()
    }
}

/// Formats an array. In the format for users, an array of one element is printed as the element.
pub(crate) fn print_array(mut array: Vec<Json>, human: bool) -> String {
    if human && array.len() == 1 {
        return array.remove(0).print(human) + "\n";
    }
    Json::Array(array).print(human) + "\n"
}
