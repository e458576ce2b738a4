//! `lode ndctl inject-smart`.

use super::base::BaseOptions;
use super::{listing_output, number};
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::{MachineLocation, failed};
use clap::{ArgGroup, Args, ValueEnum};
use lode_platform::Purpose;
use lode_platform::ndctl::{self, Included, ListFilter, ListRequest};
use lode_platform::smart::{self, AlarmChange, Injection, SmartChange};

/// The value of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    /// The module raises the alarm
    On,
    /// The module raises no alarm
    Off,
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("operation").required(true).multiple(true).args([
    "media_temperature", "media_temperature_threshold", "media_temperature_alarm", "media_temperature_uninject",
    "ctrl_temperature", "ctrl_temperature_threshold", "ctrl_temperature_alarm", "ctrl_temperature_uninject",
    "spares", "spares_threshold", "spares_alarm", "spares_uninject",
    "fatal", "fatal_uninject", "unsafe_shutdown", "unsafe_shutdown_uninject", "uninject_all",
]))]
pub(super) struct Inject {
    /// Name of the module, as nmem0
    #[arg(value_name = "DIMM")]
    name: String,
    #[command(flatten)]
    base: BaseOptions,
    /// Report this temperature of the media, in degrees Celsius, until the next start
    #[arg(short, long, value_name = "CELSIUS", value_parser = celsius, allow_negative_numbers = true)]
    media_temperature: Option<i32>,
    /// Temperature of the media from which on it is an event
    #[arg(short = 'M', long, value_name = "CELSIUS", value_parser = celsius, allow_negative_numbers = true)]
    media_temperature_threshold: Option<i32>,
    /// Switch the alarm of the media's temperature
    #[arg(long, value_name = "SWITCH")]
    media_temperature_alarm: Option<Switch>,
    /// Report the temperature of the media that is measured
    #[arg(long, conflicts_with = "media_temperature")]
    media_temperature_uninject: bool,
    /// Report this temperature of the controller, in degrees Celsius, until the next start
    #[arg(short, long, value_name = "CELSIUS", value_parser = celsius, allow_negative_numbers = true)]
    ctrl_temperature: Option<i32>,
    /// Temperature of the controller from which on it is an event
    #[arg(short = 'C', long, value_name = "CELSIUS", value_parser = celsius, allow_negative_numbers = true)]
    ctrl_temperature_threshold: Option<i32>,
    /// Switch the alarm of the controller's temperature
    #[arg(long, value_name = "SWITCH")]
    ctrl_temperature_alarm: Option<Switch>,
    /// Report the temperature of the controller that is measured
    #[arg(long, conflicts_with = "ctrl_temperature")]
    ctrl_temperature_uninject: bool,
    /// Report these spares, in percent, until the next start
    #[arg(short, long, value_name = "PERCENT")]
    spares: Option<i32>,
    /// Spares down from which it is an event, in percent
    #[arg(short = 'S', long, value_name = "PERCENT")]
    spares_threshold: Option<i32>,
    /// Switch the alarm of the spares
    #[arg(long, value_name = "SWITCH")]
    spares_alarm: Option<Switch>,
    /// Report the spares that are left
    #[arg(long, conflicts_with = "spares")]
    spares_uninject: bool,
    /// Report the health state fatal, until the next start
    #[arg(short, long)]
    fatal: bool,
    /// Report the health state that the module has
    #[arg(short = 'F', long, conflicts_with = "fatal")]
    fatal_uninject: bool,
    /// Make the next start find an unsafe shutdown
    #[arg(short = 'U', long)]
    unsafe_shutdown: bool,
    /// Make the next start find no unsafe shutdown
    #[arg(long, conflicts_with = "unsafe_shutdown")]
    unsafe_shutdown_uninject: bool,
    /// End all injections
    #[arg(
        short = 'N', long,
        conflicts_with_all = ["media_temperature", "ctrl_temperature", "spares", "fatal", "unsafe_shutdown"],
    )]
    uninject_all: bool,
    /// Print numbers in human-readable form
    #[arg(short = 'u', long)]
    human: bool,
}

/// Parses a temperature. ndctl takes fractions, and drops them.
fn celsius(word: &str) -> Result<i32, String> {
    let degrees: f64 = word.parse().map_err(|_| "give degrees Celsius, as 52".to_owned())?;
    if degrees.is_finite() && degrees.abs() < f64::from(i32::MAX) {
        Ok(degrees as i32)
    } else {
        Err("no module has such a temperature".to_owned())
    }
}

impl Inject {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let index = number(&self.name, "nmem")?;
        let mut directory = location.open(Purpose::Change)?;
        self.base.check_module(directory.platform(), index)?;
        let change = self.change();
        directory
            .change(|platform| smart::change(platform, index as usize, &change))
            .map_err(failed("injecting SMART values"))?;
        let included = Included { modules: true, health: true, idle: true, ..Included::default() };
        let filter = ListFilter { module: Some(format!("nmem{index}")), ..ListFilter::default() };
        let request = ListRequest { included, filter, human: self.human };
        Ok(listing_output("", &ndctl::inventory(directory.platform()).list(&request)))
    }

    fn change(&self) -> SmartChange {
        SmartChange {
            media_celsius: self.injection(self.media_temperature, self.media_temperature_uninject),
            controller_celsius: self.injection(self.ctrl_temperature, self.ctrl_temperature_uninject),
            spares_percent: self.injection(self.spares, self.spares_uninject),
            fatal: self.injection(self.fatal.then_some(()), self.fatal_uninject),
            unsafe_shutdown: self
                .injection(self.unsafe_shutdown.then_some(()), self.unsafe_shutdown_uninject),
            media_alarm: alarm(self.media_temperature_threshold, self.media_temperature_alarm),
            controller_alarm: alarm(self.ctrl_temperature_threshold, self.ctrl_temperature_alarm),
            spares_alarm: alarm(self.spares_threshold, self.spares_alarm),
        }
    }

    fn injection<T>(&self, value: Option<T>, uninject: bool) -> Injection<T> {
        match value {
            Some(value) => Injection::Inject(value),
            None if uninject || self.uninject_all => Injection::Uninject,
            None => Injection::Keep,
        }
    }
}

fn alarm(threshold: Option<i32>, switch: Option<Switch>) -> AlarmChange {
    AlarmChange { threshold, enabled: switch.map(|switch| switch == Switch::On) }
}
