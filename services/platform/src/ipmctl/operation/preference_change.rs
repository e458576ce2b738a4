//! `ipmctl set -preferences`: the preferences of the tool.

use crate::ipmctl::refusal::Refusal;
use crate::ipmctl::syntax::Line;
use crate::ipmctl::values;
use crate::listing::Unit;
use crate::platform::Platform;
use crate::preferences::{AppDirectSettings, DimmId, Granularity, LogLevel, Preferences, value_of};

/// The preference that only generation 1 has.
pub(super) const GRANULARITY: &str = "APPDIRECT_GRANULARITY";
/// The preferences, in the order in which ipmctl sets them.
pub(super) const PROPERTIES: [&str; 5] =
    ["CLI_DEFAULT_DIMM_ID", "CLI_DEFAULT_SIZE", "APPDIRECT_SETTINGS", GRANULARITY, "DBG_LOG_LEVEL"];
/// Sizes of the interleaving that ipmctl knows.
const SIZES: [&str; 5] = ["64B", "128B", "256B", "4KB", "1GB"];

/// A change of preferences. ipmctl sets those whose values it takes, even if it refuses others of the line. Only at an AppDirect
/// preference it ends if it has refused one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreferenceChange {
    preferences: Preferences,
    /// The line that ipmctl prints for each preference.
    text: String,
    /// The refused values.
    refused: Vec<String>,
}

impl PreferenceChange {
    /// Reads the values of a line.
    pub(super) fn of_line(line: &Line, platform: &Platform) -> Result<PreferenceChange, Box<Refusal>> {
        let mut change = PreferenceChange {
            preferences: platform.state.preferences.clone(),
            text: String::new(),
            refused: Vec::new(),
        };
        for (name, value) in PROPERTIES.into_iter().filter_map(|name| Some((name, line.property(name)?))) {
            if name.starts_with("APPDIRECT") && !change.refused.is_empty() {
                change.text += "Error: Internal function error.\n";
                break;
            }
            match set(&mut change.preferences, name, value) {
                Ok(()) => change.text += &format!("Set {name}={value}: Success\n"),
                Err(why) => {
                    // The number is that of UEFI for an invalid parameter.
                    change.text += &format!("Set {name}={value}. Error: 2. {why}\n");
                    change.refused.push(format!("{value:?} is no value for {name}"));
                }
            }
        }
        if change.text.is_empty() {
            return Err(Box::new(Refusal::incomplete("name a preference, as CLI_DEFAULT_SIZE=MiB")));
        }
        Ok(change)
    }

    /// Sets the preferences.
    pub fn apply(&self, platform: &mut Platform) {
        platform.state.preferences = self.preferences.clone();
    }

    /// Returns the lines that ipmctl prints when the preferences are set.
    ///
    /// # Errors
    /// Some values were refused; the others are set.
    pub fn outcome(self) -> Result<String, Box<Refusal>> {
        if self.refused.is_empty() {
            return Ok(self.text);
        }
        Err(Box::new(Refusal::of_lines(self.text, self.refused.join("; "))))
    }
}

/// Sets a preference; fails with ipmctl's reason.
fn set(preferences: &mut Preferences, name: &str, word: &str) -> Result<(), &'static str> {
    match name {
        "CLI_DEFAULT_DIMM_ID" => {
            preferences.dimm_id = value_of(&DimmId::ALL, word).ok_or("Incorrect default DimmID type")?;
        }
        "CLI_DEFAULT_SIZE" => {
            preferences.size = value_of(&Unit::PREFERRED, word).ok_or("Incorrect default size type")?;
        }
        "APPDIRECT_SETTINGS" => {
            let is_size = |part: &str| SIZES.iter().any(|size| size.eq_ignore_ascii_case(part));
            let is_known =
                word.split_once('_').is_some_and(|(imc, channel)| is_size(imc) && is_size(channel));
            // The driver refuses what firmware does not offer.
            let why = if is_known {
                "Reason for failure unknown"
            } else {
                "Incorrect AppDirect interleave setting type"
            };
            preferences.app_direct = value_of(&AppDirectSettings::ALL, word).ok_or(why)?;
        }
        GRANULARITY => {
            preferences.granularity =
                value_of(&Granularity::ALL, word).ok_or("Invalid granularity setting type")?;
        }
        _ => {
            let level = values::number(word).and_then(|level| u8::try_from(level).ok());
            let level = level.and_then(|level| LogLevel::try_from(level).ok());
            preferences.log_level = level.ok_or("Setting is invalid or out of range")?;
        }
    }
    Ok(())
}
