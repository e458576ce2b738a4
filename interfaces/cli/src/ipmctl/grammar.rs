//! The grammar of ipmctl: a verb, options and targets that begin with one dash, properties with an equals sign.

use crate::failure::Failure;
use lode_platform::error_log::ErrorLevel;
use lode_platform::ipmctl::{Attributes, DisplayOptions, ErrorQuery, Subject};
use lode_platform::{Format, Handle, Targets, nearest};
use std::fmt::Display as Shown;
use std::str::FromStr;

/// A parsed command of ipmctl.
#[derive(Debug, PartialEq)]
pub(super) enum Request {
    Help,
    Show {
        subject: Subject,
        targets: Targets,
        display: DisplayOptions,
    },
    /// `version`.
    Version {
        format: Format,
    },
    /// A line that begins with `create` or `delete`, which has its own grammar.
    Change,
    /// A line that begins with `set`, `load`, `dump` or `start`, which has the same grammar.
    Operate,
}

/// The value that an option takes.
#[derive(Clone, Copy, PartialEq)]
enum OptionValue {
    None,
    Optional,
    Required,
}

/// The options and targets: short form, long form, and the value that they take.
const OPTIONS: [(&str, &str, OptionValue); 23] = [
    ("-a", "-all", OptionValue::None),
    ("-d", "-display", OptionValue::Required),
    ("-u", "-units", OptionValue::Required),
    ("-o", "-output", OptionValue::Required),
    ("-f", "-force", OptionValue::None),
    ("-h", "-help", OptionValue::None),
    ("-v", "-verbose", OptionValue::None),
    ("", "-ddrt", OptionValue::None),
    ("", "-smbus", OptionValue::None),
    ("", "-lpmb", OptionValue::None),
    ("", "-spmb", OptionValue::None),
    ("", "-nfit", OptionValue::None),
    ("", "-firmware", OptionValue::None),
    ("", "-preferences", OptionValue::None),
    ("", "-dimm", OptionValue::Optional),
    ("", "-socket", OptionValue::Optional),
    ("", "-topology", OptionValue::None),
    ("", "-memoryresources", OptionValue::None),
    ("", "-region", OptionValue::None),
    ("", "-goal", OptionValue::None),
    ("", "-sensor", OptionValue::Optional),
    ("", "-pcd", OptionValue::Optional),
    ("", "-error", OptionValue::Required),
];
/// Two targets that are used together.
const SYSTEM_CAPABILITIES: [&str; 2] = ["-system", "-capabilities"];
const VERBS: [&str; 9] = ["show", "create", "delete", "set", "load", "dump", "start", "stop", "version"];
/// Options without effect: transports, sizes of payloads, and messages for debugging.
const IGNORED: [&str; 5] = ["-verbose", "-ddrt", "-smbus", "-lpmb", "-spmb"];
/// Options that exclude each other.
const EXCLUSIVE: [[&str; 2]; 2] = [["-ddrt", "-smbus"], ["-lpmb", "-spmb"]];
/// Commands of ipmctl that are refused: the verb, a target, and the reason.
const REFUSED: [(&str, &str, &str); 11] = [
    ("show", "-performance", "a machine counts no accesses to its emulated modules"),
    ("show", "-cap", "emulated modules have no mailboxes whose access a policy restricts"),
    ("show", "-cel", "emulated modules have no mailboxes whose commands have effects to list"),
    ("show", "-session", SESSION),
    ("show", "-event", "it is a command of 01.x; `lode ndctl monitor` prints the events of modules"),
    ("load", "-session", SESSION),
    ("dump", "-debug", "emulated modules have no firmware that keeps a log"),
    (
        "dump",
        "-support",
        "the makers of an emulated machine give no support; `lode platform show` shows all of it",
    ),
    ("dump", "-session", SESSION),
    ("start", "-session", SESSION),
    ("stop", "-session", SESSION),
];
const SESSION: &str =
    "sessions record the calls of ipmctl itself; copy the directory of the machine in their place";
const PROPERTIES: [&str; 7] = [
    "MemoryMode",
    "PersistentMemoryType",
    "Reserved",
    "NamespaceLabelVersion",
    "SequenceNumber",
    "Level",
    "Count",
];
/// Properties of `show -error`.
const ERROR_PROPERTIES: [&str; 3] = ["SequenceNumber", "Level", "Count"];
/// The most entries that `show -error` shows of a module.
const ERRORS_MAX: u16 = 255;

/// The arguments of a command, split into options (with targets) and properties.
#[derive(Default)]
struct Args {
    options: Vec<(&'static str, Option<String>)>,
    properties: Vec<(&'static str, String)>,
}

/// Parses the arguments of a command.
pub(super) fn parse(args: &[String]) -> Result<Request, Failure> {
    let Some((verb, rest)) = args.split_first().filter(|(verb, _)| !verb.eq_ignore_ascii_case("help")) else {
        return Ok(Request::Help);
    };
    let verb = parse_keyword(verb, &VERBS, "verb")?;
    let has = |word: &str| rest.iter().any(|found| found.eq_ignore_ascii_case(word));
    if has("-h") || has("-help") {
        return Ok(Request::Help);
    }
    let is_refused = |of: &str, target: &str| of == verb && has(target);
    if let Some((_, target, reason)) = REFUSED.iter().find(|(of, target, _)| is_refused(of, target)) {
        return Err(Failure::usage_error(format!("{verb} {target} is not emulated: {reason}")));
    }
    match verb {
        "show" => Args::split(rest)?.show(),
        "version" => Args::split(rest)?.version(),
        "create" | "delete" => Ok(Request::Change),
        "stop" => Err(Failure::usage_error("stop what? `lode ipmctl help` lists the commands")),
        _ => Ok(Request::Operate),
    }
}

impl Args {
    fn split(args: &[String]) -> Result<Args, Failure> {
        let mut split = Args::default();
        let mut args = args.iter().peekable();
        while let Some(word) = args.next() {
            if let Some((name, value)) = word.split_once('=').filter(|_| !word.starts_with('-')) {
                split.properties.push((parse_keyword(name, &PROPERTIES, "property")?, value.to_owned()));
                continue;
            }
            let lower = word.to_ascii_lowercase();
            if let Some(word) = SYSTEM_CAPABILITIES.into_iter().find(|known| *known == lower) {
                split.options.push((word, None));
                continue;
            }
            let find = OPTIONS.iter().find(|(short, long, _)| lower == *long || lower == *short);
            let Some((_, name, value_kind)) = find else { return Err(unexpected_argument(word)) };
            let value = args.next_if(|next| {
                *value_kind != OptionValue::None
                    && !next.starts_with('-')
                    && (*value_kind == OptionValue::Required || !next.contains('='))
            });
            if *value_kind == OptionValue::Required && value.is_none() {
                return Err(Failure::usage_error(format!("{name} needs a value")));
            }
            split.options.push((name, value.cloned()));
        }
        Ok(split)
    }

    fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(known, _)| *known == name)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| *known == name).and_then(|(_, value)| value.as_deref())
    }

    /// Rejects options that do not belong to the command, or exclude each other.
    fn allow(&self, command: &str, allowed: &[&str]) -> Result<(), Failure> {
        if let Some([one, other]) = EXCLUSIVE.iter().find(|[one, other]| self.has(one) && self.has(other)) {
            return Err(Failure::usage_error(format!("{one} and {other} exclude each other")));
        }
        match self.options.iter().find(|(name, _)| !allowed.contains(name)) {
            Some((name, _)) => Err(Failure::usage_error(format!("{name} is not an option of `{command}`"))),
            None => Ok(()),
        }
    }

    fn show(&self) -> Result<Request, Failure> {
        let is_of_errors = |name: &str| self.has("-error") && ERROR_PROPERTIES.contains(&name);
        if let Some((name, _)) = self.properties.iter().find(|(name, _)| !is_of_errors(name)) {
            return Err(Failure::usage_error(format!("{name} is not a property of `show`")));
        }
        if self.has("-system") && !self.has("-capabilities") {
            let reason = "show -system is not emulated: the machine has no ACPI tables; -capabilities shows what it can do";
            return Err(Failure::usage_error(reason));
        }
        let options = ["-all", "-display", "-units", "-output", "-dimm", "-socket"];
        let (subject, command, own): (Subject, &str, &[&str]) = if self.has("-capabilities") {
            (Subject::Capabilities, "show -system -capabilities", &SYSTEM_CAPABILITIES)
        } else if self.has("-topology") {
            (Subject::Topology, "show -topology", &["-topology"])
        } else if self.has("-memoryresources") {
            (Subject::MemoryResources, "show -memoryresources", &["-memoryresources"])
        } else if self.has("-region") {
            (Subject::Region, "show -region", &["-region", "-nfit"])
        } else if self.has("-goal") {
            (Subject::Goal, "show -goal", &["-goal"])
        } else if self.has("-sensor") {
            (Subject::Sensor(self.value("-sensor").map_or(Vec::new(), list)), "show -sensor", &["-sensor"])
        } else if self.has("-error") {
            (Subject::Error(self.errors()?), "show -error", &["-error"])
        } else if self.has("-pcd") {
            if let Some(table) = self.value("-pcd").filter(|table| !table.eq_ignore_ascii_case("config")) {
                let message = format!(
                    "-pcd can show Config, not {table}; labels are shown by `lode ndctl read-labels`"
                );
                return Err(Failure::usage_error(message));
            }
            (Subject::Pcd, "show -dimm -pcd Config", &["-pcd"])
        } else if self.has("-firmware") {
            (Subject::Firmware, "show -firmware", &["-firmware"])
        } else if self.has("-preferences") {
            (Subject::Preferences, "show -preferences", &["-preferences"])
        } else if self.has("-dimm") {
            (Subject::Dimm, "show -dimm", &[])
        } else if self.has("-socket") {
            (Subject::Socket, "show -socket", &[])
        } else {
            return Err(Failure::usage_error("show what? `lode ipmctl show -help` lists it"));
        };
        self.allow(command, &[&options, &IGNORED[..], own].concat())?;
        Ok(Request::Show { subject, targets: self.targets()?, display: self.display()? })
    }

    /// Returns the entries that `show -error` asks for.
    fn errors(&self) -> Result<ErrorQuery, Failure> {
        let log = parse_keyword(self.value("-error").unwrap_or_default(), &["Thermal", "Media"], "log")?;
        let property = |name: &str| {
            let mut values = self.properties.iter().filter(|(known, _)| *known == name);
            match (values.next(), values.next()) {
                (Some(_), Some(_)) => Err(Failure::usage_error(format!("{name} is given twice"))),
                (value, _) => Ok(value.map(|(_, value)| value.as_str())),
            }
        };
        let number = |name: &str, most: u16| match property(name)? {
            None => Ok(None),
            Some(text) => match numbers(name, text)?.as_slice() {
                [number] if *number <= most.into() => Ok(u16::try_from(*number).ok()),
                _ => Err(invalid_value(name, text, &format!("a number up to {most}"))),
            },
        };
        let level = match property("Level")? {
            Some(word) if parse_keyword(word, &["High", "Low"], "level")? == "Low" => ErrorLevel::Low,
            _ => ErrorLevel::High,
        };
        Ok(ErrorQuery {
            is_thermal: log == "Thermal",
            first: number("SequenceNumber", u16::MAX)?.unwrap_or(1),
            level,
            count: number("Count", ERRORS_MAX)?.map(usize::from),
        })
    }

    fn version(&self) -> Result<Request, Failure> {
        self.allow("version", &["-output"])?;
        match self.properties.first() {
            Some((name, _)) => Err(Failure::usage_error(format!("{name} is not a property of `version`"))),
            None => Ok(Request::Version { format: self.display()?.format }),
        }
    }

    fn targets(&self) -> Result<Targets, Failure> {
        let modules = self.value("-dimm").map_or(Ok(Vec::new()), |text| numbers("-dimm", text))?;
        let sockets = self.value("-socket").map_or(Ok(Vec::new()), |text| numbers("-socket", text))?;
        let sockets = sockets.into_iter().map(u16::try_from).collect::<Result<_, _>>();
        let sockets =
            sockets.map_err(|_| Failure::usage_error("-socket: there are no more than 65536 sockets"))?;
        let modules = modules.into_iter().map(|number| Handle::of_number(number.into()));
        let modules = modules.collect::<Result<_, _>>();
        let modules = modules.map_err(|error| Failure::usage_error(format!("-dimm: {error}")))?;
        Ok(Targets { modules, sockets })
    }

    fn display(&self) -> Result<DisplayOptions, Failure> {
        let units = ["B", "MB", "MiB", "GB", "GiB", "TB", "TiB"];
        let unit = match self.value("-units") {
            Some(word) => parse_keyword(word, &units, "unit")?.parse().ok(),
            None => None,
        };
        let format = match self.value("-output") {
            Some(word) if parse_keyword(word, &["text", "nvmxml"], "format")? == "nvmxml" => Format::Xml,
            _ => Format::Text,
        };
        let values = match (self.has("-all"), self.value("-display")) {
            (true, Some(_)) => return Err(Failure::usage_error("-all and -display exclude each other")),
            (true, None) => Attributes::All,
            (false, Some(names)) => Attributes::Named(list(names)),
            (false, None) => Attributes::Default,
        };
        Ok(DisplayOptions { unit, format, attributes: values })
    }
}

/// Returns the keyword of `known` that equals `word` in any case.
fn parse_keyword(word: &str, known: &[&'static str], what: &str) -> Result<&'static str, Failure> {
    if let Some(found) = known.iter().find(|known| known.eq_ignore_ascii_case(word)) {
        return Ok(found);
    }
    Err(Failure::usage_error(match nearest(word, known.iter().copied()) {
        Some(meant) => format!("there is no {what} {word}; was `{meant}` meant?"),
        None => format!("there is no {what} {word}; there are {}", known.join(", ")),
    }))
}

fn unexpected_argument(word: &str) -> Failure {
    let all = OPTIONS.iter().map(|(_, long, _)| *long).chain(SYSTEM_CAPABILITIES).chain(PROPERTIES);
    Failure::usage_error(match nearest(word, all) {
        Some(meant) => format!("{word} is not expected here; was `{meant}` meant?"),
        None => format!("{word} is not expected here; `lode ipmctl show -help` lists what is"),
    })
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Parses numbers with commas between, decimal or hexadecimal with 0x.
fn numbers(option: &str, text: &str) -> Result<Vec<u32>, Failure> {
    let number = |word: &String| {
        let hex = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
        let number = hex.map_or_else(|| u32::from_str(word), |hex| u32::from_str_radix(hex, 16));
        number.map_err(|_| invalid_value(option, word, "numbers with commas between, as 0x0001,0x0101"))
    };
    list(text).iter().map(number).collect()
}

fn invalid_value(name: &str, value: impl Shown, want: &str) -> Failure {
    Failure::usage_error(format!("{name} can't be {value}: it takes {want}"))
}

#[cfg(test)]
mod test {
    use super::*;

    fn parse_line(line: &str) -> Result<Request, Failure> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_parse_in_any_order_and_case() {
        let one = parse_line("show -goal -dimm 0x0001,257 -u MiB").unwrap();
        let Request::Show { targets, .. } = &one else { panic!("{one:?}") };
        assert_eq!(targets.modules, [Handle(1), Handle(0x101)]);
        assert_eq!(parse_line("show -U MiB -DIMM 0x0001,0x0101 -goal").unwrap(), one);
        assert_eq!(parse_line("create -dimm -goal memorymode=100").unwrap(), Request::Change);
        let sensor = parse_line("show -sensor MediaTemperature,Health -dimm 1 -o nvmxml").unwrap();
        let Request::Show { subject, display, .. } = sensor else { panic!("{sensor:?}") };
        assert_eq!(subject, Subject::Sensor(vec!["MediaTemperature".to_owned(), "Health".to_owned()]));
        assert_eq!(display.format, Format::Xml);
        for help in ["show -system -capabilities -h", "help", "Help show", "set -HELP", "start -h"] {
            assert_eq!(parse_line(help).unwrap(), Request::Help);
        }
        let transport = parse_line("show -ddrt -lpmb -v -firmware").unwrap();
        assert!(matches!(transport, Request::Show { subject: Subject::Firmware, .. }), "{transport:?}");
        let socket = parse_line("show -socket 1").unwrap();
        assert!(matches!(socket, Request::Show { subject: Subject::Socket, .. }), "{socket:?}");
        assert_eq!(parse_line("version -o NVMXML").unwrap(), Request::Version { format: Format::Xml });
        for operation in ["load -source file -goal", "start -diagnostic Quick", "set -sensor"] {
            assert_eq!(parse_line(operation).unwrap(), Request::Operate);
        }
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        for (line, why) in [
            ("shwo -dimm", "was `show` meant?"),
            ("show -topolgy", "was `-topology` meant?"),
            ("show", "show what?"),
            ("show -dimm MemoryMode=3", "not a property of `show`"),
            ("show -topology -force", "-force is not an option of `show -topology`"),
            ("show -dimm -a -d Capacity", "exclude each other"),
            ("show -dimm -units KiB", "there is no unit KiB; was `MiB` meant?"),
            ("show -dimm -units", "-units needs a value"),
            ("show -dimm 0xg", "can't be 0xg"),
            ("show -socket 70000 -topology", "no more than 65536"),
            ("show -error", "-error needs a value"),
            ("show -error Warm", "there is no log Warm"),
            ("show -error Media Level=Middle", "there is no level Middle"),
            ("show -error Media Count=256", "it takes a number up to 255"),
            ("show -error Media SequenceNumber=x", "can't be x"),
            ("show -error Media Count=1 Count=2", "Count is given twice"),
            ("show -dimm Count=1", "Count is not a property of `show`"),
            ("show -event", "a command of 01.x"),
            ("show -dimm -pcd LSA", "not LSA"),
            ("show -smbus -ddrt -dimm", "-ddrt and -smbus exclude each other"),
            ("show -performance -dimm 1", "counts no accesses"),
            ("show -system", "no ACPI tables"),
            ("dump -destination x -debug", "no firmware that keeps a log"),
            ("stop", "stop what?"),
            ("version -units B", "-units is not an option of `version`"),
        ] {
            let refused = format!("{:?}", parse_line(line).unwrap_err());
            assert!(refused.contains(why) && refused.contains("code: 2"), "{line}: {refused}");
        }
    }
}
