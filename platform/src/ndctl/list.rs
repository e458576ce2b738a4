//! `ndctl list` and `daxctl list`.

use super::device::daxregion;
use super::json::Json;
use crate::namespace::{Mode, Namespace};
use crate::ndctl::sort_as_listed;
use crate::platform::Platform;
use crate::region::{Origin, Region};

/// What is included in a listing.
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
    /// `-H`: with the modules.
    pub health: bool,
    /// `-X`: character devices in full.
    pub dax: bool,
    /// `-i`: what is disabled, too.
    pub idle: bool,
    /// `-v`, once or more often.
    pub verbose: u8,
}

/// What is left out of a listing.
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
}

/// A listing that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// What is included.
    pub included: Included,
    /// What is left out.
    pub filter: ListFilter,
    /// `-u`: sizes and addresses for people.
    pub human: bool,
}

/// Devices that one driver found.
#[derive(Clone, Copy, PartialEq)]
enum Bus {
    /// Modules, as firmware tells of them.
    Firmware,
    /// DRAM that the kernel was told to take.
    Memmap,
}

impl Bus {
    fn provider(self) -> &'static str {
        match self {
            Bus::Firmware => "ACPI.NFIT",
            Bus::Memmap => "e820",
        }
    }

    fn name(self) -> String {
        format!("ndbus{}", self as u32)
    }

    fn of(region: &Region) -> Bus {
        if matches!(region.origin, Origin::Set { .. }) { Bus::Firmware } else { Bus::Memmap }
    }
}

/// The arrays of a listing, empty ones left out when it is printed.
#[derive(Default)]
struct Arrays {
    modules: Vec<Json>,
    regions: Vec<Json>,
    namespaces: Vec<Json>,
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
    /// The same with what ndctl includes by itself.
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
        }
        if included.verbose > 1 {
            (included.modules, included.buses, included.regions) = (true, true, true);
        }
        if included.verbose > 0 {
            (included.namespaces, included.dax) = (true, true);
        }
        if nothing(included) {
            included.namespaces = true;
        }
        request
    }
}

impl ListFilter {
    fn takes_region(&self, platform: &Platform, region: &Region) -> bool {
        let module = self.module.as_ref().is_none_or(|asked| {
            region.members().iter().any(|member| {
                let index = platform.machine.module_index(member.module).unwrap_or(0);
                is_called(asked, "nmem", index)
            })
        });
        module && self.region.as_ref().is_none_or(|asked| is_called(asked, "region", region.number as usize))
    }

    fn takes_namespace(&self, namespace: &Namespace) -> bool {
        let name = namespace.device();
        self.namespace
            .as_ref()
            .is_none_or(|asked| *asked == name || name.strip_prefix("namespace") == Some(asked))
            && self.mode.is_none_or(|mode| mode == namespace.mode())
    }
}

/// Whether a name or a number means the device with this number.
fn is_called(asked: &str, prefix: &str, number: usize) -> bool {
    asked == "all" || asked.strip_prefix(prefix).unwrap_or(asked) == number.to_string()
}

impl Platform {
    /// What `ndctl list` prints; nothing if there is nothing.
    pub fn list(&self, request: &ListRequest) -> String {
        let request = request.resolved();
        let human = request.human;
        let mut buses: Vec<Bus> = vec![Bus::Firmware];
        if !self.machine.memmap.is_empty() {
            buses.push(Bus::Memmap);
        }
        sort_as_listed(&mut buses, |bus| bus.name());
        let takes = |bus: &Bus| {
            let asked = request.filter.bus.as_ref();
            asked.is_none_or(|asked| asked == bus.provider() || is_called(asked, "ndbus", *bus as usize))
        };
        let mut all = Arrays::default();
        let mut listed = Vec::new();
        for bus in buses.into_iter().filter(takes) {
            let arrays = self.list_bus(bus, &request);
            if request.included.buses {
                let mut fields = vec![
                    ("provider", Json::Text(bus.provider().to_owned())),
                    ("dev", Json::Text(bus.name())),
                ];
                if bus == Bus::Firmware {
                    fields.push(("scrub_state", Json::Text("idle".to_owned())));
                }
                fields.extend(arrays.fields());
                listed.push(Json::Object(fields));
            } else {
                all.modules.extend(arrays.modules);
                all.regions.extend(arrays.regions);
                all.namespaces.extend(arrays.namespaces);
            }
        }
        let mut fields = all.fields();
        let array = match fields.len() {
            _ if request.included.buses => listed,
            0 => return String::new(),
            1 => match fields.remove(0).1 {
                Json::Array(array) => array,
                one => vec![one],
            },
            _ => return Json::Object(fields).print(human) + "\n",
        };
        print_array(array, human)
    }

    fn list_bus(&self, bus: Bus, request: &ListRequest) -> Arrays {
        let mut arrays = Arrays::default();
        let included = &request.included;
        if included.modules && bus == Bus::Firmware {
            let mut modules: Vec<usize> = (0..self.machine.modules.len()).collect();
            sort_as_listed(&mut modules, |index| format!("nmem{index}"));
            let asked = |index: &usize| {
                request.filter.module.as_ref().is_none_or(|asked| is_called(asked, "nmem", *index))
            };
            let modules = modules.into_iter().filter(asked).map(|index| &self.machine.modules[index]);
            let shown = modules.filter(|module| included.idle || module.usable());
            arrays.modules = shown.map(|module| self.module_json(module, included)).collect();
        }
        for region in self.listed_regions() {
            if Bus::of(&region) != bus || !request.filter.takes_region(self, &region) {
                continue;
            }
            let namespaces =
                if included.namespaces { self.list_namespaces(&region, request) } else { Vec::new() };
            if !included.regions {
                arrays.namespaces.extend(namespaces);
            } else if included.idle || region.enabled {
                let mut fields = self.region_json(&region, included, included.modules);
                if !namespaces.is_empty() {
                    fields.push(("namespaces", Json::Array(namespaces)));
                }
                arrays.regions.push(Json::Object(fields));
            }
        }
        arrays
    }

    fn list_namespaces(&self, region: &Region, request: &ListRequest) -> Vec<Json> {
        let mut namespaces = self.namespaces(region);
        sort_as_listed(&mut namespaces, Namespace::device);
        let shown = namespaces.iter().filter(|namespace| request.included.idle || namespace.enabled);
        let taken = shown.filter(|namespace| request.filter.takes_namespace(namespace));
        taken.map(|namespace| self.namespace_json(region, namespace, &request.included)).collect()
    }

    /// What ndctl prints of a namespace that it made or found.
    pub fn describe_namespace(&self, namespace: &Namespace) -> String {
        let region = self.regions().into_iter().find(|region| region.number == namespace.region);
        let included = Included { dax: true, ..Included::default() };
        region.map_or(String::new(), |region| {
            self.namespace_json(&region, namespace, &included).print(false) + "\n"
        })
    }

    /// What `daxctl list` prints: the character devices, in their regions if these are asked for.
    pub fn list_dax(&self, regions: bool, human: bool) -> String {
        let mut listed = Vec::new();
        for region in self.listed_regions().into_iter().filter(|region| region.enabled) {
            for namespace in self.namespaces(&region).into_iter().filter(|namespace| namespace.enabled) {
                let Some(device) = namespace.character_device() else { continue };
                if regions {
                    listed.push(daxregion(&region, &namespace, &device));
                    continue;
                }
                let align = match &namespace.personality {
                    crate::Personality::PageMap(info) => i64::from(info.align),
                    _ => 0,
                };
                listed.push(Json::Object(vec![
                    ("chardev", Json::Text(device)),
                    ("size", Json::Size(namespace.usable())),
                    ("align", Json::Number(align)),
                    ("mode", Json::Text("devdax".to_owned())),
                ]));
            }
        }
        if listed.is_empty() { String::new() } else { print_array(listed, human) }
    }
}

/// An array; for people, the one thing in it by itself.
fn print_array(mut array: Vec<Json>, human: bool) -> String {
    if human && array.len() == 1 {
        return array.remove(0).print(human) + "\n";
    }
    Json::Array(array).print(human) + "\n"
}
