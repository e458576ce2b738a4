//! The commands of cxl for regions, devices, ports and labels, with its options, messages and exit codes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::cxl_listings_match_cxl::MACHINE;
use crate::emulated::Emulated;
use crate::program::{lode, lode_with_stdin, text};
use serde_json::Value;
use std::fs;

fn machine() -> Emulated {
    Emulated::of_text(MACHINE)
}

fn cxl(machine: &Emulated, words: &str) -> crate::program::RunResult {
    machine.run("cxl", words)
}

/// Returns the objects of a listing.
fn list(machine: &Emulated, words: &str) -> Vec<Value> {
    let listed = cxl(machine, &format!("list {words}")).success();
    serde_json::from_str::<Value>(&listed).unwrap().as_array().unwrap().clone()
}

#[test]
fn regions_are_created_and_destroyed() {
    let machine = machine();
    let made = cxl(&machine, "create-region -m -d decoder0.0 -w 4 mem0 mem2 mem1 mem3").success();
    assert!(made.starts_with("{\n  \"region\":\"region0\",\n  \"resource\":"), "{made}");
    assert!(
        made.ends_with("}\ncreated 1 region\n") && made.contains("\"decode_state\":\"commit\""),
        "{made}"
    );
    assert!(list(&machine, "-R")[0]["size"] == 4_u64 << 30);
    cxl(&machine, "create-region -d decoder0.0")
        .failure(1, &["set_dpa_size failed: No space left on device"]);
    let active = cxl(&machine, "destroy-region region0");
    assert_eq!(active.out, "destroyed 0 regions\n");
    active.failure(1, &["region0 active. Disable it or use --force", "lode cxl disable-region region0"]);
    assert_eq!(cxl(&machine, "disable-region region0").success(), "disabled 1 region\n");
    assert!(list(&machine, "-R").is_empty());
    assert_eq!(list(&machine, "-Ri")[0]["state"], "disabled");
    assert_eq!(cxl(&machine, "enable-region 0").success(), "enabled 1 region\n");
    assert_eq!(cxl(&machine, "destroy-region -f all").success(), "destroyed 1 region\n");
    let none = cxl(&machine, "destroy-region region0").success();
    assert!(none.ends_with("destroyed 0 regions\n") && none.contains("no region matches region0"), "{none}");
    let uuid = "-U 9d1a1f8e-6a63-4c3f-8d51-2f3f5a0d7c11";
    let all = cxl(&machine, &format!("create-region -m -d 0.1 -s 0 {uuid} mem0")).success();
    assert!(all.contains("\"size\":1073741824"), "{all}");
    // The root decoder of a window over one bridge has the least granularity.
    assert!(all.contains("\"interleave_granularity\":256"), "{all}");
    let state = fs::read_to_string(machine.state.join("state.toml")).unwrap();
    assert!(state.contains("uuid = \"9d1a1f8e-6a63-4c3f-8d51-2f3f5a0d7c11\""), "{state}");
    cxl(&machine, &format!("create-region -m -d 0.1 -s 256M {uuid} mem1"))
        .failure(1, &["set_uuid failed: Device or resource busy"]);
    cxl(&machine, "create-region -m -d 0.1 -U 00000000-0000-0000-0000-000000000000 mem1")
        .failure(1, &["set_uuid failed: Invalid argument"]);
    cxl(&machine, "destroy-region -f all").success();
    let human = cxl(&machine, "create-region -u -m -d 0.1 -s 256M mem0").success();
    assert!(human.contains("\"size\":\"256.00 MiB (268.44 MB)\""), "{human}");
    machine.start();
    assert!(list(&machine, "-Ri").is_empty(), "a start forgets regions");
}

/// Each refusal has the words of cxl, and changes nothing.
#[test]
fn regions_are_refused() {
    let machine = machine();
    let before = fs::read(machine.state.join("state.toml")).unwrap();
    for (words, told) in [
        ("mem0 -m", "no root decoder specified"),
        ("-d decoder0.0 mem0", "must specify option for target object types (-m)"),
        ("-d decoder0.7 mem0 -m", "no active memdevs found: decoder: decoder0.7 filter: mem0"),
        ("-d decoder0.0 mem9 -m", "no active memdevs found: decoder: decoder0.0 filter: mem9"),
        ("-d decoder0.0 -w 5", "Interleave ways 5 is greater than number of memdevs found: 4"),
        ("-d decoder0.0 -m -w 1 mem0 mem2", "Interleave ways 1 is less than number of memdevs specified: 2"),
        ("-d decoder0.0 -w 0", "Invalid interleave ways: 0"),
        ("-d decoder0.0 -g -1", "Invalid interleave granularity: -1"),
        ("-d decoder0.0 -m -t ram mem0 mem2", "decoder0.0 is not volatile capable"),
        ("-d decoder0.1 -m -t ram mem1", "region type 'ram' not supported yet"),
        ("-d decoder0.0 -m -s 1073741825 mem0 mem2", "is not an integral multiple of interleave-ways (2)"),
        ("-d decoder0.0 -m -s 1G -g 512 mem0 mem2", "For an x2 root, only root decoder granularity (256)"),
        (
            "-d decoder0.0 -m -s 100G mem0 mem2",
            "decoder0.0: region size 0x1900000000 exceeds max available space",
        ),
        ("-d decoder0.0 -m -s 256M mem0 mem2", "region0: set_size failed: Invalid argument"),
        ("-d decoder0.1 -m -s 256M -g 300 mem0", "set_interleave_granularity failed: Invalid argument"),
        ("-d decoder0.1 -m -s 512M -g 16K mem0 mem1", "-g"),
        ("-d decoder0.0 -m -s 256M mem0", "region0: set_interleave_ways failed: Invalid argument"),
        (
            "-d decoder0.0 -m mem0 mem1",
            "region0: failed to set target1 to mem1: the device is below another host",
        ),
        ("-d decoder0.0 -m mem2 mem0", "region0: failed to set target0 to mem2"),
        ("-d decoder0.1 -m -s 4G mem0", "decoder4.0: set_dpa_size failed: No space left on device"),
    ] {
        let refused = cxl(&machine, &format!("create-region {words}"));
        assert!(refused.code != Some(0) && refused.err.contains(told), "{words}: {refused:?}");
    }
    assert_eq!(fs::read(machine.state.join("state.toml")).unwrap(), before);
}

/// The decoders of ports and devices are taken in order, and given up in the reverse one.
#[test]
fn decoders_have_an_order() {
    let machine = machine();
    cxl(&machine, "create-region -m -d decoder0.1 -s 512M mem0 mem1").success();
    cxl(&machine, "create-region -m -d decoder0.0 -s 512M mem0 mem2")
        .failure(1, &["region0: failed to set target1", "a region at higher addresses"]);
    cxl(&machine, "destroy-region -f all").success();
    for number in 0..2 {
        let made = cxl(&machine, "create-region -m -d decoder0.0 -s 512M mem0 mem2").success();
        // The window over one bridge keeps number 1 for its next region.
        assert!(made.contains(&format!("\"region\":\"region{}\"", 2 * number)), "{made}");
    }
    let order = cxl(&machine, "destroy-region -f region0");
    order.failure(
        1,
        &["region0: failed to reset decode: Device or resource busy", "destroy the last one first"],
    );
    assert!(list(&machine, "-R").len() == 2, "a refused force disables nothing");
    cxl(&machine, "create-region -m -d decoder0.1 -s 256M mem1").success();
    cxl(&machine, "destroy-region -f region0").failure(1, &["Device or resource busy"]);
    // Region 1 is the last one that was made.
    assert_eq!(cxl(&machine, "destroy-region -f all").success(), "destroyed 3 regions\n");
    for _ in 0..2 {
        cxl(&machine, "create-region -m -d decoder0.0 -s 512M mem0 mem2").success();
    }
    cxl(&machine, "create-region -m -d decoder0.0 -s 512M mem0 mem2")
        .failure(1, &["could not get a free decoder for mem2", "list -Di -d endpoint"]);
    assert_eq!(cxl(&machine, "destroy-region -f all").success(), "destroyed 2 regions\n");

    let reserved = cxl(&machine, "reserve-dpa -s 256M mem1 mem2").success();
    assert!(reserved.ends_with("]\nreservation completed on 2 mem devices\n"), "{reserved}");
    assert!(reserved.contains("\"dpa_resource\":536870912,\n      \"dpa_size\":268435456"), "{reserved}");
    cxl(&machine, "reserve-dpa -t ram -s 256M mem1").failure(1, &["No space left on device"]);
    cxl(&machine, "reserve-dpa -s 2G mem2")
        .failure(1, &["mem2: 2147483648 exceeds available capacity 805306368"]);
    cxl(&machine, "reserve-dpa -d 0 mem2").failure(1, &["mem2: decoder6.0 is out of sequence"]);
    cxl(&machine, "reserve-dpa -d 1 -f -s 256M mem2").success();
    cxl(&machine, "reserve-dpa -d 0 -f -s 256M mem2")
        .failure(1, &["failed to set dpa allocation: Device or resource busy"]);
    // The last decoder takes other memory.
    let again = cxl(&machine, "reserve-dpa -d 1 -f -s 512M mem2").success();
    assert!(again.contains("\"dpa_size\":536870912"), "{again}");
    cxl(&machine, "free-dpa mem2").success();
    cxl(&machine, "reserve-dpa -d 9 mem2").failure(1, &["mem2: no match for decoder: '9'"]);
    cxl(&machine, "reserve-dpa -s 1M mem2").failure(1, &["Invalid argument", "256MiB"]);
    cxl(&machine, "reserve-dpa -d decoder6.1 mem2").success();
    cxl(&machine, "reserve-dpa mem2").failure(1, &["mem2: no available capacity"]);
    cxl(&machine, "free-dpa -d decoder6.0 mem2").failure(1, &["mem2: decoder6.0 is out of sequence"]);
    // The first decoder without a region is not the last one that holds memory.
    cxl(&machine, "create-region -m -d decoder0.0 -s 512M mem0 mem2")
        .failure(1, &["decoder6.0: set_dpa_size failed"]);
    cxl(&machine, "free-dpa -t ram mem2").failure(1, &["mem2: no suitable decoder found"]);
    cxl(&machine, "free-dpa -s 256M mem2").failure(2, &["unexpected argument '-s'"]);
    let freed = cxl(&machine, "free-dpa -t pmem mem2").success();
    assert!(freed.ends_with("reservation release completed on 1 mem device\n"), "{freed}");
    cxl(&machine, "create-region -m -d decoder0.0 -s 512M mem0 mem2").success();
    cxl(&machine, "free-dpa mem2").failure(1, &["mem2: no suitable decoder found"]);
    cxl(&machine, "reserve-dpa -t ram -s 256M mem3").success();
    cxl(&machine, "reserve-dpa -s 256M mem3").success();
    cxl(&machine, "free-dpa -t ram mem3").failure(1, &["mem3: decoder7.0", "Device or resource busy"]);
    cxl(&machine, "free-dpa mem3").success();
    cxl(&machine, "free-dpa mem3").success();
}

#[test]
fn devices_and_ports_are_disabled() {
    let machine = machine();
    cxl(&machine, "create-region -m -d decoder0.0 -s 512M mem0 mem2").success();
    let refused = cxl(&machine, "disable-memdev mem1");
    assert_eq!(refused.out, "disabled 0 mem\n");
    refused.failure(1, &["mem1 is part of an active region", "--force"]);
    assert_eq!(cxl(&machine, "disable-memdev -f -S 0xa1 0xa2").success(), "disabled 2 mems\n");
    assert_eq!(list(&machine, "-M").len(), 2);
    let region = &list(&machine, "-Ri")[0];
    assert_eq!((&region["decode_state"], &region["state"]), (&"reset".into(), &"disabled".into()));
    cxl(&machine, "enable-region region0")
        .failure(1, &["region0: failed: No such device or address", "a start forgets the region"]);
    cxl(&machine, "reserve-dpa mem0").failure(1, &["CXL operation disabled", "enable-memdev mem0"]);
    cxl(&machine, "destroy-region region0").failure(1, &["finds no decoder", "a start forgets the region"]);
    assert_eq!(cxl(&machine, "enable-memdev all").success(), "enabled 4 mems\n");
    let refused = cxl(&machine, "disable-port port2");
    refused.failure(1, &["port2 hosts 2 memdevs which are part of an active region", "list -M -p port2"]);
    assert_eq!(cxl(&machine, "disable-port -f port2").success(), "disabled 1 port\n");
    assert_eq!(list(&machine, "-Pi -p port2 -S")[0]["state"], "disabled");
    cxl(&machine, "enable-memdev mem2").failure(1, &["port2 above it is disabled", "enable-port port2"]);
    assert_eq!(cxl(&machine, "enable-port -m port2").success(), "enabled 1 port\n");
    assert_eq!(cxl(&machine, "disable-port -f -e endpoint6").success(), "disabled 1 port\n");
    for name in ["root0", "root"] {
        cxl(&machine, &format!("disable-port -f {name}")).failure(1, &[&format!("port: {name} not found")]);
    }
    assert_eq!(list(&machine, "-B").len(), 1);
    cxl(&machine, "disable-port port9").failure(1, &["port: port9 not found"]);
    let partly = cxl(&machine, "enable-memdev mem2 mem9 tape").success();
    assert!(
        partly.contains("'tape' is not a valid memdev name") && partly.contains("no memdev matches mem9")
    );
    cxl(&machine, "enable-memdev tape").failure(2, &["'tape' is not a valid memdev name"]);
    cxl(&machine, "disable-bus root0").failure(1, &["root0 hosts 4 memdevs"]);
    assert_eq!(cxl(&machine, "disable-bus -f root0").success(), "disabled 1 bus\n");
    assert!(list(&machine, "-BPED").is_empty());
    cxl(&machine, "enable-memdev mem0").failure(1, &["a start does, `lode platform reboot`"]);
    machine.start();
    assert_eq!(list(&machine, "-M").len(), 4);
}

#[test]
fn capacity_is_divided_at_next_start() {
    let machine = machine();
    cxl(&machine, "set-partition mem0").failure(1, &["mem0: no available capacity", "list -I -m mem0"]);
    cxl(&machine, "set-partition mem1 -s 300M")
        .failure(1, &["is not partition aligned 268435456", "--align"]);
    cxl(&machine, "set-partition mem1 -s 2G")
        .failure(1, &["mem1: 2147483648 exceeds available capacity 1610612736"]);
    let divided = cxl(&machine, "set-partition mem1 -a -s 300M").success();
    assert!(divided.contains("\"next_persistent_size\":536870912\n"), "{divided}");
    assert!(divided.ends_with("]\nset_partition 1 mem\n"), "{divided}");
    assert_eq!(list(&machine, "-m mem1")[0]["pmem_size"], 1 << 30);
    machine.start();
    assert_eq!(list(&machine, "-m mem1")[0]["pmem_size"], 512 << 20);
    cxl(&machine, "set-partition -t volatile mem1").success();
    machine.start();
    assert_eq!(list(&machine, "-m mem1")[0]["ram_size"], 1536 << 20);
    assert!(list(&machine, "-m mem1")[0]["pmem_size"].is_null());
}

#[test]
fn labels_of_devices_are_kept() {
    let machine = machine();
    let file = machine.file("labels");
    fs::write(&file, b"some labels").unwrap();
    let path = text(&file);
    let write = format!("write-labels mem0 -O 256 -i {path}");
    // libnvdimm has the labels of all enabled devices with persistent memory.
    let used = &["mem0: has active nvdimm bridge, abort label write", "lode cxl disable-memdev -f mem0"];
    cxl(&machine, &write).failure(1, used);
    cxl(&machine, "disable-memdev -f mem0").success();
    assert_eq!(cxl(&machine, &write).success(), "wrote 1 mem\n");
    machine.start();
    cxl(&machine, "zero-labels mem0").failure(1, used);
    cxl(&machine, "disable-memdev -f mem0").success();
    assert_eq!(cxl(&machine, "read-labels mem0 -s 11 -O 256").success(), "some labels");
    assert_eq!(cxl(&machine, &format!("read-labels mem0 mem1 -o {path}")).success(), "read 2 mems\n");
    assert_eq!(fs::read(&file).unwrap().len(), 256 << 10);
    cxl(&machine, &format!("write-labels mem0 -i {path}"))
        .failure(1, &["File size (262144) greater than label area"]);
    cxl(&machine, "read-labels mem0 -O 128K -s 1").failure(1, &["the label area has 131072 bytes"]);
    cxl(&machine, "write-labels all -i /dev/null").failure(2, &["only supports writing a single memdev"]);
    let zeros = format!("write-labels mem0 -i {}", "/dev/zero");
    cxl(&machine, &zeros).failure(1, &["greater than label area size (131072)"]);
    cxl(&machine, &format!("{zeros} -s 1M")).failure(1, &["1048576 from 0 on are not all in it"]);
    fs::write(&file, b"a backup").unwrap();
    let none = cxl(&machine, &format!("read-labels mem99 -o {path}")).success();
    assert!(none.contains("no memdev matches mem99") && none.ends_with("read 0 mem\n"), "{none}");
    assert_eq!(fs::read(&file).unwrap(), b"a backup");
    assert_eq!(cxl(&machine, "read-labels mem0 -O 131067").success(), "\0\0\0\0\0");
    cxl(&machine, "zero-labels mem0 -s 5 -O 256").success();
    assert_eq!(cxl(&machine, "read-labels mem0 -s 11 -O 256").success(), "\0\0\0\0\0labels");
    let words = ["cxl", "--state", text(&machine.state), "write-labels", "-S", "0xa1"];
    lode_with_stdin(words, b"piped").success();
    assert_eq!(cxl(&machine, "read-labels mem0 -s 5").success(), "piped");
    fs::write(machine.state.join("cxl/mem1.labels"), "zz").unwrap();
    let one = cxl(&machine, "read-labels mem0 mem1 mem99 -s 5");
    assert_eq!((one.code, one.out.as_str()), (Some(0), "piped"));
    assert!(one.err.contains("mem1.labels") && one.err.contains("no memdev matches mem99"), "{one:?}");
    cxl(&machine, "zero-labels mem0 -O 1").success();
    assert_eq!(cxl(&machine, "read-labels mem0 -s 5").success(), "p\0\0\0\0");
    cxl(&machine, "read-labels mem1").failure(1, &["mem1.labels", "other than hexadecimal digits"]);
}

/// From version 77 on, cxl makes regions of volatile memory. They have character devices.
#[test]
fn ram_regions_have_character_devices() {
    let newer = MACHINE.replace("ndctl = 76", "ndctl = 77").replace("kernel = \"6.1\"", "kernel = \"6.12\"");
    let machine = Emulated::of_text(&newer);
    cxl(&machine, "create-region -m -t ram -d decoder0.1 -U 9d1a1f8e-6a63-4c3f-8d51-2f3f5a0d7c11 mem1")
        .failure(1, &["can't set UUID for ram / volatile regions"]);
    let made = cxl(&machine, "create-region -m -t ram -d decoder0.1 mem1").success();
    assert!(made.contains("\"size\":536870912,\n  \"type\":\"ram\""), "{made}");
    let dax = machine.daxctl("list -RD").success();
    assert!(
        dax.contains("ACPI0017:00\\/root0\\/decoder0.1\\/region1\\/dax_region1") && dax.contains("dax1.0"),
        "{dax}"
    );
    machine.daxctl("online-memory all").success();
    for words in ["disable-region region1", "destroy-region -f region1", "disable-memdev -f mem1"] {
        cxl(&machine, words)
            .failure(1, &["dax1.0 is busy: the kernel uses its memory", "offline-memory dax1.0"]);
    }
    machine.daxctl("offline-memory all").success();
    machine.daxctl("reconfigure-device -m devdax dax1.0").success();
    cxl(&machine, "destroy-region -f region1").success();
    assert_eq!(machine.daxctl("list").success(), "");
}

/// An edited state is refused, or changed as a valid one, but never a crash.
#[test]
fn edited_states_are_refused() {
    let machine = machine();
    cxl(&machine, "create-region -m -d decoder0.0 -s 512M mem0 mem2").success();
    cxl(&machine, "reserve-dpa -s 256M mem1").success();
    cxl(&machine, "set-partition mem1 -s 512M").success();
    let state = machine.state.join("state.toml");
    let valid = fs::read_to_string(&state).unwrap();
    for (from, to, told) in [
        ("window = 0", "window = 2", "in a window that the machine lacks"),
        ("devices = [0, 2]", "devices = [0, 9]", "one that the machine lacks"),
        ("devices = [0, 2]", "devices = []", "a region has no device"),
        ("devices = [0, 2]", "devices = [2, 0]", "can't have these positions"),
        ("size = 536870912", "size = 536870913", "a size that its devices can't share"),
        ("granularity = 256", "granularity = 0", "a granularity that is no power of two"),
        ("device = 1\nkind", "device = 4\nkind", "an allocation is on a device that the machine lacks"),
        ("len = 268435456", "len = 0", "an allocation is empty"),
        ("len = 268435456", "len = 4096", "no multiple of 256MiB"),
        ("off = 536870912", "off = 268435456", "not in its device's memory of its kind"),
        ("\noff = 0\nsize", "\noff = 4096\nsize", "an offset that is no multiple of 256MiB"),
        ("granularity = 256", "granularity = 512", "or not that of its window"),
        ("devices = [0, 2]", "devices = [0]", "over which its window can't interleave"),
        ("[cxl]", "[cxl]\ndisabled_devices = [0]", "an allocation is on a disabled device"),
        ("\nvolatile = 536870912", "\nvolatile = 1", "or no multiple of its unit"),
        ("[[cxl.partition]]\ndevice = 1", "[[cxl.partition]]\ndevice = 3", "a device that can't be divided"),
        ("region = 0", "region = 5", "has not one allocation for it"),
        ("next_regions = [2, 1]", "next_regions = [2]", "next_regions has other than one number"),
        ("next_regions = [2, 1]", "", "next_regions has other than one number"),
        ("next_regions = [2, 1]", "next_regions = [1, 1]", "next_regions has a number twice"),
        ("next_regions = [2, 1]", "next_regions = [0, 1]", "or one that another region has"),
        ("committed = true", "committed = false", "a region is enabled, and decoders don't have it"),
        ("next_volatile = 1073741824", "next_volatile = 9073741824", "a partition is of a device"),
        ("[cxl]", "[cxl]\ndisabled_ports = [3]", "a port that is none of a host bridge"),
        ("[cxl]", "[cxl]\ndisabled_devices = [4]", "a device that the machine lacks"),
    ] {
        let edited = valid.replacen(from, to, 1);
        assert_ne!(edited, valid, "{from}");
        fs::write(&state, edited).unwrap();
        cxl(&machine, "list -vvv").failure(1, &["state.toml", told, "undo the edit"]);
    }
    fs::write(&state, &valid).unwrap();
    cxl(&machine, "list -vvv").success();
    cxl(&machine, "create-region -m -d decoder0.0 -s 512M mem0 mem2").success();
    let two = fs::read_to_string(&state).unwrap();
    let swapped = two.replacen("\noff = 0\nsize", "\noff = 1073741824\nsize", 1);
    assert_ne!(swapped, two);
    fs::write(&state, swapped).unwrap();
    cxl(&machine, "list").failure(1, &["one before it at higher addresses"]);
}

#[test]
fn cxl_json_fields_match_help() {
    let machine = machine();
    machine.check_fields("cxl", "list", "-vvv");
    machine.check_fields("cxl", "create-region", "-m -d decoder0.0 -s 512M mem0 mem2");
    machine.check_fields("cxl", "disable-region", "all");
    machine.check_fields("cxl", "enable-region", "all");
    machine.check_fields("cxl", "destroy-region", "-f all");
    machine.check_fields("cxl", "reserve-dpa", "-s 256M mem0");
    machine.check_fields("cxl", "free-dpa", "mem0");
    machine.check_fields("cxl", "set-partition", "mem1");
    machine.check_fields("cxl", "read-labels", "mem0 -s 1");
    machine.check_fields("cxl", "disable-memdev", "-f mem0");
    machine.check_fields("cxl", "write-labels", "mem0 -i /dev/null");
    machine.check_fields("cxl", "zero-labels", "mem0");
    machine.check_fields("cxl", "enable-memdev", "mem0");
    machine.check_fields("cxl", "disable-port", "-f port2");
    machine.check_fields("cxl", "enable-port", "-m port2");
    machine.check_fields("cxl", "disable-bus", "-f ACPI.CXL");
    machine.check_fields("cxl", "version", "");
    assert_eq!(cxl(&machine, "version").success(), "76\n");
    let real = lode(["cxl", "--sysfs", "/sys", "create-region", "-d", "decoder0.0"]);
    assert_eq!(real.code, Some(1));
    assert!(real.out.ends_with("cxl create-region -d decoder0.0\n"), "{real:?}");
}
