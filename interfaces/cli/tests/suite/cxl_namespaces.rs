//! A persistent CXL region is one of libnvdimm, with the bus CXL, modules, labels and namespaces.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::cxl_listings_match_cxl::MACHINE;
use crate::emulated::Emulated;
use crate::program::{RunResult, lode, text};
use serde_json::{Value, json};
use std::fs;

const MIB: u64 = 1 << 20;
/// The region over two host bridges, in lines of 256 bytes: region0.
const INTERLEAVED: &str = "create-region -t pmem -m -d decoder0.0 -s 512M mem0 mem2";
/// A region of one device: region1.
const SINGLE: &str = "create-region -t pmem -m -d decoder0.1 -s 256M mem1";

fn machine() -> Emulated {
    Emulated::of_text(&MACHINE.replace("kernel = \"6.1\"", "kernel = \"6.12\""))
}

fn cxl(machine: &Emulated, words: &str) -> RunResult {
    machine.run("cxl", words)
}

/// Returns the objects of a listing of one kind.
fn list(machine: &Emulated, words: &str) -> Vec<Value> {
    let listed = machine.ndctl(&format!("list {words}")).success();
    let objects = if listed.is_empty() { json!([]) } else { serde_json::from_str(&listed).unwrap() };
    objects.as_array().unwrap().clone()
}

fn values<'a>(objects: &'a [Value], key: &str) -> Vec<&'a Value> {
    objects.iter().map(|object| &object[key]).collect()
}

#[test]
fn bus_modules_and_regions_are_listed() {
    let machine = machine();
    // Nothing of this machine is in firmware's table of modules.
    assert_eq!(list(&machine, "-B"), [json!({"provider": "CXL", "dev": "ndbus0"})]);
    let modules = list(&machine, "-DHF");
    assert_eq!(modules.len(), 4);
    assert!(modules.contains(&json!({"dev": "nmem2", "id": "177"})), "{modules:?}");
    assert!(list(&machine, "-Ri").is_empty());
    cxl(&machine, INTERLEAVED).success();
    cxl(&machine, SINGLE).success();
    let both: Value = serde_json::from_str(&machine.ndctl("list -RD -r region0").success()).unwrap();
    let region = &both["regions"][0];
    assert_eq!(region["dev"], "region0", "the number of the region of cxl");
    assert_eq!((&region["size"], &region["available_size"]), (&(512 * MIB).into(), &(512 * MIB).into()));
    assert_eq!(region["persistence_domain"], "memory_controller");
    assert!(region["iset_id"].as_u64().is_some_and(|id| id > 0), "{region}");
    let mappings = region["mappings"].as_array().unwrap();
    assert_eq!(values(mappings, "dimm"), ["nmem2", "nmem0"]);
    assert_eq!(values(mappings, "length"), [256 * MIB, 256 * MIB]);
    assert_eq!(values(mappings, "position"), [1, 0]);
    let single: Value = serde_json::from_str(&machine.ndctl("list -RD -r region1").success()).unwrap();
    // Persistent memory follows 512 MiB of volatile memory on the device.
    assert_eq!(single["regions"][0]["mappings"][0]["offset"], 512 * MIB);
    cxl(&machine, "disable-bus -f root0").success();
    assert!(list(&machine, "-Di").is_empty(), "the modules go with the bus");
    machine.start();
    assert!(list(&machine, "-Ri").is_empty() && list(&machine, "-D").len() == 4);
}

/// A machine with modules and CXL memory has both buses, and numbers their modules and regions together.
#[test]
fn cxl_follows_modules_of_table() {
    let modules = "[[module]]\nhandle = 0x1\nphysical_id = 0x11\nlocator = \"DIMM1\"\ncapacity = \"2GiB\"\n\
                   id = \"8089-a2-2018-00002d10\"\nfirmware = \"01.02.00.5435\"\n";
    let machine =
        Emulated::of_text(&MACHINE.replacen("[[cxl.bridge]]", &format!("{modules}[[cxl.bridge]]"), 1));
    machine.run("ipmctl", "create -f -goal").success();
    machine.start();
    cxl(&machine, SINGLE).success();
    let mut numbers: Vec<String> =
        values(&list(&machine, "-D"), "dev").iter().map(|one| one.to_string()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers.len(), 5, "{numbers:?}");
    let buses = machine.ndctl("list -BR").success();
    let (first, second) = (buses.find("ACPI.NFIT").unwrap(), buses.find("\"CXL\"").unwrap());
    assert!(first != second && buses.contains("region0"), "{buses}");
    let made = machine.ndctl("create-namespace -b CXL -m raw").success();
    assert!(made.contains("\"dev\":\"namespace2.0\""), "{made}");
    machine.ndctl("read-labels nmem0 -s 8").success();
    machine.ndctl("inject-smart -m 40 nmem2").failure(1, &["nmem2 is the CXL device mem1", "lode cxl"]);
}

/// Labels and info blocks are on the devices. They come back with the same region after a start, and only with that.
#[test]
fn namespaces_survive_start() {
    let machine = machine();
    cxl(&machine, INTERLEAVED).success();
    let mut made = Vec::new();
    for words in ["-m fsdax -s 64M -n one", "-m devdax -s 64M", "-m sector -s 64M -l 4096", "-m raw -s 64M"] {
        let one = machine.ndctl(&format!("create-namespace -r region0 {words}")).success();
        made.push(serde_json::from_str::<Value>(&one).unwrap());
    }
    assert_eq!(values(&made, "mode"), ["fsdax", "devdax", "sector", "raw"]);
    assert_eq!(made[0]["name"], "one");
    assert_eq!(made[1]["daxregion"]["devices"][0]["chardev"], "dax0.1");
    let before = list(&machine, "-N");
    assert_eq!(before.len(), 4);
    machine.ndctl("check-namespace -f namespace0.2").success();
    assert_eq!(list(&machine, "-R")[0]["available_size"], 256 * MIB);
    machine.start();
    assert!(list(&machine, "-N").is_empty(), "a start forgets the region");
    // The id of the set depends on each device's serial number and place.
    cxl(&machine, "create-region -t pmem -m -d decoder0.0 -s 512M mem1 mem3").success();
    assert!(list(&machine, "-N").is_empty());
    cxl(&machine, "destroy-region -f region0").success();
    cxl(&machine, INTERLEAVED).success();
    assert_eq!(list(&machine, "-N"), before);
    machine.ndctl("destroy-namespace -f all").success();
    assert!(list(&machine, "-N").is_empty());
    assert_eq!(list(&machine, "-R")[0]["available_size"], 512 * MIB);
}

/// Labels of a former region keep their memory, as in the kernel, until the labels are erased.
#[test]
fn labels_of_former_regions_keep_memory() {
    let machine = machine();
    cxl(&machine, INTERLEAVED).success();
    machine.ndctl("create-namespace -r region0 -m raw -s 128M").success();
    cxl(&machine, "destroy-region -f region0").success();
    cxl(&machine, "create-region -t pmem -m -d decoder0.1 -s 256M mem0").success();
    assert!(list(&machine, "-N").is_empty());
    assert_eq!(list(&machine, "-R")[0]["available_size"], 192 * MIB);
    machine.ndctl("create-namespace -r region1 -m raw -s 192M").success();
    machine.ndctl("zero-labels nmem0").failure(1, &["module mem0 is part of region1, which is in use"]);
    machine.ndctl("disable-region region1").success();
    machine.ndctl("zero-labels nmem0").success();
    machine.ndctl("enable-region region1").success();
    assert_eq!(list(&machine, "-R")[0]["available_size"], 256 * MIB);
}

#[test]
fn label_areas_are_those_of_cxl() {
    let machine = machine();
    machine.ndctl("check-labels nmem0").failure(1, &["the labels of module mem0"]);
    cxl(&machine, SINGLE).success();
    assert_eq!(list(&machine, "-N").len(), 0);
    machine.ndctl("create-namespace -r region1 -m raw -s 32M").success();
    assert_eq!(machine.ndctl("check-labels nmem1").success(), "successfully verified 1 nmem label\n");
    let labels = machine.ndctl("read-labels -j nmem1").success();
    assert!(
        labels.contains("NAMESPACE_INDEX")
            && labels.contains("\"major\":1")
            && labels.contains("\"minor\":2")
    );
    assert!(labels.contains("\"dpa\":536870912"), "{labels}");
    let (ndctl, of_cxl) = (machine.file("ndctl"), machine.file("cxl"));
    machine.ndctl(&format!("read-labels nmem1 -o {}", text(&ndctl))).success();
    cxl(&machine, &format!("read-labels mem1 -o {}", text(&of_cxl))).success();
    assert_eq!(fs::read(&ndctl).unwrap(), fs::read(&of_cxl).unwrap());
    assert_eq!(fs::read(&ndctl).unwrap().len(), 128 << 10);
    machine.ndctl("read-labels nmem1 -O 128K -s 1").failure(1, &["the label area of module mem1 has 131072"]);
    machine.ndctl("init-labels nmem1").failure(1, &["module mem1 is part of region1, which is in use"]);
    machine.ndctl("disable-dimm nmem1").failure(1, &["module mem1 is part of region1"]);
    machine.ndctl("disable-region region1").success();
    machine.ndctl("disable-dimm nmem1").success();
    machine
        .ndctl("enable-region region1")
        .failure(1, &["its module mem1 is disabled", "enable the module first"]);
    machine.ndctl("enable-dimm nmem1").success();
    machine.ndctl("init-labels nmem1").failure(1, &["module mem1 has labels already"]);
    machine.ndctl("init-labels -f nmem1").success();
    machine.ndctl("enable-region region1").success();
    assert!(list(&machine, "-N").is_empty());
    // Written by cxl, the labels are those of the namespace again.
    let write = format!("write-labels mem1 -i {}", text(&of_cxl));
    cxl(&machine, "disable-region region1").success();
    cxl(&machine, &write).failure(1, &["mem1: has active nvdimm bridge", "disable the device first"]);
    cxl(&machine, "disable-memdev -f mem1").success();
    cxl(&machine, &write).success();
    machine.start();
    cxl(&machine, SINGLE).success();
    assert_eq!(list(&machine, "-N").len(), 1);
    machine.ndctl("read-labels nmem9").failure(1, &["there is no module nmem9"]);
}

/// A device whose label area can't be read keeps its region disabled. The file stays as it is.
#[test]
fn damaged_label_area_disables_region() {
    let machine = machine();
    cxl(&machine, INTERLEAVED).success();
    machine.ndctl("create-namespace -r region0 -m raw -s 32M").success();
    let file = machine.state.join("cxl/mem2.labels");
    let valid = fs::read_to_string(&file).unwrap();
    fs::write(&file, "zz").unwrap();
    assert!(list(&machine, "-R").is_empty());
    assert_eq!(list(&machine, "-Ri")[0]["state"], "disabled");
    assert!(list(&machine, "-Di").iter().any(|one| one["dev"] == "nmem2" && one["state"] == "disabled"));
    machine.ndctl("create-namespace -r region0").failure(1, &["region0 is disabled"]);
    machine.ndctl("enable-region region0").failure(1, &["region0"]);
    machine.ndctl("check-labels nmem2").failure(1, &["mem2"]);
    machine.ndctl("read-labels nmem2").failure(1, &["mem2.labels", "other than hexadecimal digits"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "zz");
    machine.ndctl("enable-dimm nmem2").failure(1, &["the label area of module mem2 can't be read"]);
    // Nor does a byte that is no text stop the other devices.
    fs::write(&file, [0xff]).unwrap();
    assert_eq!(list(&machine, "-Ri")[0]["state"], "disabled");
    machine.ndctl("read-labels nmem2").failure(1, &["mem2.labels", "other than hexadecimal digits"]);
    fs::write(&file, valid).unwrap();
    assert_eq!(list(&machine, "-N").len(), 1);
}

/// The kernel takes a region away with its namespaces, even if they are in use. Memory that is online stops it.
#[test]
fn regions_in_use_are_taken_away() {
    let machine = machine();
    cxl(&machine, INTERLEAVED).success();
    machine.ndctl("create-namespace -r region0 -m devdax -s 256M").success();
    machine.ndctl("disable-namespace namespace0.0").success();
    assert!(list(&machine, "-N").is_empty());
    assert_eq!(list(&machine, "-Ni")[1]["state"], "disabled");
    cxl(&machine, "disable-region region0").success();
    assert!(list(&machine, "-Ri").is_empty() && list(&machine, "-Ni").is_empty());
    cxl(&machine, "enable-region region0").success();
    assert_eq!(list(&machine, "-N").len(), 1, "a region that comes back finds its namespaces enabled");
    machine.daxctl("reconfigure-device -m system-ram dax0.0").success();
    for words in ["disable-region region0", "destroy-region -f region0", "disable-memdev -f mem2"] {
        cxl(&machine, words).failure(1, &["dax0.0 is busy: the kernel uses its memory"]);
    }
    machine.daxctl("reconfigure-device -f -m devdax dax0.0").success();
    machine.ndctl("destroy-namespace namespace0.0").failure(1, &["namespace0.0 is in use"]);
    cxl(&machine, "disable-memdev -f mem2").success();
    assert!(list(&machine, "-Ri").is_empty() && list(&machine, "-Di").len() == 3);
    machine.ndctl("read-labels nmem2").failure(1, &["there is no module nmem2"]);
    cxl(&machine, "destroy-region region0").failure(1, &["a device of it was disabled"]);
    machine.start();
    cxl(&machine, INTERLEAVED).success();
    assert_eq!(list(&machine, "-N").len(), 1, "the labels are on the devices");
}

#[test]
fn namespaces_of_cxl_are_refused() {
    let machine = machine();
    cxl(&machine, INTERLEAVED).success();
    machine.ndctl("create-namespace -r region0 -m raw -s 32M").success();
    let before = fs::read(machine.state.join("state.toml")).unwrap();
    let labels = fs::read(machine.state.join("cxl/mem0.labels")).unwrap();
    for (words, told) in [
        ("create-namespace -r region0 -s 1G", "1073741824 bytes are not free in region0"),
        ("create-namespace -r region0 -s 33554433", "33554433 bytes over 2 modules"),
        ("create-namespace -r region1", "there is no region1"),
        ("inject-error -B 0 -n 1 namespace0.0", "region0 is CXL memory: the bus CXL takes no command"),
        ("clear-errors namespace0.0", "region0 is CXL memory"),
        ("freeze-security nmem0", "nmem0 is the CXL device mem0"),
        ("update-firmware -D nmem0", "nmem0 is the CXL device mem0"),
    ] {
        machine.ndctl(words).failure(1, &[told]);
    }
    let location = machine.location();
    let export = lode(
        ["platform", "image", "export", "region0", text(&machine.file("image"))].into_iter().chain(location),
    );
    export.failure(1, &["region0 is CXL memory", "ACPI.NFIT"]);
    assert_eq!(fs::read(machine.state.join("state.toml")).unwrap(), before);
    assert_eq!(fs::read(machine.state.join("cxl/mem0.labels")).unwrap(), labels);
}

/// The picture has the region on the socket of its first host bridge.
#[test]
fn picture_has_cxl_regions() {
    let machine = machine();
    cxl(&machine, "create-region -t pmem -m -d decoder0.0 -s 512M mem0 mem2").success();
    machine.ndctl("create-namespace -r region0 -m fsdax -s 128M -n logs").success();
    let shown = lode(["platform", "show"].into_iter().chain(machine.location())).success();
    assert!(
        shown.contains("region0") && shown.contains("namespace0.0") && shown.contains("pmem0"),
        "{shown}"
    );
}

/// An edited state is refused.
#[test]
fn edited_states_are_refused() {
    let machine = machine();
    cxl(&machine, INTERLEAVED).success();
    machine.ndctl("create-namespace -r region0 -m devdax -s 256M").success();
    machine.daxctl("reconfigure-device -m system-ram dax0.0").success();
    let state = machine.state.join("state.toml");
    let valid = fs::read_to_string(&state).unwrap();
    for (from, to, told) in [
        ("[[dax_device]]\n", "[[dax_device]]\nalign = 4096\n", "a namespace has the range and the alignment"),
        ("boots = 1\n", "boots = 1\ndisabled_modules = [268435460]\n", "mem4"),
    ] {
        let edited = valid.replacen(from, to, 1);
        assert_ne!(edited, valid, "{from}");
        fs::write(&state, edited).unwrap();
        machine.ndctl("list").failure(1, &["state.toml", told]);
    }
    fs::write(&state, &valid).unwrap();
    machine.ndctl("list").success();
}

/// Numbers above the largest handle stand for CXL devices, and no word of a user may mean one of these.
#[test]
fn large_handles_are_refused() {
    let machine = machine();
    let file = machine.file("image");
    fs::write(&file, vec![0; 16 << 20]).unwrap();
    let largest = "the largest one is 0xfffffff";
    let on = |command: &[&str], words: &str| {
        lode(command.iter().copied().chain(machine.location()).chain(words.split(' ')))
    };
    for word in ["0x10000000", "0x100000001"] {
        let export = format!("{word} {} --for virtio-pmem", text(&file));
        let import = format!("{} --into {word}", text(&file));
        for (result, code, why) in [
            (on(&["platform", "evacuate"], word), 2, largest),
            (on(&["platform", "replace"], word), 2, largest),
            (on(&["platform", "image", "export"], &export), 1, largest),
            (on(&["platform", "image", "import"], &import), 1, largest),
        ] {
            assert!(!result.err.contains(" mem"), "{word}: {result:?}");
            result.failure(code, &[why]);
        }
    }
    let sensor = "set -sensor MediaTemperature -dimm 0x10000000 AlarmEnabled=0";
    for (tool, words, code, why) in [
        ("ipmctl", "show -dimm 0x10000000", 2, largest),
        ("ipmctl", "show -topology -dimm 268435456", 2, largest),
        ("ipmctl", "create -f -goal -dimm 268435456", 1, "there is no module 268435456"),
        ("ipmctl", sensor, 1, "there is no module 0x10000000"),
        ("ndctl", "enable-dimm 0x10000000", 1, "there is no module nmem268435456"),
    ] {
        let result = on(&[tool], words);
        assert!(!result.err.contains(" mem"), "{words}: {result:?}");
        result.failure(code, &[why]);
    }
    assert_eq!(machine.ndctl("list -D -d 0x10000000").success(), "");
}
