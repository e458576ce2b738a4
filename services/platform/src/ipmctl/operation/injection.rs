//! `ipmctl set -dimm`: injections of values and errors, and their end.
//!
//! On Linux, ipmctl 03.00 sets no passphrase and no lock state: its program for UEFI alone does.

use crate::error_log::FoundBy;
use crate::ipmctl::refusal::{Refusal, SET_DIMM, Words};
use crate::ipmctl::syntax::{Line, SyntaxError};
use crate::ipmctl::values::number;
use crate::machine::{Handle, Module, ModuleError, Security};
use crate::media_error::MediaError;
use crate::media_error::range::add;
use crate::platform::Platform;
use crate::smart::{self, CELSIUS, Injection, PERCENT_MAX, SmartChange, SmartError};

/// Properties that inject, of which a line has one.
const INJECTING: [&str; 6] =
    ["Temperature", "Poison", "PackageSparing", "PercentageRemaining", "FatalMediaError", "DirtyShutdown"];
/// All properties of the command.
pub(super) const PROPERTIES: [&str; 9] = [
    "Clear",
    "PoisonType",
    "AveragePowerReportingTimeConstant",
    INJECTING[0],
    INJECTING[1],
    INJECTING[2],
    INJECTING[3],
    INJECTING[4],
    INJECTING[5],
];
/// Bytes that a poisoned address makes unreadable, and its alignment.
const POISON_LEN: u64 = 256;

/// An injection into some modules, or its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleInjection {
    /// The modules.
    pub modules: Vec<Handle>,
    injected: Injected,
    clears: bool,
    words: Words,
}

/// An injected value or error.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Injected {
    /// A temperature of the media, in degrees Celsius.
    Temperature(i32),
    /// An error of the media.
    Poison {
        /// Its address on the module.
        at: u64,
        /// Its address, as the line has it.
        text: String,
        /// True if the patrol of the module finds it.
        is_found: bool,
    },
    /// A share of the spares, in percent.
    Percentage(i32),
    /// The health state: fatal.
    Fatal,
    /// A dirty shutdown at the next start.
    DirtyShutdown,
}

/// Use of poisoned memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PoisonType {
    MemoryMode,
    AppDirect,
    PatrolScrub,
}

const POISON_TYPES: [(&str, PoisonType); 3] = [
    ("MemoryMode", PoisonType::MemoryMode),
    ("AppDirect", PoisonType::AppDirect),
    ("PatrolScrub", PoisonType::PatrolScrub),
];

impl ModuleInjection {
    /// Reads the values of a line, and checks them on each module.
    pub(super) fn of_line(
        line: &Line,
        modules: Vec<Handle>,
        platform: &Platform,
    ) -> Result<ModuleInjection, Box<Refusal>> {
        let words = Words(platform.machine.profile.ipmctl);
        let power = "AveragePowerReportingTimeConstant";
        if line.property(power).is_some() {
            return Err(Box::new(Refusal::not_emulated(power, "emulated modules take no power")));
        }
        let mut given = INJECTING.into_iter().filter_map(|name| Some((name, line.property(name)?)));
        let kind = poison_type(line, words)?;
        let Some((name, text)) = given.next() else {
            return Err(Box::new(match line.property("Clear") {
                Some(_) => Refusal::words(
                    "Clear property should be given in combination with other error injection properties.",
                    "name the injection that ends, as Temperature=1",
                ),
                None => Refusal::incomplete("give a property, as Temperature=50"),
            }));
        };
        if given.next().is_some() {
            return Err(Box::new(Refusal::syntax(&SyntaxError::NoCommand, SET_DIMM, words.0)));
        }
        let clears = match line.property("Clear") {
            None => false,
            Some(text) if number(text) == Some(1) => true,
            Some(text) => return Err(Box::new(Refusal::setting("Clear", text))),
        };
        let injected = Injected::of_property(name, text, kind)?;
        let injection = ModuleInjection { modules, injected, clears, words };
        injection.check(platform, kind)?;
        Ok(injection)
    }

    /// Checks that each module has the poisoned address, and uses it so, and that the temperature is one.
    fn check(&self, platform: &Platform, kind: PoisonType) -> Result<(), Box<Refusal>> {
        let refused = |modules: &[Handle], why: String| {
            let what = SET_DIMM.named(self.what());
            let invalid = (5, "Invalid parameter");
            Box::new(Refusal::of_modules(&what, modules, invalid, self.words, why))
        };
        match self.injected {
            Injected::Temperature(celsius) if !self.clears && !CELSIUS.contains(&celsius) => {
                let why = format!("a module can't report {celsius} degrees: give up to {}", CELSIUS.end());
                Err(refused(&self.modules, why))
            }
            Injected::Poison { at, .. } => {
                let all = &platform.machine.modules;
                for module in all.iter().filter(|module| self.modules.contains(&module.handle)) {
                    poison_fault(platform, module, at, kind, self.clears)
                        .map_err(|why| refused(&[module.handle], why))?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns ipmctl's words for what is done.
    fn what(&self) -> &'static str {
        match (&self.injected, self.clears) {
            (Injected::Temperature(_), false) => "Set temperature",
            (Injected::Temperature(_), true) => "Clear injected temperature",
            (Injected::Poison { .. }, false) => "Poison address",
            (Injected::Poison { .. }, true) => "Clear injected poison of address",
            (Injected::Percentage(_), false) => "Trigger a percentage remaining",
            (Injected::Percentage(_), true) => "Clear injected percentage remaining",
            (Injected::Fatal, false) => "Create a media fatal error",
            (Injected::Fatal, true) => "Clear injected media fatal error",
            (Injected::DirtyShutdown, false) => "Trigger a dirty shut down",
            (Injected::DirtyShutdown, true) => "Clear dirty shut down",
        }
    }

    /// Changes the modules. Returns the lines that ipmctl prints.
    ///
    /// # Errors
    /// Fails if a module does not exist or is dead.
    pub fn apply(&self, platform: &mut Platform) -> Result<String, SmartError> {
        let mut text = String::new();
        for module in &self.modules {
            match &self.injected {
                Injected::Poison { at, text: address, is_found } => {
                    self.poison(platform, *module, *at, *is_found);
                    let line = SET_DIMM.named(self.what()).line(*module, "Success", self.words.0);
                    text += &line.replacen(self.what(), &format!("{} {address}", self.what()), 1);
                }
                injected => {
                    let index = platform.machine.module_index(*module);
                    let index = index.ok_or(ModuleError::UnknownModule { module: *module })?;
                    smart::change(platform, index, &injected.change(self.clears))?;
                    text += &SET_DIMM.named(self.what()).line(*module, "Success", self.words.0);
                }
            }
        }
        Ok(text)
    }

    fn poison(&self, platform: &mut Platform, module: Handle, at: u64, is_found: bool) {
        let error = MediaError { module, off: at, len: POISON_LEN };
        if self.clears {
            return platform.state.clear_errors(module, at, POISON_LEN);
        }
        add(&mut platform.state.media_errors, error);
        if is_found {
            platform.state.log_lost(error, FoundBy::PatrolScrub);
        }
    }
}

impl Injected {
    fn of_property(name: &'static str, text: &str, kind: PoisonType) -> Result<Injected, Box<Refusal>> {
        let refused = || Box::new(Refusal::setting(name, text));
        let value = number(text).ok_or_else(refused)?;
        let small = |most: i32| i32::try_from(value).ok().filter(|value| *value <= most).ok_or_else(refused);
        let one = |injected| if value == 1 { Ok(injected) } else { Err(refused()) };
        match name {
            "Temperature" => Ok(Injected::Temperature(i32::try_from(value).unwrap_or(i32::MAX))),
            "Poison" => {
                let is_found = kind == PoisonType::PatrolScrub;
                Ok(Injected::Poison { at: value, text: text.to_owned(), is_found })
            }
            "PercentageRemaining" => small(PERCENT_MAX).map(Injected::Percentage),
            "FatalMediaError" => one(Injected::Fatal),
            "DirtyShutdown" => one(Injected::DirtyShutdown),
            _ => {
                let why = "emulated modules have no spare packages; PercentageRemaining injects used spares";
                Err(Box::new(Refusal::not_emulated(name, why)))
            }
        }
    }

    /// Returns the change of SMART. Poison is none.
    fn change(&self, clears: bool) -> SmartChange {
        let mut change = SmartChange::default();
        match self {
            Injected::Temperature(celsius) => change.media_celsius = injection(*celsius, clears),
            Injected::Percentage(percent) => change.spares_percent = injection(*percent, clears),
            Injected::Fatal => change.fatal = injection((), clears),
            Injected::DirtyShutdown => change.unsafe_shutdown = injection((), clears),
            Injected::Poison { .. } => {}
        }
        change
    }
}

fn injection<T>(value: T, clears: bool) -> Injection<T> {
    if clears { Injection::Uninject } else { Injection::Inject(value) }
}

/// Returns the type of poison that a line names; that of a patrol without one.
fn poison_type(line: &Line, words: Words) -> Result<PoisonType, Box<Refusal>> {
    let Some(name) = line.property("PoisonType") else { return Ok(PoisonType::PatrolScrub) };
    if line.property("Poison").is_none() {
        let text = "Poison type property should be followed by poison address.";
        return Err(Box::new(Refusal::words(text, "give the address, as Poison=0x10000200")));
    }
    let found = POISON_TYPES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let refused = || Box::new(Refusal::value("property PoisonType", name, words));
    found.map(|(_, kind)| *kind).ok_or_else(refused)
}

/// Checks that an address of a module can be poisoned, or cleared.
fn poison_fault(
    platform: &Platform,
    module: &Module,
    at: u64,
    kind: PoisonType,
    clears: bool,
) -> Result<(), String> {
    if !at.is_multiple_of(POISON_LEN) || at.checked_add(POISON_LEN).is_none_or(|end| end > module.capacity) {
        return Err(format!(
            "{at:#x} is no multiple of {POISON_LEN} below the capacity of module {}, {:#x} bytes",
            module.handle, module.capacity
        ));
    }
    let memory = platform.state.partition(module.handle).map_or(0, |partition| partition.memory);
    let mut shares = platform.state.sets_of(module.handle).map(|(set, member)| (member.offset, set.share));
    let is_mapped = shares.any(|(start, len)| at >= start && at - start < len);
    let (fits, want) = match kind {
        PoisonType::PatrolScrub => (true, ""),
        PoisonType::MemoryMode => (at < memory, "volatile memory"),
        PoisonType::AppDirect => (is_mapped, "mapped persistent memory"),
    };
    if !fits {
        return Err(format!("address {at:#x} of module {} is no {want}", module.handle));
    }
    if !clears && module.security == Security::Locked && at >= memory {
        return Err(format!(
            "module {} is locked, so its persistent memory can't be poisoned",
            module.handle
        ));
    }
    Ok(())
}
