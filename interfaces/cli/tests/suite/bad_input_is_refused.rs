//! Whatever a file holds, the program says what is wrong with it, where, and what to do.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::run::{Place, Ran, command, lode, lode_reading, text};
use lode_testing::{SmallDisk, scaled, seed};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

/// Commands that look at a pool without changing it.
const LOOKS: [&[&str]; 4] = [&["pool", "info"], &["kv", "count"], &["kv", "export"], &["pool", "stats"]];

#[test]
fn what_is_no_pool() {
    let place = Place::new();
    let junk = place.file("junk", vec![b'x'; 1 << 20]);
    let empty = place.file("empty", "");
    let short = place.file("short", vec![0; 4000]);
    let missing = place.folder.path().join("missing");
    let none = "or make a pool with `lode pool create`";
    for (path, why) in [(&junk, none), (&empty, none), (&short, none), (&missing, "No such file")] {
        for look in LOOKS {
            let arguments = look.iter().copied().chain([text(path)]);
            lode(arguments).fails(1, &[text(path), why]);
        }
    }
    lode(["kv", "count", text(place.folder.path())]).fails(1, &["neither an ordinary file"]);
    lode(["pool", "create", text(&junk), "--size", "1MiB"]).fails(1, &["junk", "exists already"]);
    assert_eq!(fs::read(&junk).unwrap(), vec![b'x'; 1 << 20], "untouched");
}

#[test]
fn one_damaged_header_copy_is_used_around_told_and_repaired() {
    let place = Place::new();
    lode(["kv", "put", place.pool(), "k", "v"]).good();
    let mut bytes = fs::read(&place.pool).unwrap();
    bytes[0x40] ^= 4;
    fs::write(&place.pool, &bytes).unwrap();
    assert_eq!(lode(["kv", "get", place.pool(), "k"]).good(), "v\n");
    assert!(lode(["pool", "info", place.pool()]).good().contains("copy A"));
    let check = lode(["pool", "check", place.pool()]);
    assert_eq!(check.code, Some(3), "{check:?}");
    assert!(check.out.contains("header") && check.out.contains("lode pool repair"), "{check:?}");
    assert_eq!(fs::read(&place.pool).unwrap(), bytes, "a check writes nothing");
    assert!(
        lode(["pool", "repair", place.pool()])
            .good()
            .contains("repaired; nothing is lost that a checksum can tell")
    );
    lode(["pool", "check", place.pool()]).good();
}

#[test]
fn two_damaged_header_copies_are_too_many() {
    let place = Place::new();
    let mut bytes = fs::read(&place.pool).unwrap();
    bytes[0x40] ^= 4;
    bytes[0x1040] ^= 4;
    fs::write(&place.pool, &bytes).unwrap();
    for look in LOOKS {
        lode(look.iter().copied().chain([place.pool()])).fails(1, &[place.pool(), "header"]);
    }
    let check = lode(["pool", "check", place.pool()]);
    assert_eq!(check.code, Some(3));
    assert!(check.out.contains("restore the pool from a backup"), "repair can do nothing: {check:?}");
}

#[test]
fn a_pool_that_is_shorter_than_it_says() {
    let place = Place::new();
    let file = fs::File::options().write(true).open(&place.pool).unwrap();
    file.set_len(7 << 20).unwrap();
    drop(file);
    lode(["kv", "count", place.pool()]).fails(1, &["8388608 bytes", "only 7340032", "(`lode pool repair`)"]);
    let check = lode(["pool", "check", place.pool()]);
    assert_eq!(check.code, Some(3));
    assert!(check.out.contains("only 7340032"), "{check:?}");
    let repair = lode(["pool", "repair", place.pool()]).good();
    assert!(repair.contains("1.0 MiB (1048576 bytes) at its end are zeros now"), "{repair}");
    assert!(lode(["pool", "check", place.pool()]).good().contains("no damage"));
}

/// What a repair tells of the keys that it can't bring back, wherever the file was cut.
#[test]
fn what_a_pool_loses_that_was_cut_short_is_listed() {
    let place = Place::of_size("1MiB");
    let lines: String = (0..4000).map(|key| format!("key{key:04}\tvalue of {key}\n")).collect();
    lode_reading(["kv", "load", place.pool()], lines.as_bytes()).good();
    let whole = fs::read(&place.pool).unwrap();
    for len in [5_000, 30_000, 90_000, 111_111, 150_000, 200_001, 262_144, 400_000, 900_000] {
        fs::write(&place.pool, &whole[..len]).unwrap();
        let repair = lode(["pool", "repair", place.pool(), "--json"]);
        let told = repair.object();
        let lost = told["lost"].as_array().unwrap();
        let holds = |range: &serde_json::Value, key: &str| {
            range["after"].as_str().is_none_or(|after| after < key)
                && range["before"].as_str().is_none_or(|before| key < before)
        };
        let left = lode(["kv", "export", place.pool()]).good();
        let left: std::collections::HashSet<&str> = left.lines().collect();
        let missing: Vec<&str> = lines.lines().filter(|line| !left.contains(line)).collect();
        let untold = missing.iter().find(|line| {
            let key = line.split('\t').next().unwrap();
            told["lost_transactions"] == false && !lost.iter().any(|range| holds(range, key))
        });
        assert_eq!(untold, None, "cut to {len} bytes: {told}");
        assert_eq!(repair.code, Some(if missing.is_empty() { 0 } else { 3 }), "cut to {len} bytes: {told}");
        assert_eq!(told["missing"], whole.len() - len);
        lode(["pool", "check", place.pool()]).good();
        lode(["kv", "put", place.pool(), "new", "value"]).good();
    }
}

#[test]
fn a_pool_that_somebody_writes_to() {
    let place = Place::new();
    // The pipe is compared with this first, and what was read for that is loaded without waiting for more.
    lode_reading(["kv", "load", place.pool()], b"x\n").good();
    let mut writer = command(["kv", "load", place.pool(), "--ack"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = writer.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"k\tv\n").unwrap();
    let mut line = String::new();
    let mut out = std::io::BufReader::new(writer.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "k\n", "acknowledged while the pipe is open and idle");
    let holder = writer.id().to_string();
    lode(["kv", "put", place.pool(), "a", "b"]).fails(1, &["in use", &holder]);
    lode(["kv", "get", place.pool(), "k"]).fails(1, &["in use"]);
    drop(input);
    assert!(writer.wait().unwrap().success());
    assert_eq!(lode(["kv", "get", place.pool(), "k"]).good(), "v\n");
}

#[test]
fn keys_over_the_limit() {
    let place = Place::new();
    let long = "k".repeat(64 * 1024 + 1);
    let limit = &long[1..];
    lode(["kv", "put", place.pool(), &long, "v"]).fails(1, &["65536", "65537"]);
    lode(["kv", "put", place.pool(), limit, "v"]).good();
    assert_eq!(lode(["kv", "get", place.pool(), limit]).good(), "v\n");
    let input = place.file("in", format!("a\n{long}\n"));
    lode(["kv", "load", place.pool(), text(&input)]).fails(1, &["line 2", "65537"]);
}

#[test]
fn values_that_the_pool_has_no_room_for() {
    let place = Place::of_size("1MiB");
    let input = place.file("in", format!("small\tv\nlarge\t{}\n", "v".repeat(1 << 20)));
    lode(["kv", "load", place.pool(), text(&input)]).fails(1, &["line 2", "grow the pool"]);
    assert_eq!(
        lode(["pool", "info", place.pool(), "--json"]).object()["closed"],
        true,
        "though the load failed"
    );
    assert_eq!(lode(["kv", "get", place.pool(), "small"]).good(), "v\n");
    lode(["pool", "check", place.pool()]).good();
    lode(["pool", "grow", place.pool(), "--size", "8MiB"]).good();
    assert!(lode(["kv", "load", place.pool(), text(&input)]).good().contains("1 lines were loaded before"));
}

#[test]
fn wrong_lines_stop_a_load_or_are_passed_over() {
    let place = Place::new();
    let tsv = "a\t1\nb\t\\q\nc\t3\n\\x4\nlast\\";
    let input = place.file("in.tsv", tsv);
    let stopped = lode(["kv", "load", place.pool(), text(&input)]);
    stopped.fails(1, &["line 2", "byte 2", "--on-error skip"]);
    assert_eq!(lode(["kv", "export", place.pool()]).good(), "a\t1\n", "what comes before is there");
    let skipped = lode(["kv", "load", place.pool(), text(&input), "--on-error", "skip"]);
    for line in ["line 2 is skipped", "line 4 is skipped", "line 5 is skipped"] {
        assert!(skipped.err.contains(line), "{skipped:?}");
    }
    assert!(skipped.good().contains("3 lines skipped"));
    assert_eq!(lode(["kv", "export", place.pool()]).good(), "a\t1\nc\t3\n");

    let jsonl = "{\"key\":\"k\",\"value\":\"v\"}\nnonsense\n{\"key\":\"k\"}\n";
    let json = lode_reading(["kv", "load", place.pool(), "--format", "jsonl"], jsonl.as_bytes());
    json.fails(1, &["line 2", "key_b64"]);
}

#[test]
fn a_read_only_file_system() {
    let Some(disk) = SmallDisk::mount("a_read_only_file_system", 8 << 20) else { return };
    let pool = disk.pool();
    lode(["pool", "create", text(&pool), "--size", "1MiB", "--durability", "none"]).good();
    lode(["kv", "put", text(&pool), "k", "v", "--durability", "none"]).good();
    disk.make_read_only();
    assert_eq!(lode(["kv", "get", text(&pool), "k"]).good(), "v\n");
    lode(["kv", "put", text(&pool), "k", "w"]).fails(1, &[text(&pool), "Read-only", "open it for reading"]);
    let new = disk.folder().join("new");
    lode(["pool", "create", text(&new), "--size", "1MiB"]).fails(1, &[text(&new), "Read-only"]);
}

#[test]
fn a_full_disk() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount("a_full_disk", 4 << 20) else { return };
    let pool = disk.pool();
    let create = |size| lode(["pool", "create", text(&pool), "--size", size, "--durability", "none"]);
    create("8MiB").fails(1, &[text(&pool), "No space left", "free space, or choose a smaller size"]);
    assert_eq!(fs::read_dir(disk.folder()).unwrap().count(), 0, "nothing is left");
    create("2MiB").good();
    let grow = lode(["pool", "grow", text(&pool), "--size", "16MiB", "--durability", "none"]);
    grow.fails(1, &["No space left"]);
    // A pool takes all its space when it is made, so a load never finds the disk full, but the pool.
    let filler = disk.folder().join("filler");
    while fs::File::options()
        .append(true)
        .create(true)
        .open(&filler)
        .is_ok_and(|mut file| std::io::Write::write_all(&mut file, &[1; 4096]).is_ok())
    {}
    let lines: String = (0..100_000).map(|number| format!("key{number}\tvalue{number}\n")).collect();
    let input = place.file("in", lines);
    let loaded = lode(["kv", "load", text(&pool), text(&input), "--ack", "--durability", "none"]);
    assert_eq!(loaded.code, Some(1), "{}", loaded.err);
    assert!(loaded.err.contains("grow the pool"), "{}", loaded.err);
    let acknowledged: Vec<&str> = loaded.out.lines().collect();
    assert!(acknowledged.len() > 1000, "some were loaded: {}", acknowledged.len());
    let exported = lode(["kv", "export", text(&pool)]).good();
    let keys: std::collections::HashSet<&str> =
        exported.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert!(acknowledged.iter().all(|key| keys.contains(key)), "every acknowledged key is there");
    lode(["pool", "check", text(&pool)]).good();
}

#[test]
fn pools_with_flipped_bytes_crash_nothing() {
    let place = Place::of_size("1MiB");
    let lines: String = (0..2000).map(|number| format!("key{number}\tvalue{number}\n")).collect();
    let input = place.file("in", lines);
    lode(["kv", "load", place.pool(), text(&input), "--durability", "none"]).good();
    let whole = fs::read(&place.pool).unwrap();
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let hostile = place.folder.path().join("hostile");
    for round in 0..scaled(60) {
        let mut bytes = whole.clone();
        let flips: Vec<usize> = (0..1 + rng.usize(..4)).map(|_| rng.usize(..400 << 10)).collect();
        for at in &flips {
            bytes[*at] = rng.u8(..);
        }
        fs::write(&hostile, &bytes).unwrap();
        for arguments in [&["pool", "check"][..], &["kv", "export"], &["pool", "dump"], &["pool", "repair"]] {
            let ran = lode(arguments.iter().copied().chain([text(&hostile)]));
            let ended = ran.code.is_some_and(|code| code <= 3);
            assert!(
                ended && !ran.err.contains("panicked"),
                "round {round}, {flips:x?}, {arguments:?}: {}",
                ran.err
            );
        }
    }
}

#[test]
fn export_and_scan_print_nothing_that_is_damaged() {
    let place = Place::new();
    lode(["kv", "put", place.pool(), "key", "a value of more than eight bytes"]).good();
    let mut bytes = fs::read(&place.pool).unwrap();
    let places = |bytes: &[u8]| -> Vec<usize> {
        let found = bytes.windows(12).enumerate().filter(|(_, bytes)| *bytes == b"a value of m");
        found.map(|(at, _)| at).collect()
    };
    let all = places(&bytes);
    for at in all {
        bytes[at] ^= 1;
    }
    fs::write(&place.pool, &bytes).unwrap();
    for verb in ["export", "scan"] {
        let ran = lode(["kv", verb, place.pool()]);
        assert_eq!(ran.out, "");
        ran.fails(3, &[place.pool(), "the checksum of the leaf", "lode pool check"]);
    }
}

#[test]
fn wrong_arguments_are_named_in_json_too() {
    let ran = lode(["pool", "create", "--json"]);
    ran.fails(2, &["--size <SIZE>", "<PATH>"]);
}

#[test]
fn a_size_that_is_too_small_is_told_with_the_least_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.pool");
    for size in [1, 64 << 10, (128 << 10) - 1] {
        let size = size.to_string();
        lode(["pool", "create", "--size", &size, text(&path)])
            .fails(1, &[text(&path), &size, "too few", "131072"]);
        assert!(!path.exists());
    }
    lode(["pool", "create", "--size", "131072", text(&path)]).good();
    lode(["kv", "put", text(&path), "k", "v"]).good();
}

#[test]
fn help_that_can_not_be_written_is_an_error() {
    for asked_for in [&["--help"][..], &["--version"], &["kv", "load", "--help"], &["completions", "bash"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran = Ran::of(
            command(asked_for)
                .stdout(full)
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
                .wait_with_output()
                .unwrap(),
        );
        ran.fails(1, &["writing the output", "No space left"]);
    }
    for folder in ["/dev/full", "/dev/full/folder"] {
        lode(["manual", folder]).fails(1, &["writing manual pages", folder]);
    }
}

#[test]
fn more_threads_than_there_are() {
    let place = Place::new();
    let input = place.file("in", "a\n");
    lode(["kv", "load", place.pool(), text(&input), "--threads", "1000000"]).fails(2, &["1..=1024"]);
    // A user who has a process, and may not have another: not root, whom the limit does not hold for.
    let program = place.folder.path().join("lode");
    fs::copy(env!("CARGO_BIN_EXE_lode"), &program).unwrap();
    for (path, mode) in [(place.folder.path(), 0o755), (Path::new(place.pool()), 0o666)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let nobody: &[&str] = match rustix::process::geteuid().is_root() {
        true => &["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"],
        false => &["env"],
    };
    let load = [text(&program), "kv", "load", place.pool(), text(&input), "--threads", "2"];
    let words = nobody.iter().chain(&["prlimit", "--nproc=1"]).chain(&load);
    let ran = std::process::Command::new("env").args(words).output().unwrap();
    Ran::of(ran).fails(1, &["threads can't be started", "--threads 1"]);
    lode(["kv", "load", place.pool(), text(&input)]).good();
}

#[test]
fn files_larger_than_the_shell_allows() {
    let place = Place::of_size("1MiB");
    let created = place.folder.path().join("new");
    for arguments in [["create", text(&created)], ["grow", place.pool()]] {
        let limited = format!("ulimit -f 4096; exec {} pool \"$@\" --size 64MiB", env!("CARGO_BIN_EXE_lode"));
        let mut shell = std::process::Command::new("sh");
        let ran = shell.args(["-c", &limited, "sh"]).args(arguments).output().unwrap();
        Ran::of(ran).fails(1, &["File too large", "ulimit -f"]);
    }
    assert!(!created.exists());
    assert_eq!(lode(["pool", "info", place.pool(), "--json"]).object()["closed"], true);
    lode(["pool", "check", place.pool()]).good();
}
