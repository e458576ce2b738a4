//! SMART of modules: injected values, thresholds with their alarms, and the events that they raise.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_platform::ipmctl::{self, Attributes, DisplayOptions, Subject};
use lode_platform::machine::{Health, Machine, ModuleError};
use lode_platform::smart::{
    self, AlarmChange, Injection, SmartChange, SmartError, SmartEvent, SmartReport, change,
};
use lode_platform::{Directory, Platform, PlatformError, Purpose, Targets, boot};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn platform() -> Platform {
    let text = Machine::included("lab-pair").unwrap();
    let text = text.replacen("locator", "health = \"Noncritical failure\"\nlocator", 1);
    Platform::new(Machine::parse(&text).unwrap())
}

fn report(platform: &Platform) -> SmartReport {
    smart::report(platform, &platform.machine.modules[0])
}

/// Returns the counts of all events of the first module, in ndctl's order.
fn counts(platform: &Platform) -> Vec<u64> {
    let counts = smart::events(platform, &platform.machine.modules[0]);
    SmartEvent::ALL.into_iter().map(|event| counts.of(event)).collect()
}

fn threshold(threshold: i32) -> AlarmChange {
    AlarmChange { threshold: Some(threshold), enabled: None }
}

fn switch(enabled: bool) -> AlarmChange {
    AlarmChange { threshold: None, enabled: Some(enabled) }
}

fn media(degrees: i32) -> SmartChange {
    SmartChange { media_celsius: Injection::Inject(degrees), ..SmartChange::default() }
}

#[test]
fn injected_values_end_when_they_are_uninjected() {
    let mut platform = platform();
    let before = report(&platform);
    assert_eq!((before.media_celsius, before.spares_percent, before.health), (33, 100, Health::Noncritical));
    let inject = SmartChange {
        media_celsius: Injection::Inject(-5),
        controller_celsius: Injection::Inject(40),
        spares_percent: Injection::Inject(60),
        fatal: Injection::Inject(()),
        ..SmartChange::default()
    };
    change(&mut platform, 0, &inject).unwrap();
    let injected = report(&platform);
    assert_eq!(
        (injected.media_celsius, injected.controller_celsius, injected.spares_percent, injected.health),
        (-5, 40, 60, Health::Fatal)
    );
    assert_eq!(smart::report(&platform, &platform.machine.modules[1]).media_celsius, 33, "another module");
    let uninject = SmartChange {
        media_celsius: Injection::Uninject,
        controller_celsius: Injection::Uninject,
        spares_percent: Injection::Uninject,
        fatal: Injection::Uninject,
        ..SmartChange::default()
    };
    change(&mut platform, 0, &uninject).unwrap();
    assert_eq!(report(&platform), before);
}

/// Returns a value that `ipmctl show -a -dimm` has of the second module, which is healthy.
fn shown(platform: &Platform, name: &str) -> String {
    let targets = Targets { modules: vec![platform.machine.modules[1].handle], ..Targets::default() };
    let display = DisplayOptions { attributes: Attributes::All, ..DisplayOptions::default() };
    let text = ipmctl::show(platform, &Subject::Dimm, &targets, &display).unwrap();
    let value = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}=")));
    value.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
}

/// ipmctl listed an injected fatal state without a reason.
#[test]
fn ipmctl_lists_the_reason_of_an_injected_state() {
    let mut platform = platform();
    let state = |platform: &Platform| (shown(platform, "HealthState"), shown(platform, "HealthStateReason"));
    assert_eq!(state(&platform), ("Healthy".to_owned(), "None".to_owned()));
    let fatal = SmartChange { fatal: Injection::Inject(()), ..SmartChange::default() };
    change(&mut platform, 1, &fatal).unwrap();
    let expected = ("Fatal failure".to_owned(), "Critical internal state failure".to_owned());
    assert_eq!(state(&platform), expected);
}

/// ipmctl listed no injection while there were some.
#[test]
fn ipmctl_lists_injections() {
    let mut platform = platform();
    let triggers = |platform: &Platform| {
        ["MediaTemperatureInjectionEnabled", "SoftwareTriggersEnabled", "SoftwareTriggersEnabledDetails"]
            .map(|name| shown(platform, name))
    };
    assert_eq!(triggers(&platform), ["0", "0", "None"]);
    change(&mut platform, 1, &media(70)).unwrap();
    assert_eq!(triggers(&platform), ["1", "0", "None"]);
    let injected = SmartChange {
        spares_percent: Injection::Inject(5),
        fatal: Injection::Inject(()),
        unsafe_shutdown: Injection::Inject(()),
        ..SmartChange::default()
    };
    change(&mut platform, 1, &injected).unwrap();
    assert_eq!(triggers(&platform), ["1", "1", "Fatal Error, Percentage Remaining, Dirty Shutdown"]);
    boot::reboot(&mut platform);
    assert_eq!(triggers(&platform), ["0", "0", "None"]);
}

/// A temperature trips its alarm from below, the spares from above, and both at the threshold itself.
#[test]
fn alarms_trip_at_their_thresholds() {
    let mut platform = platform();
    for (degrees, tripped) in [(81, false), (82, true), (83, true)] {
        change(&mut platform, 0, &media(degrees)).unwrap();
        assert_eq!(report(&platform).media_alarm.tripped, tripped, "{degrees}");
    }
    for (degrees, tripped) in [(97, false), (98, true)] {
        let inject = SmartChange { controller_celsius: Injection::Inject(degrees), ..SmartChange::default() };
        change(&mut platform, 0, &inject).unwrap();
        assert_eq!(report(&platform).controller_alarm.tripped, tripped, "{degrees}");
    }
    for (percent, tripped) in [(51, false), (50, true), (49, true)] {
        let inject = SmartChange { spares_percent: Injection::Inject(percent), ..SmartChange::default() };
        change(&mut platform, 0, &inject).unwrap();
        assert_eq!(report(&platform).spares_alarm.tripped, tripped, "{percent}");
    }
    let off = SmartChange { spares_alarm: switch(false), ..SmartChange::default() };
    change(&mut platform, 0, &off).unwrap();
    assert!(!report(&platform).spares_alarm.tripped, "a disabled alarm");
    smart::enable_alarms(&mut platform, 0, &[SmartEvent::SparesRemaining]).unwrap();
    assert!(report(&platform).spares_alarm.tripped);
}

/// Each command that leaves an alarm tripped raises its event; a health state raises one when it changes.
#[test]
fn events_are_counted() {
    let mut platform = platform();
    assert_eq!(counts(&platform), [0; 5]);
    change(&mut platform, 0, &media(81)).unwrap();
    assert_eq!(counts(&platform), [0; 5], "below the threshold");
    change(&mut platform, 0, &media(90)).unwrap();
    assert_eq!(counts(&platform), [0, 1, 0, 0, 0]);
    change(&mut platform, 0, &media(95)).unwrap();
    assert_eq!(counts(&platform), [0, 2, 0, 0, 0]);
    smart::enable_alarms(&mut platform, 0, &SmartEvent::ALL).unwrap();
    assert_eq!(counts(&platform), [0, 2, 0, 0, 0], "all alarms are enabled already");
    let fatal = SmartChange { fatal: Injection::Inject(()), ..SmartChange::default() };
    change(&mut platform, 0, &SmartChange { media_celsius: Injection::Uninject, ..fatal }).unwrap();
    change(&mut platform, 0, &fatal).unwrap();
    assert_eq!(counts(&platform), [0, 2, 0, 1, 0], "it is fatal already");
}

#[test]
fn start_ends_injections_and_finds_unsafe_shutdown() {
    let mut platform = platform();
    platform.machine.modules[0].sensors.latched_dirty_shutdowns = 3;
    let changes = SmartChange {
        media_celsius: Injection::Inject(90),
        fatal: Injection::Inject(()),
        unsafe_shutdown: Injection::Inject(()),
        media_alarm: threshold(70),
        spares_alarm: switch(false),
        ..SmartChange::default()
    };
    change(&mut platform, 0, &changes).unwrap();
    assert!(!report(&platform).last_shutdown_dirty, "the shutdown is the next one");
    boot::reboot(&mut platform);
    let first = report(&platform);
    assert_eq!((first.media_celsius, first.health), (33, Health::Noncritical));
    assert_eq!((first.media_alarm.threshold, first.spares_alarm.enabled), (70, false), "thresholds stay");
    assert_eq!((first.last_shutdown_dirty, first.dirty_shutdowns), (true, 4));
    assert_eq!(first.unlatched_dirty_shutdowns, 1);
    assert_eq!(counts(&platform), [0, 1, 0, 2, 1]);
    boot::reboot(&mut platform);
    let second = report(&platform);
    assert_eq!((second.last_shutdown_dirty, second.dirty_shutdowns), (false, 4), "this shutdown was clean");
    let inject = SmartChange { unsafe_shutdown: Injection::Inject(()), ..SmartChange::default() };
    let uninject = SmartChange { unsafe_shutdown: Injection::Uninject, ..SmartChange::default() };
    for one in [inject, uninject] {
        change(&mut platform, 0, &one).unwrap();
    }
    boot::reboot(&mut platform);
    assert_eq!(report(&platform).dirty_shutdowns, 4);
}

/// A module that is fatal without the injection is so after it.
#[test]
fn end_of_an_injection_that_changed_nothing_is_no_event() {
    let mut platform = platform();
    platform.machine.modules[0].health = Health::Fatal;
    let fatal = SmartChange { fatal: Injection::Inject(()), ..SmartChange::default() };
    change(&mut platform, 0, &fatal).unwrap();
    boot::reboot(&mut platform);
    assert_eq!(counts(&platform), [0, 0, 0, 0, 0]);
}

#[test]
fn values_out_of_range_are_refused() {
    let mut platform = platform();
    let refused = |platform: &mut Platform, wanted: SmartChange| change(platform, 0, &wanted).unwrap_err();
    let hot = SmartError::Celsius { what: "media temperature", found: 2048 };
    assert_eq!(refused(&mut platform, media(2048)), hot);
    assert_eq!(hot.to_string(), "a media temperature can't be 2048 degrees: give -2047 to 2047");
    let cold = SmartChange { controller_alarm: threshold(-2048), ..SmartChange::default() };
    assert!(matches!(refused(&mut platform, cold), SmartError::Celsius { found: -2048, .. }));
    for percent in [-1, 101] {
        let inject = SmartChange { spares_percent: Injection::Inject(percent), ..SmartChange::default() };
        let error = refused(&mut platform, inject);
        assert_eq!(error, SmartError::Percent { what: "share of spares", found: percent });
    }
    let percent = SmartChange { spares_alarm: threshold(101), ..SmartChange::default() };
    assert!(refused(&mut platform, percent).to_string().contains("give 0 to 100"));
    assert!(platform.state.smart.is_empty(), "a refused change changes nothing");
    let unknown = ModuleError::UnknownDevice { index: 7 };
    assert_eq!(change(&mut platform, 7, &media(1)), Err(SmartError::Module(unknown)));
    platform.machine.modules[0].health = Health::NonFunctional;
    assert_eq!(refused(&mut platform, media(1)), SmartError::Dead { index: 0 });
}

#[test]
fn smart_survives_in_the_state_directory() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("state");
    let text = Machine::included("lab-pair").unwrap();
    let mut directory = Directory::init(&root, Path::new("lab-pair"), text).unwrap();
    directory.change::<_, PlatformError>(|platform| Ok(change(platform, 0, &media(90))?)).unwrap();
    let before = report(directory.platform());
    drop(directory);
    let directory = Directory::open(&root, Purpose::ReadOnly).unwrap();
    assert_eq!(report(directory.platform()), before);
    assert_eq!(counts(directory.platform()), [0, 1, 0, 0, 0]);
    drop(directory);
    let file = root.join("state.toml");
    let state = fs::read_to_string(&file).unwrap();
    for (from, to) in [("media_celsius = 90", "media_celsius = 9000"), ("threshold = 50", "threshold = 500")]
    {
        let edited = state.replacen(from, to, 1);
        assert_ne!(edited, state, "{from}");
        fs::write(&file, edited).unwrap();
        let refused = Directory::open(&root, Purpose::ReadOnly).unwrap_err().to_string();
        assert!(refused.contains("state.toml, line ") && refused.contains("can't report such"), "{refused}");
    }
}
