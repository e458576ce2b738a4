//! The commands of ndctl for modules, labels, media errors and info blocks, with its options and messages.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::emulated::Emulated;
use crate::program::{lode, lode_with_stdin, text};
use std::fs;
use tempfile::TempDir;

/// Returns a machine whose two modules are interleaved.
fn machine() -> Emulated {
    Emulated::included("lab-pair").interleaved()
}

/// A command on several modules does its work on those that take it, and says which do not.
#[test]
fn modules_are_disabled_and_enabled() {
    let machine = machine();
    let refused = machine.ndctl("disable-dimm nmem0");
    assert_eq!(refused.out, "disabled 0 nmem\n");
    refused.failure(1, &["part of region0, which is in use", "disable-region region0"]);
    machine.ndctl("disable-region region0").success();
    assert_eq!(machine.ndctl("disable-dimm nmem0 nmem1").success(), "disabled 2 nmems\n");
    assert_eq!(machine.ndctl("list -D").success(), "");
    assert_eq!(machine.ndctl("list -Di").success().matches("\"state\":\"disabled\"").count(), 2);
    machine.ndctl("enable-region region0").failure(1, &["its module 0x0001 is disabled", "enable-dimm"]);
    let partly = machine.ndctl("enable-dimm -v -b ACPI.NFIT nmem0 nmem9").success();
    assert_eq!(partly, "there is no module nmem9, skipping...\nenabled 1 nmem\n");
    machine.ndctl("enable-dimm -b e820 nmem1").failure(1, &["there is no bus e820", "list -B"]);
    machine.ndctl("enable-dimm all").success();
    machine.check_fields("ndctl", "enable-dimm", "all");
    machine.check_fields("ndctl", "disable-dimm", "all");
    machine.check_fields("ndctl", "check-labels", "all");
}

#[test]
fn labels_are_read_in_parts_and_as_json() {
    let machine = machine();
    let area = machine.file("area");
    machine.ndctl(&format!("read-labels nmem0 -o {}", text(&area))).success();
    let area = fs::read(area).unwrap();
    let part = machine.ndctl("read-labels nmem0 -s 16 -O 256").success();
    assert_eq!(part.as_bytes(), &area[256..272]);
    let index = machine.file("index");
    machine.ndctl(&format!("read-labels all -I -o {}", text(&index))).success();
    assert_eq!(fs::read(index).unwrap().len(), 1024);
    machine.ndctl("read-labels nmem0 -s 1 -O 1G").failure(1, &["the label area of module 0x0001", "from"]);
    machine.ndctl("read-labels nmem0 -j -s 8").failure(2, &["incompatible with --json"]);
    machine.ndctl("read-labels nmem0 -I -s 8").failure(2, &["not both"]);
    let listed = machine.ndctl("read-labels nmem0 nmem1 -I -j").success();
    assert!(listed.starts_with("[\n  {\n    \"dev\":\"nmem0\",\n    \"index\":["), "{listed}");
    assert!(listed.contains("\"dev\":\"nmem1\"") && !listed.contains("\"label\":"), "{listed}");
    assert!(machine.ndctl("read-labels nmem0 -u").success().contains("\"flags\":\"0\""));
    machine.check_fields("ndctl", "read-labels", "nmem0");
    machine.ndctl("disable-region all").success();
    assert_eq!(machine.ndctl("zero-labels nmem0 -s 512").success(), "zeroed 1 nmem\n");
    let blank = machine.ndctl("check-labels nmem0");
    assert_eq!(blank.out, "successfully verified 0 nmem label\n");
    blank.failure(1, &["the label area is not initialized"]);
    assert!(machine.ndctl("check-labels all").success().ends_with("successfully verified 1 nmem label\n"));
    let words = ["ndctl", "--state", text(&machine.state), "write-labels", "nmem0", "-s", "512"];
    assert_eq!(lode_with_stdin(words, &area).success(), "wrote 1 nmem\n");
    assert_eq!(machine.ndctl("check-labels all").success(), "successfully verified 2 nmem labels\n");
}

#[test]
fn errors_are_cleared_in_data() {
    let machine = machine();
    machine.ndctl("create-namespace -m fsdax -s 128M").success();
    machine.ndctl("create-namespace -m sector -s 64M").success();
    machine.ndctl("inject-error namespace0.0 -B 7 -n 10").success();
    machine.ndctl("inject-error namespace0.0 -B 70 -n 1 -N").success();
    machine.ndctl("clear-errors namespace0.1").failure(1, &["namespace0.1 is in mode sector", "raw"]);
    machine.ndctl("clear-errors namespace0.1 -r region1").failure(1, &["not in the selected region"]);
    machine.ndctl("clear-errors namespace0.9").failure(1, &["no namespace namespace0.9", "list -Ni"]);
    let cleared = machine.ndctl("clear-errors all -r region0 -b ndbus0").success();
    assert!(cleared.contains("\"dev\":\"namespace0.0\"") && !cleared.contains("badblock"), "{cleared}");
    assert!(cleared.ends_with("}\ncleared 1 namespace\n"), "{cleared}");
    let latent = machine.ndctl("inject-error namespace0.0 -t").success();
    assert!(latent.contains("\"block\":70"), "the kernel did not know of it: {latent}");
    machine.ndctl("clear-errors --scrub all").success();
    assert_eq!(machine.ndctl("inject-error namespace0.0 -t").success(), "");
    machine.check_fields("ndctl", "clear-errors", "all");
    assert_eq!(machine.ndctl("version").success(), "76\n");
    machine.check_fields("ndctl", "version", "");
}

/// A namespace is made in each region that takes one.
#[test]
fn namespaces_are_created_in_all_regions() {
    let machine = Emulated::included("fujitsu-primergy");
    machine.ndctl("create-namespace -c").failure(1, &["creating a namespace", "region"]);
    let machine = machine.interleaved();
    machine.ndctl("create-namespace -b e820").failure(1, &["has no labels"]);
    let first = machine.ndctl("create-namespace -b ACPI.NFIT -s 1G").success();
    assert!(first.starts_with("{\n  \"dev\":\"namespace1.0\""), "{first}");
    let all = machine.ndctl("create-namespace --continue -m devdax").success();
    assert_eq!(all.matches("  \"dev\":\"namespace").count(), 2, "{all}");
    assert!(all.ends_with("}\ncreated 2 namespaces\n"), "{all}");
    machine.ndctl("create-namespace -c").failure(1, &["not free"]);
    machine.ndctl("destroy-namespace -f all").success();
    // The second one has the UUID of the first.
    let uuid = "-s 1G -u 6a2f9a3e-71d5-4d07-9f0a-0f0d9f3c6a11";
    let refused = machine.ndctl(&format!("create-namespace -c {uuid}"));
    assert!(refused.out.ends_with("created 1 namespace\n"), "{refused:?}");
    refused.failure(1, &["there is a namespace 6a2f9a3e"]);
    machine.ndctl("destroy-namespace -f all").success();
    machine.check_fields("ndctl", "create-namespace", "-c");
}

#[test]
fn regions_without_labels_get_them_unless_refused() {
    let machine = machine();
    machine.ndctl("disable-region all").success();
    machine.ndctl("zero-labels all").success();
    machine.ndctl("enable-region all").success();
    let without = machine.ndctl("create-namespace -f -e namespace0.0 -m sector --no-autolabel").success();
    assert!(without.contains("\"mode\":\"sector\""), "{without}");
    machine.ndctl("create-namespace -e namespace0.0 -L -R").failure(1, &["in use"]);
    machine.ndctl("create-namespace -f -e namespace0.0 -s 1G").failure(1, &["leave the size out"]);
    let labelled = machine.ndctl("create-namespace -f -e namespace0.0 -m fsdax -n data").success();
    assert!(labelled.contains("\"name\":\"data\""), "{labelled}");
    machine.ndctl("destroy-namespace -f all").success();
    machine.ndctl("create-namespace -s 1G --no-autorecover").success();
}

#[test]
fn listings_are_filtered() {
    let machine = machine();
    machine.ndctl("create-namespace -m devdax -s 64M").success();
    machine.ndctl("disable-namespace namespace0.0").success();
    assert_eq!(machine.ndctl("list").success(), "");
    assert!(machine.ndctl("list -c").success().contains("namespace0.0"));
    assert!(machine.ndctl("list --configured -m RAW").success().contains("namespace0.0"));
    assert!(machine.ndctl("list -RC").success().contains("\"capabilities\""));
    assert!(machine.ndctl("list -DF").success().contains("\"can_update\":true"));
    for (filter, listed) in [
        ("-t pmem", true),
        ("-t blk", false),
        ("-U 0", true),
        ("-U 0x1", false),
        ("-U all", true),
        ("-U -1", false),
    ] {
        assert_eq!(
            machine.ndctl(&format!("list -R {filter}")).success().contains("region0"),
            listed,
            "{filter}"
        );
    }
    machine.ndctl("list -U node0").failure(2, &["invalid numa_node: 'node0'"]);
    machine.ndctl("list -t dram").failure(2, &["pmem", "blk"]);
}

#[test]
fn info_blocks_of_namespaces_are_read_and_written() {
    let machine = machine();
    machine.ndctl("create-namespace -m sector -s 64M").success();
    machine.ndctl("create-namespace -m fsdax -s 64M").success();
    let enabled = machine.ndctl("read-infoblock namespace0.0 -j");
    assert_eq!(enabled.out, "read 0 infoblocks\n");
    enabled.failure(1, &["namespace0.0 is enabled", "disable-namespace namespace0.0"]);
    machine.ndctl("write-infoblock namespace0.0").failure(1, &["namespace0.0 is enabled"]);
    machine.ndctl("disable-namespace all").success();
    let listed = machine.ndctl("read-infoblock all -j -V").success();
    assert_eq!((listed.matches("BTT_ARENA_INFO").count(), listed.matches("NVDIMM_PFN_INFO").count()), (1, 1));
    let uuid = "6a2f9a3e-71d5-4d07-9f0a-0f0d9f3c6a11";
    let other = format!("write-infoblock namespace0.0 -m DEVDAX -a 2M -M mem -u {uuid} -p {uuid}");
    assert_eq!(machine.ndctl(&other).success(), "wrote 1 infoblock\n");
    let stranger = machine.ndctl("read-infoblock namespace0.0 -j -V");
    assert_eq!(stranger.out, "[\n]\n", "as json-c prints an empty array");
    stranger.failure(1, &["NVDIMM_DAX_INFO is of the namespace 6a2f9a3e", "the kernel ignores it"]);
    machine
        .ndctl("write-infoblock namespace0.0 -s 4K -a 2M")
        .failure(1, &["not a multiple of the alignment"]);
    machine.ndctl(&format!("write-infoblock namespace0.0 -m devdax -a 2M -u {uuid}")).success();
    machine.ndctl("enable-namespace all").success();
    let list = machine.ndctl("list -n namespace0.0").success();
    assert!(list.contains("\"mode\":\"devdax\"") && list.contains(uuid), "{list}");
    machine.ndctl("disable-namespace all").success();
    machine.check_fields("ndctl", "read-infoblock", "all");
    machine.check_fields("ndctl", "write-infoblock", "all");
}

/// Files need no machine.
#[test]
fn info_blocks_of_files_are_read_and_written() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("image");
    let infoblock = |words: &str| lode(["ndctl"].into_iter().chain(words.split(' ')));
    let at = text(&file);
    infoblock(&format!("write-infoblock -o {at}")).failure(1, &["no info block fits 0 bytes"]);
    assert!(!file.exists());
    fs::write(&file, vec![7; 16384]).unwrap();
    assert_eq!(
        infoblock(&format!("write-infoblock -o {at} -s 1G -m devdax")).success(),
        "wrote 1 infoblock\n"
    );
    let bytes = fs::read(&file).unwrap();
    assert_eq!((bytes.len(), bytes[0], bytes[8192]), (16384, 0, 7));
    let listed = infoblock(&format!("read-infoblock -i {at} -u -V")).success();
    assert!(
        listed.contains("\"signature\":\"NVDIMM_DAX_INFO\"") && listed.contains("\"0x200000\""),
        "{listed}"
    );
    let piped = lode_with_stdin(["ndctl", "read-infoblock", "-j"], &bytes).success();
    assert!(piped.contains("\"file\":\"<stdin>\""), "{piped}");
    let copy = folder.path().join("copy");
    assert_eq!(
        infoblock(&format!("read-infoblock -i {at} -o {}", text(&copy))).success(),
        "read 1 infoblock\n"
    );
    assert_eq!(fs::read(&copy).unwrap(), bytes[..8192]);
    let mut damaged = bytes.clone();
    damaged[8191] ^= 1;
    let refused = lode_with_stdin(["ndctl", "read-infoblock", "-jV"], &damaged);
    refused.failure(1, &["<stdin>: the info block NVDIMM_DAX_INFO is damaged"]);
    lode_with_stdin(["ndctl", "read-infoblock"], &bytes[..8191]).failure(1, &["<stdin> has 8191 bytes"]);
    for words in
        ["write-infoblock", "write-infoblock -c", "write-infoblock -c -s 1G -o x", "write-infoblock -m raw x"]
    {
        infoblock(words).failure(2, &[]);
    }
    for align in ["6K", "2K", "1T"] {
        infoblock(&format!("write-infoblock -c -s 16G -a {align}")).failure(1, &["align"]);
    }
}

#[test]
fn regions_and_buses_are_selected() {
    let machine = Emulated::included("e4-pmserver").interleaved();
    for region in ["region0", "region1"] {
        machine.ndctl(&format!("create-namespace -r {region} -m sector -s 6G")).success();
    }
    let counted =
        |words: &str, count: &str| assert!(machine.ndctl(words).success().ends_with(count), "{words}");
    counted("disable-namespace -v -r region1 all", "disabled 1 namespace\n");
    counted("enable-namespace -r 1 -b ACPI.NFIT all", "enabled 1 namespace\n");
    machine
        .ndctl("disable-namespace -r region0 namespace1.0")
        .failure(1, &["namespace1.0 is not in the selected region or on the selected bus"]);
    machine.ndctl("enable-namespace -b ndbus9 all").failure(1, &["there is no bus ndbus9"]);
    counted("check-namespace -f -v -r region0 all", "checked 1 namespace\n");
    machine
        .ndctl("inject-error -S -r region1 -B 0 -n 1 namespace0.0")
        .failure(1, &["namespace0.0 is not in the selected region"]);
    machine.ndctl("inject-error -S -v -r region0 -b ndbus0 -B 0 -n 1 namespace0.0").success();
    machine.ndctl("start-scrub -v").success();
    counted("disable-region -b ACPI.NFIT all", "disabled 2 regions\n");
    counted("enable-region -b ndbus0 region1", "enabled 1 region\n");
    // As ndctl counts: also the one that was enabled before.
    counted("enable-region -v all", "enabled 2 regions\n");
    counted("enable-namespace -r region0 all", "enabled 1 namespace\n");
    counted("destroy-namespace -f -v -b ndbus0 -r region1 all", "destroyed 1 namespace\n");
    counted("destroy-namespace -f all", "destroyed 1 namespace\n");
}
