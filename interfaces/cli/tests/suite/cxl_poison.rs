//! Poison lists of CXL devices: in listings, in the state, and in the reads of namespaces.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::cxl_listings_match_cxl::MACHINE;
use crate::emulated::Emulated;
use crate::program::{RunResult, text};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::FileExt;

/// The region over two host bridges, in lines of 256 bytes.
const INTERLEAVED: &str = "create-region -t pmem -m -d decoder0.0 -s 512M mem0 mem2";

fn machine() -> Emulated {
    Emulated::of_text(&MACHINE.replace("kernel = \"6.1\"", "kernel = \"6.12\""))
}

fn cxl(machine: &Emulated, words: &str) -> RunResult {
    machine.run("cxl", words)
}

/// Returns the poisoned lines in a listing of one object; null if it lists none.
fn poison(machine: &Emulated, words: &str) -> Value {
    let listed: Value = serde_json::from_str(&cxl(machine, &format!("list {words}")).success()).unwrap();
    listed[0]["media_errors"].clone()
}

fn lines(offsets: &[u64]) -> Value {
    let line = |off: &u64| json!({"offset": off, "length": 64, "source": "Injected"});
    offsets.iter().map(line).collect()
}

/// Returns the device of this name in a listing, where mappings of regions name it, too.
fn memdev<'a>(listed: &'a Value, name: &str) -> Option<&'a Value> {
    match listed {
        Value::Object(fields)
            if fields.contains_key("host") && fields.get("memdev").is_some_and(|of| of == name) =>
        {
            Some(listed)
        }
        Value::Object(fields) => fields.values().find_map(|value| memdev(value, name)),
        Value::Array(values) => values.iter().find_map(|value| memdev(value, name)),
        _ => None,
    }
}

#[test]
fn poison_is_listed() {
    let machine = machine();
    cxl(&machine, INTERLEAVED).success();
    for (words, told) in [
        ("mem0 -a 0x1000", "poison injected at mem0:0x1000\n"),
        ("2 -a 4160", "poison injected at mem2:4160\n"),
        ("mem0 --address 010000", "poison injected at mem0:010000\n"),
        ("mem0 -a 0x20000000 --debug", "poison injected at mem0:0x20000000\n"),
    ] {
        assert_eq!(cxl(&machine, &format!("inject-media-poison {words}")).success(), told);
    }
    assert_eq!(poison(&machine, "-L -m mem0"), lines(&[0x1000, 0x2000_0000]), "a line is poisoned once");
    let tree: Value = serde_json::from_str(&cxl(&machine, "list -vvv").success()).unwrap();
    let device = memdev(&tree, "mem0").expect("the tree has mem0");
    assert_eq!(device["media_errors"], lines(&[0x1000, 0x2000_0000]));
    assert_eq!(memdev(&tree, "mem1").unwrap().get("media_errors"), None);
    assert_eq!(poison(&machine, "-M -m mem0"), Value::Null);
    assert_eq!(poison(&machine, "-ML -m mem1"), Value::Null);
    // Line 16 of each device, which the region has as its lines 32 and 33. The last address is in no region.
    assert_eq!(poison(&machine, "-L --regions"), lines(&[0x2000, 0x2140]));
    assert_eq!(poison(&machine, "-R"), Value::Null);
    let shown = cxl(&machine, "list -RTLu").success();
    let part = "\"decode_state\":\"commit\",\n  \"media_errors\":[\n    {\n      \"offset\":\"0x2000\",\n      \
                \"length\":64,\n      \"source\":\"Injected\"\n    },";
    assert!(shown.contains(part) && shown.find("media_errors") < shown.find("mappings"), "{shown}");
    assert!(cxl(&machine, "list -ILm mem2").success().contains("    },\n    \"media_errors\":[\n"));

    assert_eq!(cxl(&machine, "clear-media-poison mem2 -a 4160").success(), "poison cleared at mem2:4160\n");
    cxl(&machine, "clear-media-poison mem2 -a 0x40").success();
    assert_eq!(poison(&machine, "-RL"), lines(&[0x2000]));
    cxl(&machine, "disable-region region0").success();
    assert_eq!(poison(&machine, "-RLi"), lines(&[0x2000]), "the decoders have it");
    cxl(&machine, "disable-memdev -f mem2").success();
    assert_eq!(poison(&machine, "-RLi"), Value::Null, "a device took its decoders away");
    cxl(&machine, "disable-memdev -f mem0").success();
    assert_eq!(poison(&machine, "-MLi -m mem0"), Value::Null);
    machine.start();
    assert_eq!(poison(&machine, "-ML -m mem0"), lines(&[0x1000, 0x2000_0000]), "poison survives a start");
    machine.check_fields("cxl", "inject-media-poison", "mem0 -a 0x1000");
    machine.check_fields("cxl", "clear-media-poison", "mem0 -a 0x1000");
}

/// Refusals are those of the kernel, and change nothing.
#[test]
fn poison_is_refused() {
    let machine = machine();
    cxl(&machine, "disable-memdev -f mem3").success();
    let before = fs::read(machine.state.join("state.toml")).unwrap();
    for verb in ["inject", "clear"] {
        for (words, code, told) in [
            (
                "mem0 -a 0x1001",
                1,
                "failed to VERB poison at mem0:0x1001: Invalid argument; poison has an address",
            ),
            ("0 -a 4097", 1, "failed to VERB poison at mem0:4097: Invalid argument; poison has an address"),
            ("mem0 -a 0x40000000", 1, "Invalid argument; the device ends before the address"),
            ("mem0 -a 0xffffffffffffffc0", 1, "Invalid argument; the device ends before the address"),
            ("mem3 -a 0", 1, "enable the device first with `lode cxl enable-memdev mem3`"),
            ("mem9 -a 0", 1, "Memdev \"mem9\" not found"),
            ("mem0 -a 0x10000000000000000", 2, "invalid address: 0x10000000000000000"),
            ("mem0 -a 1K", 2, "invalid address: 1K"),
            ("mem0", 2, "--address <ADDRESS>"),
            ("mem0 mem1 -a 0", 2, "mem1"),
        ] {
            let told = told.replace("VERB", verb);
            cxl(&machine, &format!("{verb}-media-poison {words}")).failure(code, &[&told]);
        }
    }
    assert_eq!(fs::read(machine.state.join("state.toml")).unwrap(), before);
    assert!(!machine.state.join("cxl/mem0.media").exists());
}

/// Returns the words of a message that name the line of a record, counted from 0.
fn line_of_record(state: &str, record: usize) -> String {
    let lines = state.lines().enumerate().filter(|(_, line)| *line == "[[cxl.poison]]");
    format!(", line {}:", lines.map(|(index, _)| index + 1).nth(record).unwrap())
}

#[test]
fn poison_of_state_is_checked() {
    let machine = machine();
    for words in ["mem0 -a 0x40", "mem0 -a 0x3fffffc0", "mem1 -a 0"] {
        cxl(&machine, &format!("inject-media-poison {words}")).success();
    }
    let state = machine.state.join("state.toml");
    let valid = fs::read_to_string(&state).unwrap();
    // The position of the wrong record, the edit, and the message.
    for (record, from, to, told) in [
        (0, "off = 64\n", "off = 65\n", "poison has an address that is no multiple of 64"),
        (1, "off = 1073741760\n", "off = 1073741824\n", "or not on its device"),
        (1, "off = 1073741760\n", "off = 9223372036854775744\n", "or not on its device"),
        (1, "off = 1073741760\n", "off = 64\n", "poison lists an address twice"),
        (1, "off = 1073741760\n", "off = 0\n", "or not in the order of devices and addresses"),
        (2, "device = 1\noff", "device = 4\noff", "poison is on a device that the machine lacks"),
    ] {
        let edited = valid.replacen(from, to, 1);
        assert_ne!(edited, valid, "{from}");
        let line = line_of_record(&edited, record);
        fs::write(&state, edited).unwrap();
        cxl(&machine, "list -L").failure(1, &["state.toml", &line, told]);
    }
    fs::write(&state, valid.replacen("off = 64\n", "off = 64\nlen = 64\n", 1)).unwrap();
    cxl(&machine, "list -L").failure(1, &["state.toml", "unknown field"]);
    let records = |count: u64| -> String {
        (0..count).map(|line| format!("\n[[cxl.poison]]\ndevice = 0\noff = {}\n", 128 * line)).collect()
    };
    let rest = valid.split("[[cxl.poison]]").next().unwrap();
    fs::write(&state, format!("{rest}{}", records(257))).unwrap();
    let line = line_of_record(&format!("{rest}{}", records(257)), 256);
    cxl(&machine, "list -L").failure(1, &["state.toml", &line, "than the 256 that its list takes"]);
    fs::write(&state, format!("{rest}{}", records(256))).unwrap();
    let full = "failed to inject poison at mem0:0x40: Device or resource busy; the poison list of the device is full";
    cxl(&machine, "inject-media-poison mem0 -a 0x40").failure(1, &[full]);
    cxl(&machine, "inject-media-poison mem0 -a 0x80").success();
    cxl(&machine, "inject-media-poison mem1 -a 0x40").success();
    cxl(&machine, "clear-media-poison mem0 -a 0x80").success();
    cxl(&machine, "inject-media-poison mem0 -a 0x40").success();
    assert_eq!(poison(&machine, "-ML -m mem0").as_array().unwrap().len(), 256);
}

/// The data of a poisoned line is not read. Clearing leaves zeros, and a write of new data is read.
#[test]
fn poisoned_data_is_not_read() {
    let machine = machine();
    cxl(&machine, INTERLEAVED).success();
    machine.ndctl("create-namespace -r region0 -m sector -s 64M -l 4096").success();
    machine.ndctl("check-namespace -f namespace0.0").success();
    machine.ndctl("disable-namespace namespace0.0").success();
    // A line of the map of the BTT.
    cxl(&machine, "inject-media-poison mem0 -a 0x1ff5800").success();
    machine.ndctl("check-namespace namespace0.0").failure(1, &["64 bytes at 0x3feb000 can't be read"]);
    cxl(&machine, "clear-media-poison mem0 -a 0x1ff5800").success();
    machine.ndctl("check-namespace namespace0.0").success();
    // The info block of a BTT of version 2.0 is at the start, and that of a page map after 4096 bytes.
    let media = || fs::File::open(machine.state.join("cxl/mem0.media")).unwrap();
    let line_at = |off: u64| {
        let mut line = [0; 64];
        media().read_exact_at(&mut line, off).unwrap();
        line
    };
    let (data, next) = (line_at(0), line_at(0x40));
    assert!(data.starts_with(b"BTT_ARENA_INFO\0\0") && next != [0; 64]);
    cxl(&machine, "inject-media-poison mem0 -a 0").success();
    let file = machine.file("block");
    let read = format!("read-infoblock namespace0.0 -o {}", text(&file));
    let told = "region0: the range of 64 bytes at 0x0 can't be read: the memory is poisoned, on module mem0; \
                `lode cxl list -RML` lists";
    machine.ndctl(&read).failure(1, &[told]);
    assert!(!machine.ndctl("list -RNMi").success().contains("badblock"), "the bus CXL has no list of them");
    assert_eq!(line_at(0), data);
    cxl(&machine, "clear-media-poison mem0 -a 0").success();
    assert_eq!((line_at(0), line_at(0x40)), ([0; 64], next));
    machine.ndctl(&read).success();

    cxl(&machine, "inject-media-poison mem0 -a 0x800").success();
    cxl(&machine, "inject-media-poison mem2 -a 0x8000").success();
    machine.ndctl("create-namespace -f -e namespace0.0 -m fsdax").success();
    assert_eq!(poison(&machine, "-RL"), lines(&[0x1_0100]), "the new info block replaces a line");
}

#[test]
fn modules_keep_numbers_beside_disabled_device() {
    let machine = machine();
    let modules = || -> Value {
        let listed: Value = serde_json::from_str(&machine.ndctl("list -D").success()).unwrap();
        let mut all: Vec<Value> = listed.as_array().unwrap().clone();
        all.sort_by_key(ToString::to_string);
        all.into()
    };
    let all = modules();
    assert_eq!(all[1], json!({"dev": "nmem1", "id": "162"}));
    cxl(&machine, "disable-memdev -f mem0").success();
    assert_eq!(modules().as_array().unwrap()[..], all.as_array().unwrap()[1..]);
    machine.ndctl("read-labels nmem1 -s 8").success();
    cxl(&machine, "enable-memdev mem0").success();
    assert_eq!(modules(), all);
}
