//! Firmware of modules: images, staging, arming, and activation live or at a start.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_platform::firmware::{
    self, ActivationState, FirmwareError, FirmwareImage, FirmwareKind, ImageFault, activate, arm, disarm,
    stage,
};
use lode_platform::machine::{FirmwareActivation, Health, KernelVersion, Machine, ModuleError, Security};
use lode_platform::ndctl::{self, Included, ListRequest};
use lode_platform::{Directory, Platform, PlatformError, Purpose, boot};
use lode_testing::firmware_image;
use std::path::Path;
use tempfile::TempDir;

const NEW: [u8; 5] = [0x02, 0x03, 0x00, 0x16, 0x01];
const BUS: &str = "ACPI.NFIT: ndbus0";

/// Returns the text of a machine with six modules that activates firmware so.
fn text(method: &str) -> String {
    let text = Machine::included("e4-pmserver").unwrap();
    format!("firmware_activation = \"{method}\"\n{text}")
}

fn platform(method: &str) -> Platform {
    let mut platform = Platform::new(Machine::parse(&text(method)).unwrap());
    assert!(platform.machine.modules.len() > 4);
    for module in &mut platform.machine.modules {
        module.firmware = Some("02.02.00.1553".to_owned());
    }
    platform.machine.profile.ndctl = 76;
    platform.machine.profile.kernel = KernelVersion { major: 6, minor: 1 };
    platform
}

fn image() -> FirmwareImage {
    FirmwareImage::parse(&firmware_image(NEW)).unwrap()
}

fn listed(platform: &Platform) -> String {
    let included = Included { buses: true, modules: true, firmware: true, ..Included::default() };
    let request = ListRequest { included, ..ListRequest::default() };
    ndctl::inventory(platform).list(&request).split_whitespace().collect()
}

fn running(platform: &Platform, index: usize) -> &str {
    platform.machine.modules[index].firmware.as_deref().unwrap()
}

#[test]
fn images_are_validated() {
    let valid = firmware_image(NEW);
    let parsed = FirmwareImage::parse(&valid).unwrap();
    assert_eq!(
        (parsed.version.to_string().as_str(), parsed.kind),
        ("02.03.00.1601", FirmwareKind::Production)
    );
    let with = |off: usize, bytes: &[u8]| {
        let mut image = valid.clone();
        image[off..off + bytes.len()].copy_from_slice(bytes);
        FirmwareImage::parse(&image)
    };
    let fault = |parsed: Result<FirmwareImage, ImageFault>| parsed.unwrap_err().to_string();
    assert_eq!(FirmwareImage::parse(b"").unwrap_err(), ImageFault::Short { found: 0, want: 128 });
    assert_eq!(FirmwareImage::parse(&valid[..127]).unwrap_err(), ImageFault::Short { found: 127, want: 128 });
    assert!(fault(with(0, &[7])).contains("its module type is 0x7, and images have 6"));
    assert!(fault(with(0x10, &[0x89, 0x80])).contains("its module vendor is 0x8089, and images have 0x8086"));
    assert!(fault(with(0x28, &[0x1c])).contains("its image type is 0x1c"));
    assert_eq!(with(0x28, &[0x1e]).unwrap().kind, FirmwareKind::Diagnostics);
    assert_eq!(with(0x28, &[0x1f]).unwrap().kind, FirmwareKind::Debug);
    assert_eq!(with(0x18, &[49]).unwrap_err(), ImageFault::CutOff { found: 192, want: 196 });
    assert_eq!(with(0x18, &[0xff; 4]).unwrap_err(), ImageFault::CutOff { found: 192, want: 0x3_ffff_fffc });
    assert_eq!(FirmwareImage::parse(&valid[..190]).unwrap_err(), ImageFault::Packets { found: 190 });
    assert!(fault(with(0x29, &[0; 5])).contains("its version is [00, 00, 00, 00, 00], which is none"));
    assert!(matches!(with(0x29, &[0x0a]), Err(ImageFault::Version { digits: [2, 3, 0, 0x16, 0x0a] })));
    let mut long = valid.clone();
    long.resize(788 << 10, 0);
    assert!(FirmwareImage::parse(&long).is_ok());
    long.resize((788 << 10) + 64, 0);
    assert_eq!(FirmwareImage::parse(&long).unwrap_err(), ImageFault::Long { found: (788 << 10) + 64 });
}

#[test]
fn staged_firmware_runs_after_a_start() {
    let mut platform = platform("reset");
    stage(&mut platform, 0, &image(), false).unwrap();
    assert_eq!(running(&platform, 0), "02.02.00.1553", "it is only staged");
    let staged = "\"firmware\":{\"current_version\":8623494483,\"can_update\":true,\"next_version\":8640271873,\
                  \"need_powercycle\":true}";
    assert_eq!(listed(&platform).matches(staged).count(), 1, "{}", listed(&platform));
    assert!(listed(&platform).contains("\"firmware\":{\"activate_method\":\"reset\"},"));
    assert_eq!(arm(&mut platform, 0, true), Err(FirmwareError::NoActivation { index: 0 }));
    assert_eq!(disarm(&mut platform, 0), Err(FirmwareError::NoActivation { index: 0 }));
    let refused = activate(&mut platform, BUS, true, false).unwrap_err();
    assert_eq!(refused, FirmwareError::NeedsStart { bus: BUS.to_owned() });
    boot::reboot(&mut platform);
    assert_eq!((running(&platform, 0), running(&platform, 1)), ("02.03.00.1601", "02.02.00.1553"));
    assert!(!listed(&platform).contains("next_version"));
    boot::reboot(&mut platform);
    assert_eq!(running(&platform, 0), "02.03.00.1601", "it stays");
}

#[test]
fn armed_modules_are_activated_live() {
    for method in ["live", "suspend"] {
        let mut platform = platform(method);
        assert!(
            listed(&platform)
                .contains(&format!("\"activate_method\":\"{method}\",\"activate_state\":\"idle\""))
        );
        let refused = activate(&mut platform, BUS, true, false).unwrap_err();
        assert_eq!(refused, FirmwareError::NotArmed { bus: BUS.to_owned() });
        activate(&mut platform, BUS, true, true).unwrap();
        for index in [0, 1, 2] {
            stage(&mut platform, index, &image(), false).unwrap();
        }
        for index in [0, 1] {
            arm(&mut platform, index, false).unwrap();
        }
        disarm(&mut platform, 1).unwrap();
        assert_eq!(firmware::bus_state(&platform), ActivationState::Armed);
        let armed = listed(&platform);
        assert_eq!(armed.matches("\"next_version\":8640271873,\"activate_state\":\"armed\"}").count(), 1);
        assert_eq!(armed.matches("\"next_version\":8640271873,\"activate_state\":\"idle\"}").count(), 2);
        activate(&mut platform, BUS, true, true).unwrap();
        assert_eq!(listed(&platform), armed, "a dry run");
        activate(&mut platform, BUS, true, false).unwrap();
        let runs = [0, 1, 2].map(|index| running(&platform, index) == "02.03.00.1601");
        assert_eq!((runs, firmware::bus_state(&platform)), ([true, false, false], ActivationState::Idle));
        boot::reboot(&mut platform);
        assert_eq!(running(&platform, 1), "02.03.00.1601", "a start runs all that is staged");
    }
}

/// A module takes a second, and the platform has three.
#[test]
fn platform_limits_armed_modules() {
    let mut platform = platform("live");
    for index in 0..4 {
        stage(&mut platform, index, &image(), false).unwrap();
    }
    for index in 0..3 {
        arm(&mut platform, index, false).unwrap();
    }
    let refused = FirmwareError::Overflow { index: 3, modules: 4, most: 3 };
    assert_eq!(arm(&mut platform, 3, false), Err(refused));
    assert_eq!(firmware::bus_state(&platform), ActivationState::Armed, "a refused module is not armed");
    arm(&mut platform, 3, true).unwrap();
    assert_eq!(firmware::bus_state(&platform), ActivationState::Overflow);
    assert!(listed(&platform).contains("\"activate_state\":\"overflow\""));
    assert!(matches!(arm(&mut platform, 4, false), Err(FirmwareError::Overflow { modules: 5, .. })));
    let refused = activate(&mut platform, BUS, true, false).unwrap_err();
    assert_eq!(refused, FirmwareError::Timeout { bus: BUS.to_owned(), modules: 4, most: 3 });
    assert_eq!(running(&platform, 0), "02.02.00.1553");
    activate(&mut platform, BUS, false, false).unwrap();
    assert!((0..4).all(|index| running(&platform, index) == "02.03.00.1601"));
}

#[test]
fn unfit_modules_and_images_are_refused() {
    let mut platform = platform("live");
    stage(&mut platform, 0, &image(), false).unwrap();
    let staged = image().version;
    assert_eq!(stage(&mut platform, 0, &image(), false), Err(FirmwareError::Staged { index: 0, staged }));
    let newer = FirmwareImage::parse(&firmware_image([0x02, 0x04, 0, 0, 0])).unwrap();
    stage(&mut platform, 0, &newer, true).unwrap();
    arm(&mut platform, 0, false).unwrap();
    activate(&mut platform, BUS, true, false).unwrap();
    assert_eq!(running(&platform, 0), "02.04.00.0000");
    let third = FirmwareImage::parse(&firmware_image([0x03, 0, 0, 0, 1])).unwrap();
    let refused = stage(&mut platform, 1, &third, true).unwrap_err().to_string();
    assert!(
        refused.starts_with("the image has version 03.00.00.0001, and nmem1 runs 02.02.00.1553"),
        "{refused}"
    );
    let unknown = FirmwareError::Module(ModuleError::UnknownDevice { index: 99 });
    assert_eq!(stage(&mut platform, 99, &image(), true), Err(unknown));
    platform.machine.modules[1].health = Health::NonFunctional;
    assert_eq!(stage(&mut platform, 1, &image(), true), Err(FirmwareError::Dead { index: 1 }));
    platform.machine.modules[2].security = Security::Unsupported;
    assert_eq!(arm(&mut platform, 2, true), Err(FirmwareError::Unsupported { index: 2 }));
    platform.machine.modules[3].firmware = Some("beta".to_owned());
    assert_eq!(disarm(&mut platform, 3), Err(FirmwareError::Unsupported { index: 3 }));
    for module in &mut platform.machine.modules {
        module.firmware = None;
    }
    let refused = activate(&mut platform, BUS, true, false).unwrap_err();
    assert_eq!(refused, FirmwareError::NoUpdates { bus: BUS.to_owned() });
}

/// Kernels before 5.9 have no activation, and ndctl before 69 lists none.
#[test]
fn old_kernels_and_tools_activate_nothing() {
    let mut platform = platform("live");
    platform.machine.profile.kernel.major = 5;
    platform.machine.profile.kernel.minor = 8;
    assert_eq!(firmware::activation(&platform.machine), FirmwareActivation::Reset);
    assert_eq!(arm(&mut platform, 0, true), Err(FirmwareError::NoActivation { index: 0 }));
    platform.machine.profile.kernel.minor = 9;
    arm(&mut platform, 0, true).unwrap();
    stage(&mut platform, 0, &image(), false).unwrap();
    platform.machine.profile.ndctl = 68;
    let old =
        "\"firmware\":{\"current_version\":8623494483,\"next_version\":8640271873,\"need_powercycle\":true}";
    assert!(listed(&platform).contains(old) && !listed(&platform).contains("activate_"));
}

#[test]
fn firmware_survives_in_the_state_directory() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("state");
    let mut directory =
        Directory::init(&root, Path::new("lab-pair"), Machine::included("lab-pair").unwrap()).unwrap();
    let image = image();
    directory
        .change::<_, PlatformError>(|platform| {
            stage(platform, 0, &image, false)?;
            boot::reboot(platform);
            Ok(stage(platform, 0, &image, false)?)
        })
        .unwrap();
    drop(directory);
    let directory = Directory::open(&root, Purpose::ReadOnly).unwrap();
    assert_eq!(running(directory.platform(), 0), "02.03.00.1601");
    assert!(listed(directory.platform()).contains("\"next_version\":8640271873"));
    drop(directory);
    let file = root.join("state.toml");
    let state = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, state.replacen("02.03.00.1601", "2.3", 1)).unwrap();
    let refused = Directory::open(&root, Purpose::ReadOnly).unwrap_err().to_string();
    assert!(refused.contains("2.3 is no version of firmware"), "{refused}");
}
