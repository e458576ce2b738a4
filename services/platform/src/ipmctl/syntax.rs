//! The grammar of ipmctl's commands that change modules: a verb, then options, then targets, then properties.
//!
//! `docs/ipmctl-rules.md` has the rules, section *Grammar*.

/// An option, by its short and its long name. An empty name does not exist.
pub(super) struct OptionName(pub(super) &'static str, pub(super) &'static str);

const HELP: &str = "-help";
/// All options of ipmctl.
const OPTIONS: [OptionName; 19] = [
    OptionName("-h", HELP),
    OptionName("-a", "-all"),
    OptionName("-d", "-display"),
    OptionName("-u", "-units"),
    OptionName("-o", "-output"),
    OptionName("-f", "-force"),
    OptionName("-v", "-verbose"),
    OptionName("-x", "-examine"),
    OptionName("", "-source"),
    OptionName("", "-destination"),
    OptionName("", "-dict"),
    OptionName("", "-recover"),
    OptionName("", "-master"),
    OptionName("", "-default"),
    OptionName("", "-ddrt"),
    OptionName("", "-smbus"),
    OptionName("", "-lpmb"),
    OptionName("", "-spmb"),
    OptionName("", "-nfit"),
];
/// All targets of ipmctl.
const TARGETS: [&str; 31] = [
    "-h",
    HELP,
    "-dimm",
    "-region",
    "-memoryresources",
    "-system",
    "-capabilities",
    "-socket",
    "-goal",
    "-cap",
    "-namespace",
    "-host",
    "-topology",
    "-config",
    "-sensor",
    "-error",
    "-cel",
    "-debug",
    "-register",
    "-firmware",
    "-pcd",
    "-smbios",
    "-support",
    "-diagnostic",
    "-format",
    "-preferences",
    "-performance",
    "-session",
    "-mode",
    "-event",
    "-tag",
];
/// The properties that this program knows.
const PROPERTIES: [&str; 20] = [
    "MemoryMode",
    "PersistentMemoryType",
    "Reserved",
    "NamespaceLabelVersion",
    "AlarmThreshold",
    "AlarmEnabled",
    "Clear",
    "Temperature",
    "Poison",
    "PoisonType",
    "PackageSparing",
    "PercentageRemaining",
    "FatalMediaError",
    "DirtyShutdown",
    "AveragePowerReportingTimeConstant",
    "CLI_DEFAULT_DIMM_ID",
    "CLI_DEFAULT_SIZE",
    "APPDIRECT_SETTINGS",
    "APPDIRECT_GRANULARITY",
    "DBG_LOG_LEVEL",
];
/// Options that exclude each other.
const EXCLUSIVE: [[&str; 2]; 3] = [["-ddrt", "-smbus"], ["-lpmb", "-spmb"], ["-smbus", "-lpmb"]];

/// A line that no command has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SyntaxError {
    /// A word is at a place where ipmctl does not expect it.
    Unexpected(String),
    /// Two options exclude each other.
    Exclusive([&'static str; 2]),
    /// The targets begin with `-socket` and `-dimm`, in this order.
    Order,
    /// Each word is known, and no command takes all of them.
    NoCommand,
}

/// A line after its verb, split into its parts, all names in ipmctl's spelling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) options: Vec<(&'static str, Option<String>)>,
    pub(super) targets: Vec<(&'static str, Option<String>)>,
    pub(super) properties: Vec<(&'static str, String)>,
    pub(super) wants_help: bool,
}

impl Line {
    /// Splits the words after the verb.
    pub(super) fn split(words: &[String]) -> Result<Line, SyntaxError> {
        if words.iter().any(|word| word.contains('%')) {
            // ipmctl doubles the sign, and then takes it for a word of its own.
            return Err(SyntaxError::Unexpected("%%".to_owned()));
        }
        let mut line = Line { wants_help: words.iter().any(|word| is_help(word)), ..Line::default() };
        let mut words = words.iter().peekable();
        let mut spellings: Vec<String> = Vec::new();
        while let Some(name) = words.peek().and_then(|word| option(word)) {
            let word = words.next().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
            if spellings.contains(&word) {
                return Err(SyntaxError::Unexpected(word));
            }
            spellings.push(word);
            line.options.push((name, words.next_if(|next| !next.starts_with('-')).cloned()));
        }
        for pair in EXCLUSIVE {
            if pair.iter().all(|name| line.options.iter().any(|(known, _)| known == name)) {
                return Err(SyntaxError::Exclusive(pair));
            }
        }
        while let Some(name) = words.peek().and_then(|word| target(word)) {
            let word = words.next().cloned().unwrap_or_default();
            if line.targets.iter().any(|(known, _)| *known == name) {
                return Err(SyntaxError::Unexpected(word));
            }
            let value = words.next_if(|next| !next.starts_with('-') && !next.contains('='));
            line.targets.push((name, value.cloned()));
        }
        for word in words.filter(|word| !is_help(word)) {
            let unexpected = || SyntaxError::Unexpected(word.clone());
            let (name, value) = word.split_once('=').ok_or_else(unexpected)?;
            let known = PROPERTIES.iter().find(|known| known.eq_ignore_ascii_case(name));
            let name = known.ok_or_else(unexpected)?;
            line.properties.push((name, value.to_owned()));
        }
        if let [("-socket", _), ("-dimm", _), ..] = line.targets.as_slice() {
            return Err(SyntaxError::Order);
        }
        let names = |name: &str| line.properties.iter().filter(|(known, _)| *known == name).count();
        let is_odd = |(name, value): &(&str, String)| value.is_empty() || names(name) > 1;
        if line.properties.iter().any(is_odd) { Err(SyntaxError::NoCommand) } else { Ok(line) }
    }

    /// Checks that the line has no other parts than these, and values only where they are taken.
    pub(super) fn check(
        &self,
        flags: &[&str],
        with_value: &[&str],
        targets: &[&str],
        properties: bool,
    ) -> Result<(), SyntaxError> {
        let option_fits = |(name, value): &(&str, Option<String>)| match value {
            None => flags.contains(name),
            Some(_) => with_value.contains(name),
        };
        let fits = self.options.iter().all(option_fits)
            && self.targets.iter().all(|(name, _)| targets.contains(name))
            && (properties || self.properties.is_empty());
        if fits { Ok(()) } else { Err(SyntaxError::NoCommand) }
    }

    pub(super) fn has_option(&self, name: &str) -> bool {
        self.options.iter().any(|(known, _)| *known == name)
    }

    pub(super) fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| *known == name).and_then(|(_, value)| value.as_deref())
    }

    /// Returns the value of a target; `None` if it is not there or has none.
    pub(super) fn target(&self, name: &str) -> Option<&str> {
        self.targets.iter().find(|(known, _)| *known == name).and_then(|(_, value)| value.as_deref())
    }

    pub(super) fn has_target(&self, name: &str) -> bool {
        self.targets.iter().any(|(known, _)| *known == name)
    }

    pub(super) fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }
}

fn option(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    OPTIONS
        .iter()
        .find(|OptionName(short, long)| !word.is_empty() && (word == *short || word == *long))
        .map(|OptionName(_, long)| *long)
}

fn target(word: &str) -> Option<&'static str> {
    TARGETS.into_iter().find(|known| known.eq_ignore_ascii_case(word))
}

fn is_help(word: &str) -> bool {
    word.eq_ignore_ascii_case("-h") || word.eq_ignore_ascii_case("-help")
}
