//! `ipmctl show -error`.

use super::display::{Attributes, DisplayOptions, dimm_id, empty_result, is_first_generation, print};
use super::error::ShowError;
use crate::error_log::{ErrorLevel, FoundBy, LoggedError, LoggedKind, TemperatureSensor, entries};
use crate::goal::Targets;
use crate::listing::{Column, Format, Record, Records, Value};
use crate::machine::Module;
use crate::platform::Platform;

const MEDIA: [Column; 3] = [Column("DimmID", 22), Column(TIMESTAMP, 20), Column("Error Type", 45)];
const THERMAL: [Column; 4] =
    [Column("DimmID", 22), Column(TIMESTAMP, 20), Column("Temperature", 13), Column("Reported", 20)];
const TIMESTAMP: &str = "System Timestamp";
const NONE: Value = Value::absent("N/A");
/// Entries that are shown without `Count`, as the manual page ipmctl-show-error-log has them.
const MEDIA_COUNT: usize = 8;
const THERMAL_COUNT: usize = 16;
const DAY: u64 = 86_400;

/// The entries of error logs to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorQuery {
    /// True for the thermal log, false for that of the media.
    pub is_thermal: bool,
    /// Number of the first entry.
    pub first: u16,
    /// The severity.
    pub level: ErrorLevel,
    /// The most entries of a module; `None` for ipmctl's default.
    pub count: Option<usize>,
}

pub(super) fn show(
    platform: &Platform,
    query: &ErrorQuery,
    targets: &Targets,
    display: &DisplayOptions,
) -> Result<String, ShowError> {
    let modules = targets.resolve_answering(&platform.machine)?;
    let (mut records, mut without) = (Vec::new(), String::new());
    let word = if is_first_generation(&platform.machine) { "DIMM" } else { "PMem module" };
    for module in modules {
        let of_log = entries(&platform.state.errors, module.handle, query.is_thermal, query.level);
        let wanted = of_log.filter(|entry| entry.sequence >= query.first);
        let most = query.count.unwrap_or(if query.is_thermal { THERMAL_COUNT } else { MEDIA_COUNT });
        let parts: Vec<Record> = wanted.take(most).map(|entry| record(module, entry)).collect();
        if parts.is_empty() {
            without += &format!("No errors found on {word} {}\n", dimm_id(platform, module.handle));
        } else {
            records.push(Record::new().with("DimmID", dimm_id(platform, module.handle)).with_parts(parts));
        }
    }
    if records.is_empty() {
        return Ok(empty_result(without.trim_end(), display));
    }
    let columns: &[Column] = if query.is_thermal { &THERMAL } else { &MEDIA };
    let records =
        Records { list_tag: "ErrorList", tag: "Dimm", part_tag: "Error", head: Some("DimmID"), records };
    let shown = print(records, columns, display)?;
    Ok(match (display.format, &display.attributes) {
        (Format::Text, Attributes::Default) => format!("{shown}{without}Show error executed successfully\n"),
        (Format::Text, _) => shown + &without,
        _ => shown,
    })
}

/// Returns the values of an entry, in the order of the manual page.
fn record(module: &Module, entry: &LoggedError) -> Record {
    let kind = if entry.what.is_thermal() { "Thermal" } else { "Media" };
    let record = Record::new().with("Error", kind).with(TIMESTAMP, timestamp(module.sensors.up_seconds));
    let media = |error_type: &'static str, transaction: &'static str, range: Option<(u64, u64)>| {
        let flags = if range.is_some() { "0x02 - DPA Valid" } else { "0x00" };
        let dpa = range.map_or(NONE, |(dpa, _)| format!("{dpa:#018X}").into());
        let len = range.map_or(NONE, |(_, len)| Value::number(len, format!("{len}B")));
        record
            .clone()
            .with("Error Type", error_type)
            .with("Transaction Type", transaction)
            .with("Error Flags", flags)
            .with("DPA", dpa)
            .with("PDA", NONE)
            .with("Range", len)
    };
    let whole = match entry.what {
        LoggedKind::Temperature { sensor, celsius } => {
            let of = match sensor {
                TemperatureSensor::Media => "Media Temperature",
                TemperatureSensor::Controller => "Controller Temperature",
            };
            let celsius = Value::signed(celsius.into(), celsius.to_string());
            record
                .with("Temperature", celsius)
                .with("Reported", "User Alarm Trip")
                .with("Temperature Type", of)
        }
        LoggedKind::Uncorrectable { dpa, len, found_by } => {
            let transaction = match found_by {
                FoundBy::PatrolScrub => "0x09 - Patrol Scrub",
                FoundBy::AddressRangeScrub => "0x0C - Address Range Scrub",
            };
            media("0x00 - Uncorrectable", transaction, Some((dpa, len)))
        }
        LoggedKind::PercentageRemaining => {
            media("0x05 - User Percentage Remaining Alarm Trip", "0x0D - Unavailable", None)
        }
        LoggedKind::HealthChange => media("0x06 - Smart Health Status Change", "0x0D - Unavailable", None),
    };
    whole.with("Sequence Number", entry.sequence)
}

/// Returns the time of a clock that began with 1970 when the module was powered, as ipmctl prints it: month, day and year.
fn timestamp(seconds: u64) -> String {
    let (days, second) = (seconds / DAY, seconds % DAY);
    // Days from 1 March 2000 on, in eras of 400 years (Hinnant, "chrono-compatible low-level date algorithms").
    let shifted = u128::from(days) + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + next;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{month:02}/{of_month:02}/{year:04} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn timestamps_are_dates() {
        for (seconds, text) in [
            (20, "01/01/1970 00:00:20"),
            (1_628_485_947, "08/09/2021 05:12:27"),
            (951_782_399, "02/28/2000 23:59:59"),
            (951_782_400, "02/29/2000 00:00:00"),
            (951_868_800, "03/01/2000 00:00:00"),
        ] {
            assert_eq!(timestamp(seconds), text);
        }
    }
}
