//! The emulation reproduces listings of real machines under their profiles. `listings/README.md` names their repaired
//! damage, and the fields that no machine could have printed.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_platform::e820::{MemoryMap, ReservationRequest};
use lode_platform::ipmctl::{self, Attributes, DisplayOptions, Subject};
use lode_platform::machine::{Handle, IpmctlGeneration, Machine};
use lode_platform::ndctl::{self, Included, ListRequest};
use lode_platform::{
    CreateNamespace, Format, GoalRequest, MapLocation, PersistentKind, Platform, Targets, boot, goal,
    namespace,
};
use std::fs;
use uuid::Uuid;

/// Marker of an omitted part of a listing.
const CUT: &str = "(...)";

fn platform(name: &str) -> Platform {
    Platform::new(Machine::parse(Machine::included(name).unwrap()).unwrap())
}

fn golden(name: &str) -> String {
    let path = format!("{}/tests/listings/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn modules(handles: &[u32]) -> Targets {
    Targets { modules: handles.iter().copied().map(Handle).collect(), sockets: Vec::new() }
}

fn show(platform: &Platform, subject: Subject) -> String {
    ipmctl::show(platform, &subject, &Targets::default(), &DisplayOptions::default()).unwrap()
}

/// Returns the machine in the file beside its listings.
fn listed(name: &str) -> Platform {
    Platform::new(Machine::parse(&golden(&format!("{name}.toml"))).unwrap())
}

/// Returns the lines in which ours differs from the listing. Both must have the same number of lines.
#[track_caller]
fn differing(name: &str, ours: &str) -> Vec<(String, String)> {
    let listed = golden(name);
    assert_eq!(ours.lines().count(), listed.lines().count(), "{name}:\n{ours}");
    let both = ours.lines().zip(listed.lines()).filter(|(ours, listed)| ours != listed);
    both.map(|(ours, listed)| (ours.to_owned(), listed.to_owned())).collect()
}

/// Checks that our output equals the listing, except in its omitted parts.
#[track_caller]
fn assert_excerpt(name: &str, ours: &str) {
    let golden = golden(name);
    // The text after an omitted part may begin on its last line, with a comma.
    let is_cut = golden.ends_with(&format!("{CUT}\n"));
    let mut rest = ours;
    for (index, part) in golden.split(&format!("{CUT}\n")).enumerate().filter(|(_, part)| !part.is_empty()) {
        let part = if is_cut { part.trim_end() } else { part };
        let at = rest.find(part).filter(|at| index > 0 || *at == 0);
        let at = at.unwrap_or_else(|| panic!("{name}: not in ours:\n{part}\nours:\n{ours}"));
        rest = &rest[at + part.len()..];
    }
    assert!(is_cut || rest.is_empty(), "{name}: ours has more:\n{rest}");
}

/// Returns the output of `create -goal`, including the answer to its question.
fn create_goal(platform: &mut Platform, request: &GoalRequest) -> String {
    let goals = goal::plan(platform, request).unwrap();
    let display = DisplayOptions::default();
    let before = ipmctl::goals_to_confirm(platform, &goals, &display).unwrap();
    let warnings = goal::warnings(platform, request, &goals).into_iter().map(ipmctl::warning_text);
    let warnings: String = warnings.map(|line| format!("{line}\n")).collect();
    goal::create(platform, goals.clone());
    let after = ipmctl::created_goals(platform, &goals, &display, true).unwrap();
    format!("{before}{warnings}Do you want to continue? [y/n] y\n{after}")
}

/// Returns the PRIMERGY with the regions of its listings.
fn fujitsu() -> Platform {
    let mut platform = platform("fujitsu-primergy");
    let targets = modules(&[0x1, 0x101]);
    let request = GoalRequest { targets, ..GoalRequest::default() };
    assert_excerpt("fujitsu-create-goal.txt", &create_goal(&mut platform, &request));
    let kind = PersistentKind::AppDirectNotInterleaved;
    create_goal(&mut platform, &GoalRequest { targets: modules(&[0x1001]), kind, ..GoalRequest::default() });
    boot::reboot(&mut platform);
    platform
}

#[test]
fn modules_of_the_primergy() {
    let platform = platform("fujitsu-primergy");
    assert_excerpt("fujitsu-show-dimm.txt", &show(&platform, Subject::Dimm));
    assert_excerpt("fujitsu-show-topology.txt", &show(&platform, Subject::Topology));
}

#[test]
fn goal_and_regions_of_the_primergy() {
    let platform = fujitsu();
    assert_excerpt("fujitsu-show-region.txt", &show(&platform, Subject::Region));
    // The listing is filtered by `grep Dimm`, and has all modules although one was requested.
    let lines = show(&platform, Subject::Pcd);
    let lines: String =
        lines.lines().filter(|line| line.contains("Dimm")).map(|line| format!("{line}\n")).collect();
    assert_excerpt("fujitsu-show-pcd.txt", &lines);
}

#[test]
fn memory_mode_of_twelve_modules() {
    let mut platform = platform("e4-pmserver");
    assert_excerpt("pmserver-show-topology.txt", &show(&platform, Subject::Topology));
    assert_excerpt("pmserver-resources-before.txt", &show(&platform, Subject::MemoryResources));
    let request = GoalRequest { memory_percent: 100, ..GoalRequest::default() };
    assert_excerpt("pmserver-create-goal.txt", &create_goal(&mut platform, &request));
    boot::reboot(&mut platform);
    // The exception: 12 times 252.0 are 3024.0, and the rest of 3029.4 is missing in the listing.
    let differing = differing("pmserver-resources-after.txt", &show(&platform, Subject::MemoryResources));
    let expected = [
        ("MemoryCapacity=3024.0 GiB", "MemoryCapacity=3029. GiB"),
        ("InaccessibleCapacity=5.4 GiB", "InaccessibleCapacity=0.0 GiB"),
    ];
    assert_eq!(differing, expected.map(|(ours, listed)| (ours.to_owned(), listed.to_owned())));
}

fn show_all(platform: &Platform, subject: Subject, targets: &Targets) -> String {
    let display = DisplayOptions { attributes: Attributes::All, ..DisplayOptions::default() };
    ipmctl::show(platform, &subject, targets, &display).unwrap()
}

fn show_xml(platform: &Platform, subject: Subject, attributes: Attributes) -> String {
    let display = DisplayOptions { attributes, format: Format::Xml, ..DisplayOptions::default() };
    ipmctl::show(platform, &subject, &Targets::default(), &display).unwrap()
}

/// Returns the listing with our set ids in place of its own, which are derived from serial numbers.
fn with_our_sets(name: &str, ours: &str) -> String {
    let ids = |text: &str| -> Vec<String> {
        let words = text.split(|one: char| !one.is_ascii_alphanumeric());
        words.filter(|word| word.starts_with("0x") && word.len() == 18).map(str::to_owned).collect()
    };
    let listed = golden(name);
    let (theirs, ours) = (ids(&listed), ids(ours));
    assert_eq!(theirs.len(), ours.len(), "{name}");
    theirs.iter().zip(&ours).fold(listed, |text, (theirs, ours)| text.replace(theirs, ours))
}

#[test]
fn modules_and_regions_of_later_ipmctl() {
    let mut platform = listed("notes");
    assert_excerpt("notes-show-dimm.txt", &show(&platform, Subject::Dimm));
    assert_excerpt("notes-show-topology.txt", &show(&platform, Subject::Topology));
    create_goal(&mut platform, &GoalRequest::default());
    boot::reboot(&mut platform);
    // Positions alternate between controllers, as in ndctl's listing of that machine. The published set id follows from
    // this.
    let lists = list(&platform, "DR");
    for (module, position) in [("nmem0", 0), ("nmem2", 1), ("nmem1", 2), ("nmem3", 3)] {
        let mapped = lists.split(&format!("\"dimm\":\"{module}\"")).nth(1).unwrap();
        assert_eq!(
            mapped.split("\"position\":").nth(1).and_then(|rest| rest.chars().next()),
            Some(char::from_digit(position, 10).unwrap()),
            "{lists}"
        );
    }
    create(&mut platform, &CreateNamespace::default(), 1, SEEN);
    let regions = show(&platform, Subject::Region);
    assert_eq!(regions, with_our_sets("notes-show-region.txt", &regions));
    assert_excerpt("notes-capabilities.txt", &show(&platform, Subject::Capabilities));
    // The exceptions: early 02.x calls the modules DCPMM, and does not count the DRAM that firmware keeps.
    let resources = show(&platform, Subject::MemoryResources).replace("PMemModule ", "DCPMM      ");
    let expected = [(
        " Inaccessible | 0.000 GiB   | 1.689 GiB   | 1.689 GiB   ".to_owned(),
        " Inaccessible | -           | 1.689 GiB   | 1.689 GiB   ".to_owned(),
    )];
    assert_eq!(differing("notes-resources.txt", &resources), expected);
}

#[test]
fn all_values_of_a_module_of_later_ipmctl() {
    let mut platform = listed("guide");
    assert_excerpt("guide-show-topology.txt", &show(&platform, Subject::Topology));
    let of_two =
        ipmctl::show(&platform, &Subject::Topology, &modules(&[0x1, 0x101]), &DisplayOptions::default())
            .unwrap();
    assert_excerpt("guide-show-topology-of-two.txt", &of_two);
    create_goal(&mut platform, &GoalRequest::default());
    boot::reboot(&mut platform);
    let first = modules(&[0x1]);
    let states = Attributes::Named(vec!["HealthState".to_owned(), "LockState".to_owned()]);
    let display = DisplayOptions { attributes: states, ..DisplayOptions::default() };
    assert_excerpt(
        "guide-show-states.txt",
        &ipmctl::show(&platform, &Subject::Dimm, &first, &display).unwrap(),
    );
    // The exceptions: values that machine files do not have, and four present names for two of early 02.x.
    platform.machine.profile.ipmctl = IpmctlGeneration::Two;
    let today = ["SVNDowngrade=Unknown", "SecureErasePolicy=Unknown", "FwActivateOptIn=Unknown"];
    let ours = show_all(&platform, Subject::Dimm, &first);
    assert!(today.iter().all(|line| ours.contains(line)), "{ours}");
    let ours = ours.lines().filter(|line| !today.contains(&line.trim())).map(|line| format!("{line}\n"));
    let names: Vec<_> = differing("guide-show-all.txt", &ours.collect::<String>())
        .into_iter()
        .map(|(ours, listed)| {
            let (name, value) = ours.trim().split_once('=').unwrap();
            let renamed =
                [("S3ResumeOptIn", "S3Resume"), ("PopulationViolation", "PopulationViolationState")];
            let known = renamed.iter().find(|(new, _)| *new == name).map_or(name, |(_, old)| old);
            assert!(listed.trim().starts_with(&format!("{known}=")), "{name} stands where {listed} does");
            assert!(
                value == "Unknown" || renamed.iter().any(|(new, _)| *new == name),
                "{ours}, not {listed}"
            );
            name.to_owned()
        })
        .collect();
    let expected = "S3ResumeOptIn FWAPIVersion PopulationViolation DeviceID RevisionID SubsystemDeviceID \
                    SubsystemRevisionID BankLabel Speed ControllerRevisionID PackageSparingCapable \
                    PackageSparingEnabled PackageSparesAvailable PeakPowerBudget AvgPowerLimit \
                    MaxAveragePowerLimit LatchedLastShutdownStatus UnlatchedLastShutdownStatus \
                    LastShutdownTime BootStatusRegister";
    assert_eq!(names.join(" "), expected);
}

/// The names of `show -a -dimm` and `show -a -sensor` in their order, as the sources of 03.00.00.0468 print them
/// (ShowDimmsCommand.c and ShowSensorCommand.c), for a module of the second product.
#[test]
fn names_of_third_ipmctl() {
    let mut platform = listed("single");
    platform.machine.profile.ipmctl = IpmctlGeneration::Three;
    let names = |text: &str| {
        let names = text.lines().filter_map(|line| Some(line.trim().split_once('=')?.0.to_owned()));
        names.collect::<Vec<_>>().join(" ")
    };
    let first = Targets { modules: vec![platform.machine.modules[0].handle], ..Targets::default() };
    let dimm = show_all(&platform, Subject::Dimm, &first);
    assert_eq!(names(&dimm), golden("ipmctl-names-of-dimm.txt").trim().replace('\n', " "));
    platform.machine.modules[0].firmware = Some("01.02.00.5446".to_owned());
    let first_product = names(&show_all(&platform, Subject::Dimm, &first));
    assert!(!first_product.contains("MemoryBandwidthBoostFeature"), "{first_product}");
    let sensors = show_all(&platform, Subject::Sensor(Vec::new()), &first);
    let expected = golden("ipmctl-names-of-sensor.txt");
    assert_eq!(names(&sensors), expected.trim().replace('\n', " "));
    platform.machine.profile.ipmctl = IpmctlGeneration::Two;
    let second = names(&show_all(&platform, Subject::Dimm, &first));
    assert!(!second.contains("FWActiveAPIVersion") && !second.contains("FIPSModeStatus"), "{second}");
    let second = show_all(&platform, Subject::Sensor(Vec::new()), &first);
    assert!(second.contains("=MaxMediaTemperature") && second.contains("EnabledState="), "{second}");
}

/// Deleted configuration data is not shown, and firmware does not call the module new.
#[test]
fn deleted_configuration_data_is_not_shown() {
    for generation in [IpmctlGeneration::One, IpmctlGeneration::Three] {
        let mut platform = listed("guide");
        platform.machine.profile.ipmctl = generation;
        create_goal(&mut platform, &GoalRequest::default());
        boot::reboot(&mut platform);
        let all = show(&platform, Subject::Pcd);
        let first = platform.machine.modules[0].handle;
        goal::clear(&mut platform, &Targets { modules: vec![first], ..Targets::default() }).unwrap();
        let cleared = show(&platform, Subject::Pcd);
        let tables = |text: &str| text.matches("PCD Current Config").count();
        assert_eq!((tables(&all), tables(&cleared)), (6, 5), "{cleared}");
        let only = Targets { modules: vec![first], ..Targets::default() };
        let own = ipmctl::show(&platform, &Subject::Pcd, &only, &DisplayOptions::default()).unwrap();
        assert!(own.contains("0x0001") && !own.contains("Table"), "{own}");
        let dimm = show_all(&platform, Subject::Dimm, &only);
        assert!(dimm.contains("ConfigurationStatus=Not Configured") && dimm.contains("IsNew=0"), "{dimm}");
    }
}

#[test]
fn pcd_of_later_ipmctl() {
    let mut platform = listed("guide");
    create_goal(&mut platform, &GoalRequest::default());
    boot::reboot(&mut platform);
    create_goal(&mut platform, &GoalRequest::default());
    let pcd = ipmctl::show(&platform, &Subject::Pcd, &modules(&[0x1]), &DisplayOptions::default()).unwrap();
    assert_excerpt("guide-show-pcd.txt", &pcd);
}

#[test]
fn goals_and_memory_mode_of_later_ipmctl() {
    let mut platform = listed("single");
    assert_excerpt("single-show-dimm.txt", &show(&platform, Subject::Dimm));
    assert_excerpt("single-resources.txt", &show(&platform, Subject::MemoryResources));
    let created = create_goal(&mut platform, &GoalRequest::default());
    assert_excerpt("single-create-goal.txt", &created);
    // A pending goal is shown with the same table as at its creation.
    let table = created.split("region configuration goal\n").nth(1).unwrap();
    assert_eq!(show(&platform, Subject::Goal), table);
    let mut platform = listed("single");
    let memory = GoalRequest { memory_percent: 100, ..GoalRequest::default() };
    assert_eq!(create_goal(&mut platform, &memory), golden("single-create-memory-goal.txt"));
    let mut platform = listed("eight");
    create_goal(&mut platform, &memory);
    boot::reboot(&mut platform);
    assert_excerpt("eight-resources.txt", &show(&platform, Subject::MemoryResources));
}

#[test]
fn xml_of_later_ipmctl() {
    let mut platform = listed("large");
    let names = "DimmID,ChannelID,ChannelPos,MemControllerID,SocketID,PhysicalID,Capacity,DimmUID,PartNumber,\
                 FWVersion,HealthState";
    let only = Attributes::Named(names.split(',').map(str::to_owned).collect());
    assert_excerpt("large-show-dimm.xml", &show_xml(&platform, Subject::Dimm, only));
    assert_excerpt("large-create-goal.txt", &create_goal(&mut platform, &GoalRequest::default()));
    boot::reboot(&mut platform);
    let regions = show(&platform, Subject::Region);
    assert_eq!(regions, with_our_sets("large-show-region.txt", &regions));
    for values in [Attributes::All, Attributes::Default] {
        let regions = show_xml(&platform, Subject::Region, values);
        assert_eq!(regions, with_our_sets("large-show-region.xml", &regions));
    }
    let capabilities = show_xml(&platform, Subject::Capabilities, Attributes::Default);
    let start = "<?xml version=\"1.0\"?>\n <SystemCapabilities>\n  <PlatformConfigSupported>1";
    assert!(capabilities.starts_with(start), "{capabilities}");
}

#[test]
fn capabilities_of_the_first_generation() {
    let mut platform = platform("e4-storage");
    create_goal(&mut platform, &GoalRequest { memory_percent: 100, ..GoalRequest::default() });
    boot::reboot(&mut platform);
    let ours = show_all(&platform, Subject::Capabilities, &Targets::default());
    // The exception: firmware here also interleaves over more than six modules.
    for (ours, listed) in differing("first-capabilities.txt", &ours) {
        assert!(listed.contains("AppDirectSettings=") && ours.starts_with(&listed), "{ours}\n{listed}");
    }
}

/// A module that does not answer has only its known values, and N/A for other values that are requested by name.
#[test]
fn dead_module_of_later_ipmctl() {
    let text = Machine::included("fujitsu-primergy").unwrap().replace("ipmctl = 1", "ipmctl = 3");
    let platform = Platform::new(Machine::parse(&text).unwrap());
    let table = show(&platform, Subject::Dimm);
    assert!(
        table.contains(" 0x1101 | 0.000 GiB   | N/A       | Non-functional | N/A          \n"),
        "{table}"
    );
    let all = show_all(&platform, Subject::Dimm, &modules(&[0x1101]));
    let names: Vec<_> = all.lines().skip(1).filter_map(|line| line.trim().split_once('=')).collect();
    let names = names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" ");
    let expected = "Capacity HealthState HealthStateReason SubsystemDeviceID SubsystemRevisionID SocketID \
                    MemControllerID ChannelID ChannelPos BootStatus BootStatusRegister SerialNumber FWVersion \
                    FWAPIVersion PartNumber";
    assert_eq!(names, expected);
    let only = Attributes::Named(vec!["LockState".to_owned(), "ChannelPos".to_owned()]);
    let display = DisplayOptions { attributes: only, ..DisplayOptions::default() };
    let asked = ipmctl::show(&platform, &Subject::Dimm, &modules(&[0x1101]), &display).unwrap();
    assert_eq!(asked, "---DimmID=0x1101---\n   LockState=N/A\n   ChannelPos=1\n");
}

/// Creates a namespace. Its UUID and that of its page map are the next ones of `uuids`.
fn create(platform: &mut Platform, wanted: &CreateNamespace, own: u128, map: &str) -> String {
    let mut uuids = [Uuid::from_u128(own), map.parse().unwrap()].into_iter();
    let made = namespace::create(platform, wanted, &mut || uuids.next().unwrap()).unwrap();
    ndctl::describe(platform, &made)
}

fn list(platform: &Platform, flags: &str) -> String {
    let has = |flag| flags.contains(flag);
    let included = Included {
        buses: has('B'),
        modules: has('D'),
        regions: has('R'),
        namespaces: has('N'),
        ..Included::default()
    };
    ndctl::inventory(platform).list(&ListRequest { included, human: has('u'), ..ListRequest::default() })
}

const SEEN: &str = "8232e3e1-cafd-43d6-bdc9-fb6d9aa9b594";

#[test]
fn modules_regions_and_namespaces_of_the_primergy() {
    let mut platform = fujitsu();
    assert_excerpt("fujitsu-list-dimms.json", &list(&platform, "Du"));
    let all_of_region1 = CreateNamespace { region: Some(1), ..CreateNamespace::default() };
    create(&mut platform, &all_of_region1, 1, SEEN);
    // The exception: the talk shows region0 before region1, but the kernel's order is the reverse.
    let listed = golden("fujitsu-list-regions.json");
    let ours = list(&platform, "DRu");
    for region in listed.split("(...)\n").filter(|part| !part.is_empty()) {
        assert!(ours.contains(region.trim_end()), "not in ours:\n{region}\nours:\n{ours}");
    }
    assert!(ours.find("region1") < ours.find("region0"), "{ours}");
    assert_excerpt("fujitsu-list-memmap.json", &list(&platform, "NBDRu"));
    let wanted =
        CreateNamespace { region: Some(0), size: Some(479_857_737_728), ..CreateNamespace::default() };
    assert_excerpt("fujitsu-create-namespace.json", &create(&mut platform, &wanted, 2, SEEN));
}

/// Present kernels compute page maps without rounding to sections, and leave 2 MiB more.
#[test]
fn same_namespace_under_recent_kernel() {
    let text = Machine::included("fujitsu-primergy").unwrap().replace("\"4.20\"", "\"6.1\"");
    let mut platform = Platform::new(Machine::parse(&text).unwrap());
    let goals = goal::plan(&platform, &GoalRequest::default()).unwrap();
    goal::create(&mut platform, goals);
    boot::reboot(&mut platform);
    let size = 479_857_737_728 / (32 << 20) * (32 << 20);
    let wanted = CreateNamespace { region: Some(0), size: Some(size), ..CreateNamespace::default() };
    let today = create(&mut platform, &wanted, 1, SEEN);
    let expected = 472_356_225_024_u64 + (2 << 20) - (479_857_737_728 - size);
    assert!(today.contains(&format!("\"size\":{expected},")), "{today}");
}

#[test]
fn namespace_of_the_128_gb_server() {
    let mut platform = platform("e4-storage");
    let goals = goal::plan(&platform, &GoalRequest::default()).unwrap();
    goal::create(&mut platform, goals);
    boot::reboot(&mut platform);
    // The first region in ndctl's order is region1, as in the listing.
    create(&mut platform, &CreateNamespace::default(), 1, "5d0eb50d-6b79-4acb-b36e-32ac535ac440");
    assert_excerpt("storage-list-namespaces.json", &list(&platform, "N"));
}

/// Returns the 1 KiB blocks that df shows for a new ext4 of `bytes` bytes: all except superblocks with group
/// descriptors, bitmaps, inode tables with an inode for every 16 KiB, and the journal, with mke2fs's defaults.
fn ext4_blocks(bytes: u64) -> u64 {
    const BLOCK: u64 = 4096;
    const BLOCKS_OF_GROUP: u64 = 32768;
    let blocks = bytes / BLOCK;
    let groups = blocks.div_ceil(BLOCKS_OF_GROUP);
    let inodes = (bytes / 16384).div_ceil(groups).next_multiple_of(16);
    let of_group = inodes * 256 / BLOCK + 2;
    let powers = |base: u64| std::iter::successors(Some(base), move |power| Some(power * base));
    let supers = 2 + [3, 5, 7]
        .map(|base| powers(base).take_while(|group| *group < groups).count() as u64)
        .iter()
        .sum::<u64>();
    let descriptors = (groups * 64).div_ceil(BLOCK);
    let journal = if bytes < 128 << 30 { 256 << 20 } else { 1 << 30 } / BLOCK;
    (blocks - groups * of_group - supers * (1 + descriptors) - journal) * BLOCK / 1024
}

/// df and mount name the block devices of the namespaces, and df's sizes follow from theirs.
#[test]
fn file_systems_of_the_primergy() {
    let mut platform = fujitsu();
    let wanted =
        CreateNamespace { region: Some(0), size: Some(479_857_737_728), ..CreateNamespace::default() };
    create(&mut platform, &wanted, 1, SEEN);
    create(
        &mut platform,
        &CreateNamespace { region: Some(1), map: MapLocation::Dev, ..CreateNamespace::default() },
        2,
        SEEN,
    );
    let regions = platform.regions();
    let namespaces: Vec<_> = regions.iter().flat_map(|region| platform.namespaces(region)).collect();
    let (df, mount) = (golden("fujitsu-df.txt"), golden("fujitsu-mount.txt"));
    for ((line, mounted), namespace) in df.lines().skip(1).zip(mount.lines()).zip(&namespaces) {
        let mut words = line.split_whitespace();
        let device = format!("/dev/{}", namespace.block_device().unwrap());
        assert_eq!(words.next(), Some(device.as_str()));
        assert_eq!(words.next(), Some(ext4_blocks(namespace.usable()).to_string().as_str()), "{line}");
        let point = device.replace("dev", "mnt");
        assert_eq!(mounted, format!("{device} on {point} type ext4 (rw,relatime,dax)"));
        assert!(line.ends_with(&point));
    }
}

/// Maps of a server before and after `memmap=16G!4G`. The plan for the first gives the second.
#[test]
fn memory_maps_before_and_after_memmap() {
    let (before, after) = (golden("memmap-dmesg-before.txt"), golden("memmap-dmesg-after.txt"));
    let map = MemoryMap::parse(&before).unwrap();
    assert_eq!(map.listing(), golden("memmap-map-before.txt"));
    let request = |gib: u64| ReservationRequest { size: gib << 30, node: None };
    let planned = map.plan(&[request(16)]).unwrap();
    assert_eq!(planned[0].to_string(), "memmap=16G!4G");
    assert_eq!(map.advice(&planned), golden("memmap-advice.txt"));
    let largest = map.plan(&[request(47)]).unwrap_err().to_string();
    assert!(largest.contains("the largest that would fit is 47104M"), "{largest}");
    // One line, as in the published text. Then both maps, as in the log of one boot.
    let map = MemoryMap::parse(&before.replace('\n', " ")).unwrap();
    assert_eq!(map.listing(), golden("memmap-map-before.txt"));
    let map = MemoryMap::parse(&format!("{before}{after}")).unwrap();
    assert_eq!(map.listing(), golden("memmap-map-after.txt"));
    let more = map.plan(&[request(1)]).unwrap();
    assert_eq!(map.command_line(&more), "memmap=16G!4G memmap=1G!20G", "what is there stays");
}

/// Maps of a server whose command line has `memmap=50G!4G memmap=50G!1176G`: 50 GiB of RAM, and 50 GiB of its modules.
#[test]
fn memory_maps_of_server_with_modules() {
    let (firmware, user) = (golden("fujitsu-dmesg-firmware.txt"), golden("fujitsu-dmesg-user.txt"));
    let map = MemoryMap::parse(&firmware).unwrap();
    let planned = map.plan(&[ReservationRequest { size: 50 << 30, node: None }]).unwrap();
    assert_eq!(map.command_line(&planned), "memmap=50G!4G");
    let persistent = map.totals().into_iter().find(|(word, _)| *word == "persistent");
    assert_eq!(persistent, Some(("persistent", (0xab3 - 0x307 + 0x1c8b - 0xd33) << 28)));
    let map = MemoryMap::parse(&format!("{firmware}{user}")).unwrap();
    assert_eq!((map.source.as_str(), map.ranges.len()), ("user", 19));
    assert_eq!(map.command_line(&[]), "memmap=50G!4G memmap=50G!1176G");
    assert!(map.listing().contains("-0x000001327fffffff   50.0 GiB  persistent (type 12), by memmap="));
}
