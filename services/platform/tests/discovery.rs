//! A machine is made from what a real one shows of itself: machine file, emulated state, listings, machine file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod random;

use lode_platform::discovery::{Discovered, ListingFault, MemoryDevice, Shown, from_ipmctl};
use lode_platform::ipmctl::{self, Attributes, DisplayOptions, Subject};
use lode_platform::machine::{Health, INCLUDED, IpmctlGeneration, Machine, Security, Sensors, template};
use lode_platform::picture::{self, Scene};
use lode_platform::{
    Format, GoalRequest, LabelVersion, PersistentKind, Platform, Targets, Unit, boot, goal, ndctl,
};
use lode_testing::{scaled, seed};
use random::{Random, random_machine};
use std::fs;
use std::path::Path;

const NAME: &str = "made";
static SUBJECTS: [Subject; 6] = [
    Subject::Topology,
    Subject::Dimm,
    Subject::MemoryResources,
    Subject::Region,
    Subject::Goal,
    Subject::Sensor(Vec::new()),
];

/// Returns an included machine or a random one, provisioned at random.
fn platform(random: &mut Random) -> Platform {
    let text = if random.one_in(4) { random.pick(&INCLUDED).1.to_owned() } else { random_machine(random) };
    let mut machine = Machine::parse(&text).unwrap();
    for module in &mut machine.modules {
        let (socket, locator) = (module.handle.socket(), &module.locator);
        if !locator.starts_with("CPU") {
            module.locator = format!("CPU{socket} {locator}");
        }
        module.sensors.power_cycles = random.below(9);
        module.sensors.media_celsius = 20 + random.below(60) as u32;
        if random.one_in(3) {
            module.part_number = Some("NMA1XXD128GPS".to_owned());
        }
    }
    for dram in &mut machine.dram {
        if !dram.locator.starts_with("CPU") {
            dram.locator = format!("CPU{} {}", dram.socket, dram.locator);
        }
    }
    let mut platform = Platform::new(machine);
    for round in 0..2 {
        let request = GoalRequest {
            memory_percent: *random.pick(&[0, 0, 30, 50, 100]),
            reserved_percent: *random.pick(&[0, 0, 20]),
            kind: *random.pick(&[PersistentKind::AppDirect, PersistentKind::AppDirectNotInterleaved]),
            labels: if round == 0 {
                *random.pick(&[LabelVersion::V1_1, LabelVersion::V1_2])
            } else {
                LabelVersion::V1_2
            },
            ..GoalRequest::default()
        };
        if random.one_in(4) {
            continue;
        }
        if let Ok(goals) = goal::plan(&platform, &request) {
            goal::create(&mut platform, goals);
        }
        if round == 0 {
            boot::reboot(&mut platform);
        }
    }
    // Listings do not tell the version of labels that pending goals have, as of modules with a passphrase.
    platform.state.goals.iter_mut().for_each(|goal| goal.labels = LabelVersion::V1_2);
    platform
}

fn listing(platform: &Platform, subject: &Subject, display: &DisplayOptions) -> (String, String) {
    let text = ipmctl::show(platform, subject, &Targets::default(), display).unwrap();
    (format!("{subject:?}"), text)
}

/// Returns the machine that listings with all values tell: they do not have the versions of other tools, ranges of
/// `memmap=`, and most of a dead module.
fn told(platform: &Platform) -> Machine {
    let mut machine = platform.machine.clone();
    machine.name = NAME.to_owned();
    machine.memmap.clear();
    for module in &mut machine.modules {
        module.sensors.power_cycles += platform.state.boots - 1;
        if module.health == Health::NonFunctional {
            (module.identity, module.security, module.sensors) =
                (None, Security::Disabled, Sensors::default());
        }
    }
    machine
}

#[test]
fn machine_comes_back_from_listings_of_ipmctl() {
    let first = seed(1);
    for seed in first..first + scaled(200) {
        let mut random = Random::new(seed);
        let platform = platform(&mut random);
        let format = *random.pick(&[Format::Text, Format::Xml]);
        let display = DisplayOptions { unit: Some(Unit::B), format, attributes: Attributes::All };
        let mut files =
            SUBJECTS.iter().map(|subject| listing(&platform, subject, &display)).collect::<Vec<_>>();
        if random.one_in(2) {
            let prompt = |(_, text)| format!("# ipmctl show\n{text}");
            files = vec![("all".to_owned(), files.into_iter().map(prompt).collect())];
        }
        let Discovered { platform: made, notes } = from_ipmctl(NAME, &files).unwrap_or_else(|error| {
            panic!("seed {seed}: {error}\n{files:?}");
        });
        let mut expected = told(&platform);
        if expected.profile.ipmctl == IpmctlGeneration::Two {
            expected.profile.ipmctl = IpmctlGeneration::Three;
        }
        expected.profile.kernel = made.machine.profile.kernel;
        expected.profile.ndctl = made.machine.profile.ndctl;
        assert_eq!(made.machine, expected, "seed {seed}: {notes:?}");
        assert_eq!(made.state.partitions, platform.state.partitions, "seed {seed}");
        assert_eq!(made.state.sets, platform.state.sets, "seed {seed}");
        assert_eq!(made.state.goals, platform.state.goals, "seed {seed}");
        assert!(
            !notes.iter().any(|note| note.contains("made up") || note.contains("another id")),
            "{notes:?}"
        );
        assert_eq!(Machine::parse(&made.machine.text(&notes)).unwrap(), made.machine, "seed {seed}");
    }
}

/// Tables have fewer values and digits: the machine that is made prints the same tables.
#[test]
fn tables_alone_make_a_machine_that_prints_them() {
    for (name, text) in INCLUDED {
        let mut platform = Platform::new(Machine::parse(text).unwrap());
        let goals = goal::plan(&platform, &GoalRequest::default()).unwrap();
        goal::create(&mut platform, goals);
        boot::reboot(&mut platform);
        let files =
            SUBJECTS[..4].iter().map(|subject| listing(&platform, subject, &DisplayOptions::default()));
        let files: Vec<_> = files.collect();
        let made = from_ipmctl(name, &files).unwrap();
        assert!(made.notes.iter().any(|note| note.starts_with("The identity of module 0x0001 is made up")));
        for (subject, (_, before)) in SUBJECTS[..2].iter().zip(&files) {
            let (_, after) = listing(&made.platform, subject, &DisplayOptions::default());
            assert_eq!(&after, before, "{name}, {subject:?}");
        }
        let sizes = |platform: &Platform| -> Vec<(u64, u64)> {
            let regions = platform.regions().into_iter().filter(|region| !region.members().is_empty());
            regions.map(|region| (region.size, region.members().len() as u64)).collect()
        };
        assert_eq!(sizes(&made.platform), sizes(&platform), "{name}");
    }
}

/// What was published of real machines is read: see `listings/README.md`.
#[test]
fn published_listings_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/listings");
    let read = |names: &[&str]| -> Vec<(String, String)> {
        names
            .iter()
            .map(|name| ((*name).to_owned(), fs::read_to_string(folder.join(name)).unwrap()))
            .collect()
    };
    let server =
        from_ipmctl("server", &read(&["pmserver-show-topology.txt", "pmserver-create-goal.txt"])).unwrap();
    let machine = &server.platform.machine;
    assert_eq!((machine.modules.len(), machine.dram.len()), (12, 12));
    assert_eq!(machine.profile.ipmctl, IpmctlGeneration::One);
    assert_eq!(machine.dram_capacity(0), 192 << 30);
    assert_eq!(server.platform.state.goals.len(), 12);
    assert_eq!(server.platform.state.goals[0].memory, 252 << 30);
    let large = from_ipmctl("large", &read(&["large-show-dimm.xml", "large-show-region.xml"])).unwrap();
    let regions = large.platform.regions();
    assert_eq!(regions.iter().map(|region| region.size >> 30).collect::<Vec<_>>(), [502, 502]);
    let guide = from_ipmctl("guide", &read(&["guide-show-all.txt"])).unwrap();
    assert_eq!(guide.platform.machine.modules[0].capacity, 271_070_789_632, "what such a module reports");
    assert_eq!(guide.platform.state.partitions.len(), 1);
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        match from_ipmctl("any", &[(path.display().to_string(), text)]) {
            Ok(made) => assert!(!made.platform.machine.modules.is_empty()),
            Err(error) => assert!(
                matches!(
                    *error.fault,
                    ListingFault::NoModules | ListingFault::UnknownModule { .. } | ListingFault::Value { .. }
                ),
                "{error}"
            ),
        }
    }
}

#[test]
fn damaged_listings_are_refused_with_file_and_line() {
    let platform = Platform::new(Machine::parse(INCLUDED[4].1).unwrap());
    let all = DisplayOptions { attributes: Attributes::All, ..DisplayOptions::default() };
    let xml = DisplayOptions { format: Format::Xml, ..DisplayOptions::default() };
    let table = listing(&platform, &Subject::Dimm, &DisplayOptions::default()).1;
    let (list, xml) =
        (listing(&platform, &Subject::Dimm, &all).1, listing(&platform, &Subject::Dimm, &xml).1);
    for (text, from, to, said) in [
        (&table, " | Disabled", "", "listed, line 3: a row of 4 cells, below a head of 5"),
        (&table, "0x0001", "0x1", ""),
        (&table, "0x0001", "first", "listed, line 3: DimmID can't be `first`"),
        (&table, "Healthy", "Sick", "HealthState can't be `Sick`: it is Healthy, Noncritical"),
        (&table, "Disabled", "Open", "LockState can't be `Open`"),
        (&table, "1.313 GiB", "much", "Capacity can't be `much`: it is a capacity"),
        (&table, "0x0001", "8089-a2-2140-00000001", "module 8089-a2-2140-00000001 has no handle"),
        (&list, "DimmUID=8089", "DimmUID=80-89", "DimmUID can't be"),
        (&list, "PhysicalID=0x0020", "PhysicalID=32", "PhysicalID can't be `32`"),
        (&list, "MemoryCapacity=0.000 GiB", "MemoryCapacity=9.000 GiB", "module 0x0001 can't give"),
        (&xml, "</Dimm>", "", "listed, line "),
        (&xml, "</DimmList>", "", "the end tag of the document is missing"),
        (&xml, "<Capacity>", "<Capacity", "a tag that is not one of ipmctl"),
        (&xml, "<Dimm>", "<Dimm a=\"1\">", "a tag that is not one of ipmctl"),
        (&xml, "<DimmID>0x0001</DimmID>", "", ""),
    ] {
        let damaged = text.replacen(from, to, 1);
        assert_ne!(&damaged, text, "{from}");
        let made = from_ipmctl(NAME, &[("listed".to_owned(), damaged.clone())]);
        match made {
            Ok(_) => assert_eq!(said, "", "{damaged}"),
            Err(error) if said.is_empty() => assert!(error.to_string().starts_with("listed"), "{error}"),
            Err(error) => assert!(error.to_string().contains(said), "{error}, not {said}"),
        }
    }
    let other = table.replacen("02.02.00.1553", "01.01.00.0001", 1);
    let both = [("one".to_owned(), table), ("two".to_owned(), other)];
    let refused = from_ipmctl(NAME, &both).unwrap_err().to_string();
    assert!(refused.starts_with("two, line 3: FWVersion of 0x0001 is `01.01.00.0001`"), "{refused}");
    let empty = from_ipmctl(NAME, &[("empty".to_owned(), String::new())]).unwrap_err();
    assert!(empty.to_string().contains("no module is listed"), "{empty}");
}

/// Returns the SMBIOS devices of a machine.
fn memory_devices(machine: &Machine) -> Vec<MemoryDevice> {
    let modules = machine.modules.iter().map(|module| MemoryDevice {
        handle: module.physical_id,
        locator: module.locator.clone(),
        size: module.capacity,
        persistent: true,
        part_number: module.part_number.clone(),
        firmware: module.firmware.clone(),
    });
    let dram = machine.dram.iter().map(|dram| MemoryDevice {
        handle: dram.physical_id,
        locator: dram.locator.clone(),
        size: dram.capacity,
        ..MemoryDevice::default()
    });
    modules.chain(dram).collect()
}

#[test]
fn machine_comes_back_from_what_its_kernel_shows() {
    let first = seed(1);
    for seed in first..first + scaled(200) {
        let mut random = Random::new(seed);
        let platform = platform(&mut random);
        let shown = Shown {
            path: "/sys".to_owned(),
            inventory: ndctl::inventory(&platform),
            memory: memory_devices(&platform.machine),
            ..Shown::default()
        };
        let mut expected = platform.machine.clone();
        expected.name = NAME.to_owned();
        let has_security = expected.profile.kernel.reports_security();
        for module in &mut expected.modules {
            module.sensors = Sensors::default();
            if !has_security {
                module.health = if module.usable() { Health::Healthy } else { Health::NonFunctional };
                module.security = Security::Disabled;
            } else if module.security == Security::Locked {
                // No driver uses a locked module, dead or not.
                module.health = Health::Healthy;
            }
        }
        let made = shown.discover(NAME, Some(expected.profile.kernel)).unwrap_or_else(|error| {
            panic!("seed {seed}: {error}");
        });
        expected.profile.ipmctl = made.platform.machine.profile.ipmctl;
        expected.profile.ndctl = made.platform.machine.profile.ndctl;
        assert_eq!(made.platform.machine, expected, "seed {seed}: {:?}", made.notes);
        assert_eq!(made.platform.state.sets, platform.state.sets, "seed {seed}");
        for partition in &made.platform.state.partitions {
            let before = platform.state.partition(partition.module).unwrap();
            assert_eq!(partition.memory, before.memory, "seed {seed}");
        }
        let regions = |platform: &Platform| -> Vec<(u64, u64)> {
            ndctl::inventory(platform)
                .regions()
                .iter()
                .map(|one| (one.size.unwrap(), one.set_id.unwrap_or(0)))
                .collect()
        };
        assert_eq!(regions(&made.platform), regions(&platform), "seed {seed}");
    }
}

#[test]
fn template_machine_is_shown_with_its_cxl_memory() {
    let platform = Platform::new(Machine::parse(&template()).unwrap());
    let plain = picture::terminal(&Scene::of(&platform), 100, picture::Palette::Plain);
    let line = "mem0  CXL, 512 MiB persistent, below switch sw0, host bridge 12 of socket 0";
    assert!(plain.contains(line), "{plain}");
    assert!(picture::page(&Scene::of(&platform)).contains(line));
}
