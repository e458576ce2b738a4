//! `lode ndctl update-firmware` and `activate-firmware`, and the firmware in listings.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::emulated::Emulated;
use crate::program::{RunResult, text};
use lode_platform::machine::Machine;
use lode_testing::firmware_image;
use serde_json::Value;
use std::fs;

/// Returns the machine of an included file that activates firmware by `method`, and an image for its modules beside it.
fn with_image(included: &str, method: &str) -> Emulated {
    let mut included = Machine::included(included).unwrap().to_owned();
    for (old, new) in [
        ("[profile]", format!("firmware_activation = \"{method}\"\n\n[profile]").as_str()),
        ("ndctl = 64", "ndctl = 76"),
        ("kernel = \"4.18\"", "kernel = \"6.1\""),
        ("01.02.00.5435", "02.02.00.1553"),
    ] {
        included = included.replace(old, new);
    }
    let machine = Emulated::of_text(&(included + "\n[[memmap]]\nstart = \"4GiB\"\nsize = \"1GiB\"\n"));
    fs::write(machine.file("image"), firmware_image([0x02, 0x03, 0, 0x16, 0x01])).unwrap();
    machine
}

/// Runs a command of ndctl; `@` is the image.
fn ndctl(machine: &Emulated, words: &str) -> RunResult {
    machine.ndctl(&words.replace('@', text(&machine.file("image"))))
}

fn firmware(machine: &Emulated, module: usize) -> Value {
    let listed = machine.ndctl(&format!("list -DF -d {module}")).success();
    serde_json::from_str::<Value>(&listed).unwrap()[0]["firmware"].clone()
}

#[test]
fn firmware_waits_for_start_or_activation() {
    let machine = with_image("lab-pair", "reset");
    let updated = ndctl(&machine, "update-firmware -f @ nmem0 nmem1").success();
    assert!(updated.ends_with("]\nupdated 2 nmems.\n"), "{updated}");
    assert_eq!(firmware(&machine, 0)["need_powercycle"], true);
    ndctl(&machine, "activate-firmware")
        .failure(1, &["a start only; start the machine with `lode platform reboot`", "ndbus1"]);
    ndctl(&machine, "update-firmware --arm nmem0").failure(1, &["nmem0 can't be armed", "platform reboot"]);
    machine.start();
    assert_eq!(firmware(&machine, 0)["current_version"], 0x02_0300_1601_u64);
    let shown = machine.run("ipmctl", "show -dimm").success();
    assert_eq!(shown.matches("02.03.00.1601").count(), 2, "{shown}");

    let machine = with_image("lab-pair", "live");
    ndctl(&machine, "update-firmware -f @ nmem0").success();
    assert_eq!(firmware(&machine, 0)["activate_state"], "armed", "an image arms its module");
    ndctl(&machine, "update-firmware -f @ --no-arm nmem1").success();
    assert_eq!(firmware(&machine, 1)["activate_state"], "idle");
    let dry = ndctl(&machine, "activate-firmware -n ndbus0").success();
    assert!(dry.starts_with("[\n  {\n    \"provider\":\"ACPI.NFIT\""), "{dry}");
    assert!(dry.contains("\"activate_method\":\"live\",\n      \"activate_state\":\"armed\""), "{dry}");
    let done = ndctl(&machine, "activate-firmware all");
    assert!(done.err.contains("e820: ndbus1 has no modules that take updates"), "{done:?}");
    assert!(done.success().contains("\"current_version\":\"0x203001601\""));
    assert!(firmware(&machine, 0)["next_version"].is_null());
    ndctl(&machine, "update-firmware -D nmem1").success();
    ndctl(&machine, "activate-firmware -I")
        .failure(1, &["no armed modules; arm some with `lode ndctl update-firmware -A`"]);
    ndctl(&machine, "update-firmware -A nmem1").success();
    ndctl(&machine, "activate-firmware -f").success();
    assert_eq!(firmware(&machine, 1)["current_version"], 0x02_0300_1601_u64);
}

/// What is done for some modules counts, and the others are named.
#[test]
fn armed_modules_are_limited() {
    let machine = with_image("e4-storage", "live");
    let modules = ndctl(&machine, "list -D").success().matches("\"dev\"").count();
    assert!(modules > 3);
    let partly = ndctl(&machine, "update-firmware -f @ all");
    assert_eq!(partly.err.matches("is not armed: 4 modules take 4 s").count(), modules - 3, "{partly:?}");
    assert!(partly.success().ends_with(&format!("updated {modules} nmems.\n")), "all have the image");
    ndctl(&machine, "update-firmware -A -i all").success();
    ndctl(&machine, "activate-firmware")
        .failure(1, &["and the platform has 3; disarm some, or lift the limit with --no-idle"]);
    ndctl(&machine, "activate-firmware --no-idle").success();
    assert!((0..modules).all(|module| firmware(&machine, module)["current_version"] == 0x02_0300_1601_u64));
}

#[test]
fn invalid_images_and_options_are_refused() {
    let machine = with_image("lab-pair", "live");
    let file = machine.file("file");
    for (bytes, said) in [
        (b"#!/bin/sh\n".to_vec(), "it has 10 B, and the header of an image alone has 128"),
        (vec![b'x'; 4096], "its module type is 0x78787878, and images have 6"),
        (vec![0; 2 << 20], "and a module takes images of up to 806912"),
        (firmware_image([2, 3, 0, 0, 1])[..190].to_vec(), "it is cut off, or no image"),
    ] {
        fs::write(&file, bytes).unwrap();
        ndctl(&machine, &format!("update-firmware -f {} nmem0", text(&file)))
            .failure(1, &[text(&file), said]);
    }
    fs::write(&file, firmware_image([3, 0, 0, 0, 1])).unwrap();
    let other = ndctl(&machine, &format!("update-firmware -f {} nmem0", text(&file)));
    assert_eq!(other.out, "updated 0 nmems.\n");
    other.failure(1, &["modules of another generation"]);
    for (words, code, said) in [
        ("update-firmware nmem0", 2, "--firmware"),
        ("update-firmware -f @", 2, "DIMM"),
        ("update-firmware -A -D nmem0", 2, "cannot be used with"),
        ("update-firmware --no-arm nmem0", 2, "--firmware"),
        ("update-firmware -f /nowhere nmem0", 1, "check the path"),
        ("update-firmware -f @ nmem9", 1, "there is no module nmem9; `lode ndctl list -Di`"),
        ("activate-firmware ndbus9", 1, "there is no bus ndbus9"),
        ("activate-firmware -I --no-idle", 2, "cannot be used with"),
    ] {
        ndctl(&machine, words).failure(code, &[said]);
    }
    ndctl(&machine, "update-firmware -f @ nmem0").success();
    ndctl(&machine, "update-firmware -f @ nmem0")
        .failure(1, &["02.03.00.1601 staged; activate it first, or replace it with -i"]);
    ndctl(&machine, "update-firmware -i -f @ nmem0").success();
    machine.check_fields("ndctl", "update-firmware", "-A nmem0");
    machine.check_fields("ndctl", "activate-firmware", "-n");
}
