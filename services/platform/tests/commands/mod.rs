//! The printed commands of plans.

use lode_platform::Platform;
use lode_platform::ipmctl::ChangeCommand;
use lode_platform::plan::Plan;
use uuid::Uuid;

/// Checks that ipmctl takes each printed command of the plan on the machine as it is then.
pub(crate) fn check_commands(platform: &Platform, plan: &Plan) {
    let mut platform = platform.clone();
    let mut next = 3 << 64;
    let mut identities = || {
        next += 1;
        Uuid::from_u128(next)
    };
    for step in &plan.steps {
        if let Some(line) = step.command().strip_prefix("ipmctl ") {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let parsed = ChangeCommand::parse(&words, platform.machine.profile.ipmctl).unwrap();
            parsed.unwrap().prepare(&platform).unwrap();
        }
        step.run(&mut platform, &mut identities).unwrap();
    }
}
