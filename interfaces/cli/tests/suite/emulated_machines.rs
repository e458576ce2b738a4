//! Emulated machines: created, configured with the commands of ipmctl and ndctl, rebooted.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{PoolFixture, RunResult, documented_fields, json_fields, lode, lode_with_stdin, text};
use lode_platform::machine::Machine;
use std::fs;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use tempfile::TempDir;

/// A machine in a directory.
struct Emulated {
    fixture: PoolFixture,
    state: PathBuf,
}

impl Emulated {
    fn new(machine: &str) -> Emulated {
        let fixture = PoolFixture::new();
        let state = fixture.folder.path().join("state");
        lode(["platform", "init", machine, "--state", text(&state)]).success();
        Emulated { fixture, state }
    }

    fn platform(&self, verb: &str) -> RunResult {
        lode(["platform", verb, "--state", text(&self.state)])
    }

    fn ipmctl(&self, words: &str) -> RunResult {
        lode(["ipmctl", "--state", text(&self.state)].into_iter().chain(words.split(' ')))
    }
}

#[test]
fn goal_takes_effect_after_reboot() {
    let machine = Emulated::new("fujitsu-primergy");
    let words = ["ipmctl", "--state", text(&machine.state), "create", "-dimm", "0x0001,0x0101", "-goal"];
    let refused = lode_with_stdin(words, b"n\n");
    assert!(refused.out.contains("Do you want to continue? [y/n] "), "{refused:?}");
    refused.failure(1, &["not confirmed"]);
    assert!(machine.ipmctl("show -goal").success().contains("There are no goal configs"));
    let created = lode_with_stdin(words, b"y\n").success();
    assert!(created.ends_with("A reboot is required to process new memory allocation goals.\n"), "{created}");
    assert!(machine.ipmctl("show -region").success().contains("no Regions"));
    assert!(machine.ipmctl("show -goal").success().contains("252.0 GiB"));
    assert!(machine.platform("reboot").success().contains("0x0001, 0x0101"));
    assert!(machine.ipmctl("show -region").success().contains("0x8baaeeb8535e2444"));
    let show = machine.platform("show").success();
    assert!(show.contains("region0  504 GiB of 2 modules  set 0x8baaeeb8535e2444"), "{show}");
    assert!(show.contains("╳╳╳") && show.contains(" dead ─┘"), "{show}");
}

/// Firmware applies no goal to a set with a module that has a passphrase.
#[test]
fn goals_of_modules_with_passphrase_wait() {
    let folder = TempDir::new().unwrap();
    let (file, state) = (folder.path().join("machine.toml"), folder.path().join("state"));
    let machine = Machine::included("lab-pair").unwrap();
    fs::write(&file, machine.replacen("locator", "security = \"Unlocked\"\nlocator", 1)).unwrap();
    lode(["platform", "init", text(&file), "--state", text(&state)]).success();
    lode(["ipmctl", "--state", text(&state), "create", "-f", "-goal"]).success();
    let reboot = |options: &[&str]| {
        lode(options.iter().copied().chain(["platform", "reboot", "--state", text(&state)]))
    };
    let started = reboot(&[]).success();
    assert!(
        started.starts_with("start 2: no goals took effect\ngoals of 0x0001, 0x0101 still wait: "),
        "{started}"
    );
    assert!(started.contains("lode ndctl remove-passphrase"), "{started}");
    assert_eq!(reboot(&["--json"]).json()["waiting"], serde_json::json!(["0x0001", "0x0101"]));
    let goals = lode(["ipmctl", "--state", text(&state), "show", "-goal"]).success();
    assert!(goals.contains("0x0101"), "{goals}");
}

#[test]
fn show_renders_text_html_and_svg() {
    let machine = Emulated::new("lab-pair");
    let picture = machine.platform("show").success();
    assert!(picture.contains("┌─ nmem0 0x0001 ─") && !picture.contains('\x1b'), "{picture}");
    let page = machine.state.with_file_name("page.html");
    let show = |file: &str| lode(["platform", "show", "--state", text(&machine.state), "--html", file]);
    for _ in 0..2 {
        assert_eq!(show(text(&page)).success(), format!("{}\n", page.display()));
    }
    let written = fs::read_to_string(&page).unwrap();
    assert!(written.starts_with("<!doctype html>") && written.contains("</svg>"), "{written}");
    assert_eq!(show("-").success(), written);
    let missing = page.with_file_name("missing").join("page.html");
    show(text(&missing)).failure(1, &["missing/page.html", "check the path"]);
    let left = fs::read_dir(machine.fixture.folder.path()).unwrap();
    let hidden = left.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0, "nothing half-made is left");
    let svg = lode(["platform", "show", "--state", text(&machine.state), "--svg", "-"]).success();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("<style>"), "{svg}");
}

/// Renaming a page over /dev/stdout, or over a link to where pages are, took the device or the link away.
#[test]
fn html_output_replaces_only_files() {
    let machine = Emulated::new("lab-pair");
    let [page, link, pipe] =
        ["page.html", "link.html", "pipe"].map(|name| machine.state.with_file_name(name));
    fs::write(&page, "old").unwrap();
    std::os::unix::fs::symlink("page.html", &link).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Open for reading and writing, so that no open blocks.
    let mut reader = fs::File::options().read(true).write(true).open(&pipe).unwrap();
    for file in [&link, &pipe] {
        lode(["platform", "show", "--state", text(&machine.state), "--html", text(file)]).success();
    }
    assert!(link.symlink_metadata().unwrap().is_symlink());
    let written = fs::read_to_string(&page).unwrap();
    assert!(written.starts_with("<!doctype html>"), "{written}");
    assert!(pipe.symlink_metadata().unwrap().file_type().is_fifo());
    let mut read = vec![0; written.len()];
    reader.read_exact(&mut read).unwrap();
    assert_eq!(String::from_utf8(read).unwrap(), written);
}

#[test]
fn deleted_goal_has_no_effect() {
    let machine = Emulated::new("lab-pair");
    machine.ipmctl("create -f -goal").success();
    let again = machine.ipmctl("create -f -goal");
    assert!(again.out.starts_with("Create region configuration goal failed: Error 115 - "), "{again:?}");
    again.failure(1, &["has a goal already"]);
    let half = machine.ipmctl("delete -goal -dimm 0x0101");
    assert!(half.out.starts_with("Delete memory allocation goal failed: Error 110 - "), "{half:?}");
    half.failure(1, &["on socket 0, name 0x0001, too"]);
    let deleted = machine.ipmctl("delete -goal").success();
    assert_eq!(
        deleted,
        "Delete memory allocation goal from PMem module 0x0001: Success\n\
         Delete memory allocation goal from PMem module 0x0101: Success\n"
    );
    let none = machine.ipmctl("delete -goal");
    assert!(none.out.contains("0x0101: Error 122 - There is no goal configuration"), "{none:?}");
    none.failure(1, &["0x0001, 0x0101 have no goal"]);
    assert!(machine.platform("reboot").success().contains("no goals were waiting"));
}

#[test]
fn state_variable_selects_machine() {
    let machine = Emulated::new("lab-one");
    let mut command = crate::program::command(["ipmctl", "show", "-topology", "-o", "nvmxml"]);
    let output = command.env("LODE_STATE", &machine.state).output().unwrap();
    let xml = String::from_utf8(output.stdout).unwrap();
    assert!(xml.contains("<DeviceLocator>CPU0_DIMM_A2</DeviceLocator>"), "{xml}");
    let json = lode(["--json", "platform", "reboot", "--state", text(&machine.state)]).json();
    assert_eq!(json["boots"], 2);
}

#[test]
fn e820_reads_and_plans_memory_map() {
    let map = b"[    0.000000] BIOS-e820: [mem 0x0000000100000000-0x00000001bfffffff] usable\n";
    let planned = lode_with_stdin(["platform", "e820", "-", "--plan", "1G"], map).success();
    assert!(planned.contains("GRUB_CMDLINE_LINUX=\"memmap=1G!4G\""), "{planned}");
    let json = lode_with_stdin(["--json", "platform", "e820", "-", "--plan", "2G"], map).json();
    assert_eq!(
        (&json["plan"][0]["memmap"], &json["totals"]["usable"]),
        (&"memmap=2G!4G".into(), &(3_u64 << 30).into())
    );
    let nodes = b"BIOS-e820: [mem 0x0000000100000000-0x000000ffffffffff] usable\n\
        ACPI: SRAT: Node 0 PXM 0 [mem 0x100000000-0x7fffffffff]\n\
        ACPI: SRAT: Node 1 PXM 1 [mem 0x8000000000-0xffffffffff]\n";
    let plan = ["--json", "platform", "e820", "-", "--plan", "50G@0", "--plan", "50G@1", "--plan", "1G"];
    let json = lode_with_stdin(plan, nodes).json();
    assert_eq!(json["command_line"], "memmap=50G!4G memmap=50G!512G memmap=1G!54G");
    let two =
        lode_with_stdin(["platform", "e820", "-", "--plan", "50G", "--plan", "50G@node1"], nodes).success();
    assert!(
        two.contains("\nmemmap=50G!512G: 50.0 GiB of RAM")
            && two.contains("/dev/pmem0 to /dev/pmem1 are there"),
        "{two}"
    );
    lode_with_stdin(["platform", "e820", "-", "--plan", "1G@2"], nodes).failure(1, &["no RAM of node 2"]);
    lode_with_stdin(["platform", "e820", "-", "--plan", "1G@one"], nodes)
        .failure(2, &["not the number of a node"]);
    let json = lode_with_stdin(["--json", "platform", "e820", "-"], map).json();
    assert!(json.get("plan").is_none() && json["ranges"][0]["kind"] == "usable", "{json}");
    lode_with_stdin(["platform", "e820", "-", "--plan", "4G"], map)
        .failure(1, &["the largest that would fit is 3072M"]);
    lode_with_stdin(["platform", "e820", "-"], b"nothing")
        .failure(1, &["no memory map", "BIOS-e820: [mem 0x"]);
    lode(["platform", "e820", "no-such-file"]).failure(1, &["no-such-file", "check the path"]);
}

#[test]
fn invalid_input_leaves_machine_unchanged() {
    let machine = Emulated::new("fujitsu-primergy");
    let before = machine.platform("show").success();
    let refused = |words: &str, code: i32, output: &str, why: &str| {
        let run = machine.ipmctl(words);
        assert_eq!(run.out, format!("{output}\n"), "{words}");
        run.failure(code, &[why]);
    };
    let unmanageable = "Error: The specified device is not manageable by the driver.";
    refused("create -f -goal -dimm 0x1101", 201, unmanageable, "0x1101 is dead");
    let unknown = "DIMM not found. Invalid DimmID: 0x2222";
    refused("create -f -goal -dimm 0x2222", 1, unknown, "no module 0x2222");
    let socket = "Create region configuration goal failed: Error (13) - Invalid SocketID";
    refused("create -f -goal -socket 7", 1, socket, "no socket 0x0007");
    let sum = "Syntax Error: Properties MemoryMode and Reserved cannot sum greater than 100%";
    refused("create -f -goal MemoryMode=60 Reserved=50", 201, sum, "more than 100");
    let value = "Syntax Error: Incorrect value for property MemoryMode";
    refused("create -f -goal MemoryMode=101", 201, value, "\"101\" is no value");
    let run = machine.ipmctl("create -goal -f");
    assert!(run.out.starts_with("Syntax Error: Invalid or unexpected token -f.\nDid you mean:\n"), "{run:?}");
    run.failure(201, &["options, then targets, then properties"]);
    machine.ipmctl("show -dimm -d Colour").failure(2, &["no value Colour"]);
    machine.ipmctl("show -dim").failure(2, &["was `-dimm` meant?"]);
    assert_eq!(machine.platform("show").success(), before);
    lode(["platform", "init", "lab-pair", "--state", text(&machine.state)]).failure(1, &["is not empty"]);
    lode(["ipmctl", "--state", text(machine.fixture.folder.path()), "show", "-dimm"])
        .failure(1, &["holds no platform"]);
    let fresh = machine.fixture.folder.path().join("fresh");
    let init = |machine: &str| lode(["platform", "init", machine, "--state", text(&fresh)]);
    init("lab-pear").failure(1, &["was `lab-pair` meant?"]);
    let file = machine.fixture.file("typo.toml", "name = \"x\"\n[profil]\n");
    init(text(&file)).failure(1, &["typo.toml: line 2, column 2", "was `profile` meant?"]);
    init("missing.toml").failure(1, &["missing.toml", "No such file"]);
    assert!(!fresh.exists());
}

#[test]
fn namespaces_create_list_and_destroy() {
    let machine = Emulated::new("lab-pair");
    machine.ipmctl("create -f -goal").success();
    machine.platform("reboot").success();
    let ndctl =
        |words: &str| lode(["ndctl", "--state", text(&machine.state)].into_iter().chain(words.split(' ')));
    let made = ndctl("create-namespace -r region0 -m fsdax -t pmem -s 512M -n data -v").success();
    assert!(made.contains("\"dev\":\"namespace0.0\"") && made.contains("\"blockdev\":\"pmem0\""), "{made}");
    ndctl("create-namespace -m devdax -s 256M").success();
    let list = ndctl("list -RNDBu").success();
    assert!(
        list.contains("\"provider\":\"ACPI.NFIT\"") && list.contains("\"size\":\"2.00 GiB (2.15 GB)\""),
        "{list}"
    );
    let devices = lode(["daxctl", "--state", text(&machine.state), "list"]).success();
    assert!(devices.contains("\"chardev\":\"dax0.1\""), "{devices}");
    ndctl("destroy-namespace namespace0.0").failure(1, &["in use", "-f"]);
    assert_eq!(ndctl("disable-namespace namespace0.0").success(), "disabled 1 namespace\n");
    assert_eq!(ndctl("destroy-namespace all -f").success(), "destroyed 2 namespaces\n");
    ndctl("create-namespace -e namespace0.0 -m raw").failure(1, &["no namespace namespace0.0"]);
    ndctl("create-namespace -s 24M").failure(1, &["--size=33554432"]);
    ndctl("create-namespace -r regionx").failure(2, &["regionx is not the name of a region"]);
    ndctl("zero-labels nmem0").failure(1, &["disable-region region0"]);
    assert_eq!(ndctl("disable-region all").success(), "disabled 1 region\n");
    assert_eq!(ndctl("zero-labels all").success(), "zeroed 2 nmems\n");
    assert_eq!(ndctl("init-labels all").success(), "initialized 2 nmems\n");
    assert_eq!(ndctl("enable-region region0").success(), "enabled 1 region\n");
    ndctl("create-namespace -m sector -s 64M").success();
    ndctl("create-namespace -m raw -s 64M").success();
    ndctl("create-namespace -m sector -s 64M -l 520").success();
    // Each namespace is tried, as by ndctl.
    let online = ndctl("check-namespace all");
    assert_eq!(online.out, "checked 0 namespaces\n");
    let said = online.failure(1, &["namespace0.0: check aborted, namespace online"]);
    assert_eq!(said.lines().count(), 3, "{said}");
    let said = ndctl("check-namespace all --json").failure(1, &[]);
    let errors = said.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    assert!(
        errors.into_iter().all(|line| line["code"] == 1 && !line["error"].as_str().unwrap().contains('\n'))
    );
    let all = ndctl("check-namespace all -f");
    assert_eq!(all.out, "checked 2 namespaces\n");
    let said = all.failure(1, &["namespace0.1 has no atomic sectors"]);
    assert_eq!(said.lines().count(), 1, "{said}");
    ndctl("disable-namespace namespace0.2").success();
    assert_eq!(ndctl("check-namespace namespace0.2").success(), "checked 1 namespace\n");
}

/// With --json a listing is JSON, not text in a string.
#[test]
fn listings_are_json() {
    let machine = Emulated::new("lab-pair");
    machine.ipmctl("create -f -goal").success();
    machine.platform("reboot").success();
    let json = |tool: &str, words: &str| {
        let arguments = [tool, "--json", "--state", text(&machine.state)].into_iter().chain(words.split(' '));
        lode(arguments).json()
    };
    assert_eq!(json("ndctl", "list")["output"], serde_json::json!([]), "there is none");
    let made = json("ndctl", "create-namespace -m fsdax -s 512M -n data");
    assert_eq!((&made["output"]["dev"], &made["output"]["name"]), (&"namespace0.0".into(), &"data".into()));
    let made = json("ndctl", "create-namespace -m devdax -s 256M");
    assert_eq!(made["output"]["daxregion"]["devices"][0]["chardev"], "dax0.1");
    let namespaces = json("ndctl", "list");
    assert_eq!(namespaces["output"].as_array().map(Vec::len), Some(2), "{namespaces}");
    assert_eq!(json("ndctl", "list -RN")["output"]["regions"][0]["dev"], "region0");
    assert_eq!(json("daxctl", "list")["output"][0]["chardev"], "dax0.1");
    assert_eq!(json("ndctl", "inject-error namespace0.0 --status")["output"], serde_json::json!([]));
    let injected = json("ndctl", "inject-error namespace0.0 --block 7 --count 10");
    assert_eq!(injected["output"]["badblock_count"], 10);
    let injected = json("ndctl", "inject-error namespace0.0 --block 7 --count 1 --uninject");
    assert_eq!(injected["output"]["badblock_count"], 10, "a warning is no part of it");
    assert_eq!(json("ndctl", "start-scrub")["output"][0]["scrub_state"], "idle");
    assert_eq!(json("ndctl", "start-scrub ndbus0 ndbus0")["output"].as_array().map(Vec::len), Some(2));
    assert!(machine.ndctl("wait-scrub ndbus0 ndbus0").success().contains("idle"));
    let shown = lode(["platform", "show", "--json", "--state", text(&machine.state)]).json();
    let namespaces = shown["buses"][0]["regions"][0]["namespaces"].as_array().unwrap();
    assert!(namespaces.iter().any(|namespace| namespace["name"] == "data"), "{shown}");
    assert_eq!(shown["buses"][0]["dimms"].as_array().map(Vec::len), Some(2), "{shown}");
}

/// ndctl takes numbers in C's notation, and reads the labels of the modules that answer.
#[test]
fn devices_are_named_as_in_ndctl() {
    let machine = Emulated::new("fujitsu-primergy");
    let list = |options: &str| machine.ndctl(&format!("list {options}")).success();
    let modules: Vec<String> = (0..4).map(|number| list(&format!("-Di -d nmem{number}"))).collect();
    assert!(modules.iter().all(|module| module.contains("\"dev\":\"nmem")), "{modules:?}");
    assert_eq!(list("-Di -d 0x1"), modules[1]);
    assert_eq!(list("-Di -d 03"), modules[3]);
    assert!(list("-Di -d 08").is_empty());
    let two = lode(["ndctl", "--state", text(&machine.state), "list", "-Di", "-d", "0x1 nmem2"]).success();
    assert_eq!(two.matches("\"dev\"").count(), 2, "{two}");
    let dead = modules.iter().position(|module| module.contains("\"state\":\"disabled\""));
    let dead = dead.map_or_else(|| panic!("no dead module in {modules:?}"), |index| index.to_string());
    let refused = machine.ndctl(&format!("read-labels {dead}"));
    assert_eq!(refused.out, "read 0 nmem\n");
    refused.failure(1, &["reading labels", "module 0x1101 is dead"]);
    let areas = machine.ndctl("read-labels all").success();
    assert_eq!(areas.len(), 3 * (128 << 10));
    assert_eq!(machine.ndctl(&format!("read-labels nmem{dead} 0x0 0x1 0x2 0x3")).success(), areas);
    let file = machine.state.with_file_name("areas");
    let read = machine.ndctl(&format!("read-labels all -o {}", text(&file))).success();
    assert_eq!(read, "read 3 nmems\n");
}

/// A change that is in the journal and not in the files, for want of space, does not hinder commands that only read.
#[test]
fn full_disk_leaves_machine_readable() {
    let machine = interleaved();
    machine.ndctl("create-namespace -m sector -s 64M -n first").success();
    let limited = |blocks: u32, words: &str| {
        let lode = env!("CARGO_BIN_EXE_lode");
        let line = format!("ulimit -f {blocks}; exec {lode} ndctl --state {} {words}", text(&machine.state));
        RunResult::of(std::process::Command::new("bash").args(["-c", &line]).output().unwrap())
    };
    // The journal fits, the info blocks of the namespace are at far too large offsets.
    let why = ["File too large", "the change is in the journal, the next command finishes it"];
    limited(4096, "create-namespace -m sector -s 64M -n second").failure(1, &why);
    assert!(machine.state.join("journal").exists());
    for words in ["list -N", "check-namespace -f namespace0.1", "read-labels all"] {
        let seen = limited(0, words);
        assert!(seen.err.contains("note: ") && seen.err.contains("File too large"), "{words}: {seen:?}");
        assert!(!seen.out.is_empty() && seen.code == Some(0), "{words}: {seen:?}");
        assert!(words != "list -N" || seen.out.contains("\"name\":\"second\""), "{seen:?}");
    }
    limited(0, "disable-namespace namespace0.0").failure(1, &["File too large"]);
    let listed = machine.ndctl("list -N").success();
    assert!(listed.contains("\"name\":\"second\""), "{listed}");
    assert!(!machine.state.join("journal").exists());
    machine.ndctl("check-namespace -f namespace0.1").success();
}

/// Commands at the same time take turns, and --wait bounds the time that one waits.
#[test]
fn commands_take_turns() {
    let machine = interleaved();
    let lock = fs::File::open(machine.state.join("lock")).unwrap();
    lock.lock().unwrap();
    for (wait, why) in [("0", "is in use by another command; try"), ("0.02", "and was so for 20ms; try")] {
        let words = ["ndctl", "--state", text(&machine.state), "--wait", wait, "list"];
        lode(words).failure(1, &[why, "wait longer with --wait"]);
    }
    lode(["platform", "show", "--wait", "soon"]).failure(2, &["a number of seconds"]);
    lode(["platform", "show", "--wait=-1"]).failure(2, &["--wait"]);
    std::thread::scope(|scope| {
        let commands: Vec<_> = (0..4)
            .map(|number| {
                let words = format!("--wait 600 create-namespace -m raw -s 64M -n n{number}");
                let machine = &machine;
                scope.spawn(move || machine.ndctl(&words).success())
            })
            .collect();
        lock.unlock().unwrap();
        commands.into_iter().for_each(|command| drop(command.join().unwrap()));
    });
    assert_eq!(machine.ndctl("list -N").success().matches("\"dev\"").count(), 4);
}

/// A machine whose two modules are interleaved.
fn interleaved() -> Emulated {
    let machine = Emulated::new("lab-pair");
    machine.ipmctl("create -f -goal").success();
    machine.platform("reboot").success();
    machine
}

impl Emulated {
    fn ndctl(&self, words: &str) -> RunResult {
        lode(["ndctl", "--state", text(&self.state)].into_iter().chain(words.split(' ')))
    }
}

#[test]
fn injected_media_errors_are_listed() {
    let machine = interleaved();
    machine.ndctl("create-namespace -m sector -s 64M").success();
    machine.ndctl("create-namespace -m fsdax -s 128M").success();
    let injected = machine.ndctl("inject-error namespace0.1 --block 7 --count 10").success();
    let listed = "\"badblock_count\":10,\n  \"badblocks\":[\n    {\n      \"offset\":7,\n      \"length\":10,\n      \
                  \"dimms\":[\n        \"nmem0\",\n        \"nmem1\"\n      ]\n    }\n  ]";
    assert!(injected.contains(listed), "{injected}");
    let list = machine.ndctl("list --media-errors").success();
    assert!(
        list.contains("\"offset\":7") && !machine.ndctl("list").success().contains("badblocks"),
        "{list}"
    );
    let region = machine.ndctl("list -RM").success();
    assert!(region.contains("\"badblock_count\":10"), "{region}");
    // A place in the map, which the check reads: it is the second but last block before flog and second info block.
    machine.ndctl("check-namespace -f namespace0.0").success();
    let at = (64 << 20) / 512 - 8 * 8;
    machine.ndctl(&format!("inject-error namespace0.0 -B {at} -n 8 --no-notify")).success();
    assert!(!machine.ndctl("list -m sector").success().contains("badblock_count"));
    let range = format!("the range of 4096 bytes at {:#x} can't be read", at * 512);
    machine
        .ndctl("check-namespace -f namespace0.0")
        .failure(1, &["region0", &range, "poisoned, on module 0x0"]);
    let status = machine.ndctl("inject-error namespace0.0 --status").success();
    assert_eq!(
        status,
        format!("{{\n  \"badblocks\":[\n    {{\n      \"block\":{at},\n      \"count\":8\n    }}\n  ]\n}}\n")
    );
    assert!(machine.ndctl("start-scrub").success().contains("\"scrub_state\":\"idle\""));
    assert!(machine.ndctl("wait-scrub ndbus0").success().contains("ACPI.NFIT"));
    machine.ndctl("start-scrub ndbus7").failure(1, &["no bus ndbus7"]);
    assert!(machine.ndctl("list -m sector").success().contains("\"badblock_count\":8"));
    let warned = machine.ndctl(&format!("inject-error namespace0.0 -B {at} -n 8 --uninject")).success();
    assert!(warned.starts_with("Warning: Un-injecting"), "{warned}");
    machine.ndctl("check-namespace -f namespace0.0").failure(1, &[&range]);
    machine.ndctl(&format!("inject-error namespace0.0 -B {at} -n 8 --clear")).success();
    machine.ndctl("check-namespace -f namespace0.0").success();
    // The info block of the BTT is lost: the namespace has no mode, as for a kernel.
    machine.ndctl("inject-error namespace0.0 -B 0 -n 8 --no-notify").success();
    let lost = machine.ndctl("list -n namespace0.0").success();
    assert!(lost.contains("\"mode\":\"raw\""), "{lost}");
    machine.ndctl("inject-error namespace0.0 -B 0 -n 8 --clear").success();
    // Sectors that are written again can be read.
    machine.ndctl(&format!("inject-error namespace0.0 -B {at} -n 8")).success();
    machine.ndctl("create-namespace -e namespace0.0 -m sector -f").success();
    machine.ndctl("check-namespace -f namespace0.0").success();
}

#[test]
fn invalid_injection_leaves_machine_unchanged() {
    let machine = interleaved();
    machine.ndctl("create-namespace -m raw -s 64M").success();
    let before = machine.ndctl("list -RNDBivvv").success();
    machine.ndctl("inject-error namespace0.0 -B 131072 -n 1").failure(1, &["has 131072 sectors"]);
    machine.ndctl("inject-error namespace0.0 -B 0 -n 0").failure(1, &["can't be 0 from 0 on"]);
    machine.ndctl("inject-error namespace0.7 -B 0 -n 1").failure(1, &["no namespace namespace0.7"]);
    machine.ndctl("inject-error namespace0.0").failure(2, &["--block"]);
    machine.ndctl("inject-error namespace0.0 -t -B 1").failure(2, &["--status"]);
    assert_eq!(machine.ndctl("list -RNDBivvv").success(), before);
}

/// Each option of create-namespace and list has an effect.
#[test]
fn ndctl_options_are_honoured() {
    let machine = interleaved();
    let uuid = "11111111-2222-3333-4444-555555555555";
    let made = machine
        .ndctl(&format!(
            "create-namespace -r region0 -m devdax -s 256M -t pmem -M mem -a 1G -n one -u {uuid}"
        ))
        .failure(1, &["multiple"]);
    assert!(made.contains("--size=2147483648"), "{made}");
    let made = machine
        .ndctl(&format!(
            "create-namespace -r region0 -m devdax -s 256M -t pmem -M mem -a 4K -n one -u {uuid}"
        ))
        .success();
    for part in ["\"map\":\"mem\"", "\"align\":4096", "\"name\":\"one\"", "\"mode\":\"devdax\""] {
        assert!(made.contains(part), "no {part} in {made}");
    }
    assert!(machine.ndctl("list -v").success().contains(&format!("\"raw_uuid\":\"{uuid}\"")));
    machine.ndctl("create-namespace -e namespace0.0 -m sector").failure(1, &["in use", "-f"]);
    let sector = machine.ndctl("create-namespace -e namespace0.0 -m sector -l 512 -f").success();
    assert!(sector.contains("\"sector_size\":512") && sector.contains("\"name\":\"one\""), "{sector}");
    let list = |options: &str| machine.ndctl(&format!("list {options}")).success();
    assert!(list("-B").contains("\"provider\"") && list("-D").contains("\"handle\""));
    assert!(list("-R").contains("\"iset_id\"") && list("-N").contains("\"blockdev\":\"pmem0s\""));
    assert!(list("-DH").contains("\"health_state\":\"ok\"") && list("-u").contains("MiB ("));
    assert!(list("-i").contains("00000000-0000-0000-0000-000000000000") && list("-m raw").is_empty());
    assert!(list("-vvv").contains("\"capabilities\""));
    machine.ndctl("create-namespace -e namespace0.0 -m devdax -f").success();
    assert!(list("-X").contains("\"daxregion\"") && list("-n 0.0").contains("\"chardev\""));
    machine.ndctl("disable-namespace namespace0.0").success();
    let disabled = list("-Ni");
    assert!(
        disabled.contains("\"mode\":\"raw\"") && disabled.contains("\"state\":\"disabled\""),
        "{disabled}"
    );
    machine.ndctl("disable-region region0").success();
    assert!(list("-Ni").is_empty() && list("-Ri").contains("\"state\":\"disabled\""));
}

#[test]
fn platform_json_fields_match_help() {
    let machine = Emulated::new("lab-pair");
    machine.ipmctl("create -f -goal").success();
    machine.platform("reboot").success();
    let nothing = tempfile::tempdir().unwrap();
    let labels = machine.state.with_file_name("labels");
    let labels = text(&labels);
    let ran: [(&[&str], &[&str]); 16] = [
        (&["ipmctl"], &["create", "-f", "-goal"]),
        (&["platform", "reboot"], &[]),
        (&["ndctl", "create-namespace"], &["-m", "sector", "-s", "64M"]),
        (&["ndctl", "list"], &["-N"]),
        (&["daxctl", "list"], &[]),
        (&["ndctl", "check-namespace"], &["-f", "namespace0.0"]),
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
        let on = |location: [&str; 2]| {
            let all = ["--json"].iter().chain(verb).copied().chain(location).chain(rest.iter().copied());
            lode(all.chain(words.iter().copied())).json_lines()
        };
        let mut found = json_fields(&on(["--state", text(&machine.state)]));
        found.extend(json_fields(&on(["--sysfs", text(nothing.path())])));
        assert_eq!(found, documented_fields(command), "{command:?}");
    }
}
