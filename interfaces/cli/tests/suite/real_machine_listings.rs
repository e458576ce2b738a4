//! Real machines, as their kernels show them: sysfs of Linux 6.1 and 6.12 with modules of QEMU, and what ndctl and
//! daxctl 76.1 listed at the same moment. `tests/lab/scenarios/sysfs.toml` captures both.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{command, lode, text};
use crate::sysfs_captures::{capture_text, contents, unpack_capture};
use std::fs;
use tempfile::TempDir;

const KERNELS: [&str; 2] = ["6.1", "6.12"];

/// Returns the captured listings: for root or not, the arguments, and the output.
fn listings(kernel: &str) -> Vec<(bool, Vec<String>, String)> {
    let text = capture_text(kernel, "listings");
    let parts = text.split("==== ").filter(|part| !part.is_empty());
    let listing = |part: &str| {
        let (head, listing) = part.split_once('\n').unwrap();
        let mut words = head.split(' ');
        let is_root = words.next() == Some("root");
        (is_root, words.map(str::to_owned).collect(), listing.to_owned())
    };
    parts.map(listing).collect()
}

#[test]
fn listings_match_ndctl_and_daxctl() {
    for kernel in KERNELS {
        let all = listings(kernel);
        assert_eq!(all.len(), 6, "three for root and for nobody");
        let places = [unpack_capture(kernel, false), unpack_capture(kernel, true)];
        for (is_root, words, listed) in all {
            let (tool, rest) = words.split_first().unwrap();
            let place = [tool.as_str(), "--sysfs", text(places[usize::from(is_root)].path())];
            let ours = lode(place.into_iter().chain(rest.iter().map(String::as_str))).success();
            let differing = ours.lines().zip(listed.lines()).find(|(ours, theirs)| ours != theirs);
            assert_eq!(differing, None, "{kernel}, {words:?}, root: {is_root}");
            assert_eq!(ours.len(), listed.len(), "{kernel}, {words:?}, root: {is_root}");
        }
    }
}

#[test]
fn ipmctl_reads_sysfs() {
    let sysfs = unpack_capture("6.12", true);
    let ipmctl =
        |words: &str| lode(["ipmctl", "--sysfs", text(sysfs.path())].into_iter().chain(words.split(' ')));
    let regions = ipmctl("show -region").success();
    let row = " 0x0000   | 0x002468b000123458 | AppDirectNotInterleaved | 0.500 GiB | 0.125 GiB    | Unknown     \n";
    assert!(regions.contains(row), "{regions}");
    let dimms = ipmctl("show -dimm").success();
    assert!(dimms.contains(" 0x0001 | N/A      | N/A       | Unknown     | N/A       \n"), "{dimms}");
    let all = ipmctl("show -a -dimm 0x0003").success();
    assert!(all.contains("DimmUID=8680-58341200") && all.contains("AppDirectCapacity=0.500 GiB"), "{all}");
    assert!(ipmctl("show -topology").success().contains("Logical Non-Volatile Device"));
    ipmctl("show -dimm 0x0009").failure(1, &["there is no module 0x0009"]);
    ipmctl("show -memoryresources")
        .failure(1, &["don't tell what capacity is used for", "ipmctl show -memoryresources"]);
}

#[test]
fn real_machine_changes_print_tool_commands() {
    let sysfs = unpack_capture("6.12", true);
    let before = contents(sysfs.path());
    let cases = [
        ("ndctl", "create-namespace -r region0 -m fsdax -s 64M", None),
        ("ndctl", "destroy-namespace -f all", None),
        ("ndctl", "disable-region region1", None),
        ("ndctl", "init-labels -f nmem0", None),
        ("ndctl", "read-labels nmem0", None),
        ("ndctl", "disable-dimm nmem0", None),
        ("ndctl", "check-labels -v all", None),
        ("ndctl", "check-namespace all", None),
        ("ndctl", "inject-error namespace0.0 -B 8 -n 8", None),
        ("ndctl", "inject-error namespace0.0 -B 8 -n 8 --clear", Some("ndctl clear-errors namespace0.0")),
        ("ndctl", "clear-errors -s all", None),
        ("ndctl", "version", None),
        ("ndctl", "read-infoblock -V namespace0.0", None),
        ("ndctl", "write-infoblock -m devdax namespace0.0", None),
        ("ndctl", "start-scrub", None),
        ("ipmctl", "create -goal MemoryMode=100", None),
        ("ipmctl", "delete -goal", None),
    ];
    for (tool, words, instead) in cases {
        let ran = lode([tool, "--sysfs", text(sysfs.path())].into_iter().chain(words.split(' ')));
        let expected = instead.map_or(format!("{tool} {words}"), str::to_owned);
        let answer = format!(
            "# Nothing is done: a real machine is left to its own tools. As root, run:\n{expected}\n"
        );
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), answer.as_str()), "{ran:?}");
        let ran = lode(["--json", tool, "--sysfs", text(sysfs.path())].into_iter().chain(words.split(' ')));
        assert_eq!((ran.code, &ran.json()["commands"][0]), (Some(1), &expected.as_str().into()));
    }
    let reboot = lode(["platform", "reboot", "--sysfs", text(sysfs.path())]);
    assert!(reboot.code == Some(1) && reboot.out.ends_with("\nreboot\n"), "{reboot:?}");
    lode(["ndctl", "--sysfs", text(sysfs.path()), "create-namespace", "-m", "fsdex"]).failure(2, &["fsdax"]);
    assert_eq!(contents(sysfs.path()), before);
}

/// The default is this machine; an option has precedence over the environment.
#[test]
fn machine_selection_by_options() {
    let machine = TempDir::new().unwrap();
    let state = machine.path().join("state");
    lode(["platform", "init", "lab-one", "--state", text(&state)]).success();
    let sysfs = unpack_capture("6.1", true);
    let mut both = command(["ndctl", "--sysfs", text(sysfs.path()), "list", "-D"]);
    let both = both.env("LODE_STATE", &state).output().unwrap();
    assert!(String::from_utf8(both.stdout).unwrap().contains("8680-57341200"));
    let mut emulated = command(["ndctl", "list", "-D"]);
    let emulated = emulated.env("LODE_STATE", &state).output().unwrap();
    assert!(String::from_utf8(emulated.stdout).unwrap().contains("8089-a2-2140-00000001"));
    for words in [["ndctl", "list"], ["daxctl", "list"], ["platform", "show"]] {
        let output = command(words).env_remove("LODE_STATE").output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
    lode(["ndctl", "--sysfs", text(machine.path()), "list"]).failure(1, &["no folder `bus`", "/sys"]);
    let init = command(["platform", "init", "lab-one"]).env_remove("LODE_STATE").output().unwrap();
    assert_eq!(init.status.code(), Some(2), "{init:?}");
    // A machine without persistent memory: nothing is there, and that is no error.
    let none = machine.path().join("sys");
    fs::create_dir_all(none.join("bus")).unwrap();
    assert_eq!(lode(["ndctl", "--sysfs", text(&none), "list", "-RNDB"]).success(), "");
    assert!(lode(["platform", "show", "--sysfs", text(&none)]).success().contains("no persistent memory"));
    assert!(lode(["ipmctl", "--sysfs", text(&none), "show", "-dimm"]).success().contains("No DIMMs"));
}
