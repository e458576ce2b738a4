//! `lode platform where`: from an address, a sector or a byte of a file to module, namespace, object and process.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::emulated::Emulated;
use crate::program::{documented_fields, json_fields, lode, text};
use crate::sysfs_captures::unpack_capture;
use crate::typed_pools_are_printed::make_shop;
use lode_pmem::{FilePlace, Sysfs};
use lodestone::{Durability, Store, TreeDef};
use rustix::fs::{fstat, major, minor};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Returns the places that `lode platform where` prints.
pub(crate) fn places(location: [&str; 2], place: &str) -> Vec<Value> {
    let words = ["platform", "where"].into_iter().chain(location).chain([place, "--json"]);
    let output: Value = serde_json::from_str(&lode(words).success()).unwrap();
    assert_eq!(json_fields(std::slice::from_ref(&output)), documented_fields(&["platform", "where"]));
    output["places"].as_array().unwrap().clone()
}

pub(crate) fn place(location: [&str; 2], place: &str) -> Value {
    let [found] = places(location, place).try_into().unwrap();
    found
}

/// Six modules in two interleave sets, with a namespace on the first.
fn emulated() -> Emulated {
    let machine = Emulated::included("e4-pmserver").interleaved();
    machine.run("ndctl", "create-namespace -r region0 -m fsdax -s 6G").success();
    machine
}

#[test]
fn sectors_and_addresses_lead_to_each_other() {
    let machine = emulated();
    let mut modules = BTreeSet::new();
    // The data begins after the page map, in the middle of a rotation of six lines of 4096 bytes.
    for sector in (0..64).step_by(4) {
        let found = place(machine.location(), &format!("pmem0:{sector}"));
        let namespace = json!({
            "name": "namespace0.0", "mode": "fsdax", "device": "pmem0", "part": "data",
            "offset": sector * 512, "sector": sector,
        });
        assert_eq!(found["namespace"], namespace);
        let address = found["address"].as_u64().unwrap();
        assert_eq!(place(machine.location(), &format!("{address:#x}")), found);
        assert_eq!(place(machine.location(), &format!("namespace0.0:{sector:#x}")), found);
        assert_eq!(found["modules"].as_array().unwrap().len(), 1);
        modules.insert(found["modules"][0]["name"].as_str().unwrap().to_owned());
    }
    assert_eq!(modules.len(), 6, "{modules:?}");
    let first = place(machine.location(), "pmem0:0")["address"].as_u64().unwrap();
    let before = place(machine.location(), &(first - 1).to_string());
    assert_eq!(before["namespace"]["part"], "metadata");
    let after = place(machine.location(), &(first + (20 << 30)).to_string());
    assert_eq!((&after["namespace"], &after["region"]["name"]), (&Value::Null, &json!("region0")));
}

/// The module is the one on which an injected error lies, as `ndctl list` shows it.
#[test]
fn bad_blocks_are_on_the_modules_that_ndctl_names() {
    let machine = emulated();
    for sector in [0, 9, 17, 40] {
        machine.run("ndctl", &format!("inject-error namespace0.0 -B {sector} -n 1")).success();
    }
    let listed: Value =
        serde_json::from_str(&machine.run("ndctl", "list -M -R -r region0").success()).unwrap();
    let listed = &listed[0]["badblocks"];
    let found = places(machine.location(), "pmem0");
    assert_eq!(found.len(), 4);
    for (index, place) in found.iter().enumerate() {
        let region_sector = place["region"]["offset"].as_u64().unwrap() / 512;
        assert_eq!(listed[index]["offset"], region_sector);
        assert_eq!(listed[index]["dimms"], json!([place["modules"][0]["name"]]));
        assert!(place["modules"][0]["slot"].as_str().unwrap().starts_with("CPU"), "{place}");
    }
    let sectors = |place: &Value| (place["sectors"]["first"].clone(), place["sectors"]["count"].clone());
    assert_eq!(found.iter().map(sectors).collect::<Vec<_>>(), [0, 9, 17, 40].map(|at| (json!(at), json!(1))));
    // A range of eight lines lies on all six modules.
    machine.run("ndctl", "inject-error namespace0.0 -B 128 -n 64").success();
    let wide = places(machine.location(), "pmem0").pop().unwrap();
    let modules: BTreeSet<&str> =
        wide["modules"].as_array().unwrap().iter().map(|module| module["name"].as_str().unwrap()).collect();
    assert_eq!(modules.len(), 6, "{wide}");
    machine.run("ndctl", "clear-errors namespace0.0").success();
    assert_eq!(places(machine.location(), "namespace0.0"), Vec::<Value>::new());
}

#[test]
fn places_that_are_none_are_refused() {
    let machine = emulated();
    machine.run("ndctl", "create-namespace -r region1 -m sector -s 6G").success();
    let place =
        |place: &str| lode(["platform", "where"].into_iter().chain(machine.location()).chain([place]));
    place("0x1000").failure(1, &["0x1000 is in no region of persistent memory; there are 0x"]);
    place("pmem7:1").failure(1, &["pmem7 is no device of a namespace; there are pmem0, pmem1s"]);
    place("pmem0:99999999999").failure(1, &["there is no sector 99999999999"]);
    place("pmem1s:0").failure(1, &["pmem1s is in mode sector", "namespace1.0 is at 0x"]);
    // Bad blocks of a sector namespace are known by their sectors in it alone.
    machine.run("ndctl", "inject-error namespace1.0 -B 4096 -n 2").success();
    let moved = crate::bytes_are_located::place(machine.location(), "pmem1s");
    assert_eq!((&moved["sectors"], &moved["address"]), (&json!({ "first": 4096, "count": 2 }), &Value::Null));
    assert!(moved["notes"][0].as_str().unwrap().contains("its BTT moves blocks"), "{moved}");
    place("/mnt/pool:0").failure(1, &["an emulated machine has no files"]);
    place("pmem0:18446744073709551615").failure(1, &["there is no sector"]);
    place("pool").failure(2, &["give an address as 0x1c0000000"]);
}

const STONES: TreeDef<'_, String, String> = TreeDef::new("stones");
const ORES: TreeDef<'_, String, String> = TreeDef::new("ores");

fn objects(pool: &Path) -> Vec<(u64, String)> {
    let dump = lode(["pool", "dump", text(pool), "--json"]).success();
    let lines = dump.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let objects = lines.filter(|line| line["structure"] == "object");
    objects.map(|line| (line["at"].as_u64().unwrap(), line["holds"].as_str().unwrap().to_owned())).collect()
}

/// Returns the only object that holds this byte of the file.
fn object(pool: &Path, at: u64) -> Value {
    let found = place(["--sysfs", "/sys"], &format!("{}:{at}", text(pool)));
    let [part] =
        <[Value; 1]>::try_from(found["files"][0]["pool"]["parts"].as_array().unwrap().clone()).unwrap();
    part
}

#[test]
fn objects_have_their_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stones.store");
    let store = Store::options().durability(Durability::None).open(&path).unwrap();
    store
        .write(|tx| {
            tx.tree(STONES)?.put("basalt", "black")?;
            tx.tree(STONES)?.put("marble", "white")?;
            tx.tree(ORES)?.put("basalt", "none")
        })
        .unwrap();
    // While a process writes, the objects are its own, and the process is named.
    let at = lode_layout::CHECKPOINT_SLOTS_OFF.get();
    let found = place(["--sysfs", "/sys"], &format!("{}:{at}", text(&path)));
    assert!(found["files"][0]["pool"]["note"].as_str().unwrap().contains("can't be read"), "{found}");
    let processes = found["files"][0]["processes"].as_array().unwrap();
    assert!(processes.iter().any(|process| process["pid"] == std::process::id()), "{found}");
    store.close().unwrap();
    let mut keys = BTreeSet::new();
    for (at, kind) in objects(&path) {
        let part = object(&path, at + 1);
        assert_eq!((&part["at"], &part["type"]), (&json!(at), &json!(kind)));
        assert!(part["tree"].is_string(), "{part}");
        if let Some(key) = part["key"].as_str() {
            keys.insert((part["tree"].as_str().unwrap().to_owned(), key.to_owned()));
        }
    }
    for (tree, key) in [("stones", "basalt"), ("stones", "marble"), ("ores", "basalt")] {
        assert!(keys.iter().any(|(of, found)| of == tree && found.contains(key)), "{tree}: {keys:?}");
    }
    assert_eq!(object(&path, 0)["kind"], "header");
}

#[test]
fn objects_of_typed_data_have_their_ways() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.pool");
    make_shop(&path);
    let parts: Vec<Value> = objects(&path).into_iter().map(|(at, _)| object(&path, at)).collect();
    let ways: BTreeSet<&str> = parts.iter().filter_map(|part| part["path"].as_str()).collect();
    for way in ["first", "years", "stock"] {
        assert!(ways.iter().any(|found| found.contains(way)), "{way}: {ways:?}");
    }
}

/// Returns the sysfs of a kernel in which the device of this file is a namespace, and the folder of its region.
pub(crate) fn on_namespace(file: &Path) -> (TempDir, PathBuf) {
    let sysfs = unpack_capture("6.12", true);
    let root = sysfs.path();
    let region = root.join("devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus0/region0");
    // The namespace is as large as any disk.
    for file in ["size", "namespace0.0/size", "pfn0.0/size"] {
        fs::write(region.join(file), format!("{}\n", 1u64 << 60)).unwrap();
    }
    let status = fstat(File::open(file).unwrap()).unwrap();
    let numbers = root.join("dev/block");
    fs::create_dir_all(&numbers).unwrap();
    let number = format!("{}:{}", major(status.st_dev), minor(status.st_dev));
    symlink(region.join("pfn0.0/block/pmem0"), numbers.join(number)).unwrap();
    (sysfs, region)
}

#[test]
fn files_lead_to_modules() {
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("pool");
    lode(["pool", "create", text(&pool), "--durability", "none"]).success();
    lode(["kv", "put", text(&pool), "stone", "lodestone"]).success();
    let (sysfs, region) = on_namespace(&pool);
    let root = sysfs.path();
    let file_place = FilePlace::of(&File::open(&pool).unwrap(), &Sysfs::at(root));
    let Some(on_device) = file_place.ok().flatten().and_then(|place| place.device_off(0x1000)) else {
        lode_testing::skip(
            "files_lead_to_modules",
            "needs a temporary folder whose file system tells extents",
        );
        return;
    };
    let found = place(["--sysfs", text(root)], &format!("{}:0x1000", text(&pool)));
    let number = |path: &str| {
        let text = fs::read_to_string(region.join(path)).unwrap();
        u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).unwrap()
    };
    let address = number("pfn0.0/resource") + on_device;
    assert_eq!(found["address"], address);
    assert_eq!(found["namespace"]["sector"], on_device / 512);
    // nmem2 is the region's only module, and its part begins at 0.
    assert_eq!(found["modules"][0]["name"], "nmem2");
    assert_eq!(found["modules"][0]["offset"], address - number("resource"));
    assert_eq!(found["files"][0]["pool"]["layout"], "kv");
    // A user who is not root sees no addresses.
    fs::remove_file(region.join("pfn0.0/resource")).unwrap();
    let found = place(["--sysfs", text(root)], &format!("{}:0x1000", text(&pool)));
    assert_eq!(found["address"], Value::Null);
    assert_eq!(found["notes"], json!(["only root may read the addresses of regions"]));
}
