//! The second implementation of `docs/ipmctl-rules.md`.

use lode_platform::machine::{Health, IpmctlGeneration, Module, Security};
use lode_platform::{Origin, Platform};

/// Module, memory, reserved bytes and the sizes of its shares, of a goal.
pub(crate) type GoalBrief = (u32, u64, u64, Vec<u64>);

/// What happens to a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Help,
    /// The goals, and the lines that warn of them before the question.
    Creates {
        goals: Vec<GoalBrief>,
        warnings: Vec<String>,
    },
    Deletes(Vec<u32>),
    Clears(Vec<u32>),
    /// Exit code, and ipmctl's number or the first line that it prints.
    Refused(u8, String),
}

impl Verdict {
    /// Returns the verdict for a refusal with this output.
    pub(crate) fn of_output(code: u8, output: &str) -> Verdict {
        let first = output.lines().next().unwrap_or_default();
        let number = first.split_once("Error ").map(|(_, rest)| {
            rest.chars().filter(char::is_ascii_digit).take_while(char::is_ascii_digit).collect::<String>()
        });
        let is_number = first.contains(" failed: Error ") || first.contains(": Error ");
        match number {
            // The number ends before the dash: digits of the text are not part of it.
            Some(_) if is_number => {
                let rest = first.split_once(": Error ").map_or("", |(_, rest)| rest);
                let number = rest.split(" - ").next().unwrap_or_default();
                Verdict::Refused(code, number.trim_matches(['(', ')']).to_owned())
            }
            _ => Verdict::Refused(code, first.trim().trim_end_matches('.').to_owned()),
        }
    }

    /// Returns a word for statistics.
    pub(crate) fn kind(&self) -> String {
        match self {
            Verdict::Help => "help".to_owned(),
            Verdict::Creates { .. } => "creates".to_owned(),
            Verdict::Deletes(_) => "deletes".to_owned(),
            Verdict::Clears(_) => "clears".to_owned(),
            Verdict::Refused(_, text) if text.parse::<u16>().is_ok() => text.clone(),
            Verdict::Refused(_, text) => text.split(' ').take(6).collect::<Vec<_>>().join(" "),
        }
    }
}

/// The values of `create -goal`.
struct Wish {
    memory: u64,
    reserved: u64,
    alone: bool,
    /// True if `-dimm` names modules.
    names_modules: bool,
    /// True if the user is asked.
    asks: bool,
}

pub(crate) struct Judge<'p> {
    pub(crate) platform: &'p Platform,
}

type Words<'w> = &'w [String];

/// Options with the values that commands take: name, whether create, delete -goal and delete -pcd take it, and whether
/// with a value.
const OPTIONS: [(&[&str], [bool; 3], bool); 19] = [
    (&["-f", "-force"], [true, false, true], false),
    (&["-u", "-units"], [true, false, false], true),
    (&["-o", "-output"], [true, true, true], true),
    (&["-v", "-verbose"], [true, true, true], false),
    (&["-ddrt"], [true, true, true], false),
    (&["-smbus"], [true, true, true], false),
    (&["-lpmb"], [false, true, true], false),
    (&["-spmb"], [false, true, true], false),
    (&["-a", "-all"], [false; 3], false),
    (&["-d", "-display"], [false; 3], false),
    (&["-h", "-help"], [false; 3], false),
    (&["-x", "-examine"], [false; 3], false),
    (&["-source"], [false; 3], false),
    (&["-destination"], [false; 3], false),
    (&["-dict"], [false; 3], false),
    (&["-recover"], [false; 3], false),
    (&["-master"], [false; 3], false),
    (&["-default"], [false; 3], false),
    (&["-nfit"], [false; 3], false),
];
/// The targets that random lines have.
const TARGETS: [&str; 5] = ["-dimm", "-socket", "-goal", "-pcd", "-region"];

impl Judge<'_> {
    pub(crate) fn judge(&self, words: &[String]) -> Verdict {
        let (verb, rest) = (words[0].to_lowercase(), &words[1..]);
        let rest: Vec<String> = rest.to_vec();
        let help = || {
            let text = if verb == "create" {
                self.say("Provision capacity on one or more PMem modules into regions")
            } else {
                self.say("Delete the region configuration goal from one or more PMem modules")
            };
            Verdict::Refused(201, text)
        };
        let unexpected =
            |word: &str| Verdict::Refused(201, format!("Syntax Error: Invalid or unexpected token {word}"));
        if rest.iter().any(|word| word.contains('%')) {
            return unexpected("%%");
        }
        // Options: any number, each spelling once.
        let mut at = 0;
        let mut options: Vec<(usize, Option<&str>)> = Vec::new();
        let mut spelled: Vec<String> = Vec::new();
        while at < rest.len() {
            let word = rest[at].to_lowercase();
            let Some(index) = OPTIONS.iter().position(|(names, ..)| names.contains(&word.as_str())) else {
                break;
            };
            if spelled.contains(&word) {
                return unexpected(&word);
            }
            spelled.push(word);
            at += 1;
            let value = rest.get(at).filter(|next| !next.starts_with('-'));
            at += usize::from(value.is_some());
            options.push((index, value.map(String::as_str)));
        }
        let has = |name: &str| spelled.iter().any(|word| word == name);
        for (one, other) in [("-ddrt", "-smbus"), ("-lpmb", "-spmb"), ("-smbus", "-lpmb")] {
            if has(one) && has(other) {
                return Verdict::Refused(
                    201,
                    format!("Syntax Error: Mutually exclusive options {one} and {other}"),
                );
            }
        }
        let (targets, at) = match targets(&rest, at) {
            Ok(found) => found,
            Err(word) => return unexpected(&word),
        };
        let mut properties: Vec<(String, String)> = Vec::new();
        for word in &rest[at..] {
            let names = ["memorymode", "reserved", "persistentmemorytype", "namespacelabelversion"];
            match word.find('=') {
                Some(end) if names.contains(&word[..end].to_lowercase().as_str()) => {
                    properties.push((word[..end].to_lowercase(), word[end + 1..].to_owned()));
                }
                _ => return unexpected(word),
            }
        }
        let target =
            |name: &str| targets.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_deref());
        let order: Vec<&str> = targets.iter().map(|(name, _)| name.as_str()).collect();
        if order.len() > 1 && order[..2] == ["-socket", "-dimm"] {
            return Verdict::Refused(201, "Invalid input target ordering: -socket -dimm".to_owned());
        }
        let command = match (verb.as_str(), target("-pcd").is_some()) {
            ("create", _) => 0,
            (_, false) => 1,
            (_, true) => 2,
        };
        let options_fit = options.iter().all(|(index, value)| {
            let (_, takes, with_value) = OPTIONS[*index];
            takes[command] && with_value == value.is_some()
        });
        let allowed: &[&str] = if command == 2 { &["-dimm", "-pcd"] } else { &["-dimm", "-goal", "-socket"] };
        let targets_fit = targets.iter().all(|(name, _)| allowed.contains(&name.as_str()));
        let goal_fits = command == 2 || target("-goal") == Some(None);
        let names: std::collections::BTreeSet<&String> = properties.iter().map(|(name, _)| name).collect();
        let properties_fit = names.len() == properties.len()
            && properties.iter().all(|(_, value)| !value.is_empty())
            && (command == 0 || properties.is_empty());
        if !(options_fit && targets_fit && goal_fits && properties_fit) {
            return help();
        }
        let option = |name: &str| {
            options.iter().find(|(index, _)| OPTIONS[*index].0.contains(&name)).and_then(|(_, value)| *value)
        };
        if let Some(unit) = option("-u").map(str::to_lowercase)
            && !["b", "mb", "mib", "gb", "gib", "tb", "tib"].contains(&unit.as_str())
        {
            return wrong("option -units");
        }
        if let Some(format) = option("-o").map(str::to_lowercase)
            && !["text", "nvmxml"].contains(&format.as_str())
        {
            return wrong("option -output");
        }
        let property =
            |name: &str| properties.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let dimm = target("-dimm").flatten().unwrap_or("");
        let socket = target("-socket").flatten().unwrap_or("");
        let is_forced = ["-f", "-force"].iter().any(|name| has(name));
        let asks = !is_forced && option("-o").is_none_or(|format| format.to_lowercase() == "text");
        match self.values(command, dimm, socket, target("-pcd").flatten(), &property, asks) {
            Ok(verdict) | Err(verdict) => verdict,
        }
    }

    fn is_first(&self) -> bool {
        self.platform.machine.profile.ipmctl == IpmctlGeneration::One
    }

    fn say(&self, text: &str) -> String {
        if self.is_first() { text.replace("PMem module", "DIMM") } else { text.to_owned() }
    }

    /// Checks the values and then the rules.
    fn values<'v>(
        &self,
        command: usize,
        dimm: &str,
        socket: &str,
        table: Option<&str>,
        property: &dyn Fn(&str) -> Option<&'v str>,
        asks: bool,
    ) -> Result<Verdict, Verdict> {
        let machine = &self.platform.machine;
        let ids: Vec<&str> = dimm.split(',').filter(|_| !dimm.is_empty()).collect();
        let mut handles = Vec::new();
        for id in &ids {
            if number(id).is_some_and(|number| number >= 1 << 32) {
                return Err(Verdict::Refused(
                    201,
                    format!("DimmID size cannot exceed 32 bits. Invalid DimmID: {id}"),
                ));
            }
        }
        for id in &ids {
            let by_id = |one: &&Module| one.identity.unwrap().to_string() == id.to_lowercase();
            let found = match number(id) {
                Some(number) => machine.modules.iter().find(|one| u64::from(one.handle.0) == number),
                None => machine.modules.iter().find(by_id),
            };
            match found {
                Some(module) => handles.push(module.handle.0),
                None => {
                    let what = self.say("PMem module");
                    return Err(Verdict::Refused(1, format!("{what} not found. Invalid DimmID: {id}")));
                }
            }
        }
        for first in 0..handles.len() {
            for second in first + 1..handles.len() {
                if handles[first] == handles[second] {
                    return Err(Verdict::Refused(201, format!("Duplicated DimmID: {}", ids[second])));
                }
            }
        }
        let mut sockets = Vec::new();
        for word in socket.split(',').filter(|_| !socket.is_empty()) {
            sockets.push(number(word).ok_or_else(|| wrong("target -socket"))?);
        }
        let percent = |name: &str, shown: &str| match property(name).map(number) {
            None => Ok(0),
            Some(Some(percent)) if percent < 101 => Ok(percent),
            _ => Err(wrong(&format!("property {shown}"))),
        };
        let (mut memory, mut reserved, mut alone) = (0, 0, false);
        if command == 0 {
            memory = percent("memorymode", "MemoryMode")?;
            alone = match property("persistentmemorytype").map(str::to_lowercase).as_deref() {
                None | Some("appdirect") => false,
                Some("appdirectnotinterleaved") => true,
                _ => return Err(wrong("property PersistentMemoryType")),
            };
            reserved = percent("reserved", "Reserved")?;
            if memory + reserved > 100 {
                let text = "Syntax Error: Properties MemoryMode and Reserved cannot sum greater than 100%";
                return Err(Verdict::Refused(201, text.to_owned()));
            }
            match property("namespacelabelversion") {
                None | Some("1.1" | "1.2") => {}
                Some("1" | "1.x") => {
                    return Err(Verdict::Refused(201, "Error: Internal function error".to_owned()));
                }
                Some(_) => return Err(wrong("property NamespaceLabelVersion")),
            }
        }
        if command == 2 && table.is_some_and(|table| table.to_lowercase() != "config") {
            return Err(wrong("target -pcd"));
        }
        let modules = self.targets(&handles, &sockets)?;
        match command {
            0 => {
                let names_modules = !handles.is_empty();
                self.create(&modules, &Wish { memory, reserved, alone, names_modules, asks })
            }
            1 => self.delete(&modules),
            _ => {
                self.none_locked(&modules)?;
                Ok(Verdict::Clears(modules.iter().map(|one| one.handle.0).collect()))
            }
        }
    }

    fn alive(&self) -> impl Iterator<Item = &Module> {
        self.platform.machine.modules.iter().filter(|one| one.health != Health::NonFunctional)
    }

    fn targets(&self, handles: &[u32], sockets: &[u64]) -> Result<Vec<&Module>, Verdict> {
        for handle in handles {
            if !self.alive().any(|one| one.handle.0 == *handle) {
                return Err(if self.is_first() {
                    Verdict::Refused(
                        201,
                        "Error: The specified device is not manageable by the driver".to_owned(),
                    )
                } else {
                    refused(19)
                });
            }
        }
        let machine = &self.platform.machine;
        let exists = |socket: u64| {
            machine.modules.iter().any(|one| u64::from(one.handle.socket()) == socket)
                || machine.dram.iter().any(|one| u64::from(one.socket) == socket)
        };
        let mut seen = Vec::new();
        for socket in sockets {
            if !exists(*socket) {
                return Err(refused(13));
            }
            if seen.contains(socket) {
                return Err(refused(15));
            }
            seen.push(*socket);
        }
        let by_module = |one: &Module| handles.contains(&one.handle.0);
        let by_socket = |one: &Module| sockets.contains(&u64::from(one.handle.socket()));
        let named: Vec<&Module> = match (handles.is_empty(), sockets.is_empty()) {
            (true, true) => self.alive().collect(),
            (false, true) => self.alive().filter(|one| by_module(one)).collect(),
            (true, false) => self.alive().filter(|one| by_socket(one)).collect(),
            (false, false) => {
                if self.alive().any(|one| by_module(one) != by_socket(one)) {
                    return Err(refused(14));
                }
                self.alive().filter(|one| by_module(one)).collect()
            }
        };
        if named.is_empty() { Err(refused(if self.is_first() { 17 } else { 18 })) } else { Ok(named) }
    }

    fn none_locked(&self, modules: &[&Module]) -> Result<(), Verdict> {
        if modules.iter().any(|one| one.security == Security::Locked) { Err(refused(36)) } else { Ok(()) }
    }

    fn create(&self, modules: &[&Module], wish: &Wish) -> Result<Verdict, Verdict> {
        let Wish { memory, reserved, alone, .. } = *wish;
        let state = &self.platform.state;
        let named = |handle: u32| modules.iter().any(|one| one.handle.0 == handle);
        for region in self.platform.regions() {
            let holds = self.platform.namespaces(&region).iter().any(|one| one.uuid.is_some());
            let Origin::Set { .. } = region.origin else { continue };
            if holds && region.members().iter().any(|member| named(member.module.0)) {
                return Err(refused(124));
            }
        }
        let here = |socket: u16| self.alive().filter(move |one| one.handle.socket() == socket);
        let sockets: std::collections::BTreeSet<u16> =
            modules.iter().map(|one| one.handle.socket()).collect();
        let has_goal = |one: &Module| state.goals.iter().any(|goal| goal.module == one.handle);
        if sockets.iter().any(|socket| here(*socket).any(has_goal)) {
            return Err(refused(115));
        }
        self.none_locked(modules)?;
        let is_configured = |one: &&Module| {
            state.partitions.iter().any(|part| part.module == one.handle)
                && !state.cleared.contains(&one.handle)
        };
        for socket in &sockets {
            let count = |configured: bool, only_named: bool| {
                here(*socket)
                    .filter(|one| is_configured(one) == configured && (!only_named || named(one.handle.0)))
                    .count()
            };
            let (all_old, all_new) = (count(true, false), count(false, false));
            let (old, new) = (count(true, true), count(false, true));
            let unconfigured_only = old == 0 && new == all_new;
            let everything = old == all_old && new == all_new;
            let others: Vec<&Module> = here(*socket).filter(|one| !named(one.handle.0)).collect();
            let sets = |one: &Module| {
                let sets = state
                    .sets
                    .iter()
                    .filter(|set| set.members.iter().any(|member| member.module == one.handle));
                sets.map(|set| set.members.len()).collect::<Vec<_>>()
            };
            let old_memory = |one: &Module| {
                state
                    .partitions
                    .iter()
                    .filter(|part| part.module == one.handle)
                    .map(|part| part.memory)
                    .sum::<u64>()
            };
            let like_alone = !self.is_first()
                && memory == 0
                && reserved < 100
                && (alone || old + new == 1)
                && others.iter().all(|one| old_memory(one) == 0 && sets(one).first() == Some(&1));
            let like_memory = !self.is_first()
                && memory == 100
                && others.iter().all(|one| old_memory(one) > 0 && sets(one).is_empty());
            if !(unconfigured_only || everything || like_alone || like_memory) {
                return Err(refused(110));
            }
        }
        let dram = |socket: u16| {
            let all = self.platform.machine.dram.iter().filter(|one| one.socket == socket);
            all.map(|one| one.capacity).sum::<u64>()
        };
        if memory > 0 && sockets.iter().any(|socket| dram(*socket) == 0) {
            return Err(refused(113));
        }
        let splits = state.sets.iter().any(|set| {
            let inside = set.members.iter().filter(|member| named(member.module.0)).count();
            let lives = |handle: u32| self.alive().any(|one| one.handle.0 == handle);
            inside > 0 && set.members.iter().any(|member| !named(member.module.0) && lives(member.module.0))
        });
        if splits {
            return Err(refused(107));
        }
        let goals = self.goals(modules, memory, reserved, alone);
        let mut ratio = None;
        for socket in &sockets {
            let on = |handle: u32| (handle >> 12) as u16 == *socket;
            let mut total: u64 = goals.iter().filter(|goal| on(goal.0)).map(|goal| goal.1).sum();
            let others: Vec<&Module> = here(*socket).filter(|one| !named(one.handle.0)).collect();
            let old = |one: &&Module| state.partition(one.handle).map_or(0, |part| part.memory);
            if total == 0 {
                continue;
            }
            if others.iter().all(|one| old(one) > 0 && state.sets_of(one.handle).next().is_none()) {
                total += others.iter().map(old).sum::<u64>();
            }
            if self.platform.machine.profile.ipmctl == IpmctlGeneration::Three && dram(*socket) > total {
                return Err(refused(93));
            }
            if total > dram(*socket) * 16 {
                ratio = Some("above the recommended NM:FM limit of 1:16");
            } else if total * 10 < dram(*socket) * 36 {
                ratio = Some("below the recommended NM:FM limit of 1:3.6");
            }
        }
        let warnings = if wish.asks { self.warnings(modules, wish, &goals, ratio) } else { Vec::new() };
        Ok(Verdict::Creates { goals, warnings })
    }

    /// Returns the warnings about goals. `ratio` is that of the last socket.
    fn warnings(
        &self,
        modules: &[&Module],
        wish: &Wish,
        goals: &[GoalBrief],
        ratio: Option<&str>,
    ) -> Vec<String> {
        const UNIT: u64 = 1 << 30;
        let mut lines = Vec::new();
        if let Some(ratio) = ratio.filter(|_| !self.is_first()) {
            lines.push(format!("WARNING! The requested memory mode size is {ratio}"));
        }
        // What is asked for counts in bytes, socket by socket.
        let sockets: std::collections::BTreeSet<u16> =
            modules.iter().map(|one| one.handle.socket()).collect();
        let asked = |socket: &u16| {
            let here = modules.iter().filter(|one| one.handle.socket() == *socket);
            here.map(|one| (one.capacity - (256 << 20)) / UNIT * UNIT).sum::<u64>() * wish.memory / 100
        };
        let asked: u64 = sockets.iter().map(asked).sum();
        let given: u64 = goals.iter().map(|goal| goal.1).sum();
        let percent = (wish.memory * given).checked_div(asked).unwrap_or(0);
        if percent > wish.memory + 10 || wish.memory > percent + 10 {
            lines.push(
                "The requested goal was adjusted more than 10% to find a valid configuration.".to_owned(),
            );
        }
        let all: Vec<&Module> = if wish.names_modules { modules.to_vec() } else { self.alive().collect() };
        let is_open = |one: &&Module| matches!(one.security, Security::Unlocked | Security::Frozen);
        if !self.is_first() && all.iter().any(is_open) {
            lines.push(
                "WARNING: Goal will not be applied unless security is disabled prior to platform firmware (BIOS) \
                 provisioning!"
                    .to_owned(),
            );
        }
        lines
    }

    fn goals(&self, modules: &[&Module], memory: u64, reserved: u64, alone: bool) -> Vec<GoalBrief> {
        const UNIT: u64 = 1 << 30;
        let mut goals = Vec::new();
        for module in modules {
            let units = (module.capacity - (256 << 20)) / UNIT;
            let rounded = |percent: u64| (units * percent * 2 + 100) / 200;
            let mut volatile = rounded(memory);
            if memory > 0 && volatile == 0 {
                volatile = 1;
            }
            if memory < 100 && volatile == units && units > 1 {
                volatile = units - 1;
            }
            let left = if memory + reserved == 100 {
                units - volatile
            } else {
                rounded(reserved).min(units - volatile)
            };
            goals.push((
                module.handle.0,
                volatile * UNIT,
                left * UNIT,
                vec![(units - volatile - left) * UNIT],
            ));
        }
        let sockets: std::collections::BTreeSet<u32> = goals.iter().map(|goal| goal.0 >> 12).collect();
        for socket in sockets {
            let least = goals
                .iter()
                .filter(|goal| goal.0 >> 12 == socket && goal.3[0] > 0)
                .map(|goal| goal.3[0])
                .min()
                .unwrap_or(0);
            for goal in goals.iter_mut().filter(|goal| goal.0 >> 12 == socket) {
                let whole = goal.3[0];
                goal.3 = if alone || whole == 0 { vec![whole] } else { vec![least, whole - least] };
                goal.3.retain(|size| *size > 0);
            }
        }
        goals
    }

    fn delete(&self, modules: &[&Module]) -> Result<Verdict, Verdict> {
        self.none_locked(modules)?;
        let goals = &self.platform.state.goals;
        let named = |handle: u32| modules.iter().any(|one| one.handle.0 == handle);
        let lives = |handle: u32| self.alive().any(|one| one.handle.0 == handle);
        let sockets: std::collections::BTreeSet<u16> =
            modules.iter().map(|one| one.handle.socket()).collect();
        for socket in sockets {
            let on = goals.iter().filter(|goal| goal.module.socket() == socket && lives(goal.module.0));
            let (inside, outside): (Vec<_>, Vec<_>) = on.partition(|goal| named(goal.module.0));
            if !inside.is_empty() && !outside.is_empty() {
                return Err(refused(110));
            }
        }
        let gone: Vec<u32> = modules
            .iter()
            .map(|one| one.handle.0)
            .filter(|handle| goals.iter().any(|goal| goal.module.0 == *handle))
            .collect();
        if gone.is_empty() { Err(refused(122)) } else { Ok(Verdict::Deletes(gone)) }
    }
}

/// Reads targets from `at` on, and returns where they end; or the word that is there for the second time.
type TargetList = Vec<(String, Option<String>)>;

fn targets(rest: Words<'_>, mut at: usize) -> Result<(TargetList, usize), String> {
    let mut found: TargetList = Vec::new();
    while let Some(word) = rest.get(at) {
        let name = word.to_lowercase();
        if !TARGETS.contains(&name.as_str()) {
            break;
        }
        if found.iter().any(|(known, _)| *known == name) {
            return Err(word.clone());
        }
        at += 1;
        let value = rest.get(at).filter(|next| !next.starts_with('-') && !next.contains('='));
        at += usize::from(value.is_some());
        found.push((name, value.cloned()));
    }
    Ok((found, at))
}

fn number(text: &str) -> Option<u64> {
    let lower = text.to_lowercase();
    let (digits, radix) = lower.strip_prefix("0x").map_or((lower.as_str(), 10), |digits| (digits, 16));
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

fn wrong(what: &str) -> Verdict {
    Verdict::Refused(201, format!("Syntax Error: Incorrect value for {what}"))
}

fn refused(number: u16) -> Verdict {
    Verdict::Refused(1, number.to_string())
}
