//! The commands of daxctl for character devices, with its options and messages.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::emulated::Emulated;
use crate::program::text;
use lode_platform::machine::Machine;
use std::fs;

/// Returns a machine with a devdax namespace, region 0, and memory that firmware reserves, region 1.
fn reserved_and_devdax() -> Emulated {
    let included = Machine::included("lab-pair").unwrap();
    let reserved = "\n[[soft_reserved]]\nstart = \"64GiB\"\nsize = \"1GiB\"\n";
    let machine = Emulated::of_text(&format!("{included}{reserved}")).interleaved();
    machine.ndctl("create-namespace -m devdax -s 512M").success();
    machine
}

#[test]
fn modes_change_and_memory_is_taken_online() {
    let machine = reserved_and_devdax();
    let made = machine.daxctl("reconfigure-device -m system-ram -N -u dax0.0").success();
    assert!(
        made.starts_with("{\n  \"chardev\":\"dax0.0\",\n  \"size\":\"") && made.ends_with("}\n"),
        "{made}"
    );
    assert!(made.contains("\"online_memblocks\":0,\n  \"total_memblocks\":3\n"), "{made}");
    let onlined = machine.daxctl("online-memory --no-movable 0.0").success();
    assert_eq!(onlined, "dax0.0: 3 memory sections onlined\nonlined memory for 1 device\n");
    let again = machine.daxctl("online-memory all -r 0");
    assert_eq!(again.out, "dax0.0: all memory sections already online\nonlined memory for 0 devices\n");
    assert_eq!(again.code, Some(1), "as of daxctl 76.1");
    let again = machine.daxctl("reconfigure-device --mode=system-ram dax0.0").success();
    let notes =
        "dax0.0 was already in system-ram mode\ndax0.0: all memory sections (3) already online\n[\n  {\n";
    assert!(again.starts_with(notes) && again.contains("\"movable\":false"), "{again}");
    let busy = machine.daxctl("reconfigure-device -m devdax dax0.0");
    busy.failure(1, &["dax0.0 is busy: 3 of its memory blocks are online", "offline-memory dax0.0"]);
    let refused = machine.daxctl("disable-device dax0.0");
    assert_eq!(refused.out, "disabled 0 devices\n");
    refused.failure(1, &["only applicable in devdax mode", "reconfigure-device -m devdax dax0.0"]);
    for words in
        ["destroy-namespace -f namespace0.0", "create-namespace -e namespace0.0 -f", "disable-region region0"]
    {
        let refused = machine.run("ndctl", words);
        refused.failure(1, &["dax0.0 is busy: the kernel uses its memory", "offline-memory dax0.0"]);
    }
    machine.check_fields("daxctl", "online-memory", "all");
    let offlined = machine.daxctl("offline-memory all").success();
    let skipped = "dax1.0: memory operations are not applicable in devdax mode; reconfigure it to system-ram first, \
                   skipping...\ndax0.0: 3 memory sections offlined\nofflined memory for 1 device\n";
    assert_eq!(offlined, skipped);
    machine.check_fields("daxctl", "offline-memory", "all");
    machine.daxctl("reconfigure-device -m devdax dax0.0").success();
    machine
        .daxctl("offline-memory dax0.0")
        .failure(1, &["dax0.0: memory operations", "-m system-ram dax0.0"]);
    machine.daxctl("reconfigure-device -m system-ram dax0.0").success();
    machine.check_fields("daxctl", "reconfigure-device", "-m devdax -f all");
    assert!(machine.daxctl("list -d dax0.0").success().contains("\"mode\":\"devdax\"\n"));
}

#[test]
fn arguments_of_reconfigure_device_are_checked() {
    let machine = reserved_and_devdax();
    for (words, told) in [
        ("-C dax0.0", "/etc/daxctl.conf.d"),
        ("-m devdax -N dax0.0", "--no-online is incompatible with --mode=devdax"),
        ("dax0.0", "a mode, a size or an alignment is required"),
        ("-m devdax -s 1G dax0.0", "cannot be used with"),
        ("-m devdax", "DEVICE"),
        ("-m devdax pmem0", "pmem0 is not the name of a device"),
        ("-m devdax -r x dax0.0", "x is not the number of a region"),
    ] {
        machine.daxctl(&format!("reconfigure-device {words}")).failure(2, &[told]);
    }
    machine.daxctl("reconfigure-device -m devdax dax9.0").failure(1, &["no device dax9.0", "list -i"]);
    machine.daxctl("reconfigure-device -m devdax -r 1 dax0.0").failure(1, &["the selection has no device"]);
    machine.daxctl("reconfigure-device -s 0 dax0.0").failure(1, &["size and the alignment of its namespace"]);
    machine
        .daxctl("reconfigure-device -s 0 dax1.0")
        .failure(1, &["dax1.0 is active", "disable-device dax1.0"]);
}

#[test]
fn reserved_memory_is_divided() {
    let machine = reserved_and_devdax();
    machine.daxctl("create-device").failure(1, &["are not free in region 1: it has 0"]);
    assert_eq!(machine.daxctl("disable-device 1.0").success(), "disabled 1 device\n");
    let resized = machine.daxctl("reconfigure-device -s 256M -a 4K dax1.0").success();
    assert_eq!(resized, "reconfigured 1 device\n");
    assert_eq!(machine.daxctl("enable-device all -r 1").success(), "enabled 1 device\n");
    let made = machine.daxctl("create-device -s 256M -a 2M -r 1").success();
    assert!(made.starts_with("[\n  {\n    \"chardev\":\"dax1.1\",\n    \"size\":268435456,"), "{made}");
    machine.check_fields("daxctl", "create-device", "-s 128M");
    machine.daxctl("create-device -r 0").failure(1, &["region 0 is of namespaces", "create-namespace"]);
    machine.daxctl("create-device -r 5").failure(1, &["no region 5", "list -R"]);
    machine.check_fields("daxctl", "disable-device", "dax1.1");
    machine.check_fields("daxctl", "enable-device", "dax1.1");
    machine.daxctl("destroy-device dax1.1").failure(1, &["dax1.1 is active", "disable-device dax1.1"]);
    let destroyed = machine.daxctl("destroy-device -f -r 1 all").success();
    let first = "dax1.0 is empty now, and stays: the kernel keeps the first device of each region; give it a size, \
                 skipping...\ndestroyed 2 devices\n";
    assert_eq!(destroyed, first);
    let alone = machine.daxctl("destroy-device dax1.0");
    assert_eq!(alone.out, "destroyed 0 devices\n");
    alone.failure(1, &["dax1.0 is empty now", "reconfigure-device -s SIZE dax1.0"]);
    machine.daxctl("enable-device dax1.0").failure(1, &["its size is 0"]);
    machine.daxctl("create-device -s 1G").success();
    machine.check_fields("daxctl", "destroy-device", "-f dax1.1");
    let none = reserved_and_devdax();
    none.start();
    assert!(none.daxctl("list -r 1 -D").success().contains("\"size\":1073741824"));
}

/// A device that a start has taken away is created again from its listing, at its addresses.
#[test]
fn listed_devices_are_created_again() {
    let machine = reserved_and_devdax();
    machine.daxctl("disable-device dax1.0").success();
    machine.daxctl("reconfigure-device -s 256M dax1.0").success();
    for _ in 0..2 {
        machine.daxctl("create-device -s 128M -a 4K").success();
    }
    machine.daxctl("destroy-device -f dax1.1").success();
    machine.daxctl("create-device -s 256M").success();
    let listed = machine.daxctl("list -M -d dax1.1").success();
    assert_eq!(listed.matches("page_offset").count(), 2, "{listed}");
    let file = machine.file("device.json");
    let again = |content: &str| {
        fs::write(&file, content).unwrap();
        machine.daxctl(&format!("create-device --input {}", text(&file)))
    };
    let device = listed.trim().trim_start_matches('[').trim_end_matches(']');
    again(device).failure(1, &["the addresses 0x1010000000 to 0x1018000000 are not free in region 1"]);
    again(&listed).failure(1, &["device.json", "without the brackets of a list"]);
    again(&device.replace("dax1.1", "pmem1")).failure(1, &["its chardev is not the name of a device"]);
    again(&device.replace("dax1.1", "dax0.1")).failure(1, &["region 0 is of namespaces"]);
    let last = device.rfind("\"end\":").unwrap();
    let longer = format!("{}\"end\":1{}", &device[..last], &device[last + 6..]);
    again(&longer).failure(1, &["its mappings don't have its size"]);
    machine.daxctl("create-device --input x -s 1G").failure(2, &["cannot be used with"]);
    machine.daxctl("destroy-device -f dax1.1").success();
    again(&device.replace("2097152", "1073741824")).failure(1, &["it is a multiple of 1073741824 bytes"]);
    again(device).success();
    assert_eq!(machine.daxctl("list -M -d dax1.1").success(), listed);
}

/// `-r` alone lists regions, `-d` alone devices, and both both, as in daxctl.
#[test]
fn list_takes_filters() {
    let machine = reserved_and_devdax();
    let regions = machine.daxctl("list -r 1").success();
    assert!(regions.contains("\"id\":1") && !regions.contains("chardev"), "{regions}");
    assert!(!regions.contains("\"id\":0"), "{regions}");
    assert_eq!(machine.daxctl("list -r all").success().matches("\"id\":").count(), 2);
    let device = machine.daxctl("list -u -d 1.0").success();
    assert!(
        device.starts_with("{\n  \"chardev\":\"dax1.0\",\n  \"size\":\"1024.00 MiB (1073.74 MB)\""),
        "{device}"
    );
    let both = machine.daxctl("list -r 1 -d dax1.0 -M").success();
    assert!(both.contains("\"devices\":[") && both.contains("\"page_offset\":0"), "{both}");
    assert_eq!(machine.daxctl("list -d all").success().matches("chardev").count(), 2);
    let users = machine.daxctl("list -Mu -d dax1.0").success();
    assert!(users.contains("\"page_offset\":\"0\",\n      \"start\":\"0x1000000000\""), "{users}");
    assert_eq!(machine.daxctl("list -d 1.7").success(), "");
    machine.daxctl("list -d seven").failure(2, &["seven is not the name of a device"]);
    machine.daxctl("list -r seven").failure(2, &["seven is not the number of a region"]);
}
