//! Saved listings of ipmctl: any text is refused with a reason, or makes a machine that can be written and shown.

use lode_platform::discovery::from_ipmctl;
use lode_platform::ipmctl::{self, Attributes, DisplayOptions, Subject};
use lode_platform::machine::{INCLUDED, Machine};
use lode_platform::{Format, GoalRequest, Platform, Targets, Unit, boot, goal};

static SUBJECTS: [Subject; 6] = [
    Subject::Topology,
    Subject::Dimm,
    Subject::MemoryResources,
    Subject::Region,
    Subject::Goal,
    Subject::Sensor(Vec::new()),
];

/// Reads the bytes as one file of listings.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    match from_ipmctl("fuzzed", &[("file".to_owned(), text)]) {
        Ok(found) => {
            let machine = &found.platform.machine;
            assert_eq!(Machine::parse(&found.text()).as_ref(), Ok(machine));
            for module in &machine.modules {
                let uses = found.platform.capacities(module);
                assert!(uses.memory + uses.app_direct + uses.reserved <= module.capacity);
            }
            for subject in &SUBJECTS {
                let shown =
                    ipmctl::show(&found.platform, subject, &Targets::default(), &DisplayOptions::default());
                assert!(shown.is_ok(), "{subject:?}: {shown:?}");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn listings(display: &DisplayOptions) -> Option<Vec<u8>> {
    let mut platform = Platform::new(Machine::parse(INCLUDED[4].1).ok()?);
    let goals = goal::plan(&platform, &GoalRequest::default()).ok()?;
    goal::create(&mut platform, goals.clone());
    boot::reboot(&mut platform);
    goal::create(&mut platform, goals);
    let show = |subject| ipmctl::show(&platform, subject, &Targets::default(), display).ok();
    let all: Option<Vec<String>> = SUBJECTS.iter().map(show).collect();
    Some(all?.concat().into_bytes())
}

/// Returns all listings of a machine as tables, as lists and as XML.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let all =
        DisplayOptions { unit: Some(Unit::B), attributes: Attributes::All, ..DisplayOptions::default() };
    let xml = DisplayOptions { format: Format::Xml, ..all.clone() };
    let all = [
        ("tables", listings(&DisplayOptions::default())),
        ("lists", listings(&all)),
        ("xml", listings(&xml)),
    ];
    all.into_iter().filter_map(|(name, bytes)| Some((name, bytes?))).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn seeds_are_machines() {
        assert_eq!(seeds().len(), 3);
        for (name, bytes) in seeds() {
            let text = String::from_utf8(bytes).unwrap();
            let found = from_ipmctl("seed", &[(name.to_owned(), text)]).unwrap();
            assert_eq!(found.platform.state.sets.len(), 1, "{name}");
        }
    }
}
