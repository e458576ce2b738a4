//! Refused commands, in ipmctl's words and with its numbers.

use super::syntax::SyntaxError;
use crate::goal::{GoalError, GoalRequest, GoalWarning};
use crate::machine::{Handle, IpmctlGeneration, ModuleError};

/// Exit code for lines and values that are no command of ipmctl.
const SYNTAX: u8 = 201;
/// Exit code for all other failures.
const FAILED: u8 = 1;

/// A command, as messages name it: what it does, the word before a module, and its help.
pub(super) struct Command {
    what: &'static str,
    before_module: &'static str,
    help: [&'static str; 2],
    forms: &'static [&'static str],
}

pub(super) const CREATE: &Command = &Command {
    what: "Create region configuration goal",
    before_module: "on",
    help: [
        "Provision capacity on one or more PMem modules into regions.",
        "create  [OPTIONS][ -dimm[DimmIDs]]  -goal [ -socket[SocketIDs]] [PROPERTIES ...]",
    ],
    forms: &["create [-dimm [DimmIDs]] -goal  [-socket [SocketIDs]] "],
};
pub(super) const DELETE: &Command = &Command {
    what: "Delete memory allocation goal",
    before_module: "from",
    help: [
        "Delete the region configuration goal from one or more PMem modules.",
        "delete  [OPTIONS][ -dimm[DimmIDs]]  -goal [ -socket[SocketIDs]] ",
    ],
    forms: &[
        "delete [-dimm [DimmIDs]] -goal  [-socket [SocketIDs]] ",
        "delete [-dimm [DimmIDs]] -pcd [Config] ",
    ],
};
pub(super) const SET_SENSOR: &Command = &Command {
    what: "Modify settings",
    before_module: "on",
    help: [
        "Modify the alarm threshold(s) for one or more PMem modules.",
        "set  [OPTIONS] -sensor (List of Sensors) [ -dimm[DimmIDs]] [PROPERTIES ...]",
    ],
    forms: &[
        "set -dimm [DimmIDs] ",
        "set -sensor (List of Sensors) [-dimm [DimmIDs]] ",
        "set -preferences  ",
    ],
};
pub(super) const SET_DIMM: &Command = &Command {
    what: "Set property",
    before_module: "on",
    help: [
        "Set properties of one or more PMem modules, such as modify device.",
        "set  [OPTIONS] -dimm[DimmIDs] [PROPERTIES ...]",
    ],
    ..*SET_SENSOR
};
pub(super) const SET_PREFERENCES: &Command = &Command {
    what: "Set preferences",
    before_module: "on",
    help: ["Set user preferences.", "set  [OPTIONS] -preferences [PROPERTIES ...]"],
    ..*SET_SENSOR
};
pub(super) const LOAD_GOAL: &Command = &Command {
    what: "Load Goal",
    before_module: "on",
    help: [
        "Create a memory allocation goal request from a file.",
        "load  [OPTIONS] -source (filename)[ -dimm[DimmIDs]]  -goal [ -socket[SocketIDs]] ",
    ],
    forms: &[
        "load -source (filename) [-dimm [DimmIDs]] -goal  [-socket [SocketIDs]] ",
        "load -source (filename) -dimm [DimmIDs] ",
        "load -source (filename) -session  ",
    ],
};
pub(super) const LOAD_FIRMWARE: &Command = &Command {
    what: "Load FW",
    before_module: "on",
    help: [
        "Update the firmware on one or more PMem modules.",
        "load  [OPTIONS] -source (filename) -dimm [DimmIDs] ",
    ],
    ..*LOAD_GOAL
};
pub(super) const DUMP_CONFIG: &Command = &Command {
    what: "Dump configuration goal",
    before_module: "on",
    help: [
        "Store the current configured memory allocation settings to a file.",
        "dump  [OPTIONS] -destination (filename) -system  -config  ",
    ],
    forms: &[
        "dump -destination (filename) -system  -config  ",
        "dump -destination (filename) -support  ",
        "dump -destination (filename) -debug  [-dimm [DimmIDs]] ",
        "dump -destination (filename) -session  ",
    ],
};
pub(super) const DIAGNOSE: &Command = &Command {
    what: "Run diagnostic",
    before_module: "on",
    help: [
        "Run a diagnostic test on one or more PMem modules.",
        "start  [OPTIONS] -diagnostic [Quick|Config|Security|FW] [ -dimm[DimmIDs]] ",
    ],
    forms: &[
        "start -diagnostic [Quick|Config|Security|FW] [-dimm [DimmIDs]] ",
        "start -session  -mode  [-tag ] ",
    ],
};
pub(super) const CLEAR: &Command =
    &Command { what: "Clear Config partition(s)", before_module: "on", ..*DELETE };

impl Command {
    /// Returns the command with another name for what it does.
    pub(super) fn named(&self, what: &'static str) -> Command {
        Command { what, ..*self }
    }

    /// Returns the line that ipmctl prints about a module.
    pub(super) fn line(&self, module: Handle, message: &str, generation: IpmctlGeneration) -> String {
        let module = Words(generation).module(module);
        format!("{} {} {module}: {message}\n", self.what, self.before_module)
    }

    /// Returns the lines that ipmctl prints when it is done: one for each module.
    pub(super) fn done(&self, modules: &[Handle], generation: IpmctlGeneration) -> String {
        modules.iter().map(|module| self.line(*module, "Success", generation)).collect()
    }
}

/// A command that ipmctl refuses.
#[derive(Debug)]
pub struct Refusal {
    /// ipmctl's output.
    pub output: String,
    /// Its exit code.
    pub code: u8,
    /// The reason with the objects that it is about.
    pub why: String,
}

/// The words of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Words(pub(super) IpmctlGeneration);

impl Words {
    fn is_first(self) -> bool {
        self.0 == IpmctlGeneration::One
    }

    /// Returns the generation's text for one of generation 3.
    pub(super) fn say(self, text: &str) -> String {
        if !self.is_first() {
            return text.to_owned();
        }
        text.replace("PMem modules", "DIMMs").replace("PMem module", "DIMM")
    }

    pub(super) fn error(self, number: u16, text: &str) -> String {
        let text = self.say(text);
        if self.is_first() {
            format!("Error ({number}) - {text}")
        } else {
            format!("Error {number} - {text}")
        }
    }

    fn module(self, module: Handle) -> String {
        self.say(&format!("PMem module {module}"))
    }
}

impl Refusal {
    pub(super) fn syntax(error: &SyntaxError, command: &Command, generation: IpmctlGeneration) -> Refusal {
        let words = Words(generation);
        let (output, why) = match error {
            SyntaxError::Unexpected(word) => {
                let forms: String = command.forms.iter().map(|form| format!("     {form}\n\n")).collect();
                let output =
                    format!("Syntax Error: Invalid or unexpected token {word}.\nDid you mean:\n{forms}\n");
                let order = "after the verb come options, then targets, then properties";
                (output, format!("{word:?} is not expected there: {order}"))
            }
            SyntaxError::Exclusive([one, other]) => {
                let output = format!("Syntax Error: Mutually exclusive options {one} and {other}.\n");
                (output, format!("leave {one} or {other} out"))
            }
            SyntaxError::Order => {
                let output = "Invalid input target ordering: -socket -dimm\n".to_owned();
                (output, "name -goal or -dimm first".to_owned())
            }
            SyntaxError::NoCommand => {
                let help: String = command.help.iter().map(|line| format!("    {line}\n")).collect();
                (words.say(&help), "no command has just these options, targets and values".to_owned())
            }
        };
        Refusal { output, code: SYNTAX, why }
    }

    /// Returns the refusal of a value.
    pub(super) fn value(what: &str, value: &str, words: Words) -> Refusal {
        let stop = if words.is_first() { "" } else { "." };
        let output = format!("Syntax Error: Incorrect value for {what}{stop}\n");
        Refusal { output, code: SYNTAX, why: format!("{value:?} is no value for {what}") }
    }

    pub(super) fn sum(request: &GoalRequest) -> Refusal {
        let (memory, reserved) = (request.memory_percent, request.reserved_percent);
        Refusal {
            output: "Syntax Error: Properties MemoryMode and Reserved cannot sum greater than 100%\n"
                .to_owned(),
            code: SYNTAX,
            why: GoalError::Percentages { memory, reserved }.to_string(),
        }
    }

    pub(super) fn no_version(version: &str) -> Refusal {
        let output = "Error: Internal function error.\n".to_owned();
        Refusal { output, code: SYNTAX, why: format!("{version:?} is no version of labels: 1.1 or 1.2") }
    }

    pub(super) fn module_too_large(id: &str) -> Refusal {
        let output = format!("DimmID size cannot exceed 32 bits. Invalid DimmID: {id}\n");
        Refusal { output, code: SYNTAX, why: format!("{id} is larger than any module's handle") }
    }

    pub(super) fn unknown_module(id: &str, words: Words) -> Refusal {
        let what = if words.is_first() { "DIMM" } else { "PMem module" };
        let output = format!("{what} not found. Invalid DimmID: {id}\n");
        Refusal {
            output,
            code: FAILED,
            why: format!("there is no module {id}; `lode ipmctl show -dimm` lists them"),
        }
    }

    pub(super) fn duplicate_module(id: &str) -> Refusal {
        let output = format!("Duplicated DimmID: {id}\n");
        Refusal { output, code: SYNTAX, why: format!("{id} names a module twice") }
    }

    /// Returns the refusal of a line without a property that it needs.
    pub(super) fn incomplete(why: &str) -> Refusal {
        Refusal { output: "Syntax Error: Incomplete syntax.\n".to_owned(), code: SYNTAX, why: why.to_owned() }
    }

    /// Returns the refusal of a value of a property that injects.
    pub(super) fn setting(property: &str, value: &str) -> Refusal {
        let output =
            format!("Syntax Error: '{value}' is not a valid setting for the property. '{property}'\n");
        Refusal { output, code: SYNTAX, why: format!("{value:?} is no value for {property}") }
    }

    /// Returns the refusal of values, with a line for each value.
    pub(super) fn of_lines(output: String, why: String) -> Refusal {
        Refusal { output, code: SYNTAX, why }
    }

    /// Returns the refusal of a line with a syntax error, in these words.
    pub(super) fn words(text: &str, why: &str) -> Refusal {
        Refusal { output: format!("Syntax Error: {text}\n"), code: SYNTAX, why: why.to_owned() }
    }

    /// Returns the refusal of a property that ipmctl has and emulated modules have not.
    pub(super) fn not_emulated(property: &str, why: &str) -> Refusal {
        Refusal { output: String::new(), code: SYNTAX, why: format!("{property} is not emulated: {why}") }
    }

    /// Returns the refusal of a line that names no file.
    pub(super) fn no_file(option: &str) -> Refusal {
        let output = "Error: Wrong file path.\n".to_owned();
        Refusal { output, code: SYNTAX, why: format!("name the file with {option}") }
    }

    /// Returns the refusal of a test that does not exist.
    pub(super) fn no_diagnostic(name: &str) -> Refusal {
        let known = "Quick|Config|Security|FW";
        let output = format!("Error: Invalid diagnostics target, valid values are: {known}\n");
        Refusal { output, code: SYNTAX, why: format!("{name:?} is no test") }
    }

    /// Returns the refusal of a command as a whole.
    pub(super) fn of_command(
        command: &Command,
        (number, text): (u16, &str),
        words: Words,
        why: String,
    ) -> Refusal {
        let output = format!("{} failed: {}\n", command.what, words.error(number, text));
        Refusal { output, code: FAILED, why }
    }

    /// Returns the refusal of the same number and text for each module.
    pub(super) fn of_modules(
        command: &Command,
        modules: &[Handle],
        (number, text): (u16, &str),
        words: Words,
        why: String,
    ) -> Refusal {
        let message = words.error(number, text);
        let output = modules.iter().map(|module| command.line(*module, &message, words.0)).collect();
        Refusal { output, code: FAILED, why }
    }

    /// Returns the refusal for a rule.
    pub(super) fn goal(error: GoalError, command: &Command, generation: IpmctlGeneration) -> Refusal {
        let words = Words(generation);
        let why = error.to_string();
        if let (GoalError::Module(ModuleError::DeadModule { .. }), true) = (&error, words.is_first()) {
            let output = "Error: The specified device is not manageable by the driver.\n".to_owned();
            return Refusal { output, code: SYNTAX, why };
        }
        let (number, text) = status(&error, words);
        let about: Vec<Handle> = match &error {
            GoalError::Module(ModuleError::DeadModule { module }) => vec![*module],
            GoalError::SetSplit { other, .. } => vec![*other],
            GoalError::NoGoal { modules } => modules.clone(),
            _ => Vec::new(),
        };
        let message = words.error(number, text);
        let output = if about.is_empty() {
            format!("{} failed: {message}\n", command.what)
        } else {
            about.iter().map(|module| command.line(*module, &message, generation)).collect()
        };
        Refusal { output, code: FAILED, why }
    }
}

/// Returns ipmctl's number and text for an error of goals.
fn status(error: &GoalError, words: Words) -> (u16, &'static str) {
    match error {
        GoalError::DuplicateModule { .. } => (12, "Duplicated DIMM ID"),
        GoalError::Module(ModuleError::UnknownSocket { .. }) => (13, "Invalid SocketID"),
        GoalError::TargetsDiffer { .. } => (14, "Specified SocketID and DimmID conflict"),
        GoalError::DuplicateSocket { .. } => (15, "Duplicated SocketID"),
        GoalError::NoModules if words.is_first() => (17, "No manageable PMem modules in the system."),
        GoalError::NoModules => (
            18,
            "No usable PMem modules due to all PMem modules being one of the following:\n\
             - PMem modules unmanageable\n- PMem modules non-functional\n- PMem modules have a population issue",
        ),
        GoalError::Module(ModuleError::DeadModule { .. }) => {
            (19, "PMem module excluded as it is unmanageable, non-functional, or has a population issue.")
        }
        GoalError::Module(ModuleError::LockedModule { .. } | ModuleError::OverwrittenModule { .. }) => {
            (36, "Please set device security state to 'disabled' and try again.")
        }
        GoalError::LessThanDram { .. } => {
            (93, "The requested memory mode size is below the NM:FM limit of 1:1")
        }
        GoalError::SetSplit { .. } => {
            (107, "Unspecified PMem module affected by region current configuration.")
        }
        GoalError::PartOfSocket { .. } | GoalError::PartOfGoals { .. } if words.is_first() => (
            110,
            "Requests using -dimm must conform to ONE of:\n- Target all PMem modules on a given socket\n\
             - Target all unconfigured PMem modules",
        ),
        GoalError::PartOfSocket { .. } | GoalError::PartOfGoals { .. } => (
            110,
            "Requests using -dimm must conform to ONE of:\n- Target all PMem modules on a given socket\n\
             - Target all unconfigured PMem modules\n\
             - Target PMem modules for 100% MemoryMode with all unspecified PMem modules configured for MemoryMode \
             only\n\
             - Target PMem modules for AppDirect Not-Interleaved with all unspecified PMem modules configured for \
             AppDirect Not-Interleaved only",
        ),
        GoalError::NoDram { .. } => (113, "Platform does not support Memory Mode"),
        GoalError::GoalPending { .. } => (
            115,
            "PMem modules on one or more sockets already have a configured goal. Delete this existing goal before \
             creating a new one.",
        ),
        GoalError::NoGoal { .. } => (122, "There is no goal configuration on this PMem module."),
        GoalError::ModuleInUse { .. } => (
            124,
            "Namespaces exist on specified PMem modules. They have to be removed before running this command.\n\
             WARNING: Removing Namespaces will erase existing data. Please make a backup first.",
        ),
        GoalError::Percentages { .. } | GoalError::Module(_) => (5, "Invalid parameter"),
    }
}

/// Returns the line that ipmctl prints for a warning.
pub fn warning_text(warning: GoalWarning) -> &'static str {
    match warning {
        GoalWarning::LittleMemory => {
            "WARNING! The requested memory mode size is below the recommended NM:FM limit of 1:3.6"
        }
        GoalWarning::MuchMemory => {
            "WARNING! The requested memory mode size is above the recommended NM:FM limit of 1:16"
        }
        GoalWarning::Adjusted => {
            "The requested goal was adjusted more than 10% to find a valid configuration."
        }
        GoalWarning::Unlocked => {
            "WARNING: Goal will not be applied unless security is disabled prior to platform firmware (BIOS) \
             provisioning!"
        }
    }
}

/// Returns the lines that ipmctl prints after a deletion: one for each module.
pub fn deleted_text(modules: &[Handle], generation: IpmctlGeneration) -> String {
    DELETE.done(modules, generation)
}

/// Returns the lines that ipmctl prints after it cleared configuration data: one for each module.
pub fn cleared_text(modules: &[Handle], generation: IpmctlGeneration) -> String {
    CLEAR.done(modules, generation)
}
