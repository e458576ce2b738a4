//! Invalid files and arguments: the message names the fault, the place and the next step.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{PoolFixture, RunResult, command, limited, lode, lode_with_stdin, text};
use lode_testing::{SmallDisk, scaled, seed};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

/// Commands that read a pool.
const READ_COMMANDS: [&[&str]; 4] =
    [&["pool", "info"], &["kv", "count"], &["kv", "export"], &["pool", "stats"]];

#[test]
fn non_pool_files_are_rejected() {
    let fixture = PoolFixture::new();
    let junk = fixture.file("junk", vec![b'x'; 1 << 20]);
    let empty = fixture.file("empty", "");
    let short = fixture.file("short", vec![0; 4000]);
    let missing = fixture.folder.path().join("missing");
    let none = "or make a pool with `lode pool create`";
    for (path, why) in [(&junk, none), (&empty, none), (&short, none), (&missing, "No such file")] {
        for look in READ_COMMANDS {
            let arguments = look.iter().copied().chain([text(path)]);
            lode(arguments).failure(1, &[text(path), why]);
        }
    }
    lode(["kv", "count", text(fixture.folder.path())]).failure(1, &["neither an ordinary file"]);
    lode(["pool", "create", text(&junk), "--size", "1MiB"]).failure(1, &["junk", "exists already"]);
    assert_eq!(fs::read(&junk).unwrap(), vec![b'x'; 1 << 20], "untouched");
}

#[test]
fn corrupt_header_copy_is_reported_and_repaired() {
    let fixture = PoolFixture::new();
    lode(["kv", "put", fixture.pool(), "k", "v"]).success();
    let mut bytes = fs::read(&fixture.pool).unwrap();
    bytes[0x40] ^= 4;
    fs::write(&fixture.pool, &bytes).unwrap();
    assert_eq!(lode(["kv", "get", fixture.pool(), "k"]).success(), "v\n");
    assert!(lode(["pool", "info", fixture.pool()]).success().contains("copy A"));
    let check = lode(["pool", "check", fixture.pool()]);
    assert_eq!(check.code, Some(3), "{check:?}");
    assert!(check.out.contains("header") && check.out.contains("lode pool repair"), "{check:?}");
    assert_eq!(fs::read(&fixture.pool).unwrap(), bytes, "a check writes nothing");
    assert!(
        lode(["pool", "repair", fixture.pool()])
            .success()
            .contains("repaired; no loss that a checksum can detect")
    );
    lode(["pool", "check", fixture.pool()]).success();
}

#[test]
fn two_corrupt_header_copies_are_rejected() {
    let fixture = PoolFixture::new();
    let mut bytes = fs::read(&fixture.pool).unwrap();
    bytes[0x40] ^= 4;
    bytes[0x1040] ^= 4;
    fs::write(&fixture.pool, &bytes).unwrap();
    for look in READ_COMMANDS {
        lode(look.iter().copied().chain([fixture.pool()])).failure(1, &[fixture.pool(), "header"]);
    }
    let check = lode(["pool", "check", fixture.pool()]);
    assert_eq!(check.code, Some(3));
    assert!(check.out.contains("restore the pool from a backup"), "repair can do nothing: {check:?}");
}

#[test]
fn truncated_pool_is_rejected() {
    let fixture = PoolFixture::new();
    let file = fs::File::options().write(true).open(&fixture.pool).unwrap();
    file.set_len(7 << 20).unwrap();
    drop(file);
    lode(["kv", "count", fixture.pool()])
        .failure(1, &["8388608 bytes", "only 7340032", "(`lode pool repair`)"]);
    let check = lode(["pool", "check", fixture.pool()]);
    assert_eq!(check.code, Some(3));
    assert!(check.out.contains("only 7340032"), "{check:?}");
    let repair = lode(["pool", "repair", fixture.pool()]).success();
    assert!(repair.contains("1.0 MiB (1048576 bytes) at its end are zeros now"), "{repair}");
    assert!(lode(["pool", "check", fixture.pool()]).success().contains("no damage"));
}

/// A repair reports the keys that it can't salvage, wherever the file was truncated.
#[test]
fn repair_lists_losses_of_truncated_pool() {
    let fixture = PoolFixture::of_size("1MiB");
    let lines: String = (0..4000).map(|key| format!("key{key:04}\tvalue of {key}\n")).collect();
    lode_with_stdin(["kv", "load", fixture.pool()], lines.as_bytes()).success();
    let whole = fs::read(&fixture.pool).unwrap();
    for len in [5_000, 30_000, 90_000, 111_111, 150_000, 200_001, 262_144, 400_000, 900_000] {
        fs::write(&fixture.pool, &whole[..len]).unwrap();
        let repair = lode(["pool", "repair", fixture.pool(), "--json"]);
        let told = repair.json();
        let lost = told["lost"].as_array().unwrap();
        let holds = |range: &serde_json::Value, key: &str| {
            range["after"].as_str().is_none_or(|after| after < key)
                && range["before"].as_str().is_none_or(|before| key < before)
        };
        let left = lode(["kv", "export", fixture.pool()]).success();
        let left: std::collections::HashSet<&str> = left.lines().collect();
        let missing: Vec<&str> = lines.lines().filter(|line| !left.contains(line)).collect();
        let untold = missing.iter().find(|line| {
            let key = line.split('\t').next().unwrap();
            told["lost_transactions"] == false && !lost.iter().any(|range| holds(range, key))
        });
        assert_eq!(untold, None, "cut to {len} bytes: {told}");
        assert_eq!(repair.code, Some(if missing.is_empty() { 0 } else { 3 }), "cut to {len} bytes: {told}");
        assert_eq!(told["missing"], whole.len() - len);
        lode(["pool", "check", fixture.pool()]).success();
        lode(["kv", "put", fixture.pool(), "new", "value"]).success();
    }
}

#[test]
fn locked_pool_is_rejected() {
    let fixture = PoolFixture::new();
    // The pipe is compared with this first, and what was read for that is loaded without waiting for more.
    lode_with_stdin(["kv", "load", fixture.pool()], b"x\n").success();
    let mut writer = command(["kv", "load", fixture.pool(), "--ack"])
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
    lode(["kv", "put", fixture.pool(), "a", "b"]).failure(1, &["in use", &holder]);
    lode(["pool", "repair", fixture.pool()]).failure(1, &["in use", &holder]);
    drop(input);
    assert!(writer.wait().unwrap().success());
    assert_eq!(lode(["kv", "get", fixture.pool(), "k"]).success(), "v\n");
}

#[test]
fn oversized_keys_are_rejected() {
    let fixture = PoolFixture::new();
    let long = "k".repeat(64 * 1024 + 1);
    let limit = &long[1..];
    lode(["kv", "put", fixture.pool(), &long, "v"]).failure(1, &["65536", "65537"]);
    lode(["kv", "put", fixture.pool(), limit, "v"]).success();
    assert_eq!(lode(["kv", "get", fixture.pool(), limit]).success(), "v\n");
    let input = fixture.file("in", format!("a\n{long}\n"));
    lode(["kv", "load", fixture.pool(), text(&input)]).failure(1, &["line 2", "65537"]);
}

#[test]
fn values_beyond_free_space_are_rejected() {
    let fixture = PoolFixture::fixed("1MiB");
    let input = fixture.file("in", format!("small\tv\nlarge\t{}\n", "v".repeat(1 << 20)));
    lode(["kv", "load", fixture.pool(), text(&input)]).failure(1, &["line 2"]);
    assert_eq!(
        lode(["pool", "info", fixture.pool(), "--json"]).json()["closed"],
        true,
        "though the load failed"
    );
    assert_eq!(lode(["kv", "get", fixture.pool(), "small"]).success(), "v\n");
    lode(["pool", "check", fixture.pool()]).success();
    lode(["pool", "grow", fixture.pool(), "--size-max", "8MiB"]).success();
    assert!(
        lode(["kv", "load", fixture.pool(), text(&input)]).success().contains("1 lines were loaded before")
    );
}

#[test]
fn malformed_lines_stop_load_or_are_skipped() {
    let fixture = PoolFixture::new();
    let tsv = "a\t1\nb\t\\q\nc\t3\n\\x4\nlast\\";
    let input = fixture.file("in.tsv", tsv);
    let stopped = lode(["kv", "load", fixture.pool(), text(&input)]);
    let said = stopped.failure(1, &[text(&input), "line 2", "byte 2", "--on-error skip"]);
    assert!(!said.contains(fixture.pool()), "the line is one of the input: {said}");
    assert_eq!(lode(["kv", "export", fixture.pool()]).success(), "a\t1\n", "what comes before is there");
    let skipped = lode(["kv", "load", fixture.pool(), text(&input), "--on-error", "skip"]);
    for line in ["line 2 is skipped", "line 4 is skipped", "line 5 is skipped"] {
        assert!(skipped.err.contains(line), "{skipped:?}");
    }
    assert!(skipped.success().contains("3 lines skipped"));
    assert_eq!(lode(["kv", "export", fixture.pool()]).success(), "a\t1\nc\t3\n");

    let jsonl = "{\"key\":\"k\",\"value\":\"v\"}\nnonsense\n{\"key\":\"k\"}\n";
    let json = lode_with_stdin(["kv", "load", fixture.pool(), "--format", "jsonl"], jsonl.as_bytes());
    json.failure(1, &["standard input: line 2", "key_b64"]);
}

#[test]
fn read_only_file_system_is_reported() {
    let Some(disk) = SmallDisk::mount("read_only_file_system_is_reported", 8 << 20) else { return };
    let pool = disk.pool();
    lode(["pool", "create", text(&pool), "--size", "1MiB", "--durability", "none"]).success();
    lode(["kv", "put", text(&pool), "k", "v", "--durability", "none"]).success();
    disk.make_read_only();
    assert_eq!(lode(["kv", "get", text(&pool), "k"]).success(), "v\n");
    lode(["kv", "put", text(&pool), "k", "w"]).failure(1, &[text(&pool), "Read-only", "open it for reading"]);
    let new = disk.folder().join("new");
    lode(["pool", "create", text(&new), "--size", "1MiB"]).failure(1, &[text(&new), "Read-only"]);
}

#[test]
fn full_disk_is_reported() {
    let fixture = PoolFixture::new();
    let Some(disk) = SmallDisk::mount("full_disk_is_reported", 4 << 20) else { return };
    let pool = disk.pool();
    let create = |size| lode(["pool", "create", text(&pool), "--size", size, "--durability", "none"]);
    create("8MiB").failure(1, &[text(&pool), "No space left", "free space, or choose a smaller size"]);
    assert_eq!(fs::read_dir(disk.folder()).unwrap().count(), 0, "nothing is left");
    create("2MiB").success();
    let grow = lode(["pool", "grow", text(&pool), "--size", "16MiB", "--durability", "none"]);
    grow.failure(1, &["No space left"]);
    // The pool grows by itself, and finds no space for that.
    let filler = disk.folder().join("filler");
    while fs::File::options()
        .append(true)
        .create(true)
        .open(&filler)
        .is_ok_and(|mut file| std::io::Write::write_all(&mut file, &[1; 4096]).is_ok())
    {}
    let lines: String = (0..100_000).map(|number| format!("key{number}\tvalue{number}\n")).collect();
    let input = fixture.file("in", lines);
    let loaded = lode(["kv", "load", text(&pool), text(&input), "--ack", "--durability", "none"]);
    assert_eq!(loaded.code, Some(1), "{}", loaded.err);
    assert!(loaded.err.contains("can't grow: the disk is full"), "{}", loaded.err);
    assert_eq!(lode(["pool", "info", text(&pool), "--json"]).json()["size"], 2 << 20);
    let acknowledged: Vec<&str> = loaded.out.lines().collect();
    assert!(acknowledged.len() > 1000, "some were loaded: {}", acknowledged.len());
    let exported = lode(["kv", "export", text(&pool)]).success();
    let keys: std::collections::HashSet<&str> =
        exported.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert!(acknowledged.iter().all(|key| keys.contains(key)), "every acknowledged key is there");
    lode(["pool", "check", text(&pool)]).success();
}

#[test]
fn flipped_bytes_never_panic() {
    let fixture = PoolFixture::of_size("1MiB");
    let lines: String = (0..2000).map(|number| format!("key{number}\tvalue{number}\n")).collect();
    let input = fixture.file("in", lines);
    lode(["kv", "load", fixture.pool(), text(&input), "--durability", "none"]).success();
    let whole = fs::read(&fixture.pool).unwrap();
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let hostile = fixture.folder.path().join("hostile");
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
fn export_and_scan_skip_corrupt_entries() {
    let fixture = PoolFixture::new();
    lode(["kv", "put", fixture.pool(), "key", "a value of more than eight bytes"]).success();
    let mut bytes = fs::read(&fixture.pool).unwrap();
    let places = |bytes: &[u8]| -> Vec<usize> {
        let found = bytes.windows(12).enumerate().filter(|(_, bytes)| *bytes == b"a value of m");
        found.map(|(at, _)| at).collect()
    };
    let all = places(&bytes);
    for at in all {
        bytes[at] ^= 1;
    }
    fs::write(&fixture.pool, &bytes).unwrap();
    for verb in ["export", "scan"] {
        let ran = lode(["kv", verb, fixture.pool()]);
        assert_eq!(ran.out, "");
        ran.failure(3, &[fixture.pool(), "the checksum of the leaf", "lode pool check"]);
    }
}

#[test]
fn invalid_arguments_are_reported_as_json() {
    let ran = lode(["pool", "create", "--json"]);
    ran.failure(2, &["<PATH>"]);
}

#[test]
fn too_small_size_reports_minimum() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.pool");
    for size in [1, 64 << 10, (128 << 10) - 1] {
        let size = size.to_string();
        lode(["pool", "create", "--size", &size, text(&path)])
            .failure(1, &[text(&path), &size, "too few", "131072"]);
        assert!(!path.exists());
    }
    lode(["pool", "create", "--size", "131072", text(&path)]).success();
    lode(["kv", "put", text(&path), "k", "v"]).success();
}

#[test]
fn unwritable_help_output_is_an_error() {
    for asked_for in [&["--help"][..], &["--version"], &["kv", "load", "--help"], &["completions", "bash"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran = RunResult::of(
            command(asked_for)
                .stdout(full)
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
                .wait_with_output()
                .unwrap(),
        );
        ran.failure(1, &["writing the output", "No space left"]);
    }
    for folder in ["/dev/full", "/dev/full/folder"] {
        lode(["manual", folder]).failure(1, &["writing manual pages", folder]);
    }
}

#[test]
fn thread_limit_is_reported() {
    let fixture = PoolFixture::new();
    let input = fixture.file("in", "a\n");
    lode(["kv", "load", fixture.pool(), text(&input), "--threads", "1000000"]).failure(2, &["1..=1024"]);
    // A user that has a process and may not start another. The limit does not apply to root.
    let program = fixture.folder.path().join("lode");
    fs::copy(env!("CARGO_BIN_EXE_lode"), &program).unwrap();
    for (path, mode) in [(fixture.folder.path(), 0o755), (Path::new(fixture.pool()), 0o666)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let nobody: &[&str] = match rustix::process::geteuid().is_root() {
        true => &["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"],
        false => &["env"],
    };
    let load = [text(&program), "kv", "load", fixture.pool(), text(&input), "--threads", "2"];
    let words = nobody.iter().chain(&["prlimit", "--nproc=1"]).chain(&load);
    let ran = std::process::Command::new("env").args(words).output().unwrap();
    RunResult::of(ran).failure(1, &["threads can't be started", "--threads 1"]);
    lode(["kv", "load", fixture.pool(), text(&input)]).success();
}

#[test]
fn file_size_limit_is_reported() {
    let fixture = PoolFixture::of_size("1MiB");
    let created = fixture.folder.path().join("new");
    // 2 MiB: the unit is 512 bytes.
    let limit = "ulimit -f 4096";
    for arguments in [["create", text(&created)], ["grow", fixture.pool()]] {
        let arguments = [&["pool"], &arguments[..], &["--size", "64MiB"]].concat();
        limited(limit, &arguments).failure(1, &["File too large", "ulimit -f"]);
    }
    assert!(!created.exists());
    // The pool grows by itself up to the limit.
    let lines: String = (0..60_000).map(|number| format!("key{number}\tvalue{number}\n")).collect();
    let input = fixture.file("in", lines);
    let load = ["kv", "load", fixture.pool(), text(&input)];
    limited(limit, &load)
        .failure(1, &["can't grow: its file system, or `ulimit -f`, allows no file of", "raise the limit"]);
    let info = lode(["pool", "info", fixture.pool(), "--json"]).json();
    let size = info["size"].as_u64().unwrap();
    assert!(size > 15 << 17 && size <= 2 << 20 && info["closed"] == true, "{info}");
    lode(["pool", "check", fixture.pool()]).success();
    // A pool that is larger than that already can be read.
    for (words, why) in
        [(&["kv", "put", fixture.pool(), "k", "v"][..], "File too large"), (&load, "ulimit -f")]
    {
        limited("ulimit -f 2048", words).failure(1, &[why, fixture.pool()]);
    }
    limited("ulimit -f 2048", &["kv", "get", fixture.pool(), "key0"]).success();
    lode(load).success();
}

/// Growth needs addresses for the size that was asked for, and no others.
#[test]
fn limited_addresses_are_reported() {
    let fixture = PoolFixture::of_size("1MiB");
    let limit = "ulimit -v 6000000";
    let lines: String = (0..150).map(|number| format!("key{number}\t{}\n", "v".repeat(10_000))).collect();
    let input = fixture.file("in", lines);
    let load = ["kv", "load", fixture.pool(), text(&input), "--threads", "1"];
    limited(limit, &load)
        .failure(1, &["can't grow: addresses are reserved for 1048576 bytes", "`lode pool grow`"]);
    limited(limit, &["pool", "grow", fixture.pool(), "--size", "10TiB"])
        .failure(1, &["addresses are reserved", "ulimit -v"]);
    limited(limit, &["pool", "grow", fixture.pool(), "--size", "16MiB"]).success();
    limited(limit, &load).success();
}
