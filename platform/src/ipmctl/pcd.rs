//! `ipmctl show -dimm -pcd Config`: what firmware keeps on each module about the sets that it is in.

use super::Display;
use crate::error::PlatformError;
use crate::goal::Targets;
use crate::listing::Format;
use crate::machine::{Health, Module};
use crate::platform::Platform;
use crate::state::{Goal, Member};

/// Columns that the name of a value takes.
const NAME_WIDTH: usize = 26;
/// Firmware took the configuration over.
const VALID: u64 = 1;
/// Nothing was ever configured.
const NOT_CONFIGURED: u64 = 0;

/// Lines of names and values.
#[derive(Default)]
struct Lines(Vec<(&'static str, String)>);

impl Lines {
    fn add(&mut self, name: &'static str, value: impl ToString) {
        self.0.push((name, value.to_string()));
    }

    fn hex(&mut self, name: &'static str, value: u64) {
        self.add(name, format!("{value:#x}"));
    }
}

impl Platform {
    pub(super) fn show_pcd(&self, targets: &Targets, display: &Display) -> Result<String, PlatformError> {
        let mut modules = self.targets(targets)?;
        if targets.modules.is_empty() {
            modules.retain(|module| module.health != Health::NonFunctional);
        }
        let mut text = match display.format {
            Format::Text => String::new(),
            Format::Xml => "<?xml version=\"1.0\"?>\n <DimmList>\n".to_owned(),
        };
        for module in modules {
            if module.health == Health::NonFunctional {
                return Err(PlatformError::DeadModule { module: module.handle });
            }
            let Lines(lines) = self.pcd_lines(module);
            match display.format {
                Format::Text => {
                    text += &format!("---DimmID={}---\n", module.handle);
                    let indent = if self.is_first_generation() { "" } else { "   " };
                    for (name, value) in lines {
                        text += &format!("{indent}{name:NAME_WIDTH$}: {value}\n");
                    }
                }
                Format::Xml => {
                    text += &format!("  <Dimm>\n   <DimmID>{}</DimmID>\n", module.handle);
                    for (name, value) in lines {
                        text += &format!("   <{name}>{value}</{name}>\n");
                    }
                    text += "  </Dimm>\n";
                }
            }
        }
        Ok(if display.format == Format::Xml { text + " </DimmList>\n" } else { text })
    }

    fn pcd_lines(&self, module: &Module) -> Lines {
        let mut lines = Lines::default();
        lines.add("Table", "PCD Current Config");
        let uses = self.capacities(module);
        let configured = self.state.partition(module.handle).is_some();
        lines.hex("ConfigStatus", if configured { VALID } else { NOT_CONFIGURED });
        lines.hex("VolatileMemSizeIntoSpa", uses.memory);
        lines.hex("PersistentMemSizeIntoSpa", uses.app_direct);
        for (index, set) in self.state.sets.iter().enumerate() {
            if set.members.iter().any(|member| member.module == module.handle) {
                self.set_lines(&mut lines, index as u64 + 1, set.share, &set.members);
            }
        }
        if let Some(goal) = self.state.goal(module.handle) {
            self.goal_lines(&mut lines, goal);
        }
        lines
    }

    fn set_lines(&self, lines: &mut Lines, index: u64, share: u64, members: &[Member]) {
        lines.add("PcatTable", "PCD Interleave Info");
        lines.hex("InterleaveSetIndex", index);
        lines.hex("NumOfDimmsInInterleaveSet", members.len() as u64);
        for member in members {
            let identity = self.machine.module(member.module).and_then(|module| module.identity);
            let identity = identity.map_or("N/A".to_owned(), |identity| identity.to_string());
            lines.add("DimmUniqueIdentifier", identity);
            lines.hex("PartitionOffset", member.offset);
            lines.hex("PmPartitionSize", share);
        }
    }

    fn goal_lines(&self, lines: &mut Lines, goal: &Goal) {
        lines.add("Table", "PCD Config Input");
        lines.hex("PartitionSize", goal.shares.iter().map(|share| share.size).sum());
        for share in &goal.shares {
            let same = |other: &&Goal| other.shares.iter().any(|theirs| theirs.set == share.set);
            let member = |goal: &Goal| {
                let before = goal.shares.iter().take_while(|one| one.set != share.set).map(|one| one.size);
                Member {
                    module: goal.module,
                    offset: Platform::persistent_start(goal.memory) + before.sum::<u64>(),
                }
            };
            let members: Vec<Member> = self.state.goals.iter().filter(same).map(member).collect();
            self.set_lines(lines, u64::from(share.set) + 1, share.size, &members);
        }
    }
}
