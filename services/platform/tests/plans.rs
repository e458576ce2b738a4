//! An executed plan leads to the table that it showed, and a request that is reported as possible is possible.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod commands;

use commands::check_commands;
use lode_platform::machine::{INCLUDED, Machine};
use lode_platform::plan::{
    Loss, NamespaceRequest, Note, Obstacle, Plan, PlanError, PlanRequest, Rest, Row, Step, Table, Usage,
    for_emulated, for_real,
};
use lode_platform::sysfs::Cxl;
use lode_platform::{
    CreateNamespace, Directory, GoalRequest, MapLocation, Mode, PersistentKind, Platform, PlatformError,
    Purpose, boot, goal, namespace, ndctl,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeSet;
use std::path::Path;
use tempfile::TempDir;
use uuid::Uuid;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Returns a generator of ascending UUIDs.
fn uuids(first: u128) -> impl FnMut() -> Uuid {
    let mut next = first << 64;
    move || {
        next += 1;
        Uuid::from_u128(next)
    }
}

fn machine(name: &str) -> Platform {
    Platform::new(Machine::parse(Machine::included(name).unwrap()).unwrap())
}

fn requested(mode: Mode, size: u64, socket: u16) -> NamespaceRequest {
    let namespace = CreateNamespace { mode, size: Some(size), ..CreateNamespace::default() };
    NamespaceRequest { namespace, socket: Some(socket), ..NamespaceRequest::default() }
}

fn plan(platform: &Platform, request: &PlanRequest) -> Result<Plan, PlanError> {
    for_emulated(platform, request, &mut uuids(1))
}

/// Returns the error message of an impossible request.
#[track_caller]
fn refused(platform: &Platform, requests: Vec<NamespaceRequest>) -> String {
    plan(platform, &PlanRequest { namespaces: requests, ..PlanRequest::default() }).unwrap_err().to_string()
}

/// Returns machine files: the included ones, one with a locked module, and others with modules of several sizes.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = INCLUDED.iter().map(|(_, text)| (*text).to_owned()).collect();
    let pmserver = Machine::included("e4-pmserver").unwrap();
    texts.push(pmserver.replacen("handle = 0x1021", "security = \"Locked\"\nhandle = 0x1021", 1));
    texts.push(pmserver.replacen("258512MiB", "129456MiB", 2).replace("4.18", "6.1"));
    let pair = Machine::included("lab-pair").unwrap();
    texts.push(pair.replace("1344MiB", "5440MiB").replacen("5440MiB", "3392MiB", 1));
    texts.push(pair.replacen("firmware", "label_area = \"1024B\"\nfirmware", 2));
    texts
}

/// Firmware applies no goal to modules with a passphrase, so no plan has such a goal.
#[test]
fn modules_with_passphrase_are_not_planned() {
    let text = Machine::included("lab-pair").unwrap();
    let text = text.replacen("locator", "security = \"Unlocked\"\nlocator", 1);
    let platform = Platform::new(Machine::parse(&text).unwrap());
    let said =
        "firmware applies no goal to a set with module 0x0001, which has a passphrase; remove it first";
    let message = refused(&platform, vec![requested(Mode::Fsdax, 64 * MIB, 0)]);
    assert!(message.contains(said), "{message}");
    let rest = PlanRequest { rest: Some(Rest::AppDirect), ..PlanRequest::default() };
    let message = plan(&platform, &rest).unwrap_err().to_string();
    assert!(message.contains(said), "{message}");
}

fn any_namespace_request() -> impl Strategy<Value = NamespaceRequest> {
    let mode = select(vec![Mode::Fsdax, Mode::Devdax, Mode::Sector, Mode::Raw]);
    // Sizes of every order of magnitude, in units that fit most sets.
    let size = (0_u64..18, 1_u64..12).prop_map(|(shift, count)| (48 * MIB * count) << shift >> 3);
    let kind = select(vec![PersistentKind::AppDirect, PersistentKind::AppDirectNotInterleaved]);
    let map = select(vec![MapLocation::Dev, MapLocation::Mem]);
    (mode, option::weighted(0.85, size), option::of(0_u16..3), option::weighted(0.4, kind), map).prop_map(
        |(mode, size, socket, kind, map)| {
            let namespace = CreateNamespace { mode, size, map, ..CreateNamespace::default() };
            let socket = socket.map(|socket| socket % 2);
            NamespaceRequest { namespace, socket, kind, ..NamespaceRequest::default() }
        },
    )
}

fn any_request() -> impl Strategy<Value = PlanRequest> {
    let rest = option::of(select(vec![Rest::MemoryMode, Rest::AppDirect, Rest::Unconfigured]));
    (vec(any_namespace_request(), 0..5), rest).prop_map(|(mut requests, rest)| {
        // The names identify the requests.
        for (number, one) in requests.iter_mut().enumerate() {
            one.namespace.name = format!("request {number}");
        }
        PlanRequest { namespaces: requests, rest, ..PlanRequest::default() }
    })
}

/// History of a machine before the plan: goals, perhaps still pending, and namespaces.
#[derive(Clone, Debug)]
struct Past {
    memory_percent: Option<u8>,
    namespaces: Vec<u64>,
    goal_waits: bool,
}

fn any_past() -> impl Strategy<Value = Past> {
    let percent = option::of(select(vec![0_u8, 0, 50, 100]));
    (percent, vec(1_u64..40, 0..3), any::<bool>()).prop_map(|(memory_percent, namespaces, goal_waits)| Past {
        memory_percent,
        namespaces,
        goal_waits,
    })
}

impl Past {
    fn happen(&self, platform: &mut Platform) {
        let Some(memory_percent) = self.memory_percent else { return };
        let modules = platform.machine.modules.iter().filter(|module| module.usable());
        let modules = modules.map(|module| module.handle).collect();
        let mut request = GoalRequest { memory_percent, ..GoalRequest::default() };
        request.targets.modules = modules;
        // A locked module, or more DRAM than memory, keeps a machine as it is.
        let Ok(goals) = goal::plan(platform, &request) else { return };
        goal::create(platform, goals);
        boot::reboot(platform);
        let mut identities = uuids(7);
        for size in &self.namespaces {
            let size = Some(size * 48 * MIB);
            // The regions may be too small, or missing.
            let _ = namespace::create(
                platform,
                &CreateNamespace { size, ..CreateNamespace::default() },
                &mut identities,
            );
        }
        if self.goal_waits {
            let _ = goal::plan(platform, &request).map(|goals| goal::create(platform, goals));
        }
    }
}

fn identities(platform: &Platform) -> BTreeSet<Uuid> {
    let regions = platform.regions();
    regions.iter().flat_map(|region| platform.namespaces(region)).filter_map(|one| one.uuid).collect()
}

/// The largest unit of sizes: six modules, in kernels that align regions.
const UNIT_MAX: u64 = 96 * MIB;

/// Checks that every request is fulfilled, with its size rounded up.
fn check_requests(request: &PlanRequest, steps: &[Step], after: &Platform) {
    let made: Vec<(&CreateNamespace, u16)> = steps
        .iter()
        .filter_map(|step| match step {
            Step::CreateNamespace { parameters: wanted, socket, .. } => Some((wanted, *socket)),
            _ => None,
        })
        .collect();
    for one in &request.namespaces {
        let regions = after.regions();
        let ways = |number: Option<u32>| regions[number.unwrap() as usize].members().len();
        let found = made.iter().position(|(wanted, socket)| {
            wanted.name == one.namespace.name
                && (wanted.mode, wanted.map) == (one.namespace.mode, one.namespace.map)
                && one.namespace.size.is_none_or(|size| {
                    wanted
                        .size
                        .and_then(|made| made.checked_sub(size))
                        .is_some_and(|excess| excess < UNIT_MAX)
                })
                && one.socket.is_none_or(|socket_wanted| socket_wanted == *socket)
                && match one.kind {
                    None => true,
                    Some(PersistentKind::AppDirect) => ways(wanted.region) > 1,
                    Some(PersistentKind::AppDirectNotInterleaved) => ways(wanted.region) == 1,
                }
        });
        assert!(found.is_some(), "{one:?} is not in {steps:?}");
    }
    assert_eq!(made.len(), request.namespaces.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// A plan is made, executed in a directory, and the directory is opened again. The table must be the planned one,
    /// every lost namespace must be in the losses, and all requests must be fulfilled. A request that is suggested in
    /// place of an impossible one must be possible.
    #[test]
    fn plan_leads_to_its_table(number in 0..texts().len(), past in any_past(), request in any_request()) {
        let folder = TempDir::new().unwrap();
        let root = folder.path().join("state");
        let mut directory = Directory::init(&root, Path::new("machine"), &texts()[number]).unwrap();
        directory.change(|platform| { past.happen(platform); Ok::<_, PlatformError>(()) }).unwrap();
        let before = directory.platform().clone();
        match plan(&before, &request) {
            Ok(plan) => {
                check_commands(&before, &plan);
                directory.change(|platform| plan.run(platform, &mut uuids(2))).unwrap();
                drop(directory);
                let directory = Directory::open(&root, Purpose::ReadOnly).unwrap();
                let after = directory.platform();
                prop_assert_eq!(&Table::of(after), &plan.table);
                check_requests(&request, &plan.steps, after);
                let second = for_emulated(after, &request, &mut uuids(4)).unwrap();
                prop_assert_eq!(&second.steps, &[]);
                let gone = identities(&before).difference(&identities(after)).count();
                let named = |loss: &&Loss| matches!(loss, Loss::Namespace { .. });
                prop_assert_eq!(plan.losses.iter().filter(named).count(), gone);
                let memory = |platform: &Platform| platform.all_capacities().memory;
                let named = plan.losses.iter().any(|loss| matches!(loss, Loss::Memory { .. }));
                prop_assert!(memory(after) >= memory(&before) || named);
            }
            Err(PlanError::Impossible(impossible)) => {
                if let (Some(nearest), [_]) = (&impossible.nearest, request.namespaces.as_slice()) {
                    let offered = PlanRequest { namespaces: vec![nearest.clone()], ..request.clone() };
                    prop_assert!(plan(&before, &offered).is_ok(), "{impossible}");
                }
                // The largest available size must be less than the requested one.
                if let Obstacle::Capacity { want: Some(want), largest, .. } = impossible.obstacle {
                    prop_assert!(largest < want, "{impossible}");
                }
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

/// Returns the contents of a machine's regions, a line each, without the kernel's names.
fn held(table: &Table) -> Vec<String> {
    let line = |row: &Row| {
        let usage = match &row.usage {
            Usage::Namespace { mode, usable, label, .. } => format!("{} {usable} {label}", mode.as_str()),
            other => other.as_str().to_owned(),
        };
        Some(format!("{} {} {} {usage}", row.socket, row.region?, row.size))
    };
    let mut lines: Vec<String> = table.rows.iter().filter_map(line).collect();
    lines.sort();
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// A plan from a kernel's inventory can be executed, and leads to the planned table.
    #[test]
    fn real_plan_leads_to_its_table(
        number in 0..texts().len(), past in any_past(), mut request in any_request()
    ) {
        // Older tools do not list all that kernels show.
        let text = texts()[number].replace("ndctl = 64", "ndctl = 76");
        let mut platform = Platform::new(Machine::parse(&text).unwrap());
        past.happen(&mut platform);
        request.rest = None;
        let inventory = ndctl::inventory(&platform);
        match for_real(&inventory, &Cxl::default(), &request) {
            Ok(plan) => {
                let before = identities(&platform);
                plan.run(&mut platform, &mut uuids(2)).unwrap();
                prop_assert_eq!(held(&Table::of(&platform)), held(&plan.table));
                check_requests(&request, &plan.steps, &platform);
                prop_assert_eq!(plan.losses.len(), before.difference(&identities(&platform)).count());
                let second = for_real(&ndctl::inventory(&platform), &Cxl::default(), &request).unwrap();
                prop_assert_eq!(&second.steps, &[]);
                prop_assert_eq!(held(&second.table), held(&plan.table));
            }
            Err(PlanError::Impossible(impossible)) => {
                if let (Some(nearest), [_]) = (&impossible.nearest, request.namespaces.as_slice()) {
                    let offered = PlanRequest { namespaces: vec![nearest.clone()], ..request.clone() };
                    prop_assert!(for_real(&inventory, &Cxl::default(), &offered).is_ok(), "{impossible}");
                }
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

#[test]
fn rest_becomes_memory_with_minimal_change() {
    let mut platform = machine("e4-pmserver");
    let mut request = PlanRequest {
        namespaces: vec![requested(Mode::Fsdax, 999 * GIB, 0)],
        rest: Some(Rest::MemoryMode),
        ..PlanRequest::default()
    };
    let first = plan(&platform, &request).unwrap();
    let commands: Vec<String> = first.steps.iter().map(Step::command).collect();
    assert_eq!(
        commands,
        [
            "ipmctl create -f -goal -socket 0 MemoryMode=33 PersistentMemoryType=AppDirect",
            "reboot",
            "ndctl create-namespace -r region0 -m fsdax -s 1072668082176",
        ]
    );
    assert!(first.losses.is_empty());
    first.run(&mut platform, &mut uuids(2)).unwrap();
    // A namespace that fits into the free range is made there.
    request = PlanRequest { namespaces: vec![requested(Mode::Raw, 12 * GIB, 0)], ..PlanRequest::default() };
    let second = plan(&platform, &request).unwrap();
    assert_eq!(second.steps.len(), 1, "{:?}", second.steps);
    // A larger one gets unused modules, and Memory Mode stays where it was.
    request.namespaces = vec![NamespaceRequest { socket: None, ..requested(Mode::Raw, 300 * GIB, 0) }];
    let third = plan(&platform, &request).unwrap();
    assert!(third.losses.is_empty(), "{:?}", third.losses);
    assert!(matches!(third.steps[0], Step::CreateGoals { .. }));
    // If modules in use must be taken, the plan lists the losses.
    request.namespaces = vec![requested(Mode::Raw, 300 * GIB, 0)];
    let fourth = plan(&platform, &request).unwrap();
    let lost: Vec<String> = fourth.losses.iter().map(Loss::to_string).collect();
    assert_eq!(lost[0], "namespace0.0 (fsdax, 999 GiB) with all its data");
    // The largest possible size includes ranges of namespaces that could be destroyed.
    let said = refused(&platform, vec![requested(Mode::Raw, 2000 * GIB, 0)]);
    assert!(said.ends_with("the nearest that is possible is --raw 1512GiB --socket 0 (1.47 TiB)"), "{said}");
    let memory = |row: &&Row| row.usage == Usage::Memory;
    let before = Table::of(&platform).rows.iter().find(memory).unwrap().size;
    assert_eq!(fourth.table.rows.iter().find(memory).unwrap().size, before, "{}", fourth.table.text());
}

#[test]
fn memory_stays_as_it_is() {
    let mut platform = machine("e4-pmserver");
    let goals = goal::plan(&platform, &GoalRequest { memory_percent: 50, ..GoalRequest::default() }).unwrap();
    goal::create(&mut platform, goals);
    boot::reboot(&mut platform);
    let before = platform.all_capacities().memory;
    // It needs another partitioning, which left the namespace no more than it needs: MemoryMode=60.
    let kind = Some(PersistentKind::AppDirectNotInterleaved);
    let request = NamespaceRequest { kind, ..requested(Mode::Fsdax, 100 * GIB, 0) };
    let first =
        plan(&platform, &PlanRequest { namespaces: vec![request], ..PlanRequest::default() }).unwrap();
    assert_eq!(
        first.steps[0].command(),
        "ipmctl create -f -goal -socket 0 MemoryMode=50 PersistentMemoryType=AppDirectNotInterleaved"
    );
    first.run(&mut platform, &mut uuids(2)).unwrap();
    assert_eq!(platform.all_capacities().memory, before);
    // A namespace that needs some of the memory takes no more than that.
    let request = NamespaceRequest { kind, ..requested(Mode::Fsdax, 200 * GIB, 1) };
    let second =
        plan(&platform, &PlanRequest { namespaces: vec![request], ..PlanRequest::default() }).unwrap();
    let lost: Vec<String> = second.losses.iter().map(Loss::to_string).collect();
    assert_eq!(lost, ["volatile memory on socket 1: 300 GiB instead of 756 GiB"]);
}

#[test]
fn memory_mode_needs_dram() {
    let text = Machine::included("lab-pair").unwrap();
    let platform = Platform::new(Machine::parse(text.split("[[dram]]").next().unwrap()).unwrap());
    let rest = PlanRequest { rest: Some(Rest::MemoryMode), ..PlanRequest::default() };
    let said = plan(&platform, &rest).unwrap_err().to_string();
    assert_eq!(said, "socket 0 has no DRAM, which memory mode needs as its cache; leave memory mode out");
    // Generation 3 takes no less memory than DRAM.
    let small =
        plan(&machine("lab-pair"), &PlanRequest { namespaces: vec![requested(Mode::Fsdax, GIB, 0)], ..rest });
    let notes: Vec<String> = small.unwrap().notes.iter().map(Note::to_string).collect();
    assert!(notes[0].ends_with("must not be less than the 2 GiB of DRAM that become its cache"), "{notes:?}");
}

/// Returns the words of a plan's notes.
fn notes(plan: &Plan) -> Vec<String> {
    plan.notes.iter().map(Note::to_string).collect()
}

#[test]
fn sizes_are_rounded_up_and_said() {
    let pmserver = machine("e4-pmserver");
    let plan_for = |request: NamespaceRequest| {
        plan(&pmserver, &PlanRequest { namespaces: vec![request], ..PlanRequest::default() })
    };
    let sized = NamespaceRequest { socket: None, ..requested(Mode::Fsdax, 100 * GIB, 0) };
    let made = plan_for(sized.clone()).unwrap();
    assert_eq!(
        notes(&made),
        [
            "--fsdax 100GiB --socket 0 is rounded up to 102408MiB, which its modules share evenly; --exact refuses it"
        ]
    );
    let said = plan_for(NamespaceRequest { exact: true, ..sized.clone() }).unwrap_err().to_string();
    assert!(said.contains("100GiB over 6 modules is not a multiple of 12MiB"), "{said}");
    // The least size that gives the file system what is asked for.
    let usable = |bytes: u64| NamespaceRequest { usable: Some(bytes), ..NamespaceRequest::default() };
    let made = plan_for(usable(100 * GIB)).unwrap();
    let Some((Usage::Namespace { usable: given, .. }, size)) =
        made.table.rows.iter().map(|row| (&row.usage, row.size)).find(|(usage, _)| usage.as_str() != "free")
    else {
        panic!("{}", made.table.text())
    };
    assert!((100 * GIB..100 * GIB + 12 * MIB).contains(given), "{}", made.table.text());
    assert_eq!(notes(&made), [format!("--usable 100GiB --socket 0 takes {}MiB of its region", size / MIB)]);
    let said = plan_for(usable(1500 * GIB)).unwrap_err().to_string();
    assert!(said.contains("no socket has 1.46 TiB for it, but at most 1.45 TiB"), "{said}");
    let all = NamespaceRequest { namespace: CreateNamespace::default(), ..sized };
    let made = plan_for(all).unwrap();
    let Usage::Namespace { usable: most, .. } = made.table.rows[0].usage else { panic!("{made:?}") };
    assert!(said.ends_with(&format!("--usable {}MiB (1.45 TiB)", most / MIB)), "{said}");
    assert!(plan_for(usable(most)).is_ok());
    assert!(plan_for(usable(most + 1)).is_err());
}

#[test]
fn true_reason_comes_first() {
    let pmserver = machine("e4-pmserver");
    let too_large = NamespaceRequest { exact: true, ..requested(Mode::Fsdax, 2000 * GIB + 1, 0) };
    let said = refused(&pmserver, vec![too_large.clone()]);
    assert!(said.contains("at most 1.47 TiB"), "{said}");
    let mut odd = requested(Mode::Sector, 2000 * GIB, 0);
    odd.namespace.sector_size = Some(100);
    let said = refused(&pmserver, vec![odd]);
    assert!(said.contains("sectors can't have 100 bytes"), "{said}");
    let mut odd = too_large;
    odd.namespace.align = Some(3 * MIB);
    let said = refused(&pmserver, vec![odd]);
    assert!(said.contains("3145728"), "{said}");
}

#[test]
fn named_namespace_fulfils_its_request() {
    let mut platform = machine("e4-storage");
    let mut wish = NamespaceRequest { socket: None, ..requested(Mode::Fsdax, 100 * GIB, 0) };
    wish.namespace.name = "data".to_owned();
    let planned = |platform: &Platform, wish: &NamespaceRequest| {
        plan(platform, &PlanRequest { namespaces: vec![wish.clone()], ..PlanRequest::default() })
    };
    planned(&platform, &wish).unwrap().run(&mut platform, &mut uuids(2)).unwrap();
    let second = planned(&platform, &wish).unwrap();
    assert_eq!(second.steps, []);
    assert_eq!(notes(&second), ["--fsdax 100GiB --name=data is there: namespace0.0"]);
    // Modules are not taken from a namespace that fulfils a request.
    let all = NamespaceRequest {
        kind: Some(PersistentKind::AppDirectNotInterleaved),
        ..requested(Mode::Raw, 12 * GIB, 0)
    };
    let said = refused(&platform, vec![wish.clone(), all.clone()]);
    assert!(said.contains("--raw 12GiB --socket 0 --not-interleaved is impossible"), "{said}");
    assert!(planned(&platform, &all).is_ok());
    let more = planned(&platform, &NamespaceRequest { add: true, ..wish.clone() }).unwrap();
    assert!(matches!(more.steps.as_slice(), [Step::CreateNamespace { .. }]), "{:?}", more.steps);
    let mut other = wish.clone();
    other.namespace.size = Some(101 * GIB);
    let said = planned(&platform, &other).unwrap_err().to_string();
    assert!(said.contains("namespace0.0 has the name already, and has 100"), "{said}");
    assert!(said.ends_with("choose another name, or destroy it first"), "{said}");
    let said = refused(&platform, vec![wish.clone(), other]);
    assert!(said.contains("another request has the name"), "{said}");
    namespace::enable(&mut platform, "namespace0.0", false).unwrap();
    let said = planned(&platform, &wish).unwrap_err().to_string();
    assert!(said.contains("namespace0.0 has the name already, and is disabled"), "{said}");
}

#[test]
fn parts_that_are_not_interleaved_are_named() {
    let pair = Machine::included("lab-pair").unwrap();
    let unequal = pair.replace("1344MiB", "5440MiB").replacen("5440MiB", "3392MiB", 1);
    let platform = Platform::new(Machine::parse(&unequal).unwrap());
    let request = PlanRequest { rest: Some(Rest::AppDirect), ..PlanRequest::default() };
    let made = plan(&platform, &request).unwrap();
    let sizes: Vec<(usize, u64)> = made.table.rows.iter().map(|row| (row.modules, row.size / GIB)).collect();
    assert_eq!(sizes, [(2, 6), (1, 2)], "all capacity is used");
    assert_eq!(
        notes(&made),
        [
            "2 GiB of module 0x0101 are a region by themselves: the other modules have nothing to interleave them \
             with"
        ]
    );
}

#[test]
fn second_plan_is_empty() {
    for rest in [Rest::MemoryMode, Rest::AppDirect, Rest::Unconfigured] {
        let mut platform = machine("e4-storage");
        let request = PlanRequest { rest: Some(rest), ..PlanRequest::default() };
        let first = plan(&platform, &request).unwrap();
        assert_eq!(first.steps.is_empty(), rest == Rest::Unconfigured, "a new machine is not configured");
        first.run(&mut platform, &mut uuids(2)).unwrap();
        assert_eq!(plan(&platform, &request).unwrap().steps, []);
    }
}

#[test]
fn impossible_request_names_nearest_possible() {
    let pmserver = machine("e4-pmserver");
    let said = refused(&pmserver, vec![requested(Mode::Fsdax, 1536 * GIB, 0)]);
    assert_eq!(
        said,
        "--fsdax 1536GiB --socket 0 is impossible: socket 0 has no 1.5 TiB for it, but at most 1.47 TiB; the nearest \
         that is possible is --fsdax 1512GiB --socket 0 (1.47 TiB)"
    );
    let exact = |mode, size| NamespaceRequest { exact: true, ..requested(mode, size, 1) };
    let said = refused(&pmserver, vec![exact(Mode::Fsdax, GIB)]);
    assert!(said.contains("1GiB over 6 modules is not a multiple of 12MiB"), "{said}");
    assert!(said.ends_with("--fsdax 1020MiB --socket 1 (1020 MiB)"), "{said}");
    // The nearest size for a request that was both too small and not aligned used to be the largest available one.
    for (mode, nearest) in [(Mode::Fsdax, "--fsdax 24MiB"), (Mode::Sector, "--sector 16392KiB")] {
        let said = refused(&pmserver, vec![exact(mode, 1)]);
        assert!(said.contains(&format!("the nearest that is possible is {nearest} --socket 1")), "{said}");
    }
    // The size overflows 64 bits when it is rounded up.
    let said = refused(&pmserver, vec![requested(Mode::Fsdax, u64::MAX, 1)]);
    assert!(
        said.ends_with("the nearest that is possible is --fsdax 1512GiB --socket 1 (1.47 TiB)"),
        "{said}"
    );
    let aligned = CreateNamespace { align: Some(2 * MIB), ..requested(Mode::Sector, 24 * MIB, 1).namespace };
    let said =
        refused(&pmserver, vec![NamespaceRequest { namespace: aligned, ..NamespaceRequest::default() }]);
    assert!(
        said.ends_with("mode sector has no page map that could be aligned: leave the alignment out"),
        "{said}"
    );
    let said = refused(&pmserver, vec![requested(Mode::Raw, 12 * GIB, 5)]);
    assert!(said.contains("there is no socket 5; the machine has 0, 1; the nearest"), "{said}");
    let said =
        refused(&pmserver, vec![requested(Mode::Raw, 1500 * GIB, 0), requested(Mode::Raw, 24 * GIB, 0)]);
    assert!(said.contains("but at most 12 GiB left beside the other requests"), "{said}");
    let said =
        refused(&pmserver, vec![NamespaceRequest { socket: None, ..requested(Mode::Raw, 3072 * GIB, 0) }]);
    assert!(said.contains("no socket has 3 TiB for it, but at most 1.47 TiB; the nearest"), "{said}");
    let fujitsu = machine("fujitsu-primergy");
    let said = refused(&fujitsu, vec![requested(Mode::Fsdax, 300 * GIB, 1)]);
    assert!(said.contains("at most 252 GiB; module 0x1101 (CPU2_DIMM_D2) is dead"), "{said}");
    let together =
        NamespaceRequest { kind: Some(PersistentKind::AppDirect), ..requested(Mode::Fsdax, 100 * GIB, 1) };
    let said = refused(&fujitsu, vec![together]);
    assert!(said.contains("socket 1 has no two modules to interleave; module 0x1101"), "{said}");
    assert!(said.ends_with("--fsdax 100GiB --socket 1 (100 GiB)"), "{said}");
    let text = Machine::included("lab-one").unwrap();
    let locked = text.replace("firmware", "security = \"Locked\"\nfirmware");
    let locked = Platform::new(Machine::parse(&locked).unwrap());
    let said = refused(&locked, vec![requested(Mode::Raw, GIB, 0)]);
    assert!(said.contains("no module that could be used; module 0x0001 (CPU0_DIMM_A2) is locked"), "{said}");
    let small = text.replace("firmware", "label_area = \"1024B\"\nfirmware");
    let small = Platform::new(Machine::parse(&small).unwrap());
    let said = refused(&small, vec![requested(Mode::Raw, 16 * MIB, 0); 3]);
    assert!(said.contains("the labels of module 0x0001"), "{said}");
    let odd = CreateNamespace { sector_size: Some(100), ..requested(Mode::Sector, GIB, 0).namespace };
    let odd = NamespaceRequest { namespace: odd, ..NamespaceRequest::default() };
    assert!(refused(&machine("lab-one"), vec![odd]).contains("sectors can't have 100 bytes"));
}
