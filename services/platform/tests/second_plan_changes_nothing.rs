//! A plan that was carried out leads to itself: the same request has nothing to do. Each printed command is legal.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod commands;
mod random;

use commands::check_commands;
use lode_platform::machine::{INCLUDED, Machine};
use lode_platform::plan::{
    NamespaceRequest, Note, Plan, PlanError, PlanRequest, Rest, Step, Table, for_emulated,
};
use lode_platform::{
    CreateNamespace, Directory, GoalRequest, MapLocation, Mode, PersistentKind, Platform, PlatformError,
    Purpose, boot, goal, namespace, region,
};
use lode_testing::{scaled, seed};
use random::{Random, random_machine};
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;
use uuid::Uuid;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Returns a generator of ascending UUIDs.
fn uuids(first: u64) -> impl FnMut() -> Uuid {
    let mut next = u128::from(first) << 64;
    move || {
        next += 1;
        Uuid::from_u128(next)
    }
}

/// Returns the file of a random machine with a kernel of each rule for page maps, or of an included one.
fn machine(random: &mut Random) -> String {
    if random.one_in(10) {
        return random.pick(&INCLUDED).1.to_owned();
    }
    let kernel = format!("kernel = \"{}\"", random.pick(&["4.18", "5.4", "6.1"]));
    random_machine(random).replace("kernel = \"6.1\"", &kernel)
}

/// Returns a size of any order of magnitude. Few are multiples of anything.
fn size(random: &mut Random) -> u64 {
    let magnitude = [MIB, 64 * MIB, 256 * MIB, GIB, GIB, 2 * GIB, 100 * GIB][random.below(7) as usize];
    match random.below(3) {
        0 => magnitude,
        1 => magnitude * (1 + random.below(5)),
        _ => magnitude + random.below(magnitude),
    }
}

fn wish(random: &mut Random, number: u64) -> NamespaceRequest {
    let mode = *random.pick(&[Mode::Fsdax, Mode::Fsdax, Mode::Devdax, Mode::Sector, Mode::Raw]);
    let namespace = CreateNamespace { mode, name: format!("wish {number}"), ..CreateNamespace::default() };
    let mut request = NamespaceRequest { namespace, ..NamespaceRequest::default() };
    match random.below(8) {
        0 => {}
        1 | 2 if mode == Mode::Fsdax => request.usable = Some(size(random)),
        _ => request.namespace.size = Some(size(random)),
    }
    let has_map = matches!(mode, Mode::Fsdax | Mode::Devdax);
    if has_map && random.one_in(4) {
        request.namespace.align = Some(*random.pick(&[4096, 2 * MIB, GIB]));
    }
    if random.one_in(4) {
        request.namespace.sector_size = Some(*random.pick(&[512, 4096]));
    }
    if random.one_in(4) {
        request.namespace.map = MapLocation::Mem;
    }
    if random.one_in(4) {
        request.socket = Some(random.below(2) as u16);
    }
    if random.one_in(4) {
        let kinds = [PersistentKind::AppDirect, PersistentKind::AppDirectNotInterleaved];
        request.kind = Some(*random.pick(&kinds));
    }
    request.exact = random.one_in(16);
    request
}

fn request(random: &mut Random) -> PlanRequest {
    let numbers: Vec<u64> = (0..4).filter(|_| random.one_in(2)).collect();
    let rest = if random.one_in(2) {
        Some(*random.pick(&[Rest::MemoryMode, Rest::AppDirect, Rest::Unconfigured]))
    } else {
        None
    };
    let namespaces = numbers.into_iter().map(|number| wish(random, number)).collect();
    PlanRequest { namespaces, rest, ..PlanRequest::default() }
}

/// What may have happened to a machine before: goals, some of which wait, namespaces, earlier plans, and what lasts until
/// the next start. What is impossible does not happen.
///
/// An earlier plan may have been for some of the wishes.
fn happen(random: &mut Random, platform: &mut Platform, wishes: &PlanRequest) {
    let mut identities = uuids(random.next() | 1);
    for _ in 0..random.below(4) {
        match random.below(7) {
            0 | 1 => {
                let percent = *random.pick(&[0, 0, 25, 50, 100]);
                let mut request = GoalRequest { memory_percent: percent, ..GoalRequest::default() };
                if random.one_in(3) {
                    request.kind = PersistentKind::AppDirectNotInterleaved;
                }
                if random.one_in(4) {
                    request.targets.sockets = vec![random.below(2) as u16];
                }
                let _ = goal::plan(platform, &request).map(|goals| goal::create(platform, goals));
                if !random.one_in(4) {
                    boot::reboot(platform);
                }
            }
            2 | 3 => {
                let number = random.below(4);
                let parameters = wish(random, number).namespace;
                let size = parameters.size.map(|size| size.next_multiple_of(96 * MIB));
                let parameters = CreateNamespace { size, ..parameters };
                let _ = namespace::create(platform, &parameters, &mut identities);
            }
            4 => {
                let _ = namespace::enable(platform, "namespace0.0", false);
            }
            5 if random.one_in(2) => {
                let _ = region::enable(platform, 0, false);
            }
            _ => {
                let mut request = request(random);
                if random.one_in(2) {
                    request.namespaces =
                        wishes.namespaces.iter().filter(|_| !random.one_in(3)).cloned().collect();
                }
                if let Ok(plan) = for_emulated(platform, &request, &mut identities) {
                    plan.run(platform, &mut identities).unwrap();
                }
            }
        }
    }
}

/// Returns words for what the plan does, for statistics.
fn kinds(request: &PlanRequest, steps: &[Step], notes: &[Note], losses: usize) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    let has = |test: fn(&NamespaceRequest) -> bool| request.namespaces.iter().any(test);
    for (word, is_so) in [
        ("no steps", steps.is_empty()),
        ("no rest", request.rest.is_none()),
        ("memory", request.rest == Some(Rest::MemoryMode)),
        ("usable", has(|one| one.usable.is_some())),
        ("max", has(|one| one.usable.is_none() && one.namespace.size.is_none())),
        ("two goals", steps.iter().any(|step| matches!(step, Step::ClearConfiguration { .. }))),
        ("fulfilled", notes.iter().any(|note| matches!(note, Note::Fulfilled { .. }))),
        ("rounded", notes.iter().any(|note| matches!(note, Note::Size { .. }))),
        ("not interleaved", notes.iter().any(|note| matches!(note, Note::NotInterleaved { .. }))),
        ("losses", losses > 0),
    ] {
        kinds.extend(is_so.then_some(word));
    }
    kinds
}

/// One of so many plans is carried out in a directory, which is loaded again. The others stay in memory.
const IN_DIRECTORY: u64 = 10;

/// Carries a plan out on the machine of `machine_text`, in a directory if `root` is one. Returns the machine afterwards.
fn carried_out(
    before: &Platform,
    machine_text: &str,
    plan: &Plan,
    uuids: &mut impl FnMut() -> Uuid,
    root: Option<&Path>,
) -> Platform {
    let Some(root) = root else {
        let mut after = before.clone();
        plan.run(&mut after, uuids).unwrap();
        return after;
    };
    let mut directory = Directory::init(root, Path::new("machine"), machine_text).unwrap();
    let past = directory.change(|platform| {
        *platform = before.clone();
        Ok::<_, PlatformError>(())
    });
    past.unwrap();
    directory.change(|platform| plan.run(platform, uuids)).unwrap();
    drop(directory);
    let after = Directory::open(root, Purpose::ReadOnly).unwrap().platform().clone();
    std::fs::remove_dir_all(root).unwrap();
    after
}

/// 500 plans, and 5,000 in a round of `make soak`.
#[test]
fn second_plan_changes_nothing() {
    let mut random = Random::new(seed(12));
    let (mut plans, mut impossible, mut counts) = (0, 0, BTreeMap::<&str, u64>::new());
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("state");
    while plans < scaled(500) {
        let machine_text = machine(&mut random);
        let request = request(&mut random);
        let mut platform = Platform::new(Machine::parse(&machine_text).unwrap());
        happen(&mut random, &mut platform, &request);
        let before = format!("{:?}", platform.state);
        match for_emulated(&platform, &request, &mut uuids(random.next() | 1)) {
            Ok(plan) => {
                check_commands(&platform, &plan);
                let root = (plans % IN_DIRECTORY == 0).then_some(root.as_path());
                let mut identities = uuids(random.next() | 1);
                let after = carried_out(&platform, &machine_text, &plan, &mut identities, root);
                assert_eq!(Table::of(&after), plan.table, "{request:#?}\n{before}");
                let second = for_emulated(&after, &request, &mut uuids(random.next() | 1));
                let second = second.unwrap_or_else(|error| {
                    panic!("{error}\n{request:#?}\n{before}\n{:#?}\n{:#?}", plan.steps, after.machine)
                });
                assert_eq!(
                    second.steps,
                    [],
                    "{request:#?}\n{before}\n{:#?}\n{:#?}",
                    plan.steps,
                    after.machine
                );
                assert!(second.losses.is_empty(), "{:?}", second.losses);
                assert_eq!(second.table, plan.table);
                assert!(second.text().starts_with("Nothing to do.\n"), "{}", second.text());
                plans += 1;
                for kind in kinds(&request, &plan.steps, &plan.notes, plan.losses.len()) {
                    *counts.entry(kind).or_default() += 1;
                }
            }
            Err(PlanError::Impossible(_)) => impossible += 1,
            Err(error) => panic!("{error}\n{request:#?}\n{before}"),
        }
    }
    println!("{plans} plans, all empty the second time, and {impossible} impossible requests: {counts:?}");
    let kinds =
        ["no steps", "no rest", "memory", "usable", "max", "two goals", "fulfilled", "rounded", "losses"];
    for kind in kinds {
        assert!(counts.contains_key(kind), "no plan with {kind}: {counts:?}");
    }
}
