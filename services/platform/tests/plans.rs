//! An executed plan leads to the table that it showed, and a request that is reported as possible is possible.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_platform::ipmctl::ChangeCommand;
use lode_platform::machine::{INCLUDED, Machine};
use lode_platform::plan::{
    Loss, NamespaceRequest, Obstacle, Plan, PlanError, PlanRequest, Rest, Row, Step, Table, Usage,
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
    NamespaceRequest { namespace, socket: Some(socket), kind: None }
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

fn any_namespace_request() -> impl Strategy<Value = NamespaceRequest> {
    let mode = select(vec![Mode::Fsdax, Mode::Devdax, Mode::Sector, Mode::Raw]);
    // Sizes of every order of magnitude, in units that fit most sets.
    let size = (0_u64..18, 1_u64..12).prop_map(|(shift, count)| (48 * MIB * count) << shift >> 3);
    let kind = select(vec![PersistentKind::AppDirect, PersistentKind::AppDirectNotInterleaved]);
    let map = select(vec![MapLocation::Dev, MapLocation::Mem]);
    (mode, option::weighted(0.85, size), option::of(0_u16..3), option::weighted(0.4, kind), map).prop_map(
        |(mode, size, socket, kind, map)| {
            let namespace = CreateNamespace { mode, size, map, ..CreateNamespace::default() };
            NamespaceRequest { namespace, socket: socket.map(|socket| socket % 2), kind }
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

/// Checks that every request is fulfilled exactly.
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
                && one.namespace.size.is_none_or(|size| wanted.size == Some(size))
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

/// Checks that ipmctl takes each printed command of the plan on the machine as it is then.
fn check_commands(platform: &Platform, plan: &Plan) {
    let (mut platform, mut identities) = (platform.clone(), uuids(3));
    for step in &plan.steps {
        if let Some(line) = step.command().strip_prefix("ipmctl ") {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let parsed = ChangeCommand::parse(&words, platform.machine.profile.ipmctl).unwrap();
            parsed.unwrap().prepare(&platform).unwrap();
        }
        step.run(&mut platform, &mut identities).unwrap();
    }
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
    assert!(fourth.table.rows.iter().find(memory).unwrap().size > 1000 * GIB, "{}", fourth.table.text());
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
    let said = refused(&pmserver, vec![requested(Mode::Fsdax, GIB, 1)]);
    assert!(said.contains("1GiB over 6 modules is not a multiple of 12MiB"), "{said}");
    assert!(said.ends_with("--fsdax 1020MiB --socket 1 (1020 MiB)"), "{said}");
    // The nearest size for a request that was both too small and not aligned used to be the largest available one.
    for (mode, nearest) in [(Mode::Fsdax, "--fsdax 24MiB"), (Mode::Sector, "--sector 16392KiB")] {
        let said = refused(&pmserver, vec![requested(mode, 1, 1)]);
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
