//! `clear-errors` clears what the kernel knows in the data of a namespace, and nothing else.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_platform::machine::Machine;
use lode_platform::media_error::{self, Injection, MediaFault};
use lode_platform::namespace::{self, NamespaceError};
use lode_platform::{CreateNamespace, GoalRequest, Mode, Platform, boot, goal, region};
use uuid::Uuid;

const NAME: &str = "namespace0.0";
const NOTIFIED: Injection = Injection::Inject { notify: true };

/// Returns a machine of two modules with a namespace of 64 MiB.
fn platform(mode: Mode) -> Platform {
    let mut platform = Platform::new(Machine::parse(Machine::included("lab-pair").unwrap()).unwrap());
    let goals = goal::plan(&platform, &GoalRequest::default()).unwrap();
    goal::create(&mut platform, goals);
    boot::reboot(&mut platform);
    let wanted = CreateNamespace { mode, size: Some(64 << 20), ..CreateNamespace::default() };
    namespace::create(&mut platform, &wanted, &mut || Uuid::from_u128(7)).unwrap();
    platform
}

#[test]
fn latent_errors_need_a_scrub() {
    let mut platform = platform(Mode::Fsdax);
    media_error::inject(&mut platform, NAME, 7, 10, NOTIFIED).unwrap();
    media_error::inject(&mut platform, NAME, 100, 2, Injection::Inject { notify: false }).unwrap();
    assert_eq!(media_error::clear(&mut platform, NAME, false).unwrap(), 10);
    assert_eq!(media_error::injected(&platform, NAME).unwrap().len(), 1);
    assert_eq!(media_error::clear(&mut platform, NAME, false).unwrap(), 0);
    assert_eq!(media_error::clear(&mut platform, NAME, true).unwrap(), 2);
    assert!(platform.state.media_errors.is_empty() && platform.state.known_errors.is_empty());
}

/// A raw namespace reaches the place of the page map, so it is used to damage it.
#[test]
fn metadata_is_cleared_of_disabled_namespaces_only() {
    let mut platform = platform(Mode::Fsdax);
    namespace::enable(&mut platform, NAME, false).unwrap();
    let (region, namespace) = platform.namespace(NAME).unwrap();
    let reserved = (namespace.size - namespace.usable()) / 512;
    let module = region.members()[0];
    let error = media_error::MediaError { module: module.module, off: module.offset, len: 512 };
    platform.state.media_errors.push(error);
    media_error::scrub(&mut platform);
    namespace::enable(&mut platform, NAME, true).unwrap();
    assert_eq!(media_error::clear(&mut platform, NAME, true).unwrap(), 0);
    assert_eq!(platform.state.media_errors.len(), 1, "the page map has {reserved} sectors");
    namespace::enable(&mut platform, NAME, false).unwrap();
    assert_eq!(media_error::clear(&mut platform, NAME, false).unwrap(), 1);
    assert!(platform.namespace(NAME).unwrap().1.enabled, "ndctl enables the namespace");
}

/// The kernel's ranges are those of the region: one that begins before the data is left.
#[test]
fn partly_contained_ranges_are_left() {
    let mut platform = platform(Mode::Raw);
    let wanted = CreateNamespace { mode: Mode::Raw, size: Some(64 << 20), ..CreateNamespace::default() };
    namespace::create(&mut platform, &wanted, &mut || Uuid::from_u128(8)).unwrap();
    let sectors = (64 << 20) / 512;
    media_error::inject(&mut platform, NAME, sectors - 1, 1, NOTIFIED).unwrap();
    media_error::inject(&mut platform, "namespace0.1", 0, 1, NOTIFIED).unwrap();
    for name in [NAME, "namespace0.1"] {
        assert_eq!(media_error::clear(&mut platform, name, false).unwrap(), 0, "{name}");
    }
    media_error::inject(&mut platform, "namespace0.1", 0, 1, Injection::Clear).unwrap();
    assert_eq!(media_error::clear(&mut platform, NAME, false).unwrap(), 1);
}

#[test]
fn unsuitable_namespaces_are_refused() {
    let mut sector = platform(Mode::Sector);
    let refused = media_error::clear(&mut sector, NAME, false);
    assert!(matches!(refused, Err(MediaFault::SectorMode { .. })), "{refused:?}");
    namespace::enable(&mut sector, NAME, false).unwrap();
    media_error::clear(&mut sector, NAME, false).expect("a disabled namespace is treated as raw");
    region::enable(&mut sector, 0, false).unwrap();
    let refused = media_error::clear(&mut sector, NAME, false);
    assert!(
        matches!(refused, Err(MediaFault::Namespace(NamespaceError::RegionDisabled { .. }))),
        "{refused:?}"
    );
    let mut ram = Platform::new(Machine::parse(Machine::included("fujitsu-primergy").unwrap()).unwrap());
    let refused = media_error::clear(&mut ram, NAME, false);
    assert!(matches!(refused, Err(MediaFault::NoModules { region: 0 })), "{refused:?}");
}
