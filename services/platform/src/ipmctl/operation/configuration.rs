//! A configuration as `ipmctl dump -system -config` stores it and `load -source FILE -goal` reads it.
//!
//! A line has ten decimal numbers with commas between. Lines that begin with `#` are comments. Sizes are in GiB. A format
//! is a number of bits: sizes of the interleaving over channels and controllers in the lowest bytes, and ways in the half
//! above them, 0 for no set.

use crate::goal::{self, GoalError, GoalRequest, PersistentKind, Targets, WAYS};
use crate::ipmctl::refusal::{DUMP_CONFIG, LOAD_GOAL, Refusal, Words};
use crate::machine::{Handle, IpmctlGeneration};
use crate::plan::amount::brief;
use crate::platform::Platform;
use crate::state::{Goal, LabelVersion, Share};
use std::collections::BTreeMap;
use thiserror::Error;

const HEAD: &str = "#SocketID,DimmHandle,Capacity,MemorySize,AppDirect1Size,AppDirect1Format,AppDirect1Index,\
                    AppDirect2Size,AppDirect2Format,AppDirect2Index";
const GIB: u64 = 1 << 30;
/// Numbers in a line.
const NUMBERS: usize = 10;
/// Largest number of a file's bytes, far above that of any machine.
const LEN_MAX: usize = 1 << 20;
/// The bits of an interleaving by 4 KiB over channels and controllers.
const BY_4_KIB: u64 = 0x4040;
/// Number of ways for each bit of a format, from the lowest on.
const WAY_BITS: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

/// A stored configuration can't be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigurationFault {
    /// The file is larger than that of any machine.
    #[error("it has {found} bytes, and a configuration has at most {}", LEN_MAX)]
    Long {
        /// Bytes of the file.
        found: usize,
    },
    /// A line is no line of a configuration.
    #[error("line {line} is not {} decimal numbers with commas between", NUMBERS)]
    Line {
        /// The line, from 1.
        line: usize,
    },
    /// A line is about a module that no machine has.
    #[error("line {line} is about the handle {number}, and the largest one is {}", Handle::MAX.0)]
    Handle {
        /// The line, from 1.
        line: usize,
        /// The number of the line.
        number: u64,
    },
    /// Two lines are about a module.
    #[error("line {line} is about {module}, as another one is")]
    Twice {
        /// The line, from 1.
        line: usize,
        /// The module.
        module: Handle,
    },
    /// There is no line for a module.
    #[error("it has no line for {module}; name the modules that it has with -dimm or -socket")]
    Missing {
        /// The module.
        module: Handle,
    },
    /// The sizes are more than the module has.
    #[error("the sizes for {module} are {asked} GiB, and it has {usable} GiB for them")]
    TooLarge {
        /// The module.
        module: Handle,
        /// Sum of the sizes, in GiB.
        asked: u64,
        /// Capacity that the module has for them, in GiB.
        usable: u64,
    },
    /// A size is no multiple of firmware's alignment.
    #[error("a size for {module} is no multiple of {alignment} GiB")]
    Unaligned {
        /// The module.
        module: Handle,
        /// The alignment, in GiB.
        alignment: u64,
    },
    /// The lines of a set do not agree.
    #[error(
        "the set {index} is not one of modules of a socket with equal sizes, as many as can be interleaved"
    )]
    Set {
        /// The number of the set.
        index: u64,
    },
    /// ipmctl refuses such goals.
    #[error(transparent)]
    Goal(#[from] GoalError),
}

impl ConfigurationFault {
    /// Returns the refusal of `load -goal`, in ipmctl's words.
    pub fn refusal(self, generation: IpmctlGeneration) -> Refusal {
        let status = match &self {
            ConfigurationFault::Long { .. }
            | ConfigurationFault::Line { .. }
            | ConfigurationFault::Handle { .. }
            | ConfigurationFault::Twice { .. } => (141, "Invalid file."),
            ConfigurationFault::Missing { .. } => (148, "Incomplete configuration in the file."),
            ConfigurationFault::TooLarge { .. }
            | ConfigurationFault::Unaligned { .. }
            | ConfigurationFault::Set { .. } => (142, "Improper configuration."),
            ConfigurationFault::Goal(_) => (0, ""),
        };
        match self {
            ConfigurationFault::Goal(error) => Refusal::goal(error, LOAD_GOAL, generation),
            fault => Refusal::of_command(LOAD_GOAL, status, Words(generation), fault.to_string()),
        }
    }
}

/// A part of a module that belongs to a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    gib: u64,
    index: u64,
}

/// A module's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    memory_gib: u64,
    parts: [Part; 2],
}

/// A stored configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    entries: BTreeMap<Handle, Entry>,
}

/// Returns the stored form of a machine's configuration.
///
/// # Errors
/// Fails if no module is configured, or if one has a size between two GiB, which the file can't express.
pub fn configuration_text(platform: &Platform) -> Result<String, Box<Refusal>> {
    let configured = platform.machine.modules.iter().filter(|one| platform.state.is_configured(one.handle));
    let mut text = format!("{HEAD}\n");
    let mut is_empty = true;
    let words = Words(platform.machine.profile.ipmctl);
    for module in configured {
        is_empty = false;
        let uses = platform.capacities(module);
        let shares = platform.state.sets_of(module.handle).map(|(set, _)| set.share);
        if let Some(size) = shares.chain([uses.memory]).find(|size| !size.is_multiple_of(GIB)) {
            return Err(Box::new(no_whole_gib(module.handle, size, words)));
        }
        let mut numbers = vec![
            u64::from(module.handle.socket()),
            u64::from(module.handle.0),
            module.capacity / GIB,
            uses.memory / GIB,
        ];
        let numbered = (1_u64..).zip(&platform.state.sets);
        let sets =
            numbered.filter(|(_, set)| set.members.iter().any(|member| member.module == module.handle));
        for (index, set) in sets.take(2) {
            let way = WAY_BITS.iter().position(|ways| *ways == set.members.len()).map_or(0, |bit| 1 << bit);
            numbers.extend([set.share / GIB, way << 16 | BY_4_KIB, index]);
        }
        numbers.resize(NUMBERS, 0);
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        text += &format!("{}\n", numbers.join(","));
    }
    if is_empty {
        let status = (131, "There are no configured PMem modules to dump.");
        let why = "no module is configured; provision some with `lode ipmctl create -goal`".to_owned();
        return Err(Box::new(Refusal::of_command(DUMP_CONFIG, status, words, why)));
    }
    Ok(text)
}

/// Returns the refusal to store a size that is no number of GiB.
fn no_whole_gib(module: Handle, size: u64, words: Words) -> Refusal {
    let why = format!(
        "{module} has a part of {}, and the file has sizes in whole GiB; create goals of whole GiB, or copy the directory of \
         the machine",
        brief(size)
    );
    Refusal::of_command(DUMP_CONFIG, (142, "Improper configuration."), words, why)
}

impl Configuration {
    /// Parses the bytes of a file.
    ///
    /// # Errors
    /// [`ConfigurationFault::Long`], [`ConfigurationFault::Line`] and [`ConfigurationFault::Twice`].
    pub fn parse(bytes: &[u8]) -> Result<Configuration, ConfigurationFault> {
        if bytes.len() > LEN_MAX {
            return Err(ConfigurationFault::Long { found: bytes.len() });
        }
        let mut configuration = Configuration::default();
        for (line, bytes) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            let wrong = || ConfigurationFault::Line { line };
            let text = str::from_utf8(bytes).map_err(|_| wrong())?.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let numbers: Vec<u64> = text
                .split(',')
                .map(|number| number.trim().parse::<u32>().map(u64::from))
                .collect::<Result<_, _>>()
                .map_err(|_| wrong())?;
            let [_, handle, _, memory_gib, gib, _, index, gib2, _, index2] = numbers[..] else {
                return Err(wrong());
            };
            let module =
                Handle::of_number(handle).map_err(|_| ConfigurationFault::Handle { line, number: handle })?;
            let parts = [Part { gib, index }, Part { gib: gib2, index: index2 }];
            if configuration.entries.insert(module, Entry { memory_gib, parts }).is_some() {
                return Err(ConfigurationFault::Twice { line, module });
            }
        }
        Ok(configuration)
    }

    /// Returns the goals that give the modules of the targets this configuration.
    ///
    /// # Errors
    /// Fails if the configuration does not fit the modules, or if ipmctl would refuse such goals.
    pub fn goals(&self, platform: &Platform, targets: &Targets) -> Result<Vec<Goal>, ConfigurationFault> {
        let modules = goal::target_modules(&platform.machine, targets)?;
        let mut goals = Vec::new();
        let mut sets: BTreeMap<u64, Vec<(Handle, u64)>> = BTreeMap::new();
        for module in &modules {
            let handle = module.handle;
            let Some(entry) = self.entries.get(&handle) else {
                return Err(ConfigurationFault::Missing { module: handle });
            };
            let parts = entry.parts.iter().filter(|part| part.gib > 0);
            let asked = entry.memory_gib + parts.clone().map(|part| part.gib).sum::<u64>();
            let usable = platform.machine.usable_capacity(module);
            if asked.saturating_mul(GIB) > usable {
                return Err(ConfigurationFault::TooLarge { module: handle, asked, usable: usable / GIB });
            }
            let alignment = platform.machine.alignment;
            let is_aligned = |gib: u64| (gib * GIB).is_multiple_of(alignment);
            if !is_aligned(entry.memory_gib) || !parts.clone().all(|part| is_aligned(part.gib)) {
                return Err(ConfigurationFault::Unaligned { module: handle, alignment: alignment / GIB });
            }
            for part in parts {
                sets.entry(part.index).or_default().push((handle, part.gib * GIB));
            }
            let (memory, reserved) = (entry.memory_gib * GIB, usable - asked * GIB);
            let labels = LabelVersion::default();
            goals.push(Goal { module: handle, memory, reserved, labels, shares: Vec::new() });
        }
        let is_one_by_one = sets.values().all(|members| members.len() == 1);
        let has_memory = goals.iter().any(|goal| goal.memory > 0);
        let request = GoalRequest {
            targets: targets.clone(),
            // The rules ask whether there is memory, and whether there is nothing else.
            memory_percent: if has_memory && sets.is_empty() { 100 } else { u8::from(has_memory) },
            kind: if is_one_by_one {
                PersistentKind::AppDirectNotInterleaved
            } else {
                PersistentKind::AppDirect
            },
            ..GoalRequest::default()
        };
        goal::check_create(platform, &request, &modules)?;
        add_sets(platform, &mut goals, sets)?;
        goal::check_ratio(platform, &goals)?;
        Ok(goals)
    }
}

/// Gives the goals their shares of the sets.
fn add_sets(
    platform: &Platform,
    goals: &mut [Goal],
    sets: BTreeMap<u64, Vec<(Handle, u64)>>,
) -> Result<(), ConfigurationFault> {
    let taken = platform.state.goals.iter().flat_map(|goal| &goal.shares).map(|share| share.set + 1).max();
    for (set, (index, members)) in (taken.unwrap_or(0)..).zip(sets) {
        let (first, size) = members[0];
        let is_equal = |(module, other): &(Handle, u64)| *other == size && module.socket() == first.socket();
        // The parts of a module follow each other.
        let is_twice = members.windows(2).any(|pair| pair[0].0 == pair[1].0);
        if is_twice || !WAYS.contains(&members.len()) || !members.iter().all(is_equal) {
            return Err(ConfigurationFault::Set { index });
        }
        for goal in goals.iter_mut().filter(|goal| members.iter().any(|(module, _)| *module == goal.module)) {
            goal.shares.push(Share { set, size });
        }
    }
    Ok(())
}
