//! Stored configurations of ipmctl: any bytes are refused with a reason, or make goals that fit the modules.

use lode_platform::ipmctl::{Configuration, configuration_text};
use lode_platform::machine::Machine;
use lode_platform::{GoalRequest, Platform, Targets, boot, goal};

/// Parses the bytes, and makes goals for a machine with two modules.
pub fn run(data: &[u8]) {
    let configuration = match Configuration::parse(data) {
        Ok(configuration) => configuration,
        Err(fault) => {
            assert!(!fault.to_string().is_empty());
            return;
        }
    };
    let mut platform = platform();
    match configuration.goals(&platform, &Targets::default()) {
        Ok(goals) => {
            for goal in &goals {
                let module =
                    platform.machine.module(goal.module).expect("goals are for modules of the machine");
                let shares: u64 = goal.shares.iter().map(|share| share.size).sum();
                assert_eq!(goal.memory + goal.reserved + shares, platform.machine.usable_capacity(module));
            }
            goal::create(&mut platform, goals);
            boot::reboot(&mut platform);
            let again = configuration_text(&platform).expect("the modules are configured");
            assert!(Configuration::parse(again.as_bytes()).is_ok(), "{again}");
        }
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
}

fn platform() -> Platform {
    let text = Machine::included("lab-pair").expect("it is included");
    Platform::new(Machine::parse(text).expect("an included machine is valid"))
}

/// Returns the configurations of interleaved and single modules, and one with a comment and a line that is cut off.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let stored = |request: GoalRequest| {
        let mut platform = platform();
        let goals = goal::plan(&platform, &request).expect("the machine takes the goal");
        goal::create(&mut platform, goals);
        boot::reboot(&mut platform);
        configuration_text(&platform).expect("the modules are configured").into_bytes()
    };
    let kind = lode_platform::PersistentKind::AppDirectNotInterleaved;
    vec![
        ("interleaved", stored(GoalRequest::default())),
        ("single", stored(GoalRequest { kind, ..GoalRequest::default() })),
        ("cut-off", b"# a comment\n0,1,1,0,1,1064000,1\n".to_vec()),
    ]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn seeds_are_configurations() {
        let [(_, interleaved), (_, single), (_, cut_off)] = seeds().try_into().unwrap();
        for bytes in [interleaved, single] {
            let configuration = Configuration::parse(&bytes).unwrap();
            assert!(configuration.goals(&platform(), &Targets::default()).is_ok());
        }
        assert!(Configuration::parse(&cut_off).is_err());
    }

    #[test]
    fn mixed_seeds_never_panic() {
        crate::run_mixed_seeds(&seeds(), 300, run);
    }
}
