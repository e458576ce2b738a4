//! Plans for real machines, from what their kernels showed. `tests/lab/scenarios/plan.toml` and `cxl.toml` carry such
//! plans out.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{RunResult, lode, text};
use crate::sysfs_captures::{contents, unpack_capture};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

fn plan(sysfs: &Path, words: &str) -> RunResult {
    lode(["platform", "plan", "--sysfs", text(sysfs)].into_iter().chain(words.split_whitespace()))
}

/// Returns the commands of a plan, without comments.
fn commands(sysfs: &Path, words: &str) -> Vec<String> {
    let printed = plan(sysfs, &format!("{words} --commands")).success();
    printed.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn plan_prefers_free_ranges() {
    for kernel in ["6.1", "6.12"] {
        for is_root in [false, true] {
            let sysfs = unpack_capture(kernel, is_root);
            let free = commands(sysfs.path(), "--devdax 64M --name it's --fsdax 256M --map mem --sector max");
            let expected = [
                r"ndctl create-namespace -r region0 -m devdax -s 67108864 --name='it'\''s'",
                "ndctl create-namespace -r region2 -m fsdax -s 268435456 -M mem",
                "ndctl create-namespace -r region0 -m sector -s 67108864",
            ];
            assert_eq!(free, expected);
        }
        let sysfs = unpack_capture(kernel, false);
        let anew = commands(sysfs.path(), "--fsdax 512M --raw 512M");
        let expected = [
            "ndctl destroy-namespace -f namespace0.0",
            "ndctl destroy-namespace -f namespace0.1",
            "ndctl destroy-namespace -f namespace0.2",
            "ndctl destroy-namespace -f namespace0.3",
            "ndctl destroy-namespace -f namespace2.0",
            "ndctl destroy-namespace -f namespace2.1",
            "ndctl destroy-namespace -f namespace2.2",
            "ndctl create-namespace -r region2 -m fsdax -s 536870912",
            "ndctl create-namespace -r region0 -m raw -s 536870912",
        ];
        assert_eq!(anew, expected);
        let labels =
            "ndctl disable-region region3 && ndctl init-labels -V 1.2 nmem0 && ndctl enable-region region3";
        let all = "--fsdax 512M --raw 512M --sector 512M --devdax 512M";
        assert!(commands(sysfs.path(), all).contains(&labels.to_owned()));
        let told = plan(sysfs.path(), all).success();
        for line in [
            "  what lies in region3 (512 MiB), which has no labels\n",
            "  namespace0.0 \"data\" (fsdax, 128 MiB) with all its data\n",
            "  region4 is one namespace, since it has no modules for labels: it is left out\n",
        ] {
            assert!(told.contains(line), "{told}");
        }
    }
}

#[test]
fn json_plan_matches_text() {
    let sysfs = unpack_capture("6.12", true);
    let object = plan(sysfs.path(), "--fsdax 64M --name more --json").json();
    let command = "ndctl create-namespace -r region0 -m fsdax -s 67108864 --name=more";
    assert_eq!(object["steps"][0]["command"], command);
    assert_eq!((&object["applied"], object["lost"].as_array().unwrap().len()), (&false.into(), 0));
    let rows = object["table"].as_array().unwrap();
    let made = rows.iter().find(|row| row["what"] == "namespace0.4").unwrap();
    assert_eq!((&made["size"], &made["usable"]), (&(64 << 20).into(), &(62 << 20).into()));
    assert_eq!((&made["device"], &made["name"]), (&"/dev/pmem0.4".into(), &"more".into()));
    let there = rows.iter().find(|row| row["what"] == "namespace2.2").unwrap();
    assert_eq!((&there["enabled"], &there["mode"]), (&false.into(), &"raw".into()));
}

#[test]
fn plan_creates_cxl_regions() {
    let sysfs = unpack_capture("6.1-cxl", true);
    let made = commands(sysfs.path(), "--fsdax 256M --map mem --devdax max --socket 0");
    let expected = [
        "cxl create-region -m -t pmem -d decoder0.0 -w 2 -s 1073741824 mem0 mem1",
        "ndctl create-namespace -r region0 -m fsdax -s 268435456 -M mem",
        "ndctl create-namespace -r region0 -m devdax -s 805306368",
    ];
    assert_eq!(made, expected);
    let alone = plan(sysfs.path(), "--raw 256M --not-interleaved").success();
    assert!(alone.contains("make region0, 512 MiB, of mem0 in decoder0.0"), "{alone}");
    assert!(alone.contains("  0                1        not configured  512 MiB"), "{alone}");
    // The host bridge has one decoder, so there can be one region.
    let both = plan(sysfs.path(), "--raw 512M --not-interleaved --fsdax 512M --not-interleaved");
    both.failure(1, &["mem1 is behind a port without a free decoder"]);
    plan(sysfs.path(), "--fsdax 2G").failure(1, &["at most 1 GiB", "--fsdax 1GiB (1 GiB)"]);
    plan(sysfs.path(), "--fsdax 256M --align 4M").failure(1, &["4194304"]);
}

#[test]
fn impossible_requests_and_changes_are_rejected() {
    let sysfs = unpack_capture("6.12", true);
    let before = contents(sysfs.path());
    for (words, code, parts) in [
        ("--fsdax 1G", 1, &["at most 512 MiB", "region4 is one namespace", "--fsdax 512MiB"] as &[&str]),
        (
            "--raw 64M --interleaved",
            1,
            &["no socket has a region over several modules", "--raw 64MiB (64 MiB)"],
        ),
        ("--raw 64M --socket 3", 1, &["there is no socket 3; the machine has 0", "--raw 64MiB --socket 0"]),
        ("--fsdax 100M --exact", 1, &["100MiB is not a multiple of 16MiB", "--fsdax 96MiB"]),
        ("--sector 64M --sector-size 4095", 1, &["sectors can't have 4095 bytes"]),
        ("--rest memory-mode", 2, &["kernels don't show", "lode platform init"]),
        ("", 2, &["no namespace is requested"]),
    ] {
        plan(sysfs.path(), words).failure(code, parts);
    }
    let region = sysfs.path().join("bus/nd/devices/region2").canonicalize().unwrap();
    for (change, why) in [("read_only", "read-only"), ("driver", "disabled")] {
        let attribute = region.join(change);
        let (was, driver) = (fs::read(&attribute), fs::read_link(&attribute));
        fs::remove_file(&attribute).unwrap();
        if driver.is_err() {
            fs::write(&attribute, "1\n").unwrap();
        }
        plan(sysfs.path(), "--raw 768M").failure(1, &["at most 512 MiB", &format!("region2 is {why}")]);
        let made = plan(sysfs.path(), "--raw 256M").success();
        assert!(made.contains("unmake namespace0.0"), "{made}");
        fs::remove_file(&attribute).ok();
        match driver {
            Ok(target) => symlink(target, &attribute).unwrap(),
            Err(_) => fs::write(&attribute, was.unwrap()).unwrap(),
        }
    }
    let left = plan(sysfs.path(), "--raw 16M --apply");
    let answer = "# Nothing is done: a real machine is left to its own tools. As root, run:\n\
                  # region4 is one namespace, since it has no modules for labels: it is left out\n\
                  ndctl create-namespace -r region0 -m raw -s 16777216\n";
    assert_eq!((left.code, left.out.as_str()), (Some(1), answer), "{left:?}");
    assert_eq!(contents(sysfs.path()), before);
}
