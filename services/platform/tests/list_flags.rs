//! The flags of `ndctl list`, by what they add to a listing or keep of it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_platform::machine::Machine;
use lode_platform::ndctl::{self, Included, Inventory, ListFilter, ListRequest, RegionType};
use lode_platform::{CreateNamespace, GoalRequest, Mode, Platform, boot, goal, namespace, nmem, region};
use uuid::Uuid;

/// Returns a configured machine with a namespace in its only region, or in the second one.
fn platform(machine: &str, edit: impl Fn(&str) -> String) -> Platform {
    let text = edit(Machine::included(machine).unwrap());
    let mut platform = Platform::new(Machine::parse(&text).unwrap());
    let goals = goal::plan(&platform, &GoalRequest::default()).unwrap();
    goal::create(&mut platform, goals);
    boot::reboot(&mut platform);
    let region = u32::from(platform.regions().len() > 1);
    let wanted = CreateNamespace { region: Some(region), mode: Mode::Raw, ..CreateNamespace::default() };
    namespace::create(&mut platform, &wanted, &mut || Uuid::from_u128(7)).unwrap();
    platform
}

fn list(inventory: &Inventory, included: Included, filter: ListFilter) -> String {
    inventory.list(&ListRequest { included, filter, human: false })
}

/// Returns the names of the listed devices of a kind, in their order.
fn names(listing: &str, prefix: &str) -> Vec<String> {
    let devices = listing.split("\"dev\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    devices.filter(|name| name.starts_with(prefix)).map(str::to_owned).collect()
}

fn all() -> Included {
    Included { modules: true, regions: true, namespaces: true, ..Included::default() }
}

#[test]
fn numa_node_selects_modules_regions_and_namespaces() {
    let inventory = ndctl::inventory(&platform("fujitsu-primergy", str::to_owned));
    let on = |node| list(&inventory, all(), ListFilter { numa_node: Some(node), ..ListFilter::default() });
    let of = |node, prefix| names(&on(node), prefix);
    assert_eq!((of(0, "nmem"), of(1, "nmem")), (vec!["nmem1".into(), "nmem0".into()], vec!["nmem2".into()]));
    assert!(of(0, "region").contains(&"region0".into()) && !of(0, "region").contains(&"region1".into()));
    assert_eq!(of(1, "namespace1"), ["namespace1.0"]);
    assert_eq!((on(2), of(0, "namespace1")), (String::new(), vec![]));
    // Kernels before 5.4 show no node of regions.
    let mut old = inventory.clone();
    old.buses.iter_mut().flat_map(|bus| &mut bus.regions).for_each(|region| region.numa_node = None);
    let node = ListFilter { numa_node: Some(1), ..ListFilter::default() };
    let listed = list(&old, Included { regions: true, ..Included::default() }, node.clone());
    assert!(names(&listed, "region").is_empty(), "{listed}");
    let listed = list(&old, Included { namespaces: true, ..Included::default() }, node);
    assert!(names(&listed, "namespace").contains(&"namespace1.0".into()), "{listed}");
}

#[test]
fn type_selects_regions() {
    let inventory = ndctl::inventory(&platform("lab-pair", str::to_owned));
    let of = |kind| {
        let filter = ListFilter { region_type: Some(kind), ..ListFilter::default() };
        let listed = list(&inventory, all(), filter);
        ["nmem", "region", "namespace"].map(|prefix| names(&listed, prefix).len())
    };
    assert_eq!((of(RegionType::Pmem), of(RegionType::Blk)), ([2, 1, 1], [2, 0, 0]));
}

/// `-c` lists what is disabled, like `-i`, without the idle namespaces that the kernel keeps for the next request.
#[test]
fn configured_devices_are_listed_without_seeds() {
    let mut platform = platform("lab-pair", str::to_owned);
    namespace::enable(&mut platform, "namespace0.0", false).unwrap();
    let count = |platform: &Platform, idle, configured| {
        let included = Included { idle, configured, ..all() };
        let listed = list(&ndctl::inventory(platform), included, ListFilter::default());
        ["nmem", "region", "namespace"].map(|prefix| names(&listed, prefix).len())
    };
    assert_eq!(count(&platform, false, false), [2, 1, 0]);
    assert_eq!(count(&platform, false, true), [2, 1, 1]);
    assert_eq!(count(&platform, true, false), [2, 1, 2]);
    region::enable(&mut platform, 0, false).unwrap();
    nmem::enable(&mut platform, 1, false).unwrap();
    assert_eq!(count(&platform, false, false), [1, 0, 0]);
    assert_eq!(count(&platform, false, true), [2, 1, 0]);
    let included = Included { configured: true, ..all() };
    let listed = list(&ndctl::inventory(&platform), included, ListFilter::default());
    assert_eq!(listed.matches("\"dimm\":\"nmem").count(), 2, "mappings of disabled modules: {listed}");
}

#[test]
fn capabilities_are_listed_on_request() {
    let inventory = ndctl::inventory(&platform("lab-pair", str::to_owned));
    let listed = |capabilities, verbose| {
        let included = Included { regions: true, capabilities, verbose, ..Included::default() };
        list(&inventory, included, ListFilter::default())
            .contains("\"mode\":\"sector\",\n        \"sector_sizes\"")
    };
    assert_eq!((listed(true, 0), listed(false, 2)), (true, false));
    let verbose = Included { verbose: 3, ..Included::default() };
    assert!(list(&inventory, verbose, ListFilter::default()).contains("\"alignments\""));
}

#[test]
fn firmware_is_listed_as_modules_report_it() {
    let firmware = |edit: &dyn Fn(&str) -> String| {
        let inventory = ndctl::inventory(&platform("lab-pair", edit));
        let included = Included { buses: true, modules: true, firmware: true, ..Included::default() };
        list(&inventory, included, ListFilter::default())
    };
    let new = firmware(&str::to_owned);
    assert!(new.contains("\"scrub_state\":\"idle\",\n    \"firmware\":{\n      \"activate_method\":\"reset\"\n    },\n    \"dimms\""), "{new}");
    let module =
        "\"firmware\":{\n          \"current_version\":8623494483,\n          \"can_update\":true\n        }";
    assert_eq!((new.matches(module).count(), 0x0002_0200_1553_u64), (2, 8_623_494_483), "{new}");
    let old = firmware(&|text| text.replacen("ndctl = 76", "ndctl = 68", 1));
    assert!(!old.contains("can_update") && !old.contains("{}") && old.contains("current_version"), "{old}");
    let unknown = firmware(&|text| text.replace("02.02.00.1553", "beta"));
    assert_eq!(unknown.matches("\"current_version\":-1\n").count(), 2, "{unknown}");
    let virtual_ones =
        firmware(&|text| text.replace("firmware =", "security = \"Not supported\"\nfirmware ="));
    assert!(!virtual_ones.contains("firmware"), "{virtual_ones}");
}
