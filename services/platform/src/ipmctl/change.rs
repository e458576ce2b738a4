//! The commands of ipmctl that change modules: `create -goal`, `delete -goal` and `delete -pcd Config`.
//!
//! `docs/ipmctl-rules.md` has their rules, errors and exit codes.

use super::display::DisplayOptions;
use super::refusal::{CLEAR, CREATE, DELETE, Refusal, Words};
use super::syntax::{Line, SyntaxError};
use super::values;
use crate::goal::{self, GoalRequest, GoalWarning, PersistentKind, Targets, warnings};
use crate::listing::Format;
use crate::machine::IpmctlGeneration;
use crate::platform::Platform;
use crate::state::{Goal, LabelVersion};

/// Options of all commands that have no effect on emulated machines: transports and debug output.
pub(super) const IGNORED: [&str; 3] = ["-verbose", "-ddrt", "-smbus"];
/// Sizes of payloads, which have no effect either.
pub(super) const PAYLOADS: [&str; 2] = ["-lpmb", "-spmb"];

/// The reason why `delete -dimm` is refused.
const ERASES_NOT: &str =
    "ipmctl erases modules in UEFI alone, not on Linux; `lode ndctl sanitize-dimm` erases them";

/// A command that changes modules, with its words as they were given. Values are checked by [`prepare`], as ipmctl does.
///
/// [`prepare`]: ChangeCommand::prepare
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeCommand {
    kind: Kind,
    line: Line,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    CreateGoal,
    DeleteGoal,
    Clear,
}

/// A checked command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// `create -goal`.
    Create {
        /// The goals that it makes.
        goals: Vec<Goal>,
        /// Warnings that ipmctl prints before it asks.
        warnings: Vec<GoalWarning>,
        /// Format of its output.
        display: DisplayOptions,
        /// True if it asks for confirmation.
        asks: bool,
    },
    /// `delete -goal`.
    Delete {
        /// The modules.
        targets: Targets,
    },
    /// `delete -pcd Config`.
    Clear {
        /// The modules.
        targets: Targets,
        /// True if it asks for confirmation, for each module.
        asks: bool,
    },
}

impl ChangeCommand {
    /// Parses a line that begins with `create` or `delete`, for a machine of this generation; `None` if the user asks
    /// for help.
    ///
    /// # Errors
    /// The line is no command of ipmctl.
    pub fn parse(
        words: &[String],
        generation: IpmctlGeneration,
    ) -> Result<Option<ChangeCommand>, Box<Refusal>> {
        let (verb, rest) = words.split_first().map_or(("", &[][..]), |(verb, rest)| (verb.as_str(), rest));
        let is_create = verb.eq_ignore_ascii_case("create");
        let refused = |error: SyntaxError, kind| {
            let mut refusal = Refusal::syntax(&error, kind, generation);
            if !is_create && names_an_erasure(rest) {
                refusal.why = ERASES_NOT.to_owned();
            }
            Box::new(refusal)
        };
        let line = match Line::split(rest) {
            Ok(line) => line,
            Err(error) => return Err(refused(error, if is_create { CREATE } else { DELETE })),
        };
        if line.wants_help {
            return Ok(None);
        }
        let kind = match (is_create, line.has_target("-pcd")) {
            (true, _) => Kind::CreateGoal,
            (false, false) => Kind::DeleteGoal,
            (false, true) => Kind::Clear,
        };
        match check(&line, kind) {
            Ok(()) => Ok(Some(ChangeCommand { kind, line })),
            Err(error) => Err(refused(error, if is_create { CREATE } else { DELETE })),
        }
    }

    /// Checks the values and the rules for the machine's state.
    ///
    /// # Errors
    /// ipmctl refuses the command on such a machine.
    pub fn prepare(&self, platform: &Platform) -> Result<Prepared, Box<Refusal>> {
        let generation = platform.machine.profile.ipmctl;
        let words = Words(generation);
        let display = values::display(&self.line, words)?;
        let targets = values::targets(&self.line, &platform.machine)?;
        let is_forced = self.line.has_option("-force");
        match self.kind {
            Kind::CreateGoal => {
                let request = self.goal_request(targets, words)?;
                let goals = goal::plan(platform, &request)
                    .map_err(|error| Box::new(Refusal::goal(error, CREATE, generation)))?;
                let warnings = warnings(platform, &request, &goals);
                let asks = !is_forced && display.format == Format::Text;
                Ok(Prepared::Create { goals, warnings, display, asks })
            }
            Kind::DeleteGoal => {
                let done = goal::delete(&mut platform.clone(), &targets);
                done.map_err(|error| Box::new(Refusal::goal(error, DELETE, generation)))?;
                Ok(Prepared::Delete { targets })
            }
            Kind::Clear => {
                if let Some(table) =
                    self.line.target("-pcd").filter(|table| !table.eq_ignore_ascii_case("Config"))
                {
                    return Err(Box::new(Refusal::value("target -pcd", table, words)));
                }
                let done = goal::clear(&mut platform.clone(), &targets);
                done.map_err(|error| Box::new(Refusal::goal(error, CLEAR, generation)))?;
                Ok(Prepared::Clear { targets, asks: !is_forced })
            }
        }
    }

    fn goal_request(&self, targets: Targets, words: Words) -> Result<GoalRequest, Box<Refusal>> {
        let mut request = GoalRequest { targets, ..GoalRequest::default() };
        let percent = |name: &'static str| match self.line.property(name) {
            None => Ok(0),
            Some(text) => match values::number(text) {
                Some(percent) if percent <= 100 => Ok(percent as u8),
                _ => Err(Box::new(Refusal::value(&format!("property {name}"), text, words))),
            },
        };
        request.memory_percent = percent("MemoryMode")?;
        if let Some(kind) = self.line.property("PersistentMemoryType") {
            request.kind = if kind.eq_ignore_ascii_case("AppDirect") {
                PersistentKind::AppDirect
            } else if kind.eq_ignore_ascii_case("AppDirectNotInterleaved") {
                PersistentKind::AppDirectNotInterleaved
            } else {
                return Err(Box::new(Refusal::value("property PersistentMemoryType", kind, words)));
            };
        }
        request.reserved_percent = percent("Reserved")?;
        if u32::from(request.memory_percent) + u32::from(request.reserved_percent) > 100 {
            return Err(Box::new(Refusal::sum(&request)));
        }
        if let Some(version) = self.line.property("NamespaceLabelVersion") {
            let numbers: Vec<Option<u64>> = version.split('.').map(|part| part.parse::<u64>().ok()).collect();
            request.labels = match numbers.as_slice() {
                [Some(1), Some(1)] => LabelVersion::V1_1,
                [Some(1), Some(2)] => LabelVersion::V1_2,
                [Some(_), Some(_)] => {
                    return Err(Box::new(Refusal::value("property NamespaceLabelVersion", version, words)));
                }
                _ => return Err(Box::new(Refusal::no_version(version))),
            };
        }
        Ok(request)
    }
}

/// The properties of a goal.
const GOAL_PROPERTIES: [&str; 4] =
    ["MemoryMode", "PersistentMemoryType", "Reserved", "NamespaceLabelVersion"];

/// Returns true if the words after `delete` name modules, and nothing on them: the erasure of ipmctl for UEFI.
fn names_an_erasure(words: &[String]) -> bool {
    let has = |name: &str| words.iter().any(|word| word.eq_ignore_ascii_case(name));
    has("-dimm") && !has("-goal") && !has("-pcd")
}

fn check(line: &Line, kind: Kind) -> Result<(), SyntaxError> {
    let flags = |more: &[&'static str]| [&IGNORED[..], more].concat();
    let (required, result) = match kind {
        Kind::CreateGoal => {
            let targets = ["-dimm", "-goal", "-socket"];
            ("-goal", line.check(&flags(&["-force"]), &["-units", "-output"], &targets, true))
        }
        Kind::DeleteGoal => {
            let targets = ["-dimm", "-goal", "-socket"];
            ("-goal", line.check(&flags(&PAYLOADS), &["-output"], &targets, false))
        }
        Kind::Clear => {
            let more = [&PAYLOADS[..], &["-force"]].concat();
            ("-pcd", line.check(&flags(&more), &["-output"], &["-dimm", "-pcd"], false))
        }
    };
    result?;
    if line.properties.iter().any(|(name, _)| !GOAL_PROPERTIES.contains(name)) {
        return Err(SyntaxError::NoCommand);
    }
    if line.has_target(required) && (required == "-pcd" || line.target(required).is_none()) {
        Ok(())
    } else {
        Err(SyntaxError::NoCommand)
    }
}
