//! `lode platform evacuate`, `replace` and `extend`: killed at any moment, and as scripts for other tools.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::emulated::Emulated;
use crate::program::{RunResult, command, documented_fields, json_fields, lode, text};
use crate::sysfs_captures::unpack_capture;
use lode_platform::relocate::Place;
use lode_platform::{Directory, Purpose};
use lode_testing::{scaled, seed};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Returns the sections of modules in these slots.
fn modules_text(handles: &[u32], serial: u32, locator: &str) -> String {
    let module = |(handle, serial): (&u32, u32)| {
        format!(
            "[[module]]\nhandle = {handle:#06x}\nphysical_id = {serial}\nlocator = \"{locator}{serial}\"\n\
             capacity = \"1344MiB\"\nid = \"8089-a2-2140-{serial:08x}\"\n"
        )
    };
    handles.iter().zip(serial..).map(module).collect()
}

/// Returns the file of a machine with two sockets of two modules.
fn machine_file() -> String {
    let head = "name = \"pairs\"\n[profile]\nipmctl = 3\nndctl = 76\nkernel = \"6.1\"\n";
    format!("{head}{}", modules_text(&[0x1, 0x101, 0x1001, 0x1101], 1, "SLOT"))
}

fn machine() -> Emulated {
    let machine = Emulated::of_text(&machine_file()).interleaved();
    for (name, mode) in [("data", "fsdax"), ("log", "sector"), ("table", "devdax"), ("plain", "raw")] {
        let made = machine.ndctl(&format!("create-namespace -r region0 -m {mode} -s 64M -n {name}"));
        let made: Value = serde_json::from_str(&made.success()).unwrap();
        let device = made["dev"].as_str().unwrap();
        let image = machine.file("content.img");
        platform(&machine, &format!("image export {device} {} --for virtio-pmem", text(&image))).success();
        let file = File::options().write(true).open(&image).unwrap();
        for off in [0, 4096 * 3, 20 << 20] {
            file.write_all_at(format!("{name} at {off}").as_bytes(), off).unwrap();
        }
        platform(&machine, &format!("image import {} --into {device}", text(&image))).success();
        fs::remove_file(&image).unwrap();
    }
    machine
}

fn platform(machine: &Emulated, words: &str) -> RunResult {
    let mut words = words.split(' ');
    let verb = words.next().unwrap();
    match verb {
        "image" => {
            let of_image = words.next().unwrap();
            lode(["platform", "image", of_image].into_iter().chain(machine.location()).chain(words))
        }
        _ => lode(["platform", verb].into_iter().chain(machine.location()).chain(words)),
    }
}

/// Returns the data of all named namespaces. A namespace that is copied at this moment may be there twice: those that are
/// not complete are left out.
fn contents(machine: &Emulated) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let directory = Directory::open(&machine.state, Purpose::ReadOnly).unwrap();
    let platform = directory.platform();
    let incomplete = |uuid| {
        platform.state.relocations.iter().any(|one| match one.stage {
            lode_platform::relocate::Stage::Leaving => one.place == Place::Namespace(uuid),
            lode_platform::relocate::Stage::Returning => one.uuid == uuid,
            _ => false,
        })
    };
    let namespaces = platform.regions().into_iter().flat_map(|region| platform.namespaces(&region));
    let whole: Vec<_> = namespaces.filter(|one| !one.uuid.is_some_and(incomplete)).collect();
    let files = platform.state.relocations.iter().filter_map(|one| match &one.place {
        Place::File(path) => {
            // That of a growth is relative.
            let path = machine.state.join(path);
            path.exists().then(|| (one.name.clone(), path))
        }
        Place::Namespace(_) => None,
    });
    let files: Vec<_> = files.collect();
    drop(directory);
    let mut put = |name: String, path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        if let Some(other) = found.insert(name.clone(), bytes.clone()) {
            assert!(other == bytes, "the two of {name} differ");
        }
    };
    for one in whole {
        let path = machine.file("exported.img");
        self::platform(machine, &format!("image export {} {} --for virtio-pmem", one.device(), text(&path)))
            .success();
        put(one.name, &path);
        fs::remove_file(&path).unwrap();
    }
    files.iter().for_each(|(name, path)| put(name.clone(), path));
    found
}

/// Kills or stops a command at random moments, runs it again, and so on to its end. In between, each namespace is there.
/// Returns the number of times that it was ended.
fn interrupted(machine: &Emulated, words: &[&str], micros_max: u64, stops: u64) -> u64 {
    let expected = contents(machine);
    let first = seed(11);
    let mut done = 0;
    for round in 0..1000 {
        let random =
            first.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round * 1_442_695_040_888_963_407);
        let mut run = command(
            ["platform", words[0]].into_iter().chain(machine.location()).chain(words[1..].iter().copied()),
        );
        let mut child = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        if done < stops {
            thread::sleep(Duration::from_micros((random >> 20) % micros_max));
            let signal = if random >> 60 & 3 == 0 { Signal::INT } else { Signal::KILL };
            // It may have ended already.
            let _ = kill_process(Pid::from_child(&child), signal);
        }
        match child.wait().unwrap().code() {
            Some(0) => return done,
            None | Some(130) => done += 1,
            code => panic!("{code:?}: {:?}", std::io::read_to_string(child.stderr.take().unwrap())),
        }
        assert_eq!(contents(machine), expected, "LODE_SEED={first}, round {round}");
    }
    panic!("it does not end");
}

#[test]
fn killed_replacement_loses_nothing() {
    let mut kills = 0;
    while kills < scaled(6) {
        let machine = machine();
        let before = contents(&machine);
        let started = Instant::now();
        let trial = self::machine();
        platform(&trial, "replace 0x0101 --apply").success();
        let micros = started.elapsed().as_micros() as u64;
        kills +=
            interrupted(&machine, &["replace", "SLOT2", "--apply"], micros / 4, scaled(6) - kills).max(1);
        assert_eq!(contents(&machine), before);
        let directory = Directory::open(&machine.state, Purpose::ReadOnly).unwrap();
        assert!(directory.platform().state.relocations.is_empty());
        assert_eq!(directory.platform().namespaces(&directory.platform().regions()[0]).len(), 4);
    }
}

#[test]
fn killed_growth_loses_nothing() {
    let machine = machine();
    interrupted(&machine, &["extend", "namespace0.1", "--size", "128M", "--apply"], 150_000, scaled(3));
    let listed: Value = serde_json::from_str(&machine.ndctl("list -n namespace0.1").success()).unwrap();
    let listed = &listed[0];
    assert_eq!(listed["name"], "log");
    platform(&machine, "extend namespace0.1 --size 100M")
        .failure(1, &["has 128 MiB already; name a larger size"]);
}

/// A disk that is full half-way: the limit for files stands for it.
#[test]
fn full_disk_stops_and_the_command_goes_on() {
    let machine = machine();
    let before = contents(&machine);
    let lode = env!("CARGO_BIN_EXE_lode");
    let evacuate = format!(
        "ulimit -f 1000; exec {lode} platform evacuate nmem0 --apply --state {}",
        text(&machine.state)
    );
    let full = RunResult::of(Command::new("bash").args(["-c", &evacuate]).output().unwrap());
    full.failure(1, &["evacuating a module: writing", "File too large"]);
    assert_eq!(contents(&machine), before);
    let plan = platform(&machine, "evacuate nmem0 --json").json();
    assert_eq!(plan["moves"][0]["stage"], "leaving");
    platform(&machine, "evacuate nmem0 --apply").success();
    assert_eq!(contents(&machine), before);
    assert!(platform(&machine, "evacuate nmem0").success().ends_with("Nothing to do.\n"));
    platform(&machine, "evacuate nmem0 --return --apply").success();
    assert_eq!(contents(&machine), before);
    platform(&machine, "evacuate nmem0 --return").failure(1, &["nothing was moved away from 0x0001"]);
}

/// Programs under the names of the tools in scripts. They read and write the devices of the emulated machine.
fn tools(machine: &Emulated) -> String {
    let bin = machine.file("bin");
    fs::create_dir_all(&bin).unwrap();
    let lode = env!("CARGO_BIN_EXE_lode");
    let devices = format!(
        "namespace() {{ echo \"$1\" | sed -E 's,^/dev/(pmem|dax)([0-9]+)(\\.([0-9]+))?s?$,namespace\\2.\\4,; s/\\.$/.0/'; }}\n\
         content() {{ case \"$1\" in\n\
         /dev/*) rm -f \"$2\"; {lode} platform image export $(namespace \"$1\") \"$2\" --for virtio-pmem > /dev/null;;\n\
         *) cp --sparse=always \"$1\" \"$2\";; esac; }}\n\
         T=$(mktemp -d)\n"
    );
    let put =
        format!("put() {{ {lode} platform image import \"$1\" --into $(namespace \"$2\") > /dev/null; }}\n");
    for (name, body) in [
        ("ipmctl", format!("exec {lode} ipmctl \"$@\"")),
        ("ndctl", format!("exec {lode} ndctl \"$@\"")),
        ("reboot", format!("exec {lode} platform reboot")),
        ("findmnt", "exit 1".to_owned()),
        (
            "dd",
            format!(
                "{devices}{put}for word; do case $word in if=*) from=${{word#if=}};; of=*) to=${{word#of=}};; esac; done\n\
                 content \"$from\" $T/a\n\
                 case $to in /dev/*) put $T/a \"$to\";; *) cp --sparse=always $T/a \"$to\";; esac"
            ),
        ),
        (
            "cmp",
            format!(
                "{devices}if [ \"$1\" = -n ]; then limit=\"-n $2\"; shift 2; fi\n\
                 content \"$1\" $T/a; content \"$2\" $T/b\n\
                 exec /usr/bin/cmp $limit $T/a $T/b"
            ),
        ),
        (
            "daxio",
            format!(
                "{devices}{put}while [ $# -gt 0 ]; do case $1 in -i) from=$2;; -o) to=$2;; -l) len=$2;; esac; shift 2; done\n\
                 content \"$from\" $T/a\n\
                 if [ -n \"$to\" ]; then put $T/a \"$to\"; else head -c \"$len\" $T/a; fi"
            ),
        ),
    ] {
        let path = bin.join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    format!("{}:/usr/bin:/bin", bin.display())
}

fn run_script(machine: &Emulated, script: &str, argument: &str) -> RunResult {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script, "script", argument])
        .env("PATH", tools(machine))
        .env("LODE_STATE", &machine.state);
    RunResult::of(shell.output().unwrap())
}

#[test]
fn scripts_do_what_the_plans_say() {
    let ours = machine();
    let before = contents(&ours);
    let script = platform(&ours, "evacuate nmem0 --commands").success();
    let first_loss = script.find("destroy-namespace").unwrap();
    assert!(script.rfind("cmp ").unwrap() < first_loss, "what destroys comes last: {script}");
    assert!(
        script.contains("# region0: 0x0001 is interleaved with 0x0101, so all of the set must move"),
        "{script}"
    );
    run_script(&ours, &script, "").success();
    assert_eq!(contents(&ours), before);
    assert!(platform(&ours, "evacuate nmem0").success().starts_with("No namespace has a part on 0x0001.\n"));

    let ours = machine();
    let script = platform(&ours, "replace nmem1 --commands").success();
    assert!(script.contains("exchange the module in slot SLOT2 (0x0101), power on"), "{script}");
    run_script(&ours, &script, "").failure(2, &["leave|goal|back"]);
    for part in ["leave", "goal", "back"] {
        run_script(&ours, &script, part).success();
        assert_eq!(contents(&ours), before, "{part}");
    }
    // What comes back without an exchange has no parts.
    let other = machine();
    platform(&other, "evacuate nmem0 --apply").success();
    let script = platform(&other, "evacuate nmem0 --return --commands").success();
    assert!(!script.contains("power off") && script.contains("\nndctl create-namespace"), "{script}");

    let regions = Directory::open(&ours.state, Purpose::ReadOnly).unwrap();
    let platform_now = regions.platform();
    assert_eq!(platform_now.namespaces(&platform_now.regions()[0]).len(), 4, "at home");
    drop(regions);

    // The growth script reads a file back whose length is not that of the larger namespace.
    let file = ours.file("growing.img");
    let script =
        platform(&ours, &format!("extend namespace0.0 --size 96M --commands --file {}", text(&file)));
    let script = script.success();
    let order: Vec<usize> =
        ["dd if=/dev/pmem0", "cmp /dev/pmem0", "destroy-namespace", "create-namespace", "dd if=/", "rm "]
            .iter()
            .map(|word| script.rfind(word).unwrap_or_else(|| panic!("no {word} in {script}")))
            .collect();
    assert!(order[..4].is_sorted() && order[5] == *order.iter().max().unwrap(), "{script}");
}

#[test]
fn real_machines_get_commands() {
    let sysfs = unpack_capture("6.12", true);
    let evacuate = |words: &str| {
        lode(["platform", "evacuate", "--sysfs", text(sysfs.path())].into_iter().chain(words.split(' ')))
    };
    // The module nmem2 has labels, nmem0 not.
    evacuate("nmem0").failure(1, &["namespace3.0 has no labels"]);
    evacuate("nmem2").failure(1, &["namespace0.0 (128 MiB) has no room elsewhere: 128 MiB are missing"]);
    let folder = tempfile::TempDir::new().unwrap();
    let shown = evacuate(&format!("nmem2 --to {} --json", text(folder.path()))).json();
    assert_eq!(shown["module"], "nmem2");
    let moved = shown["moves"].as_array().unwrap().len();
    assert!(moved > 1, "{shown}");
    let script = evacuate(&format!("nmem2 --to {} --commands", text(folder.path()))).success();
    assert_eq!(script.matches("\nndctl destroy-namespace -f namespace").count(), moved);
    let checked = Command::new("sh").args(["-n", "-c", &script]).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    let told = evacuate(&format!("nmem2 --to {} --apply", text(folder.path())));
    assert_eq!(told.code, Some(1));
    assert!(
        told.out.starts_with("# Nothing is done: a real machine is left to its own tools."),
        "{}",
        told.out
    );
    evacuate("nmem77").failure(1, &["there is no module nmem77"]);
    evacuate("0x7777").failure(1, &["there is no module 0x7777"]);
    for verb in ["replace nmem0", "extend"] {
        let words = verb.split(' ').chain(["--sysfs", text(sysfs.path())]);
        lode(["platform"].into_iter().chain(words)).failure(2, &["lode platform init --from-sysfs"]);
    }
}

#[test]
fn plans_show_contents_sets_and_tables() {
    let machine = machine();
    platform(&machine, "mkfs namespace0.0 ext4").success();
    let shown = platform(&machine, "evacuate SLOT1").success();
    for part in [
        "On 0x0001:\n  namespace0.0  fsdax, 64 MiB, \"data\", ext4\n",
        "so all of the set must move, not one module's part.\n",
        "  1. make namespace1.0 for namespace0.0: fsdax, 64 MiB\n  2. copy namespace0.0 to namespace1.0\n  3. read both back",
        "\nLost: nothing.\n\nBefore:\n  socket",
        "\nAfterwards:\n  socket",
    ] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    let shown = platform(&machine, "replace SLOT1").success();
    assert!(
        shown.contains("exchange 8089-a2-2140-00000001 (1.31 GiB) in slot 0x0001 for 8089-a2-2140-00000005"),
        "{shown}"
    );
    platform(&machine, "evacuate SLOT9").failure(1, &["no slot with a module is called SLOT9"]);
    platform(&machine, "evacuate nmem9").failure(1, &["there is no module nmem9"]);
    platform(&machine, "evacuate nmem0 --to nowhere")
        .failure(1, &["nowhere is neither a region nor a folder"]);
    let file = machine.file("new.toml");
    fs::write(&file, "[[module]]\nhandle = 0x201\nlocator = \"S\"\ncapcity = \"1GiB\"\n").unwrap();
    platform(&machine, &format!("extend --with {}", text(&file)))
        .failure(1, &["new.toml: line 4, column 1: unknown field `capcity`", "was `capacity` meant?"]);
    fs::write(&file, "").unwrap();
    platform(&machine, &format!("replace nmem0 --with {}", text(&file))).failure(1, &["describe one module"]);
    platform(&machine, "extend namespace0.0").failure(2, &["--size"]);
    platform(&machine, "extend namespace7.0 --size 1G").failure(1, &["there is no namespace namespace7.0"]);
    fs::write(&file, modules_text(&[0x201, 0x301], 10, "NEW")).unwrap();
    let extended =
        platform(&machine, &format!("extend --with {} --not-interleaved --apply", text(&file))).success();
    assert!(extended.contains("put a module of 1.31 GiB into slot NEW10 (0x0201)"), "{extended}");
    assert!(extended.ends_with("\nDone, as one change.\n"), "{extended}");
}

#[test]
fn documented_fields_are_printed() {
    let machine = machine();
    for (verb, words) in [
        ("evacuate", vec!["nmem0", "nmem0 --commands"]),
        ("replace", vec!["nmem0", "nmem0 --commands"]),
        ("extend", vec!["namespace0.0 --size 128M", "namespace0.0 --size 128M --commands"]),
    ] {
        let runs = words.iter().map(|words| platform(&machine, &format!("{verb} {words} --json")).json());
        let mut runs: Vec<_> = runs.collect();
        if verb == "extend" {
            let idle = Emulated::of_text(&machine_file());
            runs.push(platform(&idle, "extend --json").json());
        }
        assert_eq!(json_fields(&runs), documented_fields(&["platform", verb]), "{verb}");
    }
}
