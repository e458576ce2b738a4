//! Emulated machines: made, configured with the words of ipmctl, started anew.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::run::{Place, Ran, documented, fields, lode, lode_reading, text};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
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
    assert!(show.contains("region0  504 GiB of 2 modules  set 0x8baaeeb8535e2444"), "{show}");
    assert!(show.contains("╳╳╳") && show.contains(" dead ─┘"), "{show}");
}

#[test]
fn a_machine_is_drawn_on_the_terminal_and_as_a_page() {
    let machine = Emulated::new("lab-pair");
    let picture = machine.platform("show").good();
    assert!(picture.contains("┌─ nmem0 0x0001 ─") && !picture.contains('\x1b'), "{picture}");
    let page = machine.state.with_file_name("page.html");
    let show = |file: &str| lode(["platform", "show", "--state", text(&machine.state), "--html", file]);
    for _ in 0..2 {
        assert_eq!(show(text(&page)).good(), format!("{}\n", page.display()));
    }
    let written = std::fs::read_to_string(&page).unwrap();
    assert!(written.starts_with("<!doctype html>") && written.contains("</svg>"), "{written}");
    assert_eq!(show("-").good(), written);
    let missing = page.with_file_name("missing").join("page.html");
    show(text(&missing)).fails(1, &["missing/page.html", "check the path"]);
    let left = std::fs::read_dir(machine.place.folder.path()).unwrap();
    let hidden = left.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0, "nothing half-made is left");
}

/// Renaming a page over /dev/stdout, or over a link to where pages are, took the device or the link away.
#[test]
fn a_page_takes_the_place_of_files_alone() {
    let machine = Emulated::new("lab-pair");
    let [page, link, pipe] =
        ["page.html", "link.html", "pipe"].map(|name| machine.state.with_file_name(name));
    std::fs::write(&page, "old").unwrap();
    std::os::unix::fs::symlink("page.html", &link).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Open for both, so that nobody waits.
    let mut reader = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
    for file in [&link, &pipe] {
        lode(["platform", "show", "--state", text(&machine.state), "--html", text(file)]).good();
    }
    assert!(link.symlink_metadata().unwrap().is_symlink());
    let written = std::fs::read_to_string(&page).unwrap();
    assert!(written.starts_with("<!doctype html>"), "{written}");
    assert!(pipe.symlink_metadata().unwrap().file_type().is_fifo());
    let mut read = vec![0; written.len()];
    reader.read_exact(&mut read).unwrap();
    assert_eq!(String::from_utf8(read).unwrap(), written);
}

#[test]
fn goals_are_deleted() {
    let machine = Emulated::new("lab-pair");
    machine.ipmctl("create -f -goal").good();
    machine.ipmctl("create -f -goal").fails(1, &["has a goal already", "delete -goal"]);
    let deleted = machine.ipmctl("delete -goal -dimm 0x0101").good();
    assert_eq!(deleted, "Delete memory allocation goal from DIMM 0x0101: Success\n");
    assert_eq!(machine.ipmctl("delete -f -goal").good().lines().count(), 1);
    assert_eq!(machine.ipmctl("delete -goal").good(), "There are no goal configs defined in the system.\n");
    assert!(machine.platform("reboot").good().contains("no goals were waiting"));
}

#[test]
fn the_environment_says_where_the_machine_is() {
    let machine = Emulated::new("lab-one");
    let mut command = crate::run::command(["ipmctl", "show", "-topology", "-o", "nvmxml"]);
    let output = command.env("LODE_STATE", &machine.state).output().unwrap();
    let xml = String::from_utf8(output.stdout).unwrap();
    assert!(xml.contains("<DeviceLocator>CPU0_DIMM_A2</DeviceLocator>"), "{xml}");
    let json = lode(["--json", "platform", "reboot", "--state", text(&machine.state)]).object();
    assert_eq!(json["boots"], 2);
}

#[test]
fn memory_maps_are_read_and_planned_with() {
    let map = b"[    0.000000] BIOS-e820: [mem 0x0000000100000000-0x00000001bfffffff] usable\n";
    let planned = lode_reading(["platform", "e820", "-", "--plan", "1G"], map).good();
    assert!(planned.contains("GRUB_CMDLINE_LINUX=\"memmap=1G!4G\""), "{planned}");
    let json = lode_reading(["--json", "platform", "e820", "-", "--plan", "2G"], map).object();
    assert_eq!(
        (&json["plan"]["memmap"], &json["totals"]["usable"]),
        (&"memmap=2G!4G".into(), &(3_u64 << 30).into())
    );
    let json = lode_reading(["--json", "platform", "e820", "-"], map).object();
    assert!(json.get("plan").is_none() && json["ranges"][0]["kind"] == "usable", "{json}");
    lode_reading(["platform", "e820", "-", "--plan", "4G"], map)
        .fails(1, &["the largest that would fit is 3072M"]);
    lode_reading(["platform", "e820", "-"], b"nothing").fails(1, &["no memory map", "BIOS-e820: [mem 0x"]);
    lode(["platform", "e820", "no-such-file"]).fails(1, &["no-such-file", "check the path"]);
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

/// A machine whose two modules are interleaved.
fn interleaved() -> Emulated {
    let machine = Emulated::new("lab-pair");
    machine.ipmctl("create -f -goal").good();
    machine.platform("reboot").good();
    machine
}

impl Emulated {
    fn ndctl(&self, words: &str) -> Ran {
        lode(["ndctl", "--state", text(&self.state)].into_iter().chain(words.split(' ')))
    }
}

#[test]
fn media_errors_are_injected_listed_and_read() {
    let machine = interleaved();
    machine.ndctl("create-namespace -m sector -s 64M").good();
    machine.ndctl("create-namespace -m fsdax -s 128M").good();
    let injected = machine.ndctl("inject-error namespace0.1 --block 7 --count 10").good();
    let listed = "\"badblock_count\":10,\n  \"badblocks\":[\n    {\n      \"offset\":7,\n      \"length\":10,\n      \
                  \"dimms\":[\n        \"nmem0\",\n        \"nmem1\"\n      ]\n    }\n  ]";
    assert!(injected.contains(listed), "{injected}");
    let list = machine.ndctl("list --media-errors").good();
    assert!(list.contains("\"offset\":7") && !machine.ndctl("list").good().contains("badblocks"), "{list}");
    let region = machine.ndctl("list -RM").good();
    assert!(region.contains("\"badblock_count\":10"), "{region}");
    // A place in the map, which the check reads: it is the second but last block before flog and second info block.
    machine.ndctl("check-namespace namespace0.0").good();
    let at = (64 << 20) / 512 - 8 * 8;
    machine.ndctl(&format!("inject-error namespace0.0 -B {at} -n 8 --no-notify")).good();
    assert!(!machine.ndctl("list -m sector").good().contains("badblock_count"));
    let range = format!("the range of 4096 bytes at {:#x} can't be read", at * 512);
    machine.ndctl("check-namespace namespace0.0").fails(1, &["region0", &range, "poisoned, on module 0x0"]);
    let status = machine.ndctl("inject-error namespace0.0 --status").good();
    assert_eq!(
        status,
        format!("{{\n  \"badblocks\":[\n    {{\n      \"block\":{at},\n      \"count\":8\n    }}\n  ]\n}}\n")
    );
    assert!(machine.ndctl("start-scrub").good().contains("\"scrub_state\":\"idle\""));
    assert!(machine.ndctl("wait-scrub ndbus0").good().contains("ACPI.NFIT"));
    machine.ndctl("start-scrub ndbus7").fails(1, &["no bus ndbus7"]);
    assert!(machine.ndctl("list -m sector").good().contains("\"badblock_count\":8"));
    let warned = machine.ndctl(&format!("inject-error namespace0.0 -B {at} -n 8 --uninject")).good();
    assert!(warned.starts_with("Warning: Un-injecting"), "{warned}");
    machine.ndctl("check-namespace namespace0.0").fails(1, &[&range]);
    machine.ndctl(&format!("inject-error namespace0.0 -B {at} -n 8 --clear")).good();
    machine.ndctl("check-namespace namespace0.0").good();
    // What says that it is a table of sectors is lost: it says nothing, as to a kernel.
    machine.ndctl("inject-error namespace0.0 -B 0 -n 8 --no-notify").good();
    let lost = machine.ndctl("list -n namespace0.0").good();
    assert!(lost.contains("\"mode\":\"raw\""), "{lost}");
    machine.ndctl("inject-error namespace0.0 -B 0 -n 8 --clear").good();
    // What is written anew can be read again.
    machine.ndctl(&format!("inject-error namespace0.0 -B {at} -n 8")).good();
    machine.ndctl("create-namespace -e namespace0.0 -m sector -f").good();
    machine.ndctl("check-namespace namespace0.0").good();
}

#[test]
fn bad_injections_are_refused_and_change_nothing() {
    let machine = interleaved();
    machine.ndctl("create-namespace -m raw -s 64M").good();
    let before = machine.ndctl("list -RNDBivvv").good();
    machine.ndctl("inject-error namespace0.0 -B 131072 -n 1").fails(1, &["has 131072 sectors"]);
    machine.ndctl("inject-error namespace0.0 -B 0 -n 0").fails(1, &["can't be 0 from 0 on"]);
    machine.ndctl("inject-error namespace0.7 -B 0 -n 1").fails(1, &["no namespace namespace0.7"]);
    machine.ndctl("inject-error namespace0.0").fails(2, &["--block"]);
    machine.ndctl("inject-error namespace0.0 -t -B 1").fails(2, &["--status"]);
    assert_eq!(machine.ndctl("list -RNDBivvv").good(), before);
}

/// Each option of making and listing namespaces is heard.
#[test]
fn options_of_ndctl_are_heard() {
    let machine = interleaved();
    let uuid = "11111111-2222-3333-4444-555555555555";
    let made = machine
        .ndctl(&format!(
            "create-namespace -r region0 -m devdax -s 256M -t pmem -M mem -a 1G -n one -u {uuid}"
        ))
        .fails(1, &["multiple"]);
    assert!(made.contains("--size=2147483648"), "{made}");
    let made = machine
        .ndctl(&format!(
            "create-namespace -r region0 -m devdax -s 256M -t pmem -M mem -a 4K -n one -u {uuid}"
        ))
        .good();
    for part in ["\"map\":\"mem\"", "\"align\":4096", "\"name\":\"one\"", "\"mode\":\"devdax\""] {
        assert!(made.contains(part), "no {part} in {made}");
    }
    assert!(machine.ndctl("list -v").good().contains(&format!("\"raw_uuid\":\"{uuid}\"")));
    machine.ndctl("create-namespace -e namespace0.0 -m sector").fails(1, &["in use", "-f"]);
    let sector = machine.ndctl("create-namespace -e namespace0.0 -m sector -l 512 -f").good();
    assert!(sector.contains("\"sector_size\":512") && sector.contains("\"name\":\"one\""), "{sector}");
    let list = |options: &str| machine.ndctl(&format!("list {options}")).good();
    assert!(list("-B").contains("\"provider\"") && list("-D").contains("\"handle\""));
    assert!(list("-R").contains("\"iset_id\"") && list("-N").contains("\"blockdev\":\"pmem0s\""));
    assert!(list("-DH").contains("\"health_state\":\"ok\"") && list("-u").contains("MiB ("));
    assert!(list("-i").contains("00000000-0000-0000-0000-000000000000") && list("-m raw").is_empty());
    assert!(list("-vvv").contains("\"capabilities\""));
    machine.ndctl("create-namespace -e namespace0.0 -m devdax -f").good();
    assert!(list("-X").contains("\"daxregion\"") && list("-n 0.0").contains("\"chardev\""));
    machine.ndctl("disable-namespace namespace0.0").good();
    let disabled = list("-Ni");
    assert!(
        disabled.contains("\"mode\":\"raw\"") && disabled.contains("\"state\":\"disabled\""),
        "{disabled}"
    );
    machine.ndctl("disable-region region0").good();
    assert!(list("-Ni").is_empty() && list("-Ri").contains("\"state\":\"disabled\""));
}

#[test]
fn json_has_the_fields_that_the_manual_names() {
    let machine = Emulated::new("lab-pair");
    machine.ipmctl("create -f -goal").good();
    machine.platform("reboot").good();
    let nothing = tempfile::tempdir().unwrap();
    let labels = machine.state.with_file_name("labels");
    let labels = text(&labels);
    let ran: [(&[&str], &[&str]); 16] = [
        (&["ipmctl"], &["create", "-f", "-goal"]),
        (&["platform", "reboot"], &[]),
        (&["ndctl", "create-namespace"], &["-m", "sector", "-s", "64M"]),
        (&["ndctl", "list"], &["-N"]),
        (&["daxctl", "list"], &[]),
        (&["ndctl", "check-namespace"], &["namespace0.0"]),
        (&["ndctl", "disable-namespace"], &["namespace0.0"]),
        (&["ndctl", "enable-namespace"], &["namespace0.0"]),
        (&["ndctl", "inject-error"], &["namespace0.0", "-B", "9", "-n", "1"]),
        (&["ndctl", "start-scrub"], &[]),
        (&["ndctl", "wait-scrub"], &[]),
        (&["ndctl", "destroy-namespace"], &["-f", "all"]),
        (&["ndctl", "disable-region"], &["all"]),
        (&["ndctl", "read-labels"], &["nmem0", "-o", labels]),
        (&["ndctl", "write-labels"], &["nmem0", "-i", labels]),
        (&["ndctl", "init-labels"], &["-f", "all"]),
    ];
    for (command, words) in ran {
        let (verb, rest) = command.split_at(if command[0] == "platform" { 2 } else { 1 });
        let on = |place: [&str; 2]| {
            let all = ["--json"].iter().chain(verb).copied().chain(place).chain(rest.iter().copied());
            lode(all.chain(words.iter().copied())).objects()
        };
        let mut found = fields(&on(["--state", text(&machine.state)]));
        found.extend(fields(&on(["--sysfs", text(nothing.path())])));
        assert_eq!(found, documented(command), "{command:?}");
    }
}
