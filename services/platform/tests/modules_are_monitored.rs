//! Observers of modules: no event is lost, and several between two looks are told of.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_platform::machine::Machine;
use lode_platform::monitor::{Notification, Observed, Observer, Subject};
use lode_platform::ndctl::{self, ListFilter, NdModule};
use lode_platform::smart::{self, Injection, SmartChange, SmartEvent};
use lode_platform::{Directory, Platform, PlatformError, Watch, boot};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

fn platform() -> Platform {
    Platform::new(Machine::parse(Machine::included("lab-pair").unwrap()).unwrap())
}

fn subject(platform: &Platform) -> Subject {
    Subject::of_module(platform, &platform.machine.modules[0])
}

fn inject(platform: &mut Platform, change: SmartChange) {
    smart::change(platform, 0, &change).unwrap();
}

fn media(injection: Injection<i32>) -> SmartChange {
    SmartChange { media_celsius: injection, ..SmartChange::default() }
}

fn fatal(injection: Injection<()>) -> SmartChange {
    SmartChange { fatal: injection, ..SmartChange::default() }
}

/// Returns the events that are flagged.
fn flagged(observed: &Observed) -> Vec<SmartEvent> {
    observed.events.iter().filter(|(_, flag)| *flag).map(|(event, _)| *event).collect()
}

#[test]
fn events_between_two_looks_are_coalesced() {
    let mut platform = platform();
    let mut observer = Observer::new(&SmartEvent::ALL, subject(&platform));
    assert!(!observer.first().is_new && flagged(&observer.first()).is_empty());
    let quiet = observer.look(subject(&platform));
    assert_eq!((quiet.is_new, quiet.coalesced, quiet.events.len()), (false, 0, 5));
    inject(&mut platform, media(Injection::Inject(90)));
    let hot = observer.look(subject(&platform));
    assert_eq!((hot.is_new, hot.coalesced), (true, 0));
    assert_eq!(flagged(&hot), [SmartEvent::MediaTemperature]);
    let still = observer.look(subject(&platform));
    assert_eq!((still.is_new, flagged(&still)), (false, vec![SmartEvent::MediaTemperature]), "it holds");
    // Three events of one kind, and one of another, which is over.
    for degrees in [91, 92, 93] {
        inject(&mut platform, media(Injection::Inject(degrees)));
    }
    inject(&mut platform, SmartChange { spares_percent: Injection::Inject(9), ..media(Injection::Uninject) });
    inject(&mut platform, SmartChange { spares_percent: Injection::Uninject, ..SmartChange::default() });
    let late = observer.look(subject(&platform));
    assert_eq!((late.is_new, late.coalesced), (true, 2));
    assert_eq!(
        flagged(&late),
        [SmartEvent::SparesRemaining, SmartEvent::MediaTemperature],
        "an event that is over"
    );
    assert!(flagged(&observer.look(subject(&platform))).is_empty());
}

#[test]
fn changes_of_health_are_events() {
    let mut platform = platform();
    let mut observer = Observer::new(&[SmartEvent::HealthState], subject(&platform));
    inject(&mut platform, media(Injection::Inject(99)));
    let other = observer.look(subject(&platform));
    assert!(!other.is_new && other.events == [(SmartEvent::HealthState, false)], "it is not observed");
    inject(&mut platform, fatal(Injection::Inject(())));
    assert!(observer.look(subject(&platform)).is_new);
    assert_eq!(
        flagged(&observer.look(subject(&platform))),
        [SmartEvent::HealthState],
        "it is not as at the start"
    );
    inject(&mut platform, fatal(Injection::Uninject));
    let healthy = observer.look(subject(&platform));
    assert_eq!((healthy.is_new, flagged(&healthy).len()), (true, 1));
    assert!(flagged(&observer.look(subject(&platform))).is_empty());
    inject(&mut platform, SmartChange { unsafe_shutdown: Injection::Inject(()), ..SmartChange::default() });
    boot::reboot(&mut platform);
    let unclean = Observer::new(&SmartEvent::ALL, subject(&platform)).first();
    assert_eq!((unclean.is_new, flagged(&unclean)), (true, vec![SmartEvent::UncleanShutdown]));
}

/// A real module counts no events: a change of its flags is one of its health.
#[test]
fn flags_of_real_modules_are_observed() {
    let with = |flags: &[&'static str]| NdModule { flags: flags.to_vec(), ..NdModule::default() };
    let mut observer = Observer::new(&[SmartEvent::HealthState], Subject::of_flags(&with(&[])));
    assert!(!observer.look(Subject::of_flags(&with(&[]))).is_new);
    assert!(observer.look(Subject::of_flags(&with(&["flag_failed_arm"]))).is_new);
    let still = observer.look(Subject::of_flags(&with(&["flag_failed_arm"])));
    assert_eq!((still.is_new, flagged(&still)), (false, vec![SmartEvent::HealthState]));
}

#[test]
fn notifications_have_the_form_of_ndctl() {
    let platform = platform();
    let inventory = ndctl::inventory(&platform);
    let time = Duration::new(1_764_201_600, 5);
    let events = [(SmartEvent::SparesRemaining, true), (SmartEvent::HealthState, false)];
    let notification = Notification { time, pid: 7, events: &events, module: &inventory.buses[0].modules[0] };
    let line = notification.print(false);
    let head = "{\"timestamp\":\"1764201600.000000005\",\"pid\":7,\
                \"event\":{\"dimm-spares-remaining\":true,\"dimm-health-state\":false},\
                \"dimm\":{\"dev\":\"nmem0\",\"id\":\"";
    assert!(
        line.starts_with(head) && line.ends_with("\"shutdown_state\":\"clean\",\"shutdown_count\":0}}}\n"),
        "{line}"
    );
    assert_eq!(line.lines().count(), 1);
    let human = notification.print(true);
    assert!(
        human.starts_with("{\n  \"timestamp\":\"1764201600.000000005\",\n  \"pid\":7,\n  \"event\":{\n"),
        "{human}"
    );
}

#[test]
fn filters_select_modules() {
    let inventory = ndctl::inventory(&platform());
    let selected = |filter: ListFilter| inventory.selected_modules(&filter);
    let of = |text: &str| Some(text.to_owned());
    assert_eq!(selected(ListFilter::default()), [0, 1]);
    assert_eq!(selected(ListFilter { module: of("nmem1"), ..ListFilter::default() }), [1]);
    assert_eq!(selected(ListFilter { module: of("nmem1 0"), ..ListFilter::default() }), [0, 1]);
    assert_eq!(selected(ListFilter { bus: of("x ACPI.NFIT"), ..ListFilter::default() }), [0, 1]);
    assert!(selected(ListFilter { bus: of("e820"), ..ListFilter::default() }).is_empty());
    assert!(
        selected(ListFilter { region: of("region0"), ..ListFilter::default() }).is_empty(),
        "there is none yet"
    );
}

/// Each change of the directory can be read from the watch, also one between a look and the wait for the next.
#[test]
fn changes_of_the_directory_are_noticed() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("state");
    let mut directory =
        Directory::init(&root, Path::new("lab-pair"), Machine::included("lab-pair").unwrap()).unwrap();
    let watch = Watch::new(&root).unwrap();
    let is_readable = || {
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&watch, PollFlags::IN)], Some(&none)).unwrap() > 0
    };
    assert!(!is_readable());
    for degrees in [50, 51] {
        let change =
            |platform: &mut Platform| Ok(smart::change(platform, 0, &media(Injection::Inject(degrees)))?);
        directory.change::<_, PlatformError>(change).unwrap();
        assert!(is_readable());
    }
    watch.clear().unwrap();
    assert!(!is_readable());
    watch.clear().unwrap();
    // Another directory takes its place.
    drop(directory);
    std::fs::rename(&root, folder.path().join("old")).unwrap();
    let mut directory =
        Directory::init(&root, Path::new("lab-pair"), Machine::included("lab-pair").unwrap()).unwrap();
    assert!(is_readable());
    watch.clear().unwrap();
    assert!(!is_readable());
    let change = |platform: &mut Platform| Ok(smart::change(platform, 0, &media(Injection::Inject(52)))?);
    directory.change::<_, PlatformError>(change).unwrap();
    assert!(is_readable());
    std::fs::rename(&root, folder.path().join("other")).unwrap();
    assert!(watch.clear().unwrap_err().to_string().contains("state"));
    let missing = Watch::new(&folder.path().join("none")).unwrap_err().to_string();
    assert!(missing.contains("watching") && missing.contains("none"), "{missing}");
}
