//! Emulated machines: made, configured with the words of ipmctl, started anew.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod run;

use run::{Place, Ran, lode, lode_reading, text};
use std::path::PathBuf;

/// A machine in a directory.
struct Emulated {
    place: Place,
    state: PathBuf,
}

impl Emulated {
    fn new(machine: &str) -> Emulated {
        let place = Place::new();
        let state = place.folder.path().join("state");
        lode(["platform", "init", machine, "--state", text(&state)]).good();
        Emulated { place, state }
    }

    fn platform(&self, verb: &str) -> Ran {
        lode(["platform", verb, "--state", text(&self.state)])
    }

    fn ipmctl(&self, words: &str) -> Ran {
        lode(["ipmctl", "--state", text(&self.state)].into_iter().chain(words.split(' ')))
    }
}

#[test]
fn a_goal_is_confirmed_and_takes_effect_at_the_next_start() {
    let machine = Emulated::new("fujitsu-primergy");
    let words = ["ipmctl", "--state", text(&machine.state), "create", "-dimm", "0x0001,0x0101", "-goal"];
    let refused = lode_reading(words, b"n\n");
    assert!(refused.out.contains("Do you want to continue? [y/n] "), "{refused:?}");
    refused.fails(1, &["not confirmed"]);
    assert!(machine.ipmctl("show -goal").good().contains("There are no goal configs"));
    let created = lode_reading(words, b"y\n").good();
    assert!(created.ends_with("A reboot is required to process new memory allocation goals.\n"), "{created}");
    assert!(machine.ipmctl("show -region").good().contains("no Regions"));
    assert!(machine.ipmctl("show -goal").good().contains("252.0 GiB"));
    assert!(machine.platform("reboot").good().contains("0x0001, 0x0101"));
    assert!(machine.ipmctl("show -region").good().contains("0x8baaeeb8535e2444"));
    let show = machine.platform("show").good();
    assert!(show.contains("region0: 504.0 GiB, set 0x8baaeeb8535e2444 of 0x0001 + 0x0101"), "{show}");
    assert!(show.contains("can't be used: Non-functional"), "{show}");
}

#[test]
fn goals_are_deleted() {
    let machine = Emulated::new("lab-pair");
    machine.ipmctl("create -f -goal").good();
    machine.ipmctl("create -f -goal").fails(1, &["has a goal already", "delete -goal"]);
    let deleted = machine.ipmctl("delete -f -goal -dimm 0x0101").good();
    assert_eq!(deleted, "Delete memory allocation goal from DIMM 0x0101: Success\n");
    machine.ipmctl("delete -goal").fails(1, &["not confirmed"]);
    assert_eq!(machine.ipmctl("delete -goal -f").good().lines().count(), 1);
    assert!(machine.platform("reboot").good().contains("no goals were waiting"));
}

#[test]
fn the_environment_says_where_the_machine_is() {
    let machine = Emulated::new("lab-one");
    let mut command = run::command(["ipmctl", "show", "-topology", "-o", "nvmxml"]);
    let output = command.env("LODE_STATE", &machine.state).output().unwrap();
    let xml = String::from_utf8(output.stdout).unwrap();
    assert!(xml.contains("<DeviceLocator>CPU0_DIMM_A2</DeviceLocator>"), "{xml}");
    let json = lode(["--json", "platform", "reboot", "--state", text(&machine.state)]).object();
    assert_eq!(json["boots"], 2);
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let machine = Emulated::new("fujitsu-primergy");
    let before = machine.platform("show").good();
    machine.ipmctl("create -f -goal -dimm 0x1101").fails(1, &["0x1101 is dead"]);
    machine.ipmctl("create -f -goal -dimm 0x2222").fails(1, &["no module 0x2222"]);
    machine.ipmctl("create -f -goal -socket 7").fails(1, &["no socket 0x0007"]);
    machine.ipmctl("create -f -goal MemoryMode=60 Reserved=50").fails(2, &["more than 100"]);
    machine.ipmctl("create -f -goal MemoryMode=101").fails(2, &["can't be 101"]);
    machine.ipmctl("show -dimm -d Colour").fails(2, &["no value Colour"]);
    machine.ipmctl("show -dim").fails(2, &["was `-dimm` meant?"]);
    assert_eq!(machine.platform("show").good(), before);
    lode(["platform", "init", "lab-pair", "--state", text(&machine.state)]).fails(1, &["is not empty"]);
    lode(["ipmctl", "--state", text(machine.place.folder.path()), "show", "-dimm"])
        .fails(1, &["holds no platform"]);
    let fresh = machine.place.folder.path().join("fresh");
    let init = |machine: &str| lode(["platform", "init", machine, "--state", text(&fresh)]);
    init("lab-pear").fails(1, &["was `lab-pair` meant?"]);
    let file = machine.place.file("typo.toml", "name = \"x\"\n[profil]\n");
    init(text(&file)).fails(1, &["typo.toml: line 2, column 2", "was `profile` meant?"]);
    init("missing.toml").fails(1, &["missing.toml", "No such file"]);
    assert!(!fresh.exists());
}

#[test]
fn namespaces_are_made_listed_and_unmade() {
    let machine = Emulated::new("lab-pair");
    machine.ipmctl("create -f -goal").good();
    machine.platform("reboot").good();
    let ndctl =
        |words: &str| lode(["ndctl", "--state", text(&machine.state)].into_iter().chain(words.split(' ')));
    let made = ndctl("create-namespace -r region0 -m fsdax -t pmem -s 512M -n data -v").good();
    assert!(made.contains("\"dev\":\"namespace0.0\"") && made.contains("\"blockdev\":\"pmem0\""), "{made}");
    ndctl("create-namespace -m devdax -s 256M").good();
    let list = ndctl("list -RNDBu").good();
    assert!(
        list.contains("\"provider\":\"ACPI.NFIT\"") && list.contains("\"size\":\"2.00 GiB (2.15 GB)\""),
        "{list}"
    );
    let devices = lode(["daxctl", "--state", text(&machine.state), "list"]).good();
    assert!(devices.contains("\"chardev\":\"dax0.1\""), "{devices}");
    ndctl("destroy-namespace namespace0.0").fails(1, &["in use", "-f"]);
    assert_eq!(ndctl("disable-namespace namespace0.0").good(), "disabled 1 namespace\n");
    assert_eq!(ndctl("destroy-namespace all -f").good(), "destroyed 2 namespaces\n");
    ndctl("create-namespace -e namespace0.0 -m raw").fails(1, &["no namespace namespace0.0"]);
    ndctl("create-namespace -s 24M").fails(1, &["--size=33554432"]);
    ndctl("create-namespace -r regionx").fails(2, &["regionx is not the name of a region"]);
    ndctl("zero-labels nmem0").fails(1, &["disable-region region0"]);
    assert_eq!(ndctl("disable-region all").good(), "disabled 1 region\n");
    assert_eq!(ndctl("zero-labels all").good(), "zeroed 2 nmems\n");
    assert_eq!(ndctl("init-labels all").good(), "initialized 2 nmems\n");
    assert_eq!(ndctl("enable-region region0").good(), "enabled 1 region\n");
    ndctl("create-namespace -m sector -s 64M").good();
    assert_eq!(ndctl("check-namespace all").good(), "checked 1 namespace\n");
}
