//! The listings of real machines come out under the profiles of these machines. `listings/README.md` says where
//! they were damaged and repaired, and which fields are no machine's.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_platform::ipmctl::{self, Display, Subject};
use lode_platform::machine::{Handle, Machine};
use lode_platform::ndctl::{Included, ListRequest};
use lode_platform::{CreateNamespace, GoalRequest, MapPlace, PersistentKind, Platform, Targets};
use std::fs;
use uuid::Uuid;

/// What stands where a listing was cut.
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
    platform.show(&subject, &Targets::default(), &Display::default()).unwrap()
}

/// The listing is ours, but for the parts where it was cut.
#[track_caller]
fn assert_excerpt(name: &str, ours: &str) {
    let golden = golden(name);
    // What follows a part that was cut may begin on its last line, with a comma.
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

/// What `create -goal` prints, the answer to its question included.
fn create_goal(platform: &mut Platform, request: &GoalRequest) -> String {
    let goals = platform.plan_goals(request).unwrap();
    let display = Display::default();
    let before = ipmctl::goals_to_confirm(platform, &goals, &display).unwrap();
    platform.create_goals(goals.clone());
    let after = ipmctl::created_goals(platform, &goals, &display).unwrap();
    format!("{before}Do you want to continue? [y/n] y\n{after}")
}

/// The PRIMERGY with the regions of its listings.
fn fujitsu() -> Platform {
    let mut platform = platform("fujitsu-primergy");
    let targets = modules(&[0x1, 0x101]);
    let request = GoalRequest { targets, ..GoalRequest::default() };
    assert_excerpt("fujitsu-create-goal.txt", &create_goal(&mut platform, &request));
    let kind = PersistentKind::AppDirectNotInterleaved;
    create_goal(&mut platform, &GoalRequest { targets: modules(&[0x1001]), kind, ..GoalRequest::default() });
    platform.reboot();
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
    // grep Dimm, on all modules: the listing has all, though it was asked for one.
    let lines = show(&platform, Subject::Pcd);
    let lines: String =
        lines.lines().filter(|line| line.contains("Dimm")).map(|line| format!("{line}\n")).collect();
    assert_excerpt("fujitsu-show-pcd.txt", &lines);
}

#[test]
fn memory_mode_of_the_server_with_twelve_modules() {
    let mut platform = platform("e4-pmserver");
    assert_excerpt("pmserver-show-topology.txt", &show(&platform, Subject::Topology));
    assert_excerpt("pmserver-resources-before.txt", &show(&platform, Subject::MemoryResources));
    let request = GoalRequest { memory_percent: 100, ..GoalRequest::default() };
    assert_excerpt("pmserver-create-goal.txt", &create_goal(&mut platform, &request));
    platform.reboot();
    // The exception: 12 times 252.0 are 3024.0, and what is left of 3029.4 is somewhere.
    let ours = show(&platform, Subject::MemoryResources);
    let listed = golden("pmserver-resources-after.txt");
    let differing: Vec<_> =
        ours.lines().zip(listed.lines()).filter(|(ours, listed)| ours != listed).collect();
    let expected = [
        ("MemoryCapacity=3024.0 GiB", "MemoryCapacity=3029. GiB"),
        ("InaccessibleCapacity=5.4 GiB", "InaccessibleCapacity=0.0 GiB"),
    ];
    assert_eq!(differing, expected);
    assert_eq!(ours.lines().count(), listed.lines().count());
}

/// Makes a namespace; its own identity and that of its page map are the next ones of `uuids`.
fn create(platform: &mut Platform, wanted: &CreateNamespace, own: u128, map: &str) -> String {
    let mut uuids = [Uuid::from_u128(own), map.parse().unwrap()].into_iter();
    let made = platform.create_namespace(wanted, &mut || uuids.next().unwrap()).unwrap();
    platform.describe_namespace(&made)
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
    platform.list(&ListRequest { included, human: has('u'), ..ListRequest::default() })
}

const SEEN: &str = "8232e3e1-cafd-43d6-bdc9-fb6d9aa9b594";

#[test]
fn modules_regions_and_namespaces_of_the_primergy() {
    let mut platform = fujitsu();
    assert_excerpt("fujitsu-list-dimms.json", &list(&platform, "Du"));
    let all_of_region1 = CreateNamespace { region: Some(1), ..CreateNamespace::default() };
    create(&mut platform, &all_of_region1, 1, SEEN);
    // The exception: the talk shows region0 before region1, the kernel's order is the other way round.
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

/// Kernels of today reckon page maps without rounding to sections, and give 2 MiB more.
#[test]
fn the_same_namespace_under_a_kernel_of_today() {
    let text = Machine::included("fujitsu-primergy").unwrap().replace("\"4.20\"", "\"6.1\"");
    let mut platform = Platform::new(Machine::parse(&text).unwrap());
    let goals = platform.plan_goals(&GoalRequest::default()).unwrap();
    platform.create_goals(goals);
    platform.reboot();
    let size = 479_857_737_728 / (32 << 20) * (32 << 20);
    let wanted = CreateNamespace { region: Some(0), size: Some(size), ..CreateNamespace::default() };
    let today = create(&mut platform, &wanted, 1, SEEN);
    let expected = 472_356_225_024_u64 + (2 << 20) - (479_857_737_728 - size);
    assert!(today.contains(&format!("\"size\":{expected},")), "{today}");
}

#[test]
fn the_namespace_of_the_server_with_modules_of_128_gb() {
    let mut platform = platform("e4-storage");
    let goals = platform.plan_goals(&GoalRequest::default()).unwrap();
    platform.create_goals(goals);
    platform.reboot();
    // The first region that ndctl looks at is region1, as the listing shows.
    create(&mut platform, &CreateNamespace::default(), 1, "5d0eb50d-6b79-4acb-b36e-32ac535ac440");
    assert_excerpt("storage-list-namespaces.json", &list(&platform, "N"));
}

/// Blocks of 1 KiB that df tells of a new ext4 of so many bytes: all but superblocks with group descriptors,
/// bitmaps, tables of an inode for every 16 KiB, and the journal, as mke2fs makes them by default.
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

/// df and mount name the block devices of the namespaces, and the sizes that df tells follow from theirs.
#[test]
fn file_systems_of_the_primergy() {
    let mut platform = fujitsu();
    let wanted =
        CreateNamespace { region: Some(0), size: Some(479_857_737_728), ..CreateNamespace::default() };
    create(&mut platform, &wanted, 1, SEEN);
    create(
        &mut platform,
        &CreateNamespace { region: Some(1), map: MapPlace::Dev, ..CreateNamespace::default() },
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
