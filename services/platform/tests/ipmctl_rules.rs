//! The commands that change modules follow `docs/ipmctl-rules.md`: a second implementation of its rules, which shares
//! no code with the first, judges random command lines on random machines in the same way.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "ipmctl_rules/judge.rs"]
mod judge;
#[path = "ipmctl_rules/lines.rs"]
mod lines;
mod random;

use judge::{GoalBrief, Judge, Verdict};
use lines::{random_line, random_operation_line};
use lode_platform::goal::GoalWarning;
use lode_platform::ipmctl::{
    ChangeCommand, OperationCommand, Prepared, Refusal, configuration_text, warning_text,
};
use lode_platform::machine::{Health, Machine};
use lode_platform::{CreateNamespace, Goal, GoalRequest, Platform, Targets, boot, goal, namespace};
use lode_testing::{scaled, seed, skip};
use random::{Random, random_machine};
use uuid::Uuid;

/// Returns the verdict of the shipped implementation, and carries a legal command out.
fn shipped(platform: &mut Platform, words: &[String]) -> Verdict {
    let refusal = |refusal: Box<Refusal>| Verdict::of_output(refusal.code, &refusal.output);
    let command = match ChangeCommand::parse(words, platform.machine.profile.ipmctl) {
        Ok(Some(command)) => command,
        Ok(None) => return Verdict::Help,
        Err(error) => return refusal(error),
    };
    match command.prepare(platform) {
        Err(error) => refusal(error),
        Ok(Prepared::Create { goals, warnings, asks, .. }) => {
            let brief = goals.iter().map(brief).collect();
            goal::create(platform, goals);
            // Warnings are lines before the question.
            let warnings =
                warnings.into_iter().filter(|_| asks).map(warning_text).map(str::to_owned).collect();
            Verdict::Creates { goals: brief, warnings }
        }
        Ok(Prepared::Delete { targets }) => {
            let gone = goal::delete(platform, &targets).unwrap();
            Verdict::Deletes(gone.iter().map(|module| module.0).collect())
        }
        Ok(Prepared::Clear { targets, .. }) => {
            let gone = goal::clear(platform, &targets).unwrap();
            Verdict::Clears(gone.iter().map(|module| module.0).collect())
        }
    }
}

/// Returns module, memory, reserved bytes, and the size of each share.
fn brief(goal: &Goal) -> GoalBrief {
    (goal.module.0, goal.memory, goal.reserved, goal.shares.iter().map(|share| share.size).collect())
}

#[test]
fn second_implementation_agrees() {
    let mut random = Random::new(seed(12));
    let (mut lines, mut kinds) = (0, std::collections::BTreeMap::<String, u64>::new());
    while lines < scaled(20_000) {
        let mut platform = Platform::new(Machine::parse(&random_machine(&mut random)).unwrap());
        for _ in 0..40 {
            let words = random_line(&mut random, &platform);
            let expected = Judge { platform: &platform }.judge(&words);
            let before = format!("{:?}", platform.state);
            let found = shipped(&mut platform, &words);
            assert_eq!(found, expected, "{words:?}\n{before}\n{:#?}", platform.machine);
            *kinds.entry(found.kind()).or_default() += 1;
            if let Verdict::Creates { warnings, .. } = &found {
                warnings.iter().for_each(|line| *kinds.entry(line.clone()).or_default() += 1);
            }
            lines += 1;
            if random.one_in(6) {
                boot::reboot(&mut platform);
            }
            if random.one_in(12) {
                // A module dies, or answers again, whatever goal it has.
                let count = platform.machine.modules.len() as u64;
                let module = &mut platform.machine.modules[random.below(count) as usize];
                let is_dead = module.health == Health::NonFunctional;
                module.health = if is_dead { Health::Healthy } else { Health::NonFunctional };
            }
            if random.one_in(12) {
                let identity = Uuid::from_u128(u128::from(lines) + 1);
                let mut next = 0;
                let mut uuids = || {
                    next += 1;
                    Uuid::from_u128(identity.as_u128() << 32 | next)
                };
                // The regions may be missing or too small.
                let _ = namespace::create(&mut platform, &CreateNamespace::default(), &mut uuids);
            }
            if random.one_in(8) {
                let names: Vec<String> = platform
                    .regions()
                    .iter()
                    .flat_map(|region| platform.namespaces(region))
                    .map(|one| one.device())
                    .collect();
                for name in names {
                    let _ = namespace::destroy(&mut platform, &name, true);
                }
            }
        }
    }
    println!("{lines} lines: {kinds:?}");
    let warnings =
        [GoalWarning::LittleMemory, GoalWarning::MuchMemory, GoalWarning::Adjusted, GoalWarning::Unlocked];
    let refused = [
        "creates", "deletes", "clears", "13", "14", "15", "18", "19", "36", "93", "110", "113", "115", "122",
        "124",
    ];
    for kind in refused.into_iter().chain(warnings.map(warning_text)) {
        assert!(kinds.contains_key(kind), "no line led to {kind}: {kinds:?}");
    }
}

/// Returns a machine with a pending goal on all modules.
fn with_goal(name: &str) -> Platform {
    let mut platform = Platform::new(Machine::parse(Machine::included(name).unwrap()).unwrap());
    let goals = goal::plan(&platform, &GoalRequest::default()).unwrap();
    goal::create(&mut platform, goals);
    platform
}

/// A goal could not be deleted after a module of its socket had died: without a target the dead module was missing, and
/// as a target it was refused.
#[test]
fn goals_are_deleted_beside_a_dead_module() {
    let mut platform = with_goal("lab-pair");
    let [first, dead] = [0, 1].map(|index| platform.machine.modules[index].handle);
    platform.machine.modules[1].health = Health::NonFunctional;
    let deleted = goal::delete(&mut platform, &Targets::default()).unwrap();
    assert_eq!(deleted, [first]);
    assert!(platform.state.goals.iter().all(|goal| goal.module == dead));
}

/// Deleted configuration data was stored until the next start, though `show -pcd` did not show it.
#[test]
fn deleted_configuration_data_is_not_stored() {
    let mut platform = with_goal("lab-pair");
    boot::reboot(&mut platform);
    let [first, second] = [0, 1].map(|index| platform.machine.modules[index].handle);
    let lines = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(lines(&configuration_text(&platform).unwrap()), 2);
    goal::clear(&mut platform, &Targets { modules: vec![first], ..Targets::default() }).unwrap();
    let stored = configuration_text(&platform).unwrap();
    assert!(lines(&stored) == 1 && stored.contains(&format!(",{},", second.0)), "{stored}");
    goal::clear(&mut platform, &Targets::default()).unwrap();
    let refused = configuration_text(&platform).unwrap_err();
    assert!(refused.output.contains("Error 131 - "), "{refused:?}");
}

/// The file has whole GiB. Sizes between them were cut, so that another machine got other sizes.
#[test]
fn sizes_that_no_stored_configuration_has_are_refused() {
    let text = Machine::included("lab-pair").unwrap();
    let fine = text.replacen("[profile]", "alignment = \"32MiB\"\n[profile]", 1);
    let mut platform = Platform::new(Machine::parse(&fine).unwrap());
    let goals = goal::plan(&platform, &GoalRequest::default()).unwrap();
    goal::create(&mut platform, goals);
    boot::reboot(&mut platform);
    let module = platform.machine.modules[0].handle.to_string();
    let refused = configuration_text(&platform).unwrap_err();
    assert!(refused.why.contains(&module) && refused.why.contains("GiB"), "{refused:?}");
    // Whole GiB are stored all the same.
    let mut whole = with_goal("lab-pair");
    boot::reboot(&mut whole);
    whole.machine.alignment = 32 << 20;
    assert!(configuration_text(&whole).is_ok());
}

/// Holds the grammar against a real ipmctl, named by `LODE_IPMCTL`. It refuses lines before it looks for modules.
#[test]
fn grammar_agrees_with_real_ipmctl() {
    let Ok(program) = std::env::var("LODE_IPMCTL") else {
        return skip("grammar_agrees_with_real_ipmctl", "LODE_IPMCTL names no ipmctl");
    };
    let mut random = Random::new(7);
    let generation = lode_platform::machine::IpmctlGeneration::Three;
    for number in 0..scaled(2_000) {
        let platform = Platform::new(Machine::parse(&random_machine(&mut random)).unwrap());
        let is_operation = number % 2 == 1;
        let words = if is_operation {
            random_operation_line(&mut random)
        } else {
            random_line(&mut random, &platform)
        };
        if words[0] == "set" && !words.iter().any(|word| word == "-sensor") {
            // `set -dimm` is another command, whose properties these lines have not.
            continue;
        }
        let run = std::process::Command::new(&program).args(&words).output().unwrap();
        let real = String::from_utf8_lossy(&run.stdout).into_owned();
        let parsed = if is_operation {
            OperationCommand::parse(&words, generation).map(|found| found.is_some())
        } else {
            ChangeCommand::parse(&words, generation).map(|found| found.is_some())
        };
        match parsed {
            Err(refusal) => {
                assert_eq!(run.status.code(), Some(201), "{words:?}: {real}");
                let line = |text: &str| text.lines().next().unwrap_or_default().trim_end().to_owned();
                // Which command's help is printed is not compared: this program has fewer commands.
                if refusal.output.starts_with(' ') {
                    assert!(real.starts_with(' '), "{words:?}: {real}");
                } else {
                    assert_eq!(line(&refusal.output), line(&real), "{words:?}");
                }
            }
            Ok(false) => assert_eq!(run.status.code(), Some(0), "{words:?}: {real}"),
            Ok(true) => assert_eq!(run.status.code(), Some(1), "{words:?}: {real}"),
        }
    }
}
