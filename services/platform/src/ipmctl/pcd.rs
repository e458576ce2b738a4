//! `ipmctl show -dimm -pcd Config`: the platform configuration data (PCD) on each module about its sets.

use super::display::{DisplayOptions, dimm_id, is_first_generation};
use super::error::ShowError;
use crate::goal::Targets;
use crate::listing::{Format, Record, Records, Value};
use crate::machine::{Handle, Module};
use crate::platform::Platform;
use crate::state::{Goal, InterleaveSet, Member};

/// Width of the column of value names.
const NAME_WIDTH: usize = 26;
/// Status: firmware applied the configuration.
const VALID: u64 = 1;
/// Status: the module was never configured.
const NOT_CONFIGURED: u64 = 0;
/// Persistent memory type App Direct, in the table of a set.
const APP_DIRECT: u64 = 2;
/// Interleave size of 4 KiB, for controllers and for channels.
const FORMAT_4_KIB: u64 = 0x40;
/// Number of ways for each bit, from the lowest on.
const WAY_BITS: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

/// Lines of names and values. Later generations print the headings, and the empty lines, of which one ends each table.
#[derive(Default)]
struct Lines(Vec<Line>);

enum Line {
    Value(&'static str, Value),
    Heading(&'static str),
    Empty,
}

impl Lines {
    fn add(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.push(Line::Value(name, value.into()));
    }

    fn hex(&mut self, name: &'static str, value: u64) {
        self.add(name, Value::number(value, format!("{value:#x}")));
    }

    fn values(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().filter_map(|line| match line {
            Line::Value(name, value) => Some((*name, value.text())),
            Line::Heading(_) | Line::Empty => None,
        })
    }

    /// Returns a record for each table.
    fn tables(&self) -> Vec<Record> {
        let table = |lines: &[Line]| {
            lines.iter().fold(Record::new(), |record, line| match line {
                Line::Value(name, value) => record.with(name, value.clone()),
                Line::Heading(table) => record.with("Table", *table),
                Line::Empty => record,
            })
        };
        let tables = self.0.split(|line| matches!(line, Line::Empty));
        tables.filter(|lines| !lines.is_empty()).map(table).collect()
    }
}

pub(super) fn show(
    platform: &Platform,
    targets: &Targets,
    display: &DisplayOptions,
) -> Result<String, ShowError> {
    let modules = targets.resolve_answering(&platform.machine)?;
    let later = !is_first_generation(&platform.machine);
    let lines = |module| if later { later_lines(platform, module) } else { pcd_lines(platform, module) };
    let data = modules.into_iter().map(|module| (dimm_id(platform, module.handle), lines(module)));
    Ok(match display.format {
        Format::Text if later => data.map(|(id, lines)| later_text(&id, &lines)).collect(),
        Format::Text => data.map(|(id, lines)| first_text(&id, &lines)).collect(),
        Format::Xml => {
            let list: String = data.map(|(id, lines)| xml(&id, &lines)).collect();
            format!("<?xml version=\"1.0\"?>\n <DimmList>\n{list} </DimmList>\n")
        }
        Format::Json => json(data.map(|(id, lines)| record(&id, &lines)).collect()),
    })
}

/// Returns true if the tables of the current configuration were deleted. Firmware writes them again at the next start.
fn is_cleared(platform: &Platform, module: &Module) -> bool {
    platform.state.cleared.contains(&module.handle)
}

/// Returns the sets of a module with their numbers, as its tables list them.
fn sets<'p>(
    platform: &'p Platform,
    module: &Module,
) -> impl Iterator<Item = (u64, &'p InterleaveSet)> + use<'p> {
    let module = module.handle;
    let numbered = (1..).zip(&platform.state.sets);
    numbered.filter(move |(_, set)| set.members.iter().any(|member| member.module == module))
}

fn pcd_lines(platform: &Platform, module: &Module) -> Lines {
    let mut lines = Lines::default();
    if !is_cleared(platform, module) {
        lines.add("Table", "PCD Current Config");
        let uses = platform.capacities(module);
        let configured = platform.state.partition(module.handle).is_some();
        lines.hex("ConfigStatus", if configured { VALID } else { NOT_CONFIGURED });
        lines.hex("VolatileMemSizeIntoSpa", uses.memory);
        lines.hex("PersistentMemSizeIntoSpa", uses.app_direct);
        lines.0.push(Line::Empty);
        for (number, set) in sets(platform, module) {
            set_lines(platform, &mut lines, number, set.share, &set.members);
        }
    }
    if let Some(goal) = platform.state.goal(module.handle) {
        goal_lines(platform, &mut lines, goal);
    }
    lines
}

fn set_lines(platform: &Platform, lines: &mut Lines, index: u64, share: u64, members: &[Member]) {
    lines.add("PcatTable", "PCD Interleave Info");
    lines.hex("InterleaveSetIndex", index);
    lines.hex("NumOfDimmsInInterleaveSet", members.len() as u64);
    lines.0.push(Line::Empty);
    for member in members {
        lines.add("DimmUniqueIdentifier", identity_text(platform, member));
        lines.hex("PartitionOffset", member.offset);
        lines.hex("PmPartitionSize", share);
        lines.0.push(Line::Empty);
    }
}

fn goal_lines(platform: &Platform, lines: &mut Lines, goal: &Goal) {
    lines.add("Table", "PCD Config Input");
    lines.hex("PartitionSize", goal.shares.iter().map(|share| share.size).sum());
    lines.0.push(Line::Empty);
    for share in &goal.shares {
        let members = goal_members(platform, share.set);
        set_lines(platform, lines, u64::from(share.set) + 1, share.size, &members);
    }
}

/// Returns the modules of a planned set, by their goals.
fn goal_members(platform: &Platform, set: u32) -> Vec<Member> {
    let same = |goal: &&Goal| goal.shares.iter().any(|share| share.set == set);
    let member = |goal: &Goal| {
        let before = goal.shares.iter().take_while(|one| one.set != set).map(|one| one.size);
        let offset = Platform::persistent_start(goal.memory) + before.sum::<u64>();
        Member { module: goal.module, offset }
    };
    let mut members: Vec<Member> = platform.state.goals.iter().filter(same).map(member).collect();
    members.sort_by_key(|member| member.module.listing_order());
    members
}

fn identity_text(platform: &Platform, member: &Member) -> String {
    let identity = platform.machine.module(member.module).and_then(|module| module.identity);
    identity.map_or("N/A".to_owned(), |identity| identity.to_string())
}

/// Formats the data for later generations: a heading for each table, and the tables of a set one after the other.
fn later_lines(platform: &Platform, module: &Module) -> Lines {
    let mut lines = Lines::default();
    if !is_cleared(platform, module) {
        let uses = platform.capacities(module);
        let configured = platform.state.partition(module.handle).is_some();
        lines.0.push(Line::Heading("PCD Current Config"));
        lines.hex("ConfigStatus", if configured { VALID } else { NOT_CONFIGURED });
        lines.hex("VolatileMemSizeIntoSpa", uses.memory);
        lines.hex("PersistentMemSizeIntoSpa", uses.app_direct);
        lines.0.push(Line::Empty);
        for (number, set) in sets(platform, module) {
            let memory = |module| platform.state.partition(module).map_or(0, |partition| partition.memory);
            later_set_lines(platform, &mut lines, number, set.share, &set.members, &memory);
        }
    }
    if let Some(goal) = platform.state.goal(module.handle) {
        lines.0.push(Line::Heading("Platform Config Data Conf Input table"));
        lines.hex("SequenceNumber", 1);
        lines.0.push(Line::Empty);
        lines.add("PcatTable", "PCD Partition Size Change");
        lines.hex("PartitionSizeChangeStatus", 0);
        lines.hex("PartitionSize", module.capacity - goal.memory);
        lines.0.push(Line::Empty);
        let memory = |module| platform.state.goal(module).map_or(0, |goal| goal.memory);
        for share in &goal.shares {
            let members = goal_members(platform, share.set);
            later_set_lines(platform, &mut lines, u64::from(share.set) + 1, share.size, &members, &memory);
        }
    }
    lines
}

/// Formats a set. Offsets are relative to the module's persistent memory, after its volatile memory.
fn later_set_lines(
    platform: &Platform,
    lines: &mut Lines,
    index: u64,
    share: u64,
    members: &[Member],
    memory: &dyn Fn(Handle) -> u64,
) {
    let way = WAY_BITS.iter().position(|ways| *ways == members.len());
    lines.add("PcatTable", "PCD Interleave Info");
    lines.hex("InterleaveSetIndex", index);
    lines.hex("NumOfDimmsInInterleaveSet", members.len() as u64);
    lines.hex("InterleaveMemoryType", APP_DIRECT);
    lines.hex("InterleaveFormatChannel", FORMAT_4_KIB);
    lines.hex("InterleaveFormatImc", FORMAT_4_KIB);
    lines.hex("InterleaveFormatWays", way.map_or(0, |bit| 1 << bit));
    lines.hex("MirrorEnable", 0);
    lines.hex("InterleaveChangeStatus", 0);
    lines.0.push(Line::Empty);
    for member in members {
        lines.add("IdentificationInfoTable", "PCD Identification Info");
        // This spelling is ipmctl's.
        lines.add("DimmUniqueIdentifer", identity_text(platform, member));
        let start = Platform::persistent_start(memory(member.module));
        lines.hex("PartitionOffset", member.offset - start);
        lines.hex("PmPartitionSize", share);
        lines.0.push(Line::Empty);
    }
}

fn first_text(id: &str, lines: &Lines) -> String {
    let head = format!("---DimmID={id}---\n");
    lines.values().fold(head, |text, (name, value)| text + &format!("{name:NAME_WIDTH$}: {value}\n"))
}

fn later_text(id: &str, lines: &Lines) -> String {
    let head = format!("--DimmID:{id}--\n--Pcd:Config--\n");
    lines.0.iter().fold(head, |text, line| {
        text + &match line {
            Line::Heading(table) => format!("   ---Table: {table}---\n"),
            // ipmctl pads names of tables by three columns, independent of their length. One name has a column more.
            Line::Value(name @ ("PcatTable" | "IdentificationInfoTable"), value) => {
                format!("      {name}   : {}\n", value.text())
            }
            Line::Value(name @ "SequenceNumber", value) => format!("      {name:27}: {}\n", value.text()),
            Line::Value(name, value) => format!("      {name:NAME_WIDTH$}: {}\n", value.text()),
            Line::Empty => "\n".to_owned(),
        }
    })
}

fn record(id: &str, lines: &Lines) -> Record {
    Record::new().with("DimmID", id).with_parts(lines.tables())
}

fn json(records: Vec<Record>) -> String {
    let head = Some("DimmID");
    Records { list_tag: "DimmList", tag: "Dimm", part_tag: "Tables", head, records }.json()
}

fn xml(id: &str, lines: &Lines) -> String {
    let head = format!("  <Dimm>\n   <DimmID>{id}</DimmID>\n");
    let text =
        lines.values().fold(head, |text, (name, value)| text + &format!("   <{name}>{value}</{name}>\n"));
    text + "  </Dimm>\n"
}
