//! A real machine becomes an emulated one: from its sysfs, from saved listings of ipmctl, and from a machine file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{documented_fields, json_fields, lode, text};
use crate::sysfs_captures::unpack_capture;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn ipmctl(state: &Path, words: &str) -> String {
    lode(["ipmctl", "--state", text(state)].into_iter().chain(words.split(' '))).success()
}

fn region_sizes(state: &Path) -> Vec<String> {
    let listed = lode(["ndctl", "--state", text(state), "list", "-R"]).success();
    let sizes = listed.lines().filter(|line| line.contains("\"size\"")).map(|line| line.trim().to_owned());
    sizes.collect()
}

#[test]
fn template_makes_a_machine() {
    let folder = TempDir::new().unwrap();
    let (file, state) = (folder.path().join("mine.toml"), folder.path().join("state"));
    let template = lode(["platform", "template"]).success();
    fs::write(&file, &template).unwrap();
    lode(["platform", "init", text(&file), "--state", text(&state)]).success();
    let shown = lode(["platform", "show", "--state", text(&state)]).success();
    assert!(shown.contains("my-server") && shown.contains("mem0  CXL, 512 MiB persistent"), "{shown}");
    let page = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/man/lode-platform-template.1"),
    );
    let page = page.unwrap().replace("\\-", "-");
    for name in template.lines().filter_map(|line| line.trim_start_matches('#').split_once(" = ")) {
        assert!(page.contains(&format!("\\fB{}\\fR", name.0)), "no {name:?} in the manual page");
    }
    let typo = template.replacen("locator", "locater", 1);
    fs::write(&file, typo).unwrap();
    lode(["platform", "init", text(&file), "--state", text(&folder.path().join("other"))])
        .failure(1, &["mine.toml: line ", "was `locator` meant?"]);
}

#[test]
fn saved_listings_make_the_same_machine() {
    let folder = TempDir::new().unwrap();
    let (state, made) = (folder.path().join("state"), folder.path().join("made"));
    lode(["platform", "init", "e4-storage", "--state", text(&state)]).success();
    ipmctl(&state, "create -f -goal MemoryMode=50");
    lode(["platform", "reboot", "--state", text(&state)]).success();
    let saved = ["-topology", "-dimm", "-region"].map(|subject| {
        let file = folder.path().join(format!("saved{subject}"));
        fs::write(&file, ipmctl(&state, &format!("show -a -units B {subject}"))).unwrap();
        file
    });
    let sources: Vec<&str> = saved.iter().flat_map(|file| ["--from-ipmctl", text(file)]).collect();
    let init = |place: &Path| {
        let words = ["platform", "init", "--name", "e4-storage", "--state", text(place)];
        lode(words.into_iter().chain(sources.iter().copied()))
    };
    let said = init(&made).success();
    assert!(said.contains("4 modules, 4 of them configured\nnote: "), "{said}");
    for words in ["show -topology", "show -dimm", "show -region", "show -memoryresources"] {
        let unit = " -units MiB";
        let (before, after) =
            (ipmctl(&state, &(words.to_owned() + unit)), ipmctl(&made, &(words.to_owned() + unit)));
        let numbers = |text: &str| {
            text.split_whitespace()
                .filter_map(|word| word.parse::<f64>().ok())
                .map(|number| number as u64)
                .collect::<Vec<_>>()
        };
        assert_eq!(numbers(&after), numbers(&before), "{words}");
    }
    assert_eq!(region_sizes(&made), region_sizes(&state));
    // Its namespaces can be made, so it has labels.
    lode(["ndctl", "--state", text(&made), "create-namespace", "-r", "region0", "-s", "1G"]).success();
    let file = fs::read_to_string(made.join("machine.toml")).unwrap();
    assert!(file.starts_with("# The versions of ndctl and of the kernel are assumed"), "{file}");
    init(&made).failure(1, &["is not empty"]);
    let (damaged, none) = (folder.path().join("damaged"), folder.path().join("none"));
    fs::write(&damaged, " DimmID | Capacity\n===================\n 0x0001 | 1\n 0x0002 | 1 | 2\n").unwrap();
    let words = ["platform", "init", "--state", text(&none), "--from-ipmctl", text(&damaged)];
    lode(words).failure(1, &["damaged, line 4: a row of 3 cells, below a head of 2: save the listing again"]);
    assert!(!none.exists());
    fs::write(&damaged, [0xff, 0xfe]).unwrap();
    lode(words).failure(1, &["damaged: byte 0 is not text"]);
    lode(["platform", "init", "lab-one", "--from-ipmctl", "x", "--state", "y"])
        .failure(2, &["--from-ipmctl"]);
    lode(["platform", "init", "--state", "y"]).failure(2, &["MACHINE"]);
}

#[test]
fn sysfs_makes_the_same_regions() {
    let folder = TempDir::new().unwrap();
    for kernel in ["6.1", "6.12"] {
        let (sysfs, state) = (unpack_capture(kernel, true), folder.path().join(kernel));
        let words = ["platform", "init", "--from-sysfs", text(sysfs.path()), "--state", text(&state)];
        let said = lode(words).success();
        assert!(said.contains("4 modules, 4 of them configured"), "{said}");
        assert!(said.contains("note: Namespaces are left out"), "{said}");
        assert_eq!(region_sizes(&state), ["\"size\":536870912,"; 5]);
        let ids = lode(["ndctl", "--state", text(&state), "list", "-D"]).success();
        assert!(ids.contains("8680-56341200") && ids.contains("8680-57341200"), "{ids}");
    }
    let cxl = unpack_capture("6.1-cxl", true);
    let words = ["platform", "template", "--from-sysfs", text(cxl.path()), "--name", "cxl"];
    let file = lode(words).success();
    assert_eq!(file.matches("[[cxl.device]]").count(), 2, "{file}");
    for line in [
        "id = 12\n",
        "persistent = \"512MiB\"\n",
        "label_area = \"1MiB\"\n",
        "size = \"4GiB\"\nbridges = [12]\n",
    ] {
        assert!(file.contains(line), "no {line} in {file}");
    }
    let path = folder.path().join("cxl.toml");
    fs::write(&path, &file).unwrap();
    lode(["platform", "init", text(&path), "--state", text(&folder.path().join("cxl"))]).success();
    let (empty, none) = (TempDir::new().unwrap(), folder.path().join("none"));
    let words = ["platform", "init", "--from-sysfs", text(empty.path()), "--state", text(&none)];
    lode(words).failure(1, &["is not what a kernel shows of a machine"]);
    fs::create_dir(empty.path().join("bus")).unwrap();
    lode(words).failure(1, &["shows no persistent memory"]);
    let json = lode(["--json"].into_iter().chain(["platform", "template", "--from-sysfs", text(cxl.path())]));
    assert_eq!(json_fields(&json.json_lines()), documented_fields(&["platform", "template"]));
}
